/// A rule that decides whether and when the client tries again after failed attempts or a lost link.
///
/// The default is ``Backoff``, which waits exponentially longer with full jitter. <doc:StayingConnected> has its
/// settings for other policies, such as a constant wait. Without a policy
/// (``ClientOptions/Reconnecting-swift.struct/policy`` is `nil`), links are not replaced. To write a policy, conform a
/// value type:
///
/// ```swift
/// struct Patient: ReconnectPolicy {
///     func decision(for failure: ReconnectFailure, random: () -> Double) -> ReconnectDecision {
///         failure.cause == .closedByServer ? .retry(after: .seconds(60 * random())) : .retry(after: .seconds(1))
///     }
/// }
/// ```
public protocol ReconnectPolicy: Sendable {
    /// Returns whether to try again and how long to wait before that.
    ///
    /// The client calls this on its event loop each time every endpoint has been tried, and after every lost link. It
    /// must return quickly and must not block. If it enters its client or connection with `assumeIsolated`, the program
    /// may end.
    ///
    /// If a request waits after the server has closed a link that worked, the delay may be shorter than this decision:
    /// see <doc:StayingConnected>.
    ///
    /// - Parameters:
    ///   - failure: The situation: the number of waits and failed attempts so far, and the cause.
    ///   - random: Returns a number drawn uniformly from 0 up to, but not including, 1. Use no other source of
    ///     randomness, so that simulations are reproducible.
    /// - Returns: The decision. With a delay of zero or less, the client tries again at once.
    func decision(for failure: ReconnectFailure, random: () -> Double) -> ReconnectDecision
}

/// The situation in which a ``ReconnectPolicy`` decides.
public struct ReconnectFailure: Sendable, Hashable {
    /// The number of waits since the last link that did useful work or was stable. 0 for the first wait.
    public var round: Int
    /// The number of attempts in a row that failed or led to a link that did no work (see
    /// ``ClientOptions/Reconnecting-swift.struct/stableAfter``). 0 after a link that did work.
    public var failedAttempts: Int
    /// Why the last attempt failed or the link was lost.
    public var cause: DisconnectCause

    /// Creates a value for tests of a policy.
    public init(round: Int, failedAttempts: Int, cause: DisconnectCause) {
        self.round = round
        self.failedAttempts = failedAttempts
        self.cause = cause
    }
}

/// The decision of a ``ReconnectPolicy``.
@nonexhaustive
public enum ReconnectDecision: Sendable, Hashable {
    /// Try again after this time, or at once if it is zero or negative.
    case retry(after: Duration)
    /// Give up: the callers that wait for a link fail with ``ClientError/Code-swift.enum/unavailable``. The next
    /// request starts over, at the pace of `Backoff()`.
    case giveUp
}
