/// Whether a request may be sent again when it fails, by what became of it.
///
/// | The request | `.never` | `.ifUnsent` | `.idempotent` |
/// |---|---|---|---|
/// | waits for the first link | waits | waits | waits |
/// | loses its link before its first byte was written, queued or waiting for its turn | `connectionLost`, `notSent` | goes out on the next link | goes out on the next link |
/// | is queued for a link that takes no new requests any more (`goAway`, another endpoint) | goes out on the next link | goes out on the next link | goes out on the next link |
/// | loses its link (`connectionLost`, `protocolViolation`) after that | fails, `unknown` | fails, `unknown` | is sent again after a back-off |
/// | finds no server within `options.reconnecting.maximumAttempts` (`unavailable`) | fails, `notSent` | fails, `notSent` | waits again after a back-off |
/// | `rejected`, `timedOut`, `cancelled`, `closed`, `overloaded`, `invalidRequest`, `invalidResponse`, `invalidArgument`, `tlsFailed` | fails | fails | fails |
///
/// Whatever the policy, a request has one deadline, counted from the call, and once its caller has given it up it is
/// never sent again. A request that was written once and is given up before it is written again has the fate `unknown`.
@nonexhaustive
public enum RetryPolicy: Sendable, Hashable {
    /// As is said elsewhere: for a call, by `TypedRequest.retry`; for a type of requests, by
    /// `ClientOptions.Requests.retry`; for a client, `.ifUnsent`.
    case `default`

    /// Never: a request belongs to the link that there is when it is made, also while it waits for its turn
    /// (`maximumInFlight`, `highWatermark`), or else to the next one.
    case never

    /// As long as no byte of it was written. Nothing is done twice by it.
    ///
    /// It is no second try: the request keeps its place in the queue, without a back-off and without a token of the
    /// `RetryBudget`, since the server has seen nothing of it.
    case ifUnsent

    /// Also when the server may have carried it out, for requests that do no harm when they are carried out twice.
    ///
    /// - Parameters:
    ///   - attempts: How often it is tried in all, the first time included; less than 1 counts as 1. Default 3.
    ///   - backoff: How long to wait before each further try, with full jitter. Default 50 ms, doubling up to 1 s. A try
    ///     that could not begin before the request's deadline is not made: the request fails at once as it failed last.
    ///
    /// Trying a request again of which something was written takes a token of the client's `RetryBudget`. What was never
    /// written takes none: it is no further load on the server.
    case idempotent(attempts: Int = 3, backoff: Backoff = Backoff(base: .milliseconds(50), cap: .seconds(1)))
}

extension RetryPolicy {
    /// This policy, or `other` where this is the default.
    func or(_ other: RetryPolicy) -> RetryPolicy { if case .default = self { other } else { self } }
}

/// How many requests a client may send again.
///
/// Retries make an overloaded server's load heavier, and they come when it is least able to bear it. So all retries of
/// a client draw on one budget: every request adds a share of a retry to it, time adds some, and what it holds is
/// bounded. A request that is refused a retry fails as it would have without one.
///
/// The defaults for the share and the rate are those of Finagle's `RetryBudget`.
public struct RetryBudget: Sendable, Hashable {
    /// How many retries a request adds. Default 0.2: a fifth of all requests may be retried. From 0 up to 1,000.
    public var share = 0.2
    /// How many retries a second adds. Default 10, so that clients with few requests can retry at all. From 0 up to
    /// 1,000,000.
    public var perSecond = 10.0
    /// The most that is saved up, and so the largest burst. Default 1,000 retries. From 0 up to 1,000,000.
    public var maximumSaved = 1_000
    /// What it begins with. Default 100 retries; held at or below `maximumSaved`.
    public var initial = 100

    /// The defaults.
    public init() {}
}
