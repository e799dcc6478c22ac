/// Decides whether, and after how long, to try again for a link that failed or was lost.
///
/// `Backoff`, the default, waits exponentially longer with full jitter; the article Connecting has its settings for
/// the policies of older libraries. without any, links are not replaced. Write your own as a value:
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
    /// A request that waits after a link that worked and was closed by the server in order shortens the delay: see
    /// the article Connecting.
    ///
    /// - Parameter random: Draws evenly from 0 up to 1. Use it and no other source, so that simulations repeat.
    func decision(for failure: ReconnectFailure, random: () -> Double) -> ReconnectDecision
}

/// What a policy goes by.
public struct ReconnectFailure: Sendable, Hashable {
    /// The number of waits since the last link that did useful work or was stable; 0 for the first.
    public var round: Int
    /// The number of attempts in a row that failed or led to a link that did no work; 0 after a link that worked.
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
@nonexhaustive
public enum ReconnectDecision: Sendable, Hashable {
    /// Try again after this time; zero or less means at once.
    case retry(after: Duration)
    /// Tell those who wait that there is no server. The next request starts over, at the pace of `Backoff()`.
    case giveUp
}
