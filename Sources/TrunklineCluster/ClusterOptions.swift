public import TrunklineCore

/// The options of a cluster that its clients do not have. The defaults suit a few to a few dozen servers.
///
/// ```swift
/// let cluster = Cluster(discovering: .dns("orders.svc:7000"), speaking: acme) {
///     $0.balancing = .roundRobin
///     $0.linksPerEndpoint = 1...4
/// }
/// ```
///
/// Values outside the range that an option names count as the nearest one within it.
public struct ClusterOptions: Sendable {
    /// How the server of a request without a key is chosen: `.leastLoaded`, the default, `.roundRobin`, or a policy of
    /// your own.
    public var balancing: any BalancingPolicy = .leastLoaded

    /// The number of links to each server. Default 1. At least 1, at most 64.
    ///
    /// A cluster begins with the lower bound. It adds a link, up to the upper bound, when all links to a server have
    /// reached ``ClientOptions/Requests/maximumInFlight``, and closes a link that had no request for
    /// ``linkIdleTime``. The links are spread over the event loops.
    public var linksPerEndpoint: ClosedRange<Int> = 1...1

    /// The largest number of further links to each server, for requests with ``CallOptions/isLarge``. Default 1. At
    /// least 0, at most 64.
    ///
    /// Without them, a large request or response delays the small ones behind it on its link. The first one is added by
    /// the first large request to a server, which itself uses an ordinary link, and another one when all of them are in
    /// use. A link that had no request for ``linkIdleTime`` is closed. With 0, large requests use the ordinary links.
    public var largeLinks = 1

    /// How long a link above the lower bound of ``linksPerEndpoint``, or one of ``largeLinks``, may be without a
    /// request before it is closed. Default 60 s, at least 1 s.
    public var linkIdleTime: Duration = .seconds(60)

    /// The largest number of servers that this cluster uses; `nil` for all. Default 1,000. At least 1.
    ///
    /// With hundreds of servers and clients, links between all of them are a burden. The subset is chosen at random for
    /// each cluster (rendezvous hashing, as in gRFC A68), so that every server is in about equally many subsets, and a
    /// server that appears or disappears changes at most one member. The event `servers.subset` says once that the list
    /// is larger.
    public var subset: Int? = 1000

    /// The zone of this process. Default `nil`: zones do not matter.
    ///
    /// Servers of this zone are preferred while at least 5 of 7 of them are ready. With fewer, a growing share of the
    /// requests goes to the other zones (Envoy's priority levels, with its overprovisioning factor of 1.4).
    public var zone: String?

    /// How long the share of a server grows, from a tenth to the whole, after it was added, was connected again, or has
    /// returned from an ejection. Default 10 s. With zero, it has its whole share at once. Of the keys, a growing part
    /// goes to it.
    public var slowStart: Duration = .seconds(10)

    /// When a server that fails is left out; `nil` for never.
    public var ejection: Ejection? = Ejection()

    /// The largest share of requests of which a second copy is sent (``Hedge``). Default 0.05. Clamped to 0...1.
    public var hedgeBudget = 0.05

    /// The bounds of an adaptive limit of requests in flight to each server; `nil` for none, the default.
    ///
    /// The limit begins at the lower bound, grows by one for every round of successful requests that used at least half
    /// of it, and shrinks by a tenth, at most once in 100 ms, when a request times out or ``isOverload`` says so. It
    /// applies to all links of a server together. When all servers have reached their limits, requests wait in the
    /// cluster.
    public var adaptiveLimit: ClosedRange<Int>?

    /// Whether an error response means that the server has failed, for ``ejection`` and ``balancing``. Default: none
    /// does; then error responses count only if the server has far more of them than the others
    /// (``Ejection-swift.struct/bySuccessRate``). Called on the task of each caller that receives an error response.
    public var isFailure: (@Sendable (Response) -> Bool)?

    /// Whether an error response means that the server is overloaded, for ``adaptiveLimit``. Default: none does.
    public var isOverload: (@Sendable (Response) -> Bool)?

    /// How long a server that was removed may take to finish its requests. Default 120 s.
    public var drainTimeout: Duration = .seconds(120)

    /// Creates options with the default values.
    public init() {}
}

extension ClusterOptions {
    /// When a server that fails is left out. The defaults are those of Envoy's outlier detection and gRFC A50.
    ///
    /// An ejected server receives no requests for ``baseTime``, times the number of ejections in a row, at most
    /// ``maximumTime``, with a random part of a tenth. Then it receives one request, within the first 5 s one that may
    /// be performed twice. If that succeeds, or if no request has failed for 10 s, the server returns, with a slow
    /// start. At most half of the servers are ejected at the same time (``maximumShare``), and never the last one that
    /// is ready. If more than half are ejected or not ready, ejection is suspended, and all ready servers are used;
    /// with a ``ClusterOptions/zone`` only if the good servers of this zone and those of the others together are too
    /// few. Addresses to which this host has no route do not count.
    ///
    /// A comparison with the other servers (``bySuccessRate``, ``byLatency``) may be wrong, for example if servers have
    /// different work. It ejects at most a tenth of the servers, at least one, as in Envoy and gRFC A50.
    public struct Ejection: Sendable, Hashable {
        /// The number of failures in a row after which a server is ejected; `nil` for any. Default 5. At least 1.
        public var consecutiveFailures: Int? = 5
        /// Whether servers are ejected whose share of successful requests is far below that of the others: by more than
        /// 1.9 standard deviations and 5 percentage points, among at least five servers with 100 requests in 10 s each.
        /// And servers whose share of requests that failed or were answered with an error, whatever that means, is at
        /// least 50 percentage points above the median, among at least three servers with 20 requests in 10 s each.
        /// Default true.
        public var bySuccessRate = true
        /// Whether servers are ejected whose mean latency is more than five times the median of all servers, and at
        /// least 10 ms longer, among at least three servers with 20 responses in 10 s each. Default true.
        public var byLatency = true
        /// The largest share of the servers that are ejected at the same time, at least one of two or more. Default
        /// 0.5. Clamped to 0...0.5. With 0, no server is ejected.
        public var maximumShare = 0.5
        /// The duration of the first ejection. Default 30 s, at least 1 s.
        public var baseTime: Duration = .seconds(30)
        /// The longest duration of an ejection. Default 5 min.
        public var maximumTime: Duration = .seconds(300)

        /// Creates options with the default values.
        public init() {}
    }
}
