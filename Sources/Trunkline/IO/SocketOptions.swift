/// Options of a TCP socket. Values that the system does not take are held within what it does.
package struct SocketOptions: Sendable, Hashable {
    package typealias KeepAlive = ClientOptions.Connecting.KeepAlive

    /// Sends small segments at once (TCP_NODELAY).
    package var noDelay = true
    /// The kernel probes an idle peer (SO_KEEPALIVE); `nil` for never.
    package var keepAlive: KeepAlive? = KeepAlive()
    /// How long written bytes may stay unacknowledged (TCP_USER_TIMEOUT), in milliseconds; `nil` for as long as the system
    /// sees fit. Linux only.
    package var userTimeout: Duration?
    /// What the socket is bound to before it connects; its port is ignored.
    package var sourceAddress: SocketAddress?

    package init() {}
}
