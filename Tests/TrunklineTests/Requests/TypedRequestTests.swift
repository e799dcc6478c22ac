import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineLoopback

/// Typed requests in every form of call, and responses with a content type.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct TypedRequestTests {}

extension TypedRequestTests {
    private struct Malformed: Error, Equatable {}

    /// A request for a number.
    private struct Parse: TypedRequest {
        static let type: UInt32 = 0x410
        let text: String

        func encode() throws -> Bytes {
            if text.isEmpty { throw Malformed() }
            return Bytes(text)
        }

        static func decode(_ response: Response) throws -> Int {
            guard let number = Int(String(response.body)) else { throw Malformed() }
            return number
        }
    }

    /// A request for a text, which is decoded as it is or reversed.
    private struct Read: ContentTypedRequest {
        static let type: UInt32 = 0x411
        static let contentType = ContentType.json
        static let decoders: [ContentType: @Sendable (Bytes) throws -> String] = [
            .json: { String($0) },
            .protobuf: { String(String($0).reversed()) },
        ]
        var text = "abc"
        func encode() -> Bytes { Bytes(text) }
    }

    /// Sets fields of its request besides the body.
    private struct Prepared: TypedRequest {
        static let type: UInt32 = 0
        static let contentType = ContentType.protobuf
        func encode() -> Bytes { "key" }
        func prepare(_ request: inout Request) throws {
            request.type = 0x420
            if request.contentType != nil { request.contentType = .http }
        }
        static func decode(_ response: Response) -> Response { response }
    }

    /// Responds with the content type `type`, or with that of the request if it is `nil`.
    private func answer(_ type: ContentType?) -> LoopbackServer.Handler {
        { request in
            var reply = Frame(.response, body: request.body)
            reply.contentType = type ?? request.contentType
            return .reply(reply)
        }
    }

    // MARK: Content types

    @Test func theContentTypeOfTheResponseSelectsItsDecoder() throws {
        for (type, text) in [(nil, "abc"), (ContentType.json, "abc"), (.protobuf, "cba")] {
            try simulate(speaking: PartsCodec.rich, handler: answer(type)) { service, client in
                let read = try await client.send(Read())
                #expect(read == text)
                #expect(await service.server.received.map(\.contentType) == [.json])
            }
        }
    }

    /// Regression: if a layout has the field, a server that does not set it leaves 0 there. This counted as a content
    /// type without a decoder.
    @Test func aResponseWithoutAContentTypeHasThatOfItsRequest() throws {
        try simulate(speaking: PartsCodec.rich, handler: answer(.bytes)) { _, client in
            let read = try await client.send(Read())
            #expect(read == "abc")
        }
    }

    @Test func aContentTypeWithoutADecoderIsAnError() throws {
        try simulate(speaking: PartsCodec.rich, handler: answer(.http)) { _, client in
            let error = await failure { () throws(ClientError) in try await client.send(Read()) }
            #expect(error?.code == .invalidResponse)
            #expect(error?.fate == .answered)
            #expect(error?.response?.body == "abc")
            let cause = error?.cause as? UnknownContentType
            #expect(cause == UnknownContentType(found: .http, known: [.json, .protobuf]))
            #expect(cause?.description == "the content type of the response is HTTP, expected: JSON, protobuf")
        }
    }

    /// A layout rejects a frame with a field that it does not have, except for this field.
    @Test func withoutTheFieldAResponseHasTheContentTypeOfItsRequest() throws {
        try simulate { service, client in
            let read = try await client.send(Read(text: "plain"))
            #expect(read == "plain")
            #expect(await service.server.received.map(\.contentType) == [nil])
        }
    }

