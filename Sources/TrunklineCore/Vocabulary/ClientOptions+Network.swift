extension ClientOptions {
    /// The options for reacting to changes of the host's network: its interfaces, addresses and routes.
    ///
    /// - If an attempt has failed and no route leads to any endpoint, attempts pause
    ///   (``ConnectionState/noNetwork(cause:)``). They resume within about 100 ms of a new route.
    /// - If the local address of a link is removed, or its interface goes down, the link is lost at once
    ///   (``DisconnectCause/pathLost``) and replaced.
    /// - If the route of a link changes, or the machine wakes up, ``onRouteChange`` decides what happens.
    ///
    /// Loopback addresses and Unix domain sockets are not affected. See <doc:StayingConnected>.
    public struct Network: Sendable {
        /// Whether the client follows changes of the network. Default true.
        ///
        /// One monitor serves the whole process: netlink(7) on Linux, `NWPathMonitor` on Darwin (not tested there). It
        /// needs no privilege. If the system does not allow it, the client writes one line to standard error, and every
        /// path is `unknown`. Then only TCP and `options.liveness` detect broken links.
        public var isMonitored = true
        /// What the client does with a link when its route changes or the machine wakes up. Default `.probe`.
        ///
        /// This option does not change the other two rules of ``ClientOptions/Network-swift.struct``: attempts pause
        /// while there is no route, and a link whose local address is removed is lost.
        public var onRouteChange = RouteChangePolicy.probe

        /// Creates options with the default values.
        public init() {}
    }
}
