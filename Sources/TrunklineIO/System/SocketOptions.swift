/// The options for the kernel's probes of the peer on an idle link (SO_KEEPALIVE).
///
/// The heartbeat (``ClientOptions/Liveness``) detects a dead link sooner. In protocols without a ping, only the
/// kernel's probes detect that an idle link is dead.
public struct KeepAliveOptions: Sendable, Hashable {
    /// The time from the last byte to the first probe (TCP_KEEPIDLE; TCP_KEEPALIVE on Darwin). Default 60 s.
    ///
    /// Rounded up to whole seconds and clamped to 1 to 32,767 s. The default is below the time after which NAT gateways
    /// and load balancers usually drop idle connections. The system's default of two hours is above it.
    public var idle: Duration
    /// The time between probes (TCP_KEEPINTVL), rounded up to whole seconds and clamped to 1 to 32,767 s. Default 10 s.
    public var interval: Duration
    /// The number of unanswered probes after which the link is lost (TCP_KEEPCNT), clamped to 1 to 127. Default 3.
    public var count: Int

    /// Creates options that probe after `idle`, then every `interval`, at most `count` times.
    public init(idle: Duration = .seconds(60), interval: Duration = .seconds(10), count: Int = 3) {
        self.idle = idle
        self.interval = interval
        self.count = count
    }
}

/// Options of a TCP socket. Out-of-range values are clamped to what the system accepts.
package struct SocketOptions: Sendable, Hashable {
    /// Whether small segments are sent at once (TCP_NODELAY).
    package var noDelay = true
    /// How the kernel probes the peer on an idle link (SO_KEEPALIVE), or `nil` for never.
    package var keepAlive: KeepAliveOptions? = KeepAliveOptions()
    /// How long written bytes may stay unacknowledged (TCP_USER_TIMEOUT), in whole milliseconds; `nil` for the system's
    /// limit. Linux only.
    package var userTimeout: Duration?
    /// How many bytes that are not yet sent the kernel accepts (TCP_NOTSENT_LOWAT). On Darwin the socket is then not
    /// writable, but a write still fills the send buffer.
    ///
    /// By default it accepts several megabytes on a slow network, and a small request waits for them: 200 ms beside an
    /// upload at 20 MB/s, 11 to 20 ms with this limit. Less would make large bodies cost more on a fast network: with
    /// 128 KiB, 64 KiB bodies took 10 % more processor time.
    package var unsentLimit = 256 * 1024
    /// Whether the socket uses Multipath TCP (RFC 8684), if the system and the server do. Linux only.
    package var multipath = false
    /// Whether the socket exchanges datagrams (UDP). The options above are those of TCP.
    package var isDatagram = false
    /// The address that the socket is bound to before it connects. Its port is ignored.
    package var sourceAddress: SocketAddress?

    package init() {}
}
