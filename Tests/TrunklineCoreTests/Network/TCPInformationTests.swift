import Testing

@testable import TrunklineCore
@testable import TrunklineIO

/// What the numbers of the kernel say about a server that is silent.
@Suite struct TCPInformationTests {}

extension TCPInformationTests {
    private func opinion(unacknowledged: Int = 0, unsent: Int?, window: Int?) -> String {
        TCPInformation(
            smoothedRoundTripTime: .milliseconds(1),
            roundTripTimeVariation: .zero,
            retransmissions: 4,
            unacknowledgedSegments: unacknowledged,
            congestionWindow: 10,
            unsentBytes: unsent,
            sendWindow: window
        ).opinionAboutSilence
    }

    /// A firewall of this host that dropped what left was taken for a server that did not read: in both cases everything that
    /// was sent is acknowledged, and the rest is unsent.
    @Test func onlyAClosedWindowMeansThatTheServerDoesNotRead() {
        let closed = opinion(unsent: 100, window: 0)
        #expect(closed.contains("the server does not read") && closed.contains("100 bytes are unsent"), "\(closed)")
        let dropped = opinion(unsent: 1, window: 65_536)
        #expect(
            dropped
                == "this host does not send: the server takes 65,536 bytes, and 1 byte is unsent, so a firewall or a queue"
                + " of this host probably drops what leaves"
        )
        // Before Linux 5.4 the window is not known.
        let unknown = opinion(unsent: 100, window: nil)
        #expect(unknown.contains("the server does not read, or a firewall of this host"), "\(unknown)")
    }

    @Test func aServerThatHangsAcknowledgesAndABrokenPathDoesNot() {
        #expect(opinion(unsent: 0, window: 65_536).contains("the server hangs"))
        #expect(opinion(unsent: nil, window: nil).contains("the server hangs"))
        let broken = opinion(unacknowledged: 1, unsent: 0, window: 65_536)
        #expect(broken.contains("1 segment is not acknowledged, after 4 retransmissions"), "\(broken)")
    }
}
