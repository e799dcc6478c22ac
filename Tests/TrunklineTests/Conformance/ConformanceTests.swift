import Testing
import Trunkline

@testable import TrunklineTesting

extension CodecConformance {
    /// The check with a quarter of the corrupted inputs: every value of the first bytes, and random values of the others.
    /// With `TRUNKLINE_SEEDS`, which the step `seeds` sets, the whole check.
    var abridged: CodecConformance {
        var kit = self
        if TestEnvironment.seeds == nil { kit.corruptedInputs = min(kit.corruptedInputs, 16_384) }
        return kit
    }
}

/// The codecs of this package and of its examples keep every rule.
struct ConformanceTests {
    static let request = Frame(.request, type: 0x410, serial: 50, body: "what is it?")
    static let response = Frame(.response, type: 0x410, serial: 50, body: "it is")

    private func expectConformance(_ kit: CodecConformance, sourceLocation: SourceLocation = #_sourceLocation) {
        let report = kit.abridged.check()
        #expect(report.violations.isEmpty, "\(report)", sourceLocation: sourceLocation)
        #expect(report.unchecked.isEmpty, "\(report)", sourceLocation: sourceLocation)
        #expect(report.inputs > 1000, sourceLocation: sourceLocation)
    }

    /// Samples for a layout in which the types 0x40 to 0x4f are requests.
    private func samples(named fields: [String: UInt64] = [:], status: UInt32 = 0) -> [CodecConformance.Sample] {
        var request = Frame(.request, type: 0x42, serial: 50, body: "question")
        var response = Frame(.response, type: 0x42, serial: 50, status: status, body: "answer")
        for (name, value) in fields {
            request[name] = value
            response[name] = value
        }
        return [
            .init(request), .init(response, answering: request), .init(Frame(.request, type: 0x43, serial: 0xFFFF)),
        ]
    }

    @Test func standardLayoutKeepsEveryRule() {
        let vector: [UInt8] = [0, 0, 4, 2, 0, 0, 4, 1, 0, 0, 0, 8] + Array(#"{"ms":1}"#.utf8)
        let kit = CodecConformance(
            of: .standard,
            samples: [
                .init(Frame(.request, type: 0x402, serial: 0x401, body: #"{"ms":1}"#), bytes: vector),
                .init(Self.response, answering: Self.request),
                .init(Frame(.push, type: 2, body: Bytes([UInt8](repeating: 7, count: 600)))),
                .init(Frame(.push, type: 0x400)),
                .refused([0, 0, 4, 2, 0, 0, 4, 1, 1, 0, 0, 0], with: .illegalLength),
            ]
        )
        expectConformance(kit)
    }

    @Test func layoutWithConstantsChecksumAndRolesKeepsEveryRule() {
        var layout = FrameLayout {
            Field.constant(request: [0xCA, 0xFE], response: [0xCA, 0xFF])
            Field.type(UInt8.self)
            Field.serial(UInt32.self, order: .littleEndian)
            Field.status(UInt16.self)
            Field.length(UInt16.self, counting: .rest)
            Field.integer("version", UInt8.self, default: 1)
            Field.reserved(3)
            Field.body
            Field.checksum(.crc32, over: .headerAndBody)
            Field.constant([0xEE])
        }
        .roles {
            $0.ping = 1
            $0.pong = 2
            $0.push = .types(3...9)
            $0.cancel = 10
            $0.success = 200
            $0.serials = 50...
        }
        layout.maximumFrameSize = 1000
        let rejected = Frame(.response, type: 0x42, serial: 50, status: 404, isErrorResponse: true, body: "no")
        let more: [CodecConformance.Sample] = [
            .init(rejected), .init(Frame(.push, type: 3, status: 200, body: "news")),
            .refused([0xCA, 0xFE], with: .unexpectedBytes),
            .refused([0xCA, 0xFF], with: .unexpectedBytes, receivedBy: .server),
        ]
        expectConformance(CodecConformance(of: layout, samples: samples(named: ["version": 7], status: 200) + more))
    }

    @Test func layoutWithOddWidthsAndNumbersBehindTheBodyKeepsEveryRule() {
        var layout = FrameLayout {
            Field.checksum(.crc32, over: .body, order: .littleEndian)
            Field.length(width: 3, counting: .wholeFrame, order: .littleEndian)
            Field.serial(width: 5)
            Field.integer("flags", UInt16.self, default: 0x0102, order: .littleEndian)
            Field.body
            Field.constant([0xEE])
            Field.type(width: 3)
            Field.serial(width: 5, order: .littleEndian)
            Field.checksum(.adler32, over: .headerAndBody)
        }
        .roles { $0.serials = 0...0xff_ffff_ffff }
        layout.maximumFrameSize = 5000
        expectConformance(CodecConformance(of: layout, samples: samples(named: ["flags": 3])))
    }

    @Test func layoutWithoutSerialsKeepsEveryRule() {
        var layout = FrameLayout {
            Field.length(UInt64.self, counting: .body.plus(-1))
            Field.body
        }
        layout.maximumFrameSize = 300
        let samples: [CodecConformance.Sample] = [
            .init(Frame(.request, body: "question")), .init(Frame(.response, body: "answer")),
        ]
        expectConformance(CodecConformance(of: layout, samples: samples))
    }

    /// Most rules need a frame from each side. A rule that cannot be checked without one is reported, not passed over.
    @Test func rulesThatCannotBeCheckedAreReported() {
        var kit = CodecConformance(
            of: TextLines(),
            samples: [.init(Frame(.response, body: "a"))],
            maximumFrameSize: 101
        )
        kit.hasServerSide = false
        let report = kit.check()
        #expect(report.violations.isEmpty)
        #expect(report.unchecked.count == 1)
        #expect(report.description.contains("not checked: frames that the server sends"))
    }

    /// Regression: the hint asked for a header with a length above the limit, and was repeated after such a
    /// header was given.
    @Test func theHintAboutLengthsCanBeFollowed() {
        let frames: [CodecConformance.Sample] = [
            .init(Frame(.request, body: "GET a")), .init(Frame(.response, body: "+a")),
        ]
        let report = CodecConformance(of: TextLines(), samples: frames, maximumFrameSize: 101).check()
        #expect(report.unchecked.count == 2)
        for side in ["client", "server"] {
            let sample = ".refused(bytes, with: .illegalLength, receivedBy: .\(side))"
            #expect(report.unchecked.contains { $0.contains("limit of at least 202 bytes") && $0.contains(sample) })
        }
        let tooLong = [UInt8](repeating: 0x61, count: 101)
        let samples: [CodecConformance.Sample] = [
            .refused(tooLong, with: .illegalLength, receivedBy: .client),
            .refused(tooLong, with: .illegalLength, receivedBy: .server),
        ]
        expectConformance(CodecConformance(of: TextLines(), samples: frames + samples, maximumFrameSize: 101))
    }

    @Test func linesKeepEveryRule() {
        var kit = CodecConformance(of: TextLines(), samples: TextLines.samples, maximumFrameSize: 101)
        kit.relaxed = TextLines(maximumLine: 400)
        expectConformance(kit)
    }

    @Test func theSameSeedGivesTheSameReport() {
        let codec = BrokenCodec(.splitState)
        let kit = CodecConformance(of: codec, samples: BrokenCodec.samples, maximumFrameSize: BrokenCodec.limit)
        let (first, second) = (kit.check(), kit.check())
        #expect(first.violations == second.violations && first.counts == second.counts && first.inputs == second.inputs)
    }
}
