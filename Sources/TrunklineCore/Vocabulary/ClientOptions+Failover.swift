extension ClientOptions {
    /// The options for choosing among endpoints and for replacing links that still work.
    public struct Failover: Sendable {
        /// The share of failed requests at which the client leaves an endpoint.
        public struct ErrorRate: Sendable, Hashable {
            /// The share of failed requests at which the client leaves the endpoint: greater than 0, at most 1. Default
            /// 0.1. With 0 or less, one failed request suffices. With more than 1 or NaN, the client never leaves.
            public var share = 0.1
            /// The minimum number of requests within the window. With fewer, the client stays with the endpoint.
            /// Default 40, at least 1.
            public var minimumRequests = 40
            /// The period over which requests are counted. Default 30 s.
            public var window: Duration = .seconds(30)

            /// Creates an error rate with the default values: 10 % of at least 40 requests within 30 s.
            public init() {}
        }

        /// The order in which endpoints are tried. Default `.ordered`: the first is preferred.
        public var order = EndpointOrder.ordered
        /// The half-life of the client's memory of an endpoint's failure. Default 30 s. With zero, a failure is
        /// forgotten at once.
        ///
        /// An endpoint that failed is tried after the others until the failure is forgotten, three half-lives later.
        public var halfLife: Duration = .seconds(30)
        /// The share of failed requests at which the client leaves the endpoint for the next one, or `nil` for never.
        /// Default: 10 % of at least 40 requests within 30 s.
        ///
        /// Requests that time out or lose their link count as failed; error responses do not. Timeouts while a
        /// `.suspendReading` buffer holds back the responses do not count. If a server answers nothing,
        /// `liveness.maximumStalls` detects this sooner, even with few requests.
        public var errorRate: ErrorRate? = ErrorRate()
        /// How long a draining link, for example after a planned change, may take to finish its requests. Default
        /// 120 s.
        ///
        /// Requests that are still in flight then fail with `connectionLost`, fate `unknown`. Choose it longer than the
        /// longest timeout of a request.
        public var drainTimeout: Duration = .seconds(120)
        /// How long the client uses another endpoint before a planned change returns it to the preferred one. Default
        /// `nil`: the client stays with an endpoint that works.
        ///
        /// If the preferred endpoint has failed recently, or the client gave up the change, the client tries again
        /// after the same time, at least 1 s.
        public var returnsToPreferredAfter: Duration?
        /// The age at which a planned change replaces a link by another one to the same endpoint, counted from when the
        /// link became ready. Default `nil`: no limit. At least 1 ms.
        ///
        /// The age is drawn at random for each link, from 90 to 100 % of this value, so that the clients of a restarted
        /// server do not all reconnect at once. For the new link the client resolves the name again and reads changed
        /// certificates, and a load balancer chooses a server again.
        public var maximumLinkAge: Duration?
        /// Whether two links may exist at the same time, as in a planned change. Default `.allowed`.
        ///
        /// Choose `.never` for servers that refuse a second link of a client, or must not push anything twice.
        public var overlap = LinkOverlap.allowed
        /// Whether the client continues to send requests on a link whose server has announced its shutdown (`goAway`),
        /// until the next link is ready. Default true: no request waits.
        ///
        /// Set it to false for servers that ignore requests after their goAway, as HTTP/2 servers do (RFC 9113 §6.8). A
        /// request that such a server ignores fails when the link ends, fate `unknown`. With false the link drains at
        /// once, and requests wait for the next link. After a response that is marked as the last one on its link
        /// (``Frame/markLinkEnding(_:)``), the link always drains at once.
        public var sendsAfterGoAway = true

        /// Creates options with the default values.
        public init() {}
    }
}
