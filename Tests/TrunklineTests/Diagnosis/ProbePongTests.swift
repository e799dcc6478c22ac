import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineDiagnostics
@testable import TrunklineIO
@testable import TrunklineLayouts

/// How the probe judges answers to pings, and what it says about certificates.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct ProbePongTests {}

extension ProbePongTests {
    /// A layout whose server answers pings with another serial: the one of the ping plus `offset`.
    private struct ShiftingCodec: FrameCodec, HeartbeatCodec, ServerSideCodec {
        private var base = layoutWithPongs
        private let offset: SerialNumber
        var matching: ResponseMatching { base.matching }

        init(offset: SerialNumber) { self.offset = offset }

        mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? { try base.decode(&input) }

        mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
            try base.encode(frame, into: &output)
        }

        var pongsLookLikePings: Bool { base.pongsLookLikePings }
        func ping(number: UInt64) -> Frame? { base.ping(number: number) }
        func pong(answering ping: Frame) -> Frame? {
            var pong = base.pong(answering: ping)
            pong?.serial = offset == 0 ? 0 : ping.serial + offset
            return pong
        }
        func serverSide() -> any FrameCodec {
            var codec = self
            codec.base = (base.serverSide() as? FrameLayout) ?? base
            return codec
        }
    }

    /// Such a server was healthy, although a client finds its answers to belong to other pings.
    @Test(arguments: [(1, ["wrong_serial"]), (0, [])] as [(SerialNumber, [String])])
    func anAnswerHasTheSerialOfItsPingOrNone(offset: SerialNumber, problems: [String]) async throws {
        try await withLoopbackServer(speaking: ShiftingCodec(offset: offset)) { server in
            var probe = Probe(of: server.endpoint, speaking: layoutWithPongs)
            probe.interval = .milliseconds(1)
            // The probe waits for the right answer.
            probe.timeout = problems.isEmpty ? .seconds(60) : .seconds(2)
            let report = try await probe.run()
            #expect(report.problems.map(\.code) == problems, "\(report.text)")
            #expect(report.health == (problems.isEmpty ? .healthy : .unhealthy))
            let message = "no answer to ping 1 with its serial number, 1; one came with 2"
            #expect(problems.isEmpty || report.problems.first?.message == message, "\(report.text)")
        }
    }

    /// A certificate with 23 hours left expired in "0 days".
    @Test func timesOfCertificatesAreInUnitsOfWhichThereIsOne() {
        let hour = 3600.0
        let texts = [(59, "less than a minute"), (60, "1 minute"), (hour, "1 hour"), (23.9 * hour, "23 hours")]
        for (seconds, text) in texts + [(24 * hour, "1 day"), (100 * hour, "4 days")] {
            #expect(ProbeReport.Certificate.text(seconds) == text)
        }
        #expect(ProbeReport.Certificate.text(.infinity) == "\(Int.max) days")
        #expect(ProbeReport.Certificate.text(.nan) == "less than a minute")
    }

    /// Without a clock the time that was left counted from 1970.
    @Test func withoutAClockNoCertificateHasTimeLeft() {
        let certificate = TLSCertificate(
            subject: "CN=a",
            issuer: "CN=root",
            names: [],
            notBefore: 0,
            notAfter: 100_000,
            fingerprint: "f"
        )
        let unknown = ProbeReport.Certificate(certificate, at: nil)
        #expect(unknown.timeLeft == nil && unknown.daysLeft == nil && unknown.remaining == nil)
        #expect(unknown.problem == nil && unknown.expiry == "expires at 1970-01-02T03:46:40Z")
        let known = ProbeReport.Certificate(certificate, at: .seconds(10_000))
        #expect(known.timeLeft == 90_000 && known.daysLeft == 1 && known.remaining == "1 day left")
        #expect(known.expiry == "expires in 1 day, at 1970-01-02T03:46:40Z")
    }
}
