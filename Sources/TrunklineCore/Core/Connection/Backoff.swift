/// An exponential back-off with full jitter: the default ``ReconnectPolicy``.
///
/// The wait before round *n* (counted from 0) is drawn uniformly from zero to `min(cap, base × factorⁿ)`. The first
/// wait is random too, so that clients that lost the same server do not all reconnect at once. With a ``minimum``, the
/// wait is drawn from the range that starts at the minimum instead of zero: `Backoff(minimum: .seconds(5), cap:
/// .seconds(5))` always waits 5 s.
public struct Backoff: ReconnectPolicy, Hashable {
    /// The shortest wait. It takes precedence over ``cap`` and over the longest wait of a round. Default zero; a
    /// negative value counts as zero.
    public var minimum: Duration = .zero
    /// The longest first wait. Default 200 ms; a negative value counts as zero.
    public var base: Duration = .milliseconds(200)
    /// The factor by which the longest wait grows from round to round. Default 2; a value less than 1 or NaN counts as
    /// 1.
    public var factor: Double = 2
    /// The longest wait of any round, unless ``minimum`` is longer. Default 30 s; a negative value counts as zero.
    public var cap: Duration = .seconds(30)

    /// Creates a back-off. The defaults are: no minimum, base 200 ms, factor 2, cap 30 s.
    public init(
        minimum: Duration = .zero,
        base: Duration = .milliseconds(200),
        factor: Double = 2,
        cap: Duration = .seconds(30)
    ) {
        self.minimum = minimum
        self.base = base
        self.factor = factor
        self.cap = cap
    }

    package func ceiling(round: Int) -> Duration {
        let limit = Double(max(0, cap.clampedNanoseconds))
        var nanoseconds = Double(max(0, base.clampedNanoseconds))
        // Zero does not grow, and zero times infinity is not a number. By squaring, because a round may be any number.
        var (growth, rest) = (max(1, factor), nanoseconds > 0 ? max(0, round) : 0)
        while rest > 0, nanoseconds < limit {
            if rest % 2 == 1 { nanoseconds *= growth }
            growth *= growth
            rest /= 2
        }
        // The limit of 9e18 keeps the value below 2⁶³, even if the cap, as a Double, is not.
        return .nanoseconds(Int64(min(nanoseconds, limit, 9e18)))
    }

    package func waits(round: Int) -> ClosedRange<Int64> {
        let lowest = max(0, minimum.clampedNanoseconds)
        return lowest...max(lowest, ceiling(round: round).clampedNanoseconds)
    }

    /// Retries after a wait that is drawn uniformly from ``minimum`` to the longest wait of the failure's
    /// ``ReconnectFailure/round``. Never gives up.
    public func decision(for failure: ReconnectFailure, random: () -> Double) -> ReconnectDecision {
        let waits = waits(round: failure.round)
        let (lowest, highest) = (Double(waits.lowerBound), Double(waits.upperBound))
        guard lowest < highest else { return .retry(after: .nanoseconds(waits.lowerBound)) }
        // A caller's `random` may return any number. NaN counts as zero.
        let share = min(1, max(0, random()))
        return .retry(after: .nanoseconds(Int64(min(lowest + (highest - lowest) * share, 9e18))))
    }
}
