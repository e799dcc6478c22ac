import Trunkline

/// How the links of a simulated network behave while nothing is broken.
public struct NetworkConditions: Sendable, Hashable {
    /// How long a packet travels, in one direction; drawn anew for each. Packets of a link never overtake each other.
    public var latency: ClosedRange<Duration> = .microseconds(50)...(.milliseconds(2))
    /// What establishing a link takes beyond the round trip.
    public var connectDelay: ClosedRange<Duration> = .zero...(.zero)
    /// How long a name takes to resolve.
    public var resolutionDelay: ClosedRange<Duration> = .microseconds(100)...(.milliseconds(5))
    /// Bytes per second, in each direction of each link; `nil` for no limit.
    public var bandwidth: Int?
    /// Bytes that a sender's kernel holds before it takes no more; at least 1.
    package var sendBuffer = 65_536
    /// Bytes that may be under way to a receiver or wait to be read by it; at least 1.
    package var receiveWindow = 65_536
    /// How often, from 0 to 1, a packet, a read or a write carries fewer bytes than it could, down to one.
    public var fragmentation = 0.25

    /// The defaults: a good local network.
    public init() {}
}

/// The conditions of one link, ready for arithmetic: times in nanoseconds, everything clamped.
struct LinkTraits {
    let latency: ClosedRange<Int64>
    let connectDelay: ClosedRange<Int64>
    let resolutionDelay: ClosedRange<Int64>
    let bandwidth: Int64?
    let sendBuffer: Int
    let receiveWindow: Int
    let fragmentation: Double

    init(_ conditions: NetworkConditions) {
        latency = Self.nanoseconds(conditions.latency)
        connectDelay = Self.nanoseconds(conditions.connectDelay)
        resolutionDelay = Self.nanoseconds(conditions.resolutionDelay)
        bandwidth = conditions.bandwidth.map { Int64(max(1, $0)) }
        sendBuffer = max(1, conditions.sendBuffer)
        receiveWindow = max(1, conditions.receiveWindow)
        fragmentation = conditions.fragmentation
    }

    private static func nanoseconds(_ range: ClosedRange<Duration>) -> ClosedRange<Int64> {
        max(0, range.lowerBound.clampedNanoseconds)...max(0, range.upperBound.clampedNanoseconds)
    }
}
