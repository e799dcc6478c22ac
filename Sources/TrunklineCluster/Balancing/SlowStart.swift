import TrunklineCore

/// The share of load of a member that has just returned: it grows, so that caches fill and connections are made first.
enum SlowStart {
    /// Envoy: `min_weight_percent`, 10 %.
    static let initialShare = 0.1
    static let defaultDuration = Duration.seconds(10)

    static func share(since: Instant, at now: Instant, over duration: Duration) -> Double {
        let whole = duration.clampedNanoseconds
        guard whole > 0 else { return 1 }
        let elapsed = max(0, now.since(since).clampedNanoseconds)
        guard elapsed < whole else { return 1 }
        return initialShare + (1 - initialShare) * Double(elapsed) / Double(whole)
    }
}
