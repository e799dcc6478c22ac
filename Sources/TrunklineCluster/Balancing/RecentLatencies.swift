import TrunklineCore

/// The latencies of the last 10 to 20 seconds.
struct RecentLatencies: Sendable {
    private var (present, past) = (LatencyHistogram(), LatencyHistogram())
    private var began: Instant?

    private static let period = Duration.seconds(10)
    private static let minimum = 20

    init() {}

    mutating func record(_ latency: Duration, at now: Instant) {
        turn(at: now)
        present.record(latency)
    }

    mutating func percentile(_ share: Double, at now: Instant) -> Duration? {
        turn(at: now)
        var all = present
        all.merge(past)
        return all.count < Self.minimum ? nil : all.percentile(share * 100)
    }

    private mutating func turn(at now: Instant) {
        let elapsed = began.map { now.since($0) } ?? .zero
        if elapsed >= Self.period {
            past = elapsed >= Self.period * 2 ? LatencyHistogram() : present
            present = LatencyHistogram()
        }
        if began == nil || elapsed >= Self.period { began = now }
    }
}
