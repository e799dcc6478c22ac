/// How long a ping takes to be answered on the present link.
///
/// Pings go out on a link that is silent, so a link that never is has none measured.
public struct RoundTripTime: Sendable, Hashable {
    /// The latest.
    public internal(set) var latest: Duration
    /// The mean in which the latest counts an eighth: SRTT of RFC 6298, section 2.
    public internal(set) var smoothed: Duration
    /// The least since the link was established.
    public internal(set) var minimum: Duration

    init(_ first: Duration) {
        latest = first
        smoothed = first
        minimum = first
    }

    mutating func add(_ sample: Duration) {
        latest = sample
        smoothed = (smoothed * 7 + sample) / 8
        minimum = min(minimum, sample)
    }
}
