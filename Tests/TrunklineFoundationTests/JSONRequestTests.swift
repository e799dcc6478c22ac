import Foundation
import Testing
import Trunkline
import TrunklineFoundation
import TrunklineTesting

@Suite(.tags(.realThreads))
struct JSONRequestTests {}

extension JSONRequestTests {
    struct Question: Codable, Sendable { var userName: String }
    struct Answer: Codable, Sendable, Equatable { var lines: [Line] }
    struct Line: Codable, Sendable, Equatable { var number: Int }

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

    @Test func requestAndResponseBodiesAreJSON() async throws {
        try await with({
            $0.type == 0x402 && $0.body == #"{"userName":"ada"}"# ? .reply(#"{"lines":[{"number":7}]}"#) : .close
        }) {
            client in
            let answer = try await client.send(JSONRequest(Question(userName: "ada"), replyingWith: Answer.self))
            #expect(answer == Answer(lines: [Line(number: 7)]))
        }
    }

    @Test func aRequestCanHaveItsOwnTypeAndCoders() async throws {
        try await with({
            $0.type == 0x412 && $0.body == #"{"user_name":"ada"}"# ? .reply(#"{"user_name":"bob"}"#) : .close
        }) { client in
            var request = JSONRequest(Question(userName: "ada"), replyingWith: Question.self)
            request.type = 0x412
            request.encoder.keyEncodingStrategy = .convertToSnakeCase
            request.decoder.keyDecodingStrategy = .convertFromSnakeCase
            let answer = try await client.send(request)
            #expect(answer.userName == "bob")
            // Another request has its own coders.
            #expect(JSONRequest(1, replyingWith: Int.self).encoder.outputFormatting == .sortedKeys)
            let other = JSONRequest(Question(userName: "ada"), replyingWith: Answer.self)
            let body = try other.encode()
            #expect(body == #"{"userName":"ada"}"#)
        }
    }

    @Test(arguments: [
        (#"{"lines":[{"number":1},{"number":"x"}]}"#, ["lines", "1", "number"]), (#"{"lines":[{}]}"#, ["lines", "0"]),
        ("{", []),
        ("", []),
    ])
    func theErrorOfAnInvalidResponseHasTheCodingPath(text: String, path: [String]) async throws {
        try await with({ _ in .reply(Bytes(text)) }) { client in
            let failure: ClientError?
            do throws(ClientError) {
                _ = try await client.send(JSONRequest(Question(userName: "a"), replyingWith: Answer.self))
                failure = nil
            } catch { failure = error }
            #expect(failure?.code == .invalidResponse && failure?.fate == .answered)
            let cause = try #require(failure?.cause as? JSONDecodingError)
            #expect(cause.codingPath == path && cause.excerpt == Bytes(text) && cause.length == text.utf8.count)
        }
    }

    /// The order of keys used to differ with every encoding, so equal requests did not find each other in the cache.
    @Test func equalRequestsHaveEqualBytes() throws {
        struct Six: Encodable, Sendable { var (a, b, c, d, e, f) = (1, 2, 3, 4, 5, 6) }
        let keys = Dictionary(
            uniqueKeysWithValues: ["ada", "bob", "cy", "dot", "eve", "fay"].map { ($0, Line(number: 7)) }
        )
        func ask<Body: Encodable & Sendable>(_ body: Body) -> JSONRequest<Body, Answer> { JSONRequest(body) }
        let first = try (ask(Six()).encode(), ask(keys).encode())
        for _ in 0..<100 {
            let (six, several) = try (ask(Six()).encode(), ask(keys).encode())
            #expect(six == first.0 && several == first.1)
        }
    }

    private func decodingError<Reply: Decodable & Sendable>(_ text: String, _: Reply.Type) -> JSONDecodingError? {
        do {
            let request = JSONRequest(Question(userName: "ada"), replyingWith: Reply.self)
            _ = try JSONRequest.decode(Response(body: Bytes(text)), for: request)
            return nil
        } catch {
            return error as? JSONDecodingError
        }
    }

    /// Data from the server must not forge a log line or fill one.
    @Test func theDescriptionIsOneShortLine() throws {
        struct Numbers: Decodable, Sendable { var numbers: [String: Int] }
        enum Kind: String, Decodable, Sendable { case a }
        let token = String(repeating: "s", count: 100)
        let text = #"{"token":"\#(token)","numbers":{"a\n\u2028INFO: all is well":"x"}}"#
        let forged = try #require(decodingError(text, Numbers.self))
        #expect(forged.codingPath == ["numbers", "a\n\u{2028}INFO: all is well"])
        #expect(forged.description.hasPrefix(#"numbers.a\n\u{2028}INFO: all is well: "#))
        let hasLines = forged.description.contains { $0.isNewline }
        #expect(!hasLines)
        #expect(forged.excerpt.count > 100 && !forged.description.contains("sss"))
        let long = String(repeating: "k", count: 100_000)
        for error in [
            decodingError(#"{"numbers":{"\#(long)":"x"}}"#, Numbers.self), decodingError(#"["\#(long)"]"#, [Kind].self),
        ] {
            let error = try #require(error)
            #expect(error.description.utf8.count < 1000 && error.excerpt.count == 256)
        }
        // The decoder quotes the value that it cannot read.
        let quoted = try #require(decodingError(#"["s3cret"]"#, [Kind].self))
        #expect(quoted.reason.contains("s3cret") && !quoted.description.contains("s3cret"))
    }

    @Test func aValueThatCannotBeEncodedIsNotSent() async throws {
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
