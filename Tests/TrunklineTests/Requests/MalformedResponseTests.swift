import Testing
import Trunkline
import TrunklineTesting

/// An invalid response says what is wrong with it: at which place, and what was expected, but no bytes of its body.
@Suite(.simulated) struct MalformedResponseTests {}

extension MalformedResponseTests {
    /// Marks responses whose body begins with "bad" as malformed, and pushes that do.
    private struct MarkingCodec: FrameCodec, ServerSideCodec {
        var layout = FrameLayout.standard
        var matching: ResponseMatching { layout.matching }
        func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
            guard var frame = try layout.decode(&input) else { return nil }
            switch frame.body {
            case "bad":
                frame.markMalformed(because: FrameError(.malformed, "the count at byte 2 is 9, but there are 3"))
            case "bad, untold": frame.markMalformed(.malformed)
            case "bad, long":
                frame.markMalformed(because: FrameError(exceedingLimit: "40 columns (maximumColumns is 32)"))
            default: break
            }
            return frame
        }
        func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
            try layout.encode(frame, into: &output)
        }
        func serverSide() -> any FrameCodec { layout.serverSide() }
    }

    private func reply(_ body: Bytes) -> LoopbackServer.Handler {
        { _ in .reply(Frame(.response, type: 0x410, body: body)) }
    }

    /// Regression: the error said only "the response is invalid; its body has 3 bytes".
    @Test func whatTheCodecHasFoundIsSaid() throws {
        try simulate(speaking: MarkingCodec(), handler: reply("bad")) { _, client in
            let error = await failure { () throws(ClientError) in try await client.send(ask("a")) }
            #expect(error?.code == .protocolViolation && error?.fate == .answered)
            let text = error.map { "\($0)" } ?? ""
            #expect(text.contains("the response is invalid: the count at byte 2 is 9, but there are 3"))
            #expect(error?.response?.malformedReason == .malformed)
        }
        try simulate(speaking: MarkingCodec(), handler: reply("bad, long")) { _, client in
            let error = await failure { () throws(ClientError) in try await client.send(ask("a")) }
            #expect(error?.code == .overloaded)
            #expect("\(error.map { "\($0)" } ?? "")".contains("40 columns (maximumColumns is 32)"))
        }
        try simulate(speaking: MarkingCodec(), handler: reply("bad, untold")) { _, client in
            let error = await failure { () throws(ClientError) in try await client.send(ask("a")) }
            #expect("\(error.map { "\($0)" } ?? "")".contains("the response is invalid; its body has 11 bytes"))
        }
    }

    @Test func aHandshakeSaysWhatItHasFound() throws {
        let options = ClientOptions { options in
            options.reconnecting.maximumAttempts = 1
            options.handshake.perform = { link in _ = try await link.nextMessage() }
        }
        let server = LoopbackServer.Options { $0.onConnect = .push(Frame(.push, type: 2, body: "bad")) }
        try simulate(speaking: MarkingCodec(), server: server, options: options) { _, client in
            let error = await failure { () throws(ClientError) in try await client.send(ask("a")) }
            #expect("\(error.map { "\($0)" } ?? "")".contains("the count at byte 2 is 9"))
        }
    }

    /// A layout names the number in its kind field.
    @Test func aLayoutSaysWhatItHasFound() throws {
        let layout = FrameLayout {
            Field.kind(UInt8.self, [.request: 0, .response: 1])
            Field.serial(UInt8.self)
            Field.length(UInt8.self, counting: .body)
            Field.body
        }
        let handler: LoopbackServer.Handler = { .garbage([7, UInt8($0.serial), 1, 0x78]) }
        try simulate(speaking: layout, handler: handler) { _, client in
            let error = await failure { () throws(ClientError) in try await client.send(Request(body: "a")) }
            #expect(error?.code == .protocolViolation)
            #expect("\(error.map { "\($0)" } ?? "")".contains("the kind field holds 0x7, which is not listed"))
        }
    }

    // MARK: Typed requests

    private struct Key: CodingKey {
        let stringValue: String
        var intValue: Int? { Int(stringValue) }
        init(_ text: String) { stringValue = text }
        init(stringValue: String) { self.init(stringValue) }
        init(intValue: Int) { self.init("\(intValue)") }
    }

    /// Decodes with a decoder that fails in the way that the body names.
    private struct Decoded: TypedRequest {
        static let type: UInt32 = 0x410
        typealias Reply = Int
        let body: Bytes
        func encode() -> Bytes { body }
        static func decode(_ response: Response) throws -> Int {
            let path: [any CodingKey] = [Key("user"), Key("0"), Key("age")]
            let context = DecodingError.Context(codingPath: path, debugDescription: "secret")
            switch response.body {
            case "type": throw DecodingError.typeMismatch(Int.self, context)
            case "value": throw DecodingError.valueNotFound(Int.self, context)
            case "key": throw DecodingError.keyNotFound(Key("name\n"), context)
            default: throw DecodingError.dataCorrupted(context)
            }
        }
    }

    @Test func aDecodingErrorSaysWhereAndWhatWasExpected() throws {
        try simulate { _, client in
            for (body, expected) in [
                ("type", "user.0.age: a value of the type Int is expected"),
                ("value", "user.0.age: a value of the type Int is missing"),
                ("key", "user.0.age: the key name\\n is missing"), ("other", "user.0.age: the value is invalid"),
            ] {
                let error = await failure { () throws(ClientError) in
                    _ = try await client.send(Decoded(body: Bytes(body)))
                }
                #expect(error?.code == .invalidResponse && error?.fate == .answered)
                let message = error?.message ?? ""
                #expect(message.contains(expected), "\(message)")
                #expect(!message.contains("secret"))
            }
        }
    }
}
