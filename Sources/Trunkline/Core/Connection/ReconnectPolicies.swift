/// Waits the same time between attempts, and gives up after a number of them.
public struct FixedRetries: ReconnectPolicy, Hashable {
    /// How many attempts may fail in a row, beyond the first, before it gives up. A link that is ready begins anew.
    public var count: Int
    /// The wait before each. Not jittered: clients that lost the same server come back together.
    public var delay: Duration

    /// Tries `count` times more, each after `delay`.
    public init(count: Int, delay: Duration) {
        self.count = count
        self.delay = delay
    }

    /// Retries until `count` is used up.
    public func decision(for failure: ReconnectFailure, random: () -> Double) -> ReconnectDecision {
        failure.failedAttempts <= count ? .retry(after: delay) : .giveUp
    }
}

/// Waits for a time drawn evenly from a range, as in `RandomDelay(.seconds(1.5) ... .seconds(11.5))`, and never gives
/// up.
public struct RandomDelay: ReconnectPolicy, Hashable {
    /// What is drawn from.
    public var range: ClosedRange<Duration>

    /// Draws from `range`.
    public init(_ range: ClosedRange<Duration>) { self.range = range }

    /// Retries after a time drawn from the range.
    public func decision(for failure: ReconnectFailure, random: () -> Double) -> ReconnectDecision {
        let (lower, upper) = (range.lowerBound.clampedNanoseconds, range.upperBound.clampedNanoseconds)
        let nanoseconds = Double(lower) + (Double(upper) - Double(lower)) * random()
        return .retry(after: .nanoseconds(Int64(max(0, min(nanoseconds, 9e18)))))
    }
}

/// Does not replace a link that failed or was lost. The next request connects anew.
public struct NoRetries: ReconnectPolicy, Hashable {
    /// Never tries again by itself.
    public init() {}

    /// Gives up.
    public func decision(for failure: ReconnectFailure, random: () -> Double) -> ReconnectDecision { .giveUp }
}

extension ReconnectPolicy where Self == NoRetries {
    /// Does not replace a link that failed or was lost. The next request connects anew.
    public static var never: NoRetries { NoRetries() }
}
