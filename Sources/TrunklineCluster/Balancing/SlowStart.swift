package import TrunklineCore

/// The load of a member that has just returned to service: it grows over time, so that caches fill and connections are
/// made before the full load arrives.
package enum SlowStart {
    /// The share at the beginning. Envoy: `min_weight_percent`, 10 %.
    package static let initialShare = 0.1
    /// The time until the full share. Ours: Envoy has no default.
    package static let defaultDuration = Duration.seconds(10)

    /// Returns the share of its usual load that a member should get: from 0.1 at `since`, in a straight line, to 1
    /// after `duration`. A duration that is not positive gives 1.
    package static func share(since: Instant, at now: Instant, over duration: Duration) -> Double {
        let whole = duration.clampedNanoseconds
        guard whole > 0 else { return 1 }
        let elapsed = max(0, now.since(since).clampedNanoseconds)
        guard elapsed < whole else { return 1 }
        return initialShare + (1 - initialShare) * Double(elapsed) / Double(whole)
    }
}
