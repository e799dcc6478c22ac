/// Whether a call may be answered by a response that came before, and whether its own is kept.
///
/// ```swift
/// let rates = try await client.send(getRates, cache: .for(.seconds(60)))
/// ```
///
/// | Policy | a response is there | there is none, or it is too old |
/// |---|---|---|
/// | `.for(.seconds(60))` | is returned if it is younger than that | asks the server |
/// | `.reloadIgnoringCache` | asks the server | asks the server |
/// | `.returnCacheElseFail` | is returned, whatever its age | fails with `notCached`, fate `notSent` |
/// | `.staleIfUnavailable` | asks the server, and is returned if that cannot be reached | asks the server |
/// | `.staleIfUnavailable(freshFor: .seconds(60))` | as `.for`, and then as `.staleIfUnavailable` | asks the server |
///
/// Calls that ask the server are coalesced into one request: see `Client.send(_:cache:timeout:options:)`.
/// What it brings is kept for later calls, whatever their policies, unless it is an error, an error response or
/// malformed, or the codec forbids it (`CachingCodec.mayCache(_:)`). A response's age counts from when it was received.
/// See the article <doc:Caching>.
public struct CachePolicy: Sendable, Hashable {
    /// How old a response may be.
    enum Age: Sendable, Hashable {
        case none, any
        case below(Duration)

        func admits(_ age: Duration) -> Bool {
            switch self {
            case .none: false
            case .any: true
            // Below zero when it was received after its caller had looked at the clock.
            case .below(let limit): max(.zero, age) < limit
            }
        }
    }

    /// What is returned instead of asking.
    var fresh: Age
    /// What is returned when the server cannot be reached.
    var stale = Age.none
    /// Whether the server may be asked.
    var asks = true
    /// Whether an answer will do that the server may have given before this call.
    var joins = true
    /// Instead of the request's own.
    var key: CacheKey?

    /// Returns a response that is younger than `age`, else asks the server. At zero or below it always asks, and shares
    /// what others are asking.
    public static func `for`(_ age: Duration) -> CachePolicy { CachePolicy(fresh: .below(age)) }

    /// Asks the server, whatever is there: what it returns is no older than the call. So it joins only a coalesced
    /// request that has not been written yet; later calls join its own, and what was asked before is not kept.
    public static let reloadIgnoringCache = CachePolicy(fresh: .none, joins: false)

    /// Returns a response of any age, and never asks the server: without one it fails with `notCached`, fate `notSent`.
    public static let returnCacheElseFail = CachePolicy(fresh: .any, asks: false)

    /// Asks the server, and returns a response of any age if that cannot be reached.
    ///
    /// That is for the codes `unavailable`, `timedOut`, `connectionLost` and `tlsFailed`; every other error is thrown, above
    /// all `rejected`: then the server was reached, and has said no. Without a link a call waits until its timeout unless
    /// it says `waitsForReady: false`.
    public static let staleIfUnavailable = CachePolicy(fresh: .none, stale: .any)

    /// Returns a response that is younger than `age`, else asks the server, and returns one that is younger than `limit`, or
    /// of any age without it, if that cannot be reached: see `staleIfUnavailable`.
    public static func staleIfUnavailable(freshFor age: Duration, upTo limit: Duration? = nil) -> CachePolicy {
        CachePolicy(fresh: .below(age), stale: limit.map { .below($0) } ?? .any)
    }

    /// The same policy with a key of your own instead of the whole request.
    ///
    /// Calls with equal keys get each other's responses: it is for you to see that they want the same.
    public func keyed(by key: CacheKey) -> CachePolicy {
        var policy = self
        policy.key = key
        return policy
    }
}
