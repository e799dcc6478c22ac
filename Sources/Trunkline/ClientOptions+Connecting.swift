extension ClientOptions {
    /// Establishing links.
    ///
    /// All addresses of a name are used, as RFC 8305 (Happy Eyeballs version 2) says: IPv6 first, then the families take
    /// turns; an attempt that takes long goes on while the next one starts; the first that succeeds wins.
    public struct Connecting: Sendable {
        /// How the kernel probes a server that is quiet. With a heartbeat (`ClientOptions.Liveness`) it is the second line.
        public struct KeepAlive: Sendable, Hashable {
            /// From the last byte to the first probe (TCP_KEEPIDLE; on Darwin TCP_KEEPALIVE), in whole seconds, held within
            /// 1 and 32,767. Default 60 s, below what NAT gateways and load balancers forget quiet connections after; the
            /// system's own two hours are above it.
            public var idle: Duration
            /// From probe to probe (TCP_KEEPINTVL), in whole seconds, held within 1 and 32,767. Default 10 s.
            public var interval: Duration
            /// After how many unanswered probes the link is lost (TCP_KEEPCNT), held within 1 and 127. Default 3.
            public var count: Int

            /// First after `idle`, then every `interval`, `count` times.
            public init(idle: Duration = .seconds(60), interval: Duration = .seconds(10), count: Int = 3) {
                self.idle = idle
                self.interval = interval
                self.count = count
            }
        }

        /// From the start of an attempt at an endpoint until its link is ready, or begins to restore subscriptions, which
        /// has a bound of its own (`handshake.timeout`). Name resolution and all addresses share it. Default 3 s.
        public var timeout: Duration = .seconds(3)
        /// From the attempt at one address of an endpoint to the attempt at its next; one that fails is followed at once.
        /// Held within 100 ms and 2 s. Default 250 ms (RFC 8305 §8).
        public var attemptDelay: Duration = .milliseconds(250)
        /// For how long IPv6 addresses are waited for when a name's IPv4 addresses are known first. Held within 0 and 2 s.
        /// Default 50 ms (RFC 8305 §8).
        public var resolutionDelay: Duration = .milliseconds(50)
        /// The IP address (not a name) to connect from; `nil`, the default, lets the system choose. A server's addresses of
        /// the other family are skipped. Every attempt fails with `TransportError.Code.invalidAddress` when it is no IP
        /// address, or none of this host. The former is a permanent cause, as is a server without an address of its family:
        /// callers are told `unavailable` at once. The latter is not: an interface may come up.
        public var sourceAddress: String?
        /// Sends small segments at once (TCP_NODELAY). Default true.
        public var noDelay = true
        /// Lets the kernel probe a server that is quiet (SO_KEEPALIVE); `nil` for never. Default: after 60 s, every 10 s,
        /// three times.
        public var keepAlive: KeepAlive? = KeepAlive()
        /// For how long bytes that were written may stay unacknowledged, or the server's full receive window may stay shut,
        /// before the link is lost (TCP_USER_TIMEOUT), in milliseconds; `nil` for as long as the system sees fit, which
        /// is about 15 minutes on Linux. Ignored on other systems.
        ///
        /// Default 30 s: some seven retransmissions, which outlasts a route that changes or a Wi-Fi that roams, and yet less
        /// than a heartbeat's interval and deadline. Raise it for a server that stops reading for longer on purpose.
        public var userTimeout: Duration? = .seconds(30)

        /// The defaults.
        public init() {}
    }
}
