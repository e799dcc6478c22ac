/// The rule that decides whether a failed request is sent again. <doc:Requests#Retries> has a table of all cases.
///
/// With every policy, a request has one deadline, which counts from the call. After it was cancelled, or its deadline
/// has passed, it is never sent again. If a request was written once and ends before it is written again, its fate is
/// ``ClientError/Fate-swift.enum/unknown``.
///
/// A request with ``CallOptions/waitsForReady`` set to false does not wait for a link: it is not retried after
/// `unavailable`.
@nonexhaustive
public enum RetryPolicy: Sendable, Hashable {
    /// The policy that is set one level higher. In the options of a call, this is ``TypedRequest/retry``. In a request
    /// type, it is ``ClientOptions/Requests-swift.struct/retry``. In the options of a client, it is ``ifUnsent``.
    case `default`

    /// Never sends a request again.
    ///
    /// The request is bound to the link that exists when the client accepts it, even while it waits for its turn
    /// (``ClientOptions/Requests-swift.struct/maximumInFlight``,
    /// ``ClientOptions/Outbound-swift.struct/highWatermark``). If there is no link at that time, it is bound to the
    /// next one.
    ///
    /// In a ``Cluster``, a request of which no byte was written goes to another server, as with ``ifUnsent``.
    case never

    /// Sends a request again only if no byte of it was written. So the server never performs it twice.
    ///
    /// The server has received nothing of the request, so this does not count as a retry. The request keeps its place
    /// in the queue, without a back-off and without a token of the ``RetryBudget``.
    case ifUnsent

    // Indirect, so that `CallOptions` is small: every suspended call keeps one.
    /// Sends a request again even if the server may have performed it. Use this only for requests that can safely be
    /// performed twice.
    ///
    /// A retry of a request that was partly or completely written takes a token of the client's ``RetryBudget``. A
    /// retry of a request that was never written takes none, because it adds no load to the server.
    ///
    /// - Parameters:
    ///   - tries: The maximum number of tries, including the first. Less than 1 counts as 1. Default 3.
    ///   - backoff: How long to wait before each further try, with full jitter. Default 50 ms, doubling up to 1 s. If
    ///     the next try could not begin before the request's deadline, the request fails at once with its last error.
    indirect case idempotent(tries: Int = 3, backoff: Backoff = Backoff(base: .milliseconds(50), cap: .seconds(1)))
}

extension RetryPolicy {
    package func or(_ other: RetryPolicy) -> RetryPolicy { if case .default = self { other } else { self } }
}

/// The budget that limits the retries of a client.
///
/// Retries increase the load of a server that is overloaded already. So all retries of a client use one budget: every
/// request adds a fraction of a retry to it, every second adds more, and its balance is limited. If the budget does not
/// allow a retry, the request fails with the error of its last try.
///
/// The default share and rate are those of Finagle's `RetryBudget`.
public struct RetryBudget: Sendable, Hashable {
    /// The number of retries that each request adds. Default 0.2: a fifth of all requests may be retried. Clamped to
    /// 0...1,000; NaN counts as 0.
    public var share = 0.2
    /// The number of retries that each second adds. Default 10, so that clients with few requests can retry at all.
    /// Clamped to 0...1,000,000; NaN counts as 0.
    public var perSecond = 10.0
    /// The maximum balance, and so the largest burst of retries. Default 1,000. Clamped to 0...1,000,000.
    public var maximumSaved = 1_000
    /// The initial balance. Default 100 retries. Clamped to 0...``maximumSaved``.
    public var initial = 100

    /// Creates a budget with the defaults.
    public init() {}
}
