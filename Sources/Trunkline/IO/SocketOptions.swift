/// How the kernel probes a server that is quiet. With a heartbeat (`ClientOptions.Liveness`) it is the second line.
public struct KeepAliveOptions: Sendable, Hashable {
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

/// Options of a TCP socket. Values that the system does not take are held within what it does.
package struct SocketOptions: Sendable, Hashable {
    /// Sends small segments at once (TCP_NODELAY).
    package var noDelay = true
    /// The kernel probes an idle peer (SO_KEEPALIVE); `nil` for never.
    package var keepAlive: KeepAliveOptions? = KeepAliveOptions()
    /// How long written bytes may stay unacknowledged (TCP_USER_TIMEOUT), in milliseconds; `nil` for as long as the system
    /// sees fit. Linux only.
    package var userTimeout: Duration?
    /// What the socket is bound to before it connects; its port is ignored.
    package var sourceAddress: SocketAddress?

    package init() {}
}
