import TrunklineCore

/// Decides how many waiting calls go on while only some servers are ready: at first a few for each, then, every
/// interval, the ready servers' share of the crowd, at least a tenth. So a crowd does not rush to the first server of
/// ten, and waits at most half a second for servers that do not come.
struct CrowdRelease: Sendable {
    static let interval = Duration.milliseconds(50)
    private static let few = 8
    private static let smallestShare = 0.1

    private(set) var moment: Instant
    private var released = 0
    private var share = 0.0

    init(at now: Instant) { moment = now.advanced(by: Self.interval) }

    /// Returns how many more calls go on; the caller must resume them. `part` is the ready servers' share of the
    /// weights of all that are expected to be ready.
    mutating func next(of waiting: Int, to servers: Int, share part: Double, at now: Instant) -> Int {
        while moment <= now, share < 1 {
            moment = moment.advanced(by: Self.interval)
            share += max(part, Self.smallestShare)
        }
        if share >= 1 { moment = max(moment, now.advanced(by: Self.interval)) }
        let crowd = released + waiting
        let total = max(Self.few * servers, Int((Double(crowd) * min(share, 1)).rounded(.up)))
        let count = min(waiting, max(0, total - released))
        released += count
        return count
    }
}
