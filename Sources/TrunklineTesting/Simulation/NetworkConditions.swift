import TrunklineCore

/// The delays, the throughput and the fragmentation of the links of a simulated network when there are no faults.
///
/// Delays are drawn at random from their ranges, uniformly, from the network's seed. Negative durations count as zero.
/// As with TCP, the bytes of a link arrive in order and are never lost, apart from those of `udp://` endpoints. Each
/// direction of a link holds at most 64 KiB in the sender's buffer, and 64 KiB that the receiver has not read.
public struct NetworkConditions: Sendable, Hashable {
    /// The time that a packet needs in one direction. Drawn for each packet, but packets of a link never overtake each
    /// other. Default 50 µs to 2 ms.
    public var latency: ClosedRange<Duration> = .microseconds(50)...(.milliseconds(2))
    /// The time to establish a link in addition to the round trip. Default: zero.
    public var connectDelay: ClosedRange<Duration> = .zero...(.zero)
    /// The time to resolve a name. Default 100 µs to 5 ms.
    ///
    /// It applies to the whole network: the value in conditions that are set for one host has no effect.
    public var resolutionDelay: ClosedRange<Duration> = .microseconds(100)...(.milliseconds(5))
    /// The bytes per second in each direction of each link, at least 1. Default `nil`: no limit.
    public var bandwidth: Int?
    /// The probability, from 0 to 1, that a datagram of a `udp://` endpoint is lost. Default 0.
    ///
    /// Datagrams overtake each other whatever this is: each has its own ``latency``.
    public var datagramLoss = 0.0
    /// The probability, from 0 to 1, that a datagram arrives twice. Default 0.
    public var datagramDuplication = 0.0
    /// The bytes that a sender's kernel buffers before it accepts no more. At least 1.
    var sendBuffer = 65_536
    /// The bytes that may be in transit to a receiver or unread by it. At least 1.
    var receiveWindow = 65_536
    /// The probability, from 0 to 1, that a packet or a read has fewer bytes than possible, down to one byte. For a
    /// write, half of this probability is used. Default 0.25.
    public var fragmentation = 0.25

    /// Creates conditions with the defaults: a good local network.
    public init() {}
}

/// The conditions of one link for arithmetic: times in nanoseconds, everything clamped.
struct LinkTraits {
    let latency: ClosedRange<Int64>
    let connectDelay: ClosedRange<Int64>
    let resolutionDelay: ClosedRange<Int64>
    let bandwidth: Int64?
    let sendBuffer: Int
    let receiveWindow: Int
    let fragmentation: Double
    let datagramLoss: Double
    let datagramDuplication: Double

    init(_ conditions: NetworkConditions) {
        latency = Self.nanoseconds(conditions.latency)
        connectDelay = Self.nanoseconds(conditions.connectDelay)
        resolutionDelay = Self.nanoseconds(conditions.resolutionDelay)
        bandwidth = conditions.bandwidth.map { Int64(max(1, $0)) }
        sendBuffer = max(1, conditions.sendBuffer)
        receiveWindow = max(1, conditions.receiveWindow)
        fragmentation = conditions.fragmentation
        (datagramLoss, datagramDuplication) = (conditions.datagramLoss, conditions.datagramDuplication)
    }

    private static func nanoseconds(_ range: ClosedRange<Duration>) -> ClosedRange<Int64> {
        max(0, range.lowerBound.clampedNanoseconds)...max(0, range.upperBound.clampedNanoseconds)
    }
}
