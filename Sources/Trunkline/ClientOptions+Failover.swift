extension ClientOptions {
    /// Going from one endpoint to another.
    public struct Failover: Sendable {
        /// A share of failed requests from which on an endpoint is left.
        public struct ErrorRate: Sendable, Hashable {
            /// The share, above 0 up to 1. Default 0.1.
            public var share = 0.1
            /// Fewer requests than this within the window say nothing. Default 40, at least 1.
            public var minimumRequests = 40
            /// How far back it looks. Default 30 s.
            public var window: Duration = .seconds(30)

            /// The defaults: a tenth of at least 40 requests within 30 s.
            public init() {}
        }

        /// The order in which endpoints are tried.
        public enum Order: Sendable, Hashable {
            /// As given: the first is preferred.
            case ordered
            /// In an order of each client's own, drawn once.
            case shuffled
            /// Drawn once, the heavier (`Endpoint.weight`) the likelier to come early.
            case weighted
        }

        /// The order in which endpoints are tried. Default `.ordered`.
        public var order = Order.ordered
        /// An endpoint that failed is tried after those that did not, until its failure is forgotten: after three of
        /// these. Default 30 s; zero forgets at once.
        public var halfLife: Duration = .seconds(30)
        /// From which share of requests failed by timeout or connection loss (not by the server's status) the endpoint is
        /// left for the next one; `nil` for never. Default: 10 % of at least 40 within 30 s. Timeouts while a `.suspendReading`
        /// keeps the answers do not count. A server that answers nothing at all is left sooner, and by clients that ask little:
        /// see `liveness.maximumStalls`.
        public var errorRate: ErrorRate? = ErrorRate()
        /// How long a link that is left (a switch, `goAway`) may see its requests off. Those that are still under way then
        /// are lost, fate `unknown`: longer than the longest timeout of a request. Default 120 s.
        public var drainTimeout: Duration = .seconds(120)
        /// How long to stay away from a preferred endpoint before it is returned to, with the old link drained; `nil`,
        /// the default, to stay where it works.
        public var returnsToPreferredAfter: Duration?
    }
}
