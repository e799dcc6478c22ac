/// How long to wait before the next attempt to connect: exponential, with full jitter.
///
/// The wait before round *n* (from 0) is drawn evenly from zero to `min(cap, base × factorⁿ)`, the first wait
/// included, so that many clients that lost the same server do not come back together. With a `minimum` it is drawn from
/// there instead of from zero: `Backoff(minimum: .seconds(5), cap: .seconds(5))` always waits 5 s.
public struct Backoff: ReconnectPolicy, Hashable {
    /// No wait is shorter, even where `cap` or the ceiling of a round is. Default zero; less than zero counts as zero.
    public var minimum: Duration = .zero
    /// The longest first wait. Default 200 ms; less than zero counts as zero.
    public var base: Duration = .milliseconds(200)
    /// By how much the longest wait grows from round to round. Default 2; less than 1 counts as 1.
    public var factor: Double = 2
    /// No wait is longer, unless `minimum` is. Default 30 s.
    public var cap: Duration = .seconds(30)

    /// The defaults: no minimum, base 200 ms, factor 2, cap 30 s.
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

    /// The longest wait before round `round`, counted from 0.
    package func ceiling(round: Int) -> Duration {
        let limit = Double(max(0, cap.clampedNanoseconds))
        var nanoseconds = Double(max(0, base.clampedNanoseconds))
        // Nothing grows from zero, and zero times infinity would be no number.
        for _ in 0..<max(0, round) where nanoseconds > 0 && nanoseconds < limit { nanoseconds *= max(1, factor) }
        // Below 2⁶³ even where the cap is not: a Double that large would not fit.
        return .nanoseconds(Int64(min(nanoseconds, limit, 9e18)))
    }

    /// The shortest and the longest wait before round `round`, counted from 0, in nanoseconds.
    package func waits(round: Int) -> ClosedRange<Int64> {
        let lowest = max(0, minimum.clampedNanoseconds)
        return lowest...max(lowest, ceiling(round: round).clampedNanoseconds)
    }

    /// Waits from the minimum up to the ceiling of the failure's round, drawn evenly.
    public func decision(for failure: ReconnectFailure, random: () -> Double) -> ReconnectDecision {
        let waits = waits(round: failure.round)
        let (lowest, highest) = (Double(waits.lowerBound), Double(waits.upperBound))
        guard lowest < highest else { return .retry(after: .nanoseconds(waits.lowerBound)) }
        return .retry(after: .nanoseconds(Int64(min(lowest + (highest - lowest) * random(), 9e18))))
    }
}
