/// The key of a request: requests with the same key go to the same server of a cluster while it exists, is ready, and
/// has no more than 1.25 times its share of the requests in flight.
///
/// The server depends only on the key and on the servers, so every process with the same list chooses the same one. If
/// a server comes or goes, only the keys move that it takes or leaves behind (consistent hashing with bounded loads,
/// Mirrokni et al. 2016).
public struct RoutingKey: Sendable, Hashable {
    let hash: UInt64

    init(hash: UInt64) { self.hash = hash }

    /// Creates a key from the description of a value: a string, a number or a UUID, for example. ``Bytes``, whose
    /// description has only their number, are the key themselves.
    public init(_ value: some CustomStringConvertible) {
        // Known only here: the calls of a cluster take any value with a description.
        hash = if let bytes = value as? Bytes { HashRing.hash(bytes) } else { HashRing.hash(value.description.utf8) }
    }

    /// Creates a key from bytes.
    public init(bytes: some Sequence<UInt8>) { hash = HashRing.hash(bytes) }
}

extension RoutingKey: CustomReflectable {
    /// Empty: a key may be personal data.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// When a second copy of a request is sent to another server, because the first has not been answered yet.
///
/// The first response wins, and the other copy is cancelled, with a cancel frame if the protocol has one. Use it only
/// for requests that may be performed twice. At most the share ``ClusterOptions/hedgeBudget`` of the hedged requests
/// has a second copy.
public struct Hedge: Sendable, Hashable {
    enum Delay: Sendable, Hashable {
        case fixed(Duration)
        case percentile(Double)
    }

    let delay: Delay

    /// A second copy when the first has been on a server for a fixed time. A negative time counts as zero.
    public static func after(_ delay: Duration) -> Hedge { Hedge(delay: .fixed(max(.zero, delay))) }

    /// A second copy after the time within which this share of the hedged requests of the last 10 s to 20 s was
    /// answered. There is no second copy until 20 of them have been answered.
    ///
    /// - Parameter percentile: The share, from 0 to 1: `0.95` for the 95th percentile. A number above 1 is one in
    ///   percent, as for ``LatencyHistogram/percentile(_:)``: `95` means the same.
    public static func after(percentile: Double) -> Hedge {
        let share = percentile > 1 ? percentile / 100 : percentile
        return Hedge(delay: .percentile(share.isNaN ? 1 : min(max(share, 0), 1)))
    }
}
