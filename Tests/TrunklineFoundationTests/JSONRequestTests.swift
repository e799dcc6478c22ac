import Foundation
import Testing
import Trunkline
import TrunklineFoundation
import TrunklineTesting

struct JSONRequestTests {
    struct Question: Codable, Sendable { var userName: String }
    struct Answer: Codable, Sendable, Equatable { var lines: [Line] }
    struct Line: Codable, Sendable, Equatable { var number: Int }

    enum Snake: JSONFormat {
        static var type: UInt32 { 0x412 }
        static var encoder: JSONEncoder {
            let encoder = JSONEncoder()
            encoder.keyEncodingStrategy = .convertToSnakeCase
            return encoder
        }
    }

    private func with(
        _ handler: @escaping LoopbackServer.Handler,
        _ body: nonisolated(nonsending) (Client) async throws -> Void
    ) async throws {
        try await withLoopbackServer(speaking: .standard, handler: handler) { server in
            try await withClient(to: server.endpoint, speaking: .standard, options: patientOptions) { client in
                try await body(client)
            }
        }
    }

    @Test func bodyAndReplyAreJSON() async throws {
        try await with({
            $0.type == 0x402 && $0.body == #"{"userName":"ada"}"# ? .reply(#"{"lines":[{"number":7}]}"#) : .close
        }) {
            client in
            let answer = try await client.send(JSONRequest(Question(userName: "ada"), replyingWith: Answer.self))
            #expect(answer == Answer(lines: [Line(number: 7)]))
        }
    }

    @Test func aFormatHasTypeAndCodersOfItsOwn() async throws {
        try await with({ $0.type == 0x412 && $0.body == #"{"user_name":"ada"}"# ? .reply(#"{"lines":[]}"#) : .close }) {
            client in
            let answer = try await client.send(FormattedJSONRequest<Question, Answer, Snake>(Question(userName: "ada")))
            #expect(answer.lines.isEmpty)
        }
    }

    @Test(arguments: [
        (#"{"lines":[{"number":1},{"number":"x"}]}"#, ["lines", "1", "number"]), (#"{"lines":[{}]}"#, ["lines", "0"]),
        ("{", []),
        ("", []),
    ])
    func aReplyThatIsNoneSaysWhere(text: String, path: [String]) async throws {
        try await with({ _ in .reply(Bytes(text)) }) { client in
            let failure: ClientError?
            do throws(ClientError) {
                _ = try await client.send(JSONRequest(Question(userName: "a"), replyingWith: Answer.self))
                failure = nil
            } catch { failure = error }
            #expect(failure?.code == .invalidRequest && failure?.fate == .answered)
            let cause = try #require(failure?.cause as? JSONDecodingError)
            #expect(cause.codingPath == path && cause.excerpt == Bytes(text) && cause.length == text.utf8.count)
        }
    }

    @Test func anErrorTellsOfALongReplyInOneLine() throws {
        let text = #"{"lines":[{"number":1},{"number":"\n\#(String(repeating: "a", count: 1000))"}]}"#
        let error = try #require(
            throws: JSONDecodingError.self,
            performing: { try JSONRequest<Question, Answer>.decode(Frame(.response, body: Bytes(text))) }
        )
        #expect(error.excerpt == Bytes(text.utf8.prefix(256)) && error.length == text.utf8.count)
        let description = error.description
        #expect(description.hasPrefix("lines.1.number: ") && !description.contains("\n"))
        #expect(description.contains(error.reason) && description.contains("; \(text.utf8.count) bytes, beginning "))
        #expect(description.hasSuffix("aaa\"") && description.utf8.count < 600)
    }

    @Test func aTextThatIsNoneIsTheWholeOfIt() throws {
        let error = try #require(
            throws: JSONDecodingError.self,
            performing: { try JSONRequest<Question, Answer>.decode(Frame(.response, body: "tea")) }
        )
        #expect(
            error.description.hasPrefix("the text: ") && error.description.hasSuffix("; 3 bytes, beginning \"tea\"")
        )
    }

    @Test func allKeysArrive() async throws {
        struct Person: Codable, Sendable, Equatable {
            var name: String
            var age: Int
            var tags: [String: Bool]
        }
        let ada = Person(name: "ada", age: 36, tags: ["a": true, "b": false])
        try await with({ frame in
            (try? JSONDecoder().decode(Person.self, from: Data(frame.body))) == ada ? .echo : .close
        }) { client in
            let echoed = try await client.send(JSONRequest(ada, replyingWith: Person.self))
            #expect(echoed == ada)
        }
    }

    @Test func whatCannotBeEncodedIsNotSent() async throws {
        try await with({ _ in .echo }) { client in
            let failure: ClientError?
            do throws(ClientError) {
                _ = try await client.send(JSONRequest(Double.nan, replyingWith: Answer.self))
                failure = nil
            } catch { failure = error }
            #expect(failure?.code == .invalidRequest && failure?.fate == .notSent)
        }
    }
}
