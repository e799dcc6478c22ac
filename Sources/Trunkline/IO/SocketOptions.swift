/// Options of a TCP socket. Values that the system does not take are held within what it does.
package struct SocketOptions: Sendable, Hashable {
    /// How the kernel probes an idle peer.
    package struct KeepAlive: Sendable, Hashable {
        /// From the last byte to the first probe (TCP_KEEPIDLE; TCP_KEEPALIVE on Darwin), in whole seconds, 1...32,767.
        package var idle: Duration
        /// From probe to probe (TCP_KEEPINTVL), in whole seconds, 1...32,767.
        package var interval: Duration
        /// How many unanswered probes end the connection (TCP_KEEPCNT), 1...127.
        package var count: Int

        package init(idle: Duration = .seconds(60), interval: Duration = .seconds(10), count: Int = 3) {
            self.idle = idle
            self.interval = interval
            self.count = count
        }
    }

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
