import SampleLayouts
import Testing
import Trunkline

@testable import TrunklineLayouts
@testable import TrunklineTesting

/// The presets and the codecs of this package keep every rule.
struct CodecConformanceTests {
    private static let question = Frame(.request, body: "question")
    private static let inOrder: [CodecConformance.Sample] = [
        .init(question), .init(Frame(.request)), .init(Frame(.response, body: "answer"), answering: question),
        .init([Frame(.response, body: "one"), Frame(.response), Frame(.response, body: "three")]),
    ]

    private func expectConformance(_ kit: CodecConformance, sourceLocation: SourceLocation = #_sourceLocation) {
        let report = kit.abridged.check()
        #expect(report.violations.isEmpty, "\(report)", sourceLocation: sourceLocation)
        #expect(report.unchecked.isEmpty, "\(report)", sourceLocation: sourceLocation)
    }

    /// A protocol that allows no pings before the first message of the server: `encode` throws for them.
    @Test func aCodecMayRefusePingsOnANewLink() {
        struct SilentAtFirst: FrameCodec, HeartbeatCodec, ServerSideCodec {
            var base: FrameLayout = .checked
            var hasHeard = false
            var matching: ResponseMatching { base.matching }
            mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
                let frame = try base.decode(&input)
                if frame != nil { hasHeard = true }
                return frame
            }
            mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
                if frame.kind == .ping, !hasHeard { throw FrameError(.malformed, "too early") }
                try base.encode(frame, into: &output)
            }
            var pongsLookLikePings: Bool { base.pongsLookLikePings }
            func ping(number: UInt64) -> Frame? { base.ping(number: number) }
            func pong(answering ping: Frame) -> Frame? { base.pong(answering: ping) }
            func serverSide() -> any FrameCodec { base.serverSide() }
        }
        let request = Frame(.request, type: 3, serial: 50, body: "question")
        let samples: [CodecConformance.Sample] = [
            .init(request),
            .init(Frame(.response, type: 3, serial: 50, status: 200, body: "answer"), answering: request),
        ]
        let report = CodecConformance(of: SilentAtFirst(), samples: samples, maximumFrameSize: 1 << 20).abridged.check()
        #expect(report.violations.allSatisfy { $0.rule != .heartbeat }, "\(report)")
    }

    @Test func checkedLayoutKeepsEveryRule() {
        let request = Frame(.request, type: 3, serial: 50, body: "question")
        let samples: [CodecConformance.Sample] = [
            .init(request), .init(Frame(.request, type: 4, serial: 0xFFFF_FFFF)),
            .init(Frame(.response, type: 3, serial: 50, status: 200, body: "answer"), answering: request),
            .init(Frame(.response, type: 3, serial: 51, status: 404, isErrorResponse: true)),
            .init(Frame(.push, type: 1, status: 200, body: "news")),
        ]
        expectConformance(CodecConformance(of: .checked, samples: samples))
        expectConformance(CodecConformance(of: .checked(over: .headerAndBody), samples: samples))
    }

    @Test func extendedLayoutKeepsEveryRule() throws {
        var request = Frame(.request, type: 0x410, serial: 50, body: "question")
        request["version"] = 1
        let samples: [CodecConformance.Sample] = [
            .init(request), .init(Frame(.response, type: 0x410, serial: 50, body: "answer"), answering: request),
            .init(Frame(.push, type: 2, body: "news")),
        ]
        expectConformance(try CodecConformance(of: .extended, samples: samples))
    }

    @Test(arguments: ["\n", "\r\n", [0xFF], "aba", "--x--"] as [Bytes], [1, 2])
    func delimitedFramesKeepEveryRule(delimiter: Bytes, parts: Int) {
        let codec = DelimitedCodec(delimiter: delimiter, parts: parts, maximumFrameSize: 64)
        let between = parts == 2 ? Array(delimiter) : []
        func frame(_ kind: Frame.Kind, _ text: String) -> Frame { Frame(kind, body: Bytes(text.utf8 + between + [7])) }
        let request = frame(.request, "question")
        let samples: [CodecConformance.Sample] = [
            .init(request), .init(frame(.request, "")), .init(frame(.response, "one"), answering: request),
            .init([frame(.response, "two"), frame(.response, ""), frame(.response, "three")]),
            .refused([UInt8](repeating: 1, count: 64), with: .illegalLength),
        ]
        var kit = CodecConformance(of: codec, samples: samples, maximumFrameSize: 64)
        kit.relaxed = DelimitedCodec(delimiter: delimiter, parts: parts, maximumFrameSize: 256)
        // With two parts the body has a grammar, so the kit cannot make bodies of arbitrary bytes to test the limit.
        kit.bodiesAreOpaque = parts == 1
        let report = kit.abridged.check()
        #expect(report.violations.isEmpty, "\(report)")
        #expect(report.unchecked.isEmpty || parts == 2, "\(report)")
    }

    @Test func heartbeatsOfTextKeepEveryRule() {
        for pong in ["PONG", "PING"] as [Bytes] {
            let codec = DelimitedCodec(delimiter: "\n", maximumFrameSize: 80).heartbeat(ping: "PING", pong: pong)
            var kit = CodecConformance(of: codec, samples: Self.inOrder, maximumFrameSize: 80)
            kit.relaxed = DelimitedCodec(delimiter: "\n", maximumFrameSize: 200).heartbeat(ping: "PING", pong: pong)
            expectConformance(kit)
        }
    }

    @Test func memcachedTextProtocolKeepsEveryRule() {
        let set = Frame(.request, head: "set key 0 0 3", body: [13, 10, 13])
        let get = Frame(.request, head: "get key other")
        let values = [
            Frame(.part, head: "VALUE key 0 3", body: [13, 10, 13]), Frame(.part, head: "VALUE other 1 0 7"),
            Frame(.response, head: "END"),
        ]
        let samples: [CodecConformance.Sample] = [
            .init(set, bytes: Array("set key 0 0 3\r\n\r\n\r\r\n".utf8)), .init(get),
            .init(Frame(.response, head: "STORED"), answering: set), .init(values, answering: [get]),
            .init(Frame(.response, isErrorResponse: true, head: "CLIENT_ERROR no"), answering: set),
            .refused(Array("VALUE key 0 1989\r\n".utf8), with: .illegalLength),
            .refused(Array("VALUE key 0\r\n".utf8), with: .malformed),
            .refused(Array("VALUE key 0 1\r\n123".utf8), with: .unexpectedBytes),
            .refused(Array("set key 0 0 1989\r\n".utf8), with: .illegalLength, receivedBy: .server),
        ]
        let codec = CountedProtocols.memcached
        var kit = CodecConformance(of: codec, samples: samples, maximumFrameSize: codec.maximumFrameSize)
        (kit.bodiesAreOpaque, kit.corruptedInputs) = (false, 16_384)
        // Bodies have the size that their heads state, so the kit cannot make them larger.
        let report = kit.abridged.check()
        #expect(report.violations.isEmpty, "\(report)")
    }

    @Test func natsKeepsEveryRule() {
        let request = Frame(.request, serial: 7, head: "PUB time", body: "now?")
        let samples: [CodecConformance.Sample] = [
            .init(request, bytes: Array("PUB time _INBOX.7 4\r\nnow?\r\n".utf8)),
            .init(Frame(.request, head: "SUB a 1")),
            .init(Frame(.response, serial: 7, head: "MSG", body: "noon"), answering: request),
            .init(Frame(.push, head: "MSG news 1 2", body: "hi")), .init(Frame(.push, head: "+OK")),
            .refused(Array("MSG news 1 1999\r\n".utf8), with: .illegalLength),
            .refused(Array("PUB news 1999\r\n".utf8), with: .illegalLength, receivedBy: .server),
        ]
        let codec = CountedProtocols.nats
        var kit = CodecConformance(of: codec, samples: samples, maximumFrameSize: codec.maximumFrameSize)
        kit.corruptedInputs = 16_384
        expectConformance(kit)
    }

    @Test func theLanguageServerProtocolKeepsEveryRule() {
        let request = Frame(.request, serial: 7, body: "\"method\":\"initialize\"}")
        let samples: [CodecConformance.Sample] = [
            .init(request), .init(Frame(.response, serial: 7, body: "\"result\":1}"), answering: request),
            .init(Frame(.push, body: "{}")),
            .refused(Array("Content-Length: 1999\r\n\r\n".utf8), with: .illegalLength),
            .refused(Array("Content-Length: 1999\r\n\r\n".utf8), with: .illegalLength, receivedBy: .server),
        ]
        let codec = CountedProtocols.lsp
        var kit = CodecConformance(of: codec, samples: samples, maximumFrameSize: codec.maximumFrameSize)
        kit.corruptedInputs = 16_384
        expectConformance(kit)
    }

    @Test func lengthPrefixedFramesKeepEveryRule() {
        let lengths: [LengthPrefixedCodec.Length] = [
            .varint, .integer(width: 1), .integer(width: 2), .integer(width: 4, order: .littleEndian),
            .integer(width: 8), .integer(width: 3, countingItself: true),
        ]
        for length in lengths {
            let codec = LengthPrefixedCodec(length, maximumFrameSize: 100)
            var kit = CodecConformance(of: codec, samples: Self.inOrder, maximumFrameSize: 100)
            kit.relaxed = LengthPrefixedCodec(length, maximumFrameSize: 250)
            expectConformance(kit)
        }
    }

    @Test func lengthPrefixedFramesWithSerialsKeepEveryRule() {
        let request = Frame(.request, serial: 7, body: [0, 0, 7, 1, 2, 3])
        let codec = LengthPrefixedCodec(UInt16.self, maximumFrameSize: 100).serial(at: 1, UInt16.self)
        let samples: [CodecConformance.Sample] = [
            .init(request), .init(Frame(.response, serial: 7, body: [9, 0, 7]), answering: request),
        ]
        var kit = CodecConformance(of: codec, samples: samples, maximumFrameSize: 100)
        kit.relaxed = LengthPrefixedCodec(UInt16.self, maximumFrameSize: 250).serial(at: 1, UInt16.self)
        kit.bodiesAreOpaque = false
        let report = kit.abridged.check()
        #expect(report.violations.isEmpty, "\(report)")
    }
}
