extension ClientOptions {
    /// The options for establishing links.
    ///
    /// The client tries all addresses of a name, following RFC 8305 (Happy Eyeballs version 2): IPv6 first, then the
    /// families alternate. An attempt at one address goes on while the next one starts. The client uses the first
    /// attempt that succeeds and closes the others.
    public struct Connecting: Sendable {
        /// How long an attempt may take, from its start until its link is ready. Default 3 s.
        ///
        /// Name resolution, connecting to any of the addresses, the TLS handshake and `handshake.perform` share this
        /// time. Restoring subscriptions is not counted: it is bounded by `handshake.timeout`. Raise `timeout` for
        /// servers that are far away or slow to accept.
        public var timeout: Duration = .seconds(3)
        /// The delay between the attempt at one address of an endpoint and the attempt at the next. Default 250 ms (RFC
        /// 8305 §8), clamped to 100 ms to 2 s.
        ///
        /// If an attempt fails, the next one starts at once. When every known address has failed, this is also how long
        /// the client waits for addresses of the other family.
        public var attemptDelay: Duration = .milliseconds(250)
        /// How long the client waits for a name's IPv6 addresses when the IPv4 addresses are known first. Default 50 ms
        /// (RFC 8305 §8), clamped to 0 to 2 s.
        public var resolutionDelay: Duration = .milliseconds(50)
        /// Which addresses of a name are used. Default ``AddressFamilies/all``: those of both families.
        ///
        /// The other family is not looked up. Set it on hosts that have no route for a family, or if a server does not
        /// work over one. Endpoints that are addresses are not affected; the name of a ``proxy`` is. In a ``Cluster``
        /// it concerns endpoints that are names; a discovery has a parameter of its own
        /// (``Discovery/dns(_:families:)``).
        public var addressFamilies = AddressFamilies.all
        /// The IP address (not a name) to connect from, with a zone if it needs one: `fe80::1%eth0`. Default `nil`: the
        /// system chooses.
        ///
        /// The server's addresses of the other family are skipped. An invalid or unusable address fails every attempt
        /// with `TransportError.Code.invalidAddress`:
        ///
        /// - Text that is not an IP address, a server without an address of its family, or a name and
        ///   ``addressFamilies`` without its family, is a permanent failure: callers receive `unavailable` at once.
        /// - An address that is not one of this host's is not permanent, because an interface may come up.
        public var sourceAddress: String?
        /// Whether small segments are sent at once (TCP_NODELAY). Default true.
        ///
        /// The client already writes requests in batches, so Nagle's algorithm would only add delay.
        public var noDelay = true
        /// How the kernel probes the server on an idle link (SO_KEEPALIVE), or `nil` for never. Default: after 60 s,
        /// then every 10 s, three times. With ``ClientOptions/Liveness-swift.struct/adaptiveInterval`` the first probe
        /// comes after the upper bound of that range at the earliest.
        public var keepAlive: KeepAliveOptions? = KeepAliveOptions()
        /// How long written bytes may stay unacknowledged, or the server's receive window may stay full, before the
        /// link is lost (TCP_USER_TIMEOUT, RFC 5482). Default 30 s; rounded up to whole milliseconds.
        ///
        /// `nil` uses the system's limit, about 15 minutes on Linux. Ignored on systems other than Linux.
        ///
        /// The default allows about seven retransmissions. It outlasts a route that changes or a Wi-Fi client that
        /// roams, and it is shorter than a heartbeat's interval plus deadline. Raise it for a server that intentionally
        /// stops reading for longer.
        public var userTimeout: Duration? = .seconds(30)

        /// The size in bytes of the largest datagram that is sent to a `udp://` endpoint. Default 1,232, clamped to 1
        /// to 65,507 (9,216 on Darwin).
        ///
        /// A request that does not fit fails with `invalidRequest`, fate `notSent`. The default is what the smallest
        /// packet of IPv6 (1,280 bytes, RFC 8200 §5) leaves, so that no datagram is cut into fragments, of which
        /// networks lose many: DNS servers use the same value (RFC 9715 §3). Larger datagrams are received, whatever
        /// this value is.
        public var maximumDatagramSize = 1_232

        /// Whether links use Multipath TCP (RFC 8684), if the server does: a link survives the loss of a path, and may
        /// use several. Default false. Linux 5.6 or later; ignored on other systems.
        ///
        /// A link to a server without it, through a device that does not let it pass, or with the kernel's
        /// `net.mptcp.enabled` off, is one of TCP. ``TCPInformation/subflows`` says what is in use. Which addresses are
        /// paths is configured in the system (`ip mptcp`). The kernel does not support ``userTimeout`` for it: a link
        /// whose server does not answer is lost by the heartbeat.
        public var multipath = false
        /// The proxy through which links reach their servers. Default `nil`: they connect directly.
        ///
        /// If the proxy cannot be reached or refuses, the attempt fails with
        /// ``TransportError/Code-swift.enum/proxy(_:)``, which says why, and the cause ``DisconnectCause/proxy``; if
        /// nothing answers in time, with `timedOut`. If the proxy refuses the credentials or does not allow the
        /// connection, the failure is permanent: callers receive `unavailable` at once.
        ///
        /// Look-ups, `attemptDelay`, `sourceAddress` and the options of the socket apply to the connection to the
        /// proxy, and `timeout` to everything together. Reports and ``ClientDiagnostics/path`` have the addresses of
        /// that connection.
        public var proxy: Proxy?
        /// The version of the header of the PROXY protocol that each link sends first, before TLS, or `nil`, the
        /// default, for none.
        ///
        /// The header tells a load balancer or a server that expects one the addresses of the link. If the link goes
        /// through ``proxy``, or to a Unix domain socket, these are unknown: the header says so. A server that does not
        /// expect a header usually closes the connection.
        public var proxyHeader: ProxyHeader?

        /// Creates options with the default values.
        public init() {}

        var sizeOfLargestDatagram: Int { min(max(maximumDatagramSize, 1), largestDatagram) }
    }
}
