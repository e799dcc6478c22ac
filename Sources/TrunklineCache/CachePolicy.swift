/// Whether a call may return a cached response, and how old that response may be.
///
/// ```swift
/// let rates = try await cached.send(getRates, cache: .for(.seconds(60)))
/// ```
///
/// Calls that send the same request at the same time are coalesced into one request: see
/// ``CachingSender/send(_:cache:timeout:options:)-(Request,_,_,_)``. Its response is cached for later calls with any
/// policy. Errors, error responses, malformed responses and responses that the codec forbids
/// (``CachingCodec/mayCache(_:)``) are not cached. The age of a response counts from its receipt. <doc:Caching>
/// compares the policies.
public struct CachePolicy: Sendable, Hashable {
    enum Age: Sendable, Hashable {
        case none, any
        case below(Duration)

        func admits(_ age: Duration) -> Bool {
            switch self {
            case .none: false
            case .any: true
            // Negative if the response was received after its caller read the clock.
            case .below(let limit): max(.zero, age) < limit
            }
        }
    }

    /// The age up to which a response is returned without a request.
    var fresh: Age
    /// The age up to which a response is returned if the server cannot be reached.
    var stale = Age.none
    var asks = true
    /// Whether the call may return a response that the server may have given before this call.
    var joins = true
    var key: CacheKey?

    /// Returns a cached response that is younger than `age`; otherwise sends the request.
    ///
    /// If `age` is zero or negative, every call sends the request, but calls at the same time share one.
    public static func `for`(_ age: Duration) -> CachePolicy { CachePolicy(fresh: .below(age)) }

    /// Sends the request even if a response is cached. The returned response is not older than the call.
    ///
    /// The call joins a coalesced request only if the sender does not have that request yet, as when many callers
    /// reload at once. Otherwise it sends its own request, which later calls join, and the response to the older
    /// request is not cached.
    public static let reloadIgnoringCache = CachePolicy(fresh: .none, joins: false)

    /// Returns a cached response of any age and never sends a request. Without one, the call fails with `notCached`,
    /// fate `notSent`.
    public static let returnCacheElseFail = CachePolicy(fresh: .any, asks: false)

    /// Sends the request, and returns a cached response of any age if the server cannot be reached.
    ///
    /// The server counts as unreachable if the call fails with `unavailable`, `timedOut`, `connectionLost` or
    /// `tlsFailed`. All other errors are thrown, in particular `rejected`, because then the server was reached and
    /// answered. Without a link, a call waits until its timeout, unless its options have `waitsForReady: false`.
    public static let staleIfUnavailable = CachePolicy(fresh: .none, stale: .any)

    /// Returns a cached response that is younger than `age`; otherwise sends the request, and returns an older response
    /// if the server cannot be reached.
    ///
    /// See ``CachePolicy/staleIfUnavailable`` for when the server counts as unreachable.
    ///
    /// - Parameters:
    ///   - age: The age below which a response is returned without a request.
    ///   - limit: The age below which a response is returned if the server cannot be reached; `nil` for any age.
    public static func staleIfUnavailable(freshFor age: Duration, upTo limit: Duration? = nil) -> CachePolicy {
        CachePolicy(fresh: .below(age), stale: limit.map { .below($0) } ?? .any)
    }

    /// Returns the same policy with a custom key instead of the whole request.
    ///
    /// Calls with equal keys get each other's responses, so use it only for requests with the same meaning.
    ///
    /// - Parameter key: The key.
    public func keyed(by key: CacheKey) -> CachePolicy {
        var policy = self
        policy.key = key
        return policy
    }
}
