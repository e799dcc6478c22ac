import Testing
import Trunkline
import TrunklineFoundation

/// Arbitrary bytes, in arbitrary pieces: neither a trap nor another result.
struct JSONRPCFuzzTests {
    private struct Outcome: Equatable {
        var frames: [Frame] = []
        var error: FrameError?
    }

    /// Decodes `bytes`, which arrive in pieces of at most `size`, of a random size, or at once.
    private func outcome(
        of bytes: [UInt8],
        _ codec: JSONRPCCodec,
        inPiecesUpTo size: Int? = nil,
        _ random: inout SeededGenerator
    ) -> Outcome {
        var (codec, outcome) = (codec, Outcome())
        var rest = bytes[...]
        var left: [UInt8] = []
        repeat {
            let count = size.map { Int.random(in: 1...$0, using: &random) } ?? rest.count
            left += rest.prefix(count)
            rest = rest.dropFirst(count)
            var input = ReceiveBuffer(Bytes(left))
            do throws(FrameError) {
                try codec.decodeAll(&input, into: &outcome.frames)
            } catch {
                outcome.error = error
                return outcome
            }
            left = input.withSpan { span in span.indices.map { span[$0] } }
        } while !rest.isEmpty
        return outcome
    }

    private static let messages = [
        "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"a\":[1,2,{\"b\":null}]}}",
        "{\"jsonrpc\":\"2.0\",\"id\":\"7\",\"error\":{\"code\":-32601,\"message\":\"m\\u00e9\",\"data\":[]}}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"a/b\",\"params\":{\"x\":\"\\\"}]\"}}",
        "{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"m\",\"params\":[-1.5e3,true]}",
        "{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":\"q\"}}",
        "[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}, {\"jsonrpc\":\"2.0\",\"method\":\"n\"}]", "", "[]",
    ]

    private func wire(_ text: String, _ framing: JSONRPCCodec.Framing) -> [UInt8] {
        Array((framing == .lines ? "\(text)\n" : "Content-Length: \(text.utf8.count)\r\n\r\n\(text)").utf8)
    }

    @Test(arguments: [JSONRPCCodec.Framing.lines, .contentLength], 1...4 as ClosedRange<UInt64>)
    func mutatedMessagesAreDecodedTheSameInAnyPieces(_ framing: JSONRPCCodec.Framing, _ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let codec = JSONRPCCodec(framing, dialect: .modelContext, maximumMessageSize: 300)
        var kinds: [Frame.Kind: Int] = [:]
        var (malformed, errors) = (0, 0)
        for _ in 0..<1500 {
            var bytes = (0..<Int.random(in: 1...4, using: &random)).flatMap { _ in
                wire(Self.messages[Int.random(in: 0..<Self.messages.count, using: &random)], framing)
            }
            for _ in 0..<Int.random(in: 0...3, using: &random) {
                let place = Int.random(in: 0..<bytes.count, using: &random)
                switch Int.random(in: 0..<5, using: &random) {
                case 0: bytes[place] = UInt8.random(in: 0...255, using: &random)
                case 1: bytes[place] = Array("{}[]\",:\\0123\n\r ".utf8)[Int.random(in: 0..<15, using: &random)]
                case 2: bytes.remove(at: place)
                case 3: bytes.insert(contentsOf: bytes[..<place].suffix(5), at: place)
                default: bytes.removeSubrange(place...)
                }
                if bytes.isEmpty { break }
            }
            let whole = outcome(of: bytes, codec, &random)
            let pieces = outcome(of: bytes, codec, inPiecesUpTo: 9, &random)
            #expect(whole == pieces, "\(String(decoding: bytes, as: UTF8.self))")
            for frame in whole.frames { kinds[frame.kind, default: 0] += 1 }
            malformed += whole.frames.count { $0.malformedReason != nil }
            if whole.error != nil { errors += 1 }
            expectNoTrap(whole.frames, codec)
        }
        for kind in [Frame.Kind.response, .push, .request, .ping] { #expect(kinds[kind, default: 0] > 50) }
        #expect(malformed > 50)
        if framing == .contentLength { #expect(errors > 50) }
    }

    @Test(arguments: [JSONRPCCodec.Framing.lines, .contentLength]) func randomBytesAreNoTrap(
        _ framing: JSONRPCCodec.Framing
    ) {
        var random = SeededGenerator(seed: 99)
        let codec = JSONRPCCodec(framing, dialect: .languageServer, maximumMessageSize: 300)
        for _ in 0..<3000 {
            let bytes = (0..<Int.random(in: 1...200, using: &random)).map { _ in
                UInt8.random(in: 0...255, using: &random)
            }
            let start = Bool.random(using: &random) ? Array("Content-Length: 50\r\n\r\n{".utf8) : []
            let whole = outcome(of: start + bytes, codec, &random)
            #expect(whole == outcome(of: start + bytes, codec, inPiecesUpTo: 30, &random))
            #expect(whole.frames.allSatisfy { $0.malformedReason != nil || $0.kind == .ignored })
        }
    }

    /// What was received can be sent, or is refused.
    private func expectNoTrap(_ frames: [Frame], _ codec: JSONRPCCodec) {
        for frame in frames {
            var (codec, output) = (codec, SendBuffer())
            do throws(FrameError) {
                try codec.encode(frame, into: &output)
                #expect(!output.bytes.isEmpty)
            } catch {
                #expect(output.bytes.isEmpty)
            }
        }
    }
}