    @Test func aContentTypeIsAFieldOfTheFrame() {
        var frame = Frame(.request)
        #expect(frame.contentType == nil)
        frame.contentType = .protobuf
        #expect(frame["contentType"] == 2)
        frame["contentType"] = .max
        #expect(frame.contentType == ContentType(rawValue: .max))
        frame.contentType = nil
        #expect(frame["contentType"] == nil)
        #expect(ContentType(rawValue: 9).description == "content type 9")
    }

    @Test func aRequestMaySetTheFieldsOfItsFrame() throws {
        try simulate(speaking: PartsCodec.rich) { _, client in
            let reply = try await client.send(Prepared())
            #expect(reply.type == 0x420)
            #expect(reply.contentType == .http)
            #expect(reply.body == "key")
        }
    }

    // MARK: Every form of call

    @Test func handlesDecodeTheirResponse() throws {
        try simulate { service, client in
            let handle = try client.start(Parse(text: "42"))
            let number = try await handle.value
            #expect(number == 42)
            #expect(handle.state == .completed)
            let unread = try client.start(Parse(text: "x"))
            let error = await failure { () throws(ClientError) in try await unread.value }
            #expect(error?.cause as? Malformed == Malformed())
            #expect(error?.fate == .answered)
            #expect(throws: ClientError.self) { try client.start(Parse(text: "")) }
        }
    }

    @Test func eachRequestOfABatchSucceedsOrFailsAlone() throws {
        try simulate { service, client in
            let results = await client.send(all: ["1", "", "x", "4"].map { Parse(text: $0) })
            #expect(results.map { try? $0.get() } == [1, nil, nil, 4])
            let errors = results.map { result -> ClientError.Fate? in
                if case .failure(let error) = result { error.fate } else { nil }
            }
            #expect(errors == [nil, .notSent, .answered, nil])
            #expect(await service.server.journal.requestCount == 3)
            let none = await client.send(all: [Parse(text: "")])
            #expect(none.count == 1)
        }
    }

    @Test func streamsDecodeEveryPart() throws {
        let handler: LoopbackServer.Handler = {
            .parts([Bytes("1"), Bytes("2"), $0.body, Bytes("4")], then: .reply("5"))
        }
        try simulate(speaking: PartsCodec.standard, handler: handler) { service, client in
            var numbers: [Int] = []
            for try await number in try client.stream(Parse(text: "3")) { numbers.append(number) }
            #expect(numbers == [1, 2, 3, 4, 5])
            // A part that cannot be decoded ends the stream and the request.
            await service.server.script(.sequence([.part("1"), .part("x"), .after(.seconds(60), .echo)]))
            var parts = try client.stream(Parse(text: "7")).makeAsyncIterator()
            let first = try await parts.next()
            #expect(first == 1)
            var found: ClientError?
            do throws(ClientError) { _ = try await parts.next() } catch { found = error }
            #expect(found?.code == .invalidResponse)
            #expect(found?.fate == .answered)
            let end = try await parts.next()
            #expect(end == nil)
            try await service.server.wait { $0.cancelCount == 1 }
        }
    }

    @Test func handshakesAndSubscriptionsDecodeTheirResponse() throws {
        let options = ClientOptions {
            $0.reconnecting.keepsLinkWarm = true
            $0.handshake.perform = { handshaker in
                guard try await handshaker.send(Parse(text: "7")) == 7 else { throw HandshakeRefusal("not 7") }
            }
        }
        try simulate(options: options) { service, client in
            let (subscription, number) = try await client.subscribe(Parse(text: "8"))
            #expect(number == 8)
            await service.server.disconnectAll()
            try await service.server.wait { $0.requests.map(\.body) == ["7", "8", "7", "8"] }
            await subscription.end()
            let error = await failure { () throws(ClientError) in _ = try await client.subscribe(Parse(text: "x")) }
            #expect(error?.code == .invalidResponse)
            await service.server.disconnectAll()
            try await service.pass(.seconds(5))
            let sent = await service.server.received.map(\.body)
            #expect(sent == ["7", "8", "7", "8", "x", "7"])
        }
    }
}
