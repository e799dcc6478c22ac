import TrunklineCore

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
