/// Decides whether, and after how long, to try again for a link that failed or was lost.
///
/// `Backoff`, the default, waits exponentially longer with full jitter. `FixedRetries` and `RandomDelay` are the
/// policies of older libraries. Write your own as a value:
///
/// ```swift
/// struct Patient: ReconnectPolicy {
///     func decision(for failure: ReconnectFailure, random: () -> Double) -> ReconnectDecision {
///         failure.cause == .closedByServer ? .retry(after: .seconds(60 * random())) : .retry(after: .seconds(1))
///     }
/// }
/// ```
public protocol ReconnectPolicy: Sendable {
    /// Called once every endpoint has had its turn, and after every lost link.
    ///
    /// - Parameter random: Draws evenly from 0 up to 1. Use it and no other source, so that simulations repeat.
    func decision(for failure: ReconnectFailure, random: () -> Double) -> ReconnectDecision
}

/// What a policy goes by.
public struct ReconnectFailure: Sendable, Hashable {
    /// How many waits there were since the last stable link; 0 for the first.
    public var round: Int
    /// How many attempts have failed in a row; 0 when an established link was lost.
    public var failedAttempts: Int
    /// Why the last attempt failed or the link was lost.
    public var cause: DisconnectCause

    /// A situation to try a policy of your own in.
    public init(round: Int, failedAttempts: Int, cause: DisconnectCause) {
        self.round = round
        self.failedAttempts = failedAttempts
        self.cause = cause
    }
}

/// What a policy decides.
public enum ReconnectDecision: Sendable, Hashable {
    /// Try again after this time; zero or less means at once.
    case retry(after: Duration)
    /// Tell those who wait that there is no server. The next request starts over, at the pace of `Backoff()`.
    case giveUp
}
