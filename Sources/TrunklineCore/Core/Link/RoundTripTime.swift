/// The round-trip times of the pings on the current link.
///
/// Pings are normally sent only on an idle link, so a link that is always busy may have no measurement.
public struct RoundTripTime: Sendable, Hashable {
    /// The latest round-trip time.
    public internal(set) var latest: Duration
    /// The smoothed round-trip time, in which the latest measurement has a weight of one eighth (SRTT, RFC 6298 §2).
    public internal(set) var smoothed: Duration
    /// The shortest round-trip time since the link was established.
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
