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

/// Out-of-range values are clamped to what the system accepts.
package struct SocketOptions: Sendable, Hashable {
    package var noDelay = true
    package var keepAlive: KeepAliveOptions? = KeepAliveOptions()
    /// TCP_USER_TIMEOUT in whole milliseconds; `nil` for the system's limit. Linux only.
    package var userTimeout: Duration?
    /// TCP_NOTSENT_LOWAT. By default the kernel accepts megabytes on a slow network, for which a small request waits:
    /// 200 ms beside an upload at 20 MB/s, 11 to 20 ms with this limit. With 128 KiB, 64 KiB bodies took 10 % more
    /// processor time. On Darwin the socket is then not writable, but a write still fills the send buffer.
    var unsentLimit = 256 * 1024
    /// Multipath TCP (RFC 8684), if the system and the server have it. Linux only.
    package var multipath = false
    package var isDatagram = false
    /// Its port is ignored.
    package var sourceAddress: SocketAddress?

    package init() {}
}
