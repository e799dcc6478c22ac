import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineDiagnostics
@testable import TrunklineIO
@testable import TrunklineLayouts

/// The standard layout, with a type of their own for pongs.
let layoutWithPongs = FrameLayout {
    Field.type(UInt32.self)
    Field.serial(UInt32.self)
    Field.length(UInt32.self, counting: .body)
    Field.body
}
.roles {
    $0.ping = 0x1
    $0.pong = 0x2
    $0.serials = 50...
}

/// Which frames the probe takes for answers to other pings, in virtual time.
@Suite(.simulated, .timeLimit(.seeded))
struct ProbePongSimulationTests {}

extension ProbePongSimulationTests {
    /// A layout whose server answers the pings of a link by a script.
    private struct ScriptedCodec: FrameCodec, HeartbeatCodec, ServerSideCodec {
        private var base: FrameLayout
        /// For each ping, the serials of the answers, relative to its own. Later pings are answered once.
        private let script: [[Int]]
        private var isServer = false
        private var count = 0
        var matching: ResponseMatching { base.matching }

        init(_ base: FrameLayout, _ script: [[Int]]) { (self.base, self.script) = (base, script) }

        mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? { try base.decode(&input) }

        mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
            guard isServer, frame.kind == .pong, count < script.count else {
                return try base.encode(frame, into: &output)
            }
            defer { count += 1 }
            for offset in script[count] {
                var pong = frame
                pong.serial = SerialNumber(Int(frame.serial) + offset)
                try base.encode(pong, into: &output)
            }
        }

        var pongsLookLikePings: Bool { base.pongsLookLikePings }
        func ping(number: UInt64) -> Frame? { base.ping(number: number) }
        func pong(answering ping: Frame) -> Frame? { base.pong(answering: ping) }
        func serverSide() -> any FrameCodec {
            var codec = self
            codec.base = (base.serverSide() as? FrameLayout) ?? base
            codec.isServer = true
            return codec
        }
    }

    /// Probes a server with this script, with two pings.
    private func probe(
        _ layout: FrameLayout,
        _ script: [[Int]],
        _ body: @escaping @Sendable (ProbeReport) -> Void
    ) throws {
        try simulate(speaking: ScriptedCodec(layout, script), overTLS: false) { service, _ in
            var probe = Probe(of: service.endpoint("db:7000"), speaking: layout)
            probe.pings = 2
            body(try await probe.run(on: service.network.loops))
        }
    }

    /// An answer to another ping was remembered for good. So a later ping without an answer was said to have one with a wrong
    /// serial, that of an earlier ping.
    @Test func aStrayAnswerConcernsItsPingOnly() throws {
        try probe(layoutWithPongs, [[1, 0], []]) { report in
            #expect(report.problems.map(\.code) == ["no_pong"], "\(report.text)")
            #expect(report.problems.first?.message == "no answer to ping 2", "\(report.text)")
        }
        try probe(layoutWithPongs, [[0], [1]]) { report in
            let message = "no answer to ping 2 with its serial number, 2; one came with 3"
            #expect(report.problems.map(\.message) == [message], "\(report.text)")
        }
    }

    /// Where pongs look like pings, a ping of the server counted as an answer with a wrong serial.
    @Test func aPingOfTheServerIsNoAnswer() throws {
        #expect(FrameLayout.standard.pongsLookLikePings)
        try probe(.standard, [[76]]) { report in
            #expect(report.problems.map(\.code) == ["no_pong"], "\(report.text)")
            // The server takes the probe's answer for a ping, and answers it. The two do not go on for ever.
            #expect(report.link?.framesReceived["ping"] == 2, "\(report.text)")
        }
        // A serial that the probe has sent before is that of an answer.
        try probe(.standard, [[0], [-1]]) { report in
            let message = "no answer to ping 2 with its serial number, 2; one came with 1"
            #expect(report.problems.map(\.message) == [message], "\(report.text)")
        }
    }

    /// Without this limit, two sides that take each other's answers for pings would answer for ever.
    @Test func aPingThatMayBeAnAnswerIsAnsweredOnceASecond() throws {
        try simulate(overTLS: false) { service, _ in
            await service.server.answerPings(false)
            var settings = Probe(of: service.endpoint("db:7000"), speaking: .standard)
            (settings.pings, settings.timeout) = (1, .seconds(5))
            let probe = settings
            async let running = probe.run(on: service.network.loops)
            for number in 0..<10 {
                try await service.pass(.milliseconds(400))
                _ = try await service.server.broadcast(Frame(.ping, type: 1, serial: 100 + SerialNumber(number)))
            }
            let report = try await running
            #expect(report.link?.framesReceived["ping"] == 10, "\(report.text)")
            // The ping of the probe, and answers to the 1st, 4th, 7th and 10th ping of the server.
            #expect(await service.server.journal.pingCount == 5)
        }
    }
}
