/// What the kernel knows about the TCP connection of a link: see ``ConnectionMetrics/tcp``.
public struct TCPInformation: Sendable, Hashable {
    /// The smoothed round-trip time that the kernel measures with every acknowledgment.
    public let smoothedRoundTripTime: Duration
    /// The mean deviation of the round-trip time.
    public let roundTripTimeVariation: Duration
    /// The number of segments that were sent again since the connection was established.
    public let retransmissions: Int
    /// The number of segments that were sent and not acknowledged yet.
    public let unacknowledgedSegments: Int
    /// The congestion window, in segments: how many may be sent before the first of them is acknowledged.
    public let congestionWindow: Int
    /// The number of bytes in the socket that the kernel has not sent for the first time. `nil` before Linux 4.6.
    public let unsentBytes: Int?
    /// The number of bytes that the peer is ready to receive beyond those that it has acknowledged; 0 if it does not
    /// read. `nil` before Linux 5.4.
    public let sendWindow: Int?
    /// The number of paths in use, if the link uses Multipath TCP
    /// (``ClientOptions/Connecting-swift.struct/multipath``). `nil` for TCP, also if the connection has fallen back to
    /// it. The other properties are those of the first path.
    public let subflows: Int?

    init(
        smoothedRoundTripTime: Duration,
        roundTripTimeVariation: Duration,
        retransmissions: Int,
        unacknowledgedSegments: Int,
        congestionWindow: Int,
        unsentBytes: Int?,
        sendWindow: Int? = nil,
        subflows: Int? = nil
    ) {
        self.smoothedRoundTripTime = smoothedRoundTripTime
        self.roundTripTimeVariation = roundTripTimeVariation
        self.retransmissions = retransmissions
        self.unacknowledgedSegments = unacknowledgedSegments
        self.congestionWindow = congestionWindow
        self.unsentBytes = unsentBytes
        self.sendWindow = sendWindow
        self.subflows = subflows
    }
}
