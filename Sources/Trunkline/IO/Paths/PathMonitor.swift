/// Sees changes of the host's network, and says which path leads to an address: one for the process, and one for each
/// simulated network.
package protocol PathMonitor: AnyObject, Sendable {
    /// Tells `observer` of every change from now on, on `loop`, until it is gone. It is held weakly. To be called on `loop`.
    ///
    /// Returns false when changes cannot be seen: `path` knows nothing then.
    func add(_ observer: any PathObserver, on loop: any EventLoop) -> Bool

    /// The path that a new socket to `address` takes now; with `source`, a socket that is bound to that address. May be called
    /// on any thread, and takes microseconds.
    func path(to address: SocketAddress, from source: SocketAddress?) -> NetworkPath

    /// Whether `address`, whose port does not count, is an address of this host on an interface that is up. True where that is
    /// not known.
    func isUsable(_ address: SocketAddress) -> Bool

    /// Whether an interface other than the loopback is up and has an address. True where that is not known.
    var hasNetwork: Bool { get }
}

/// Hears of changes of the network.
package protocol PathObserver: AnyObject, Sendable {
    /// Called on the loop that was given to `add`.
    func networkChanged(_ change: NetworkChange)
}

/// What has happened to the host's network.
package enum NetworkChange: Sendable {
    /// An address, a route or an interface has changed.
    case paths
    /// The machine has slept.
    case wake
}

/// Knows nothing of the network: for systems without a monitor.
package final class NoPathMonitor: PathMonitor {
    package static let shared = NoPathMonitor()

    package func add(_ observer: any PathObserver, on loop: any EventLoop) -> Bool { false }
    package func path(to address: SocketAddress, from source: SocketAddress?) -> NetworkPath {
        address.isLoopback ? .local : .unknown
    }
    package func isUsable(_ address: SocketAddress) -> Bool { true }
    package var hasNetwork: Bool { true }
}

/// The monitor of this host's network.
package var systemPathMonitor: any PathMonitor {
    #if os(Linux) || canImport(Network)
        SystemPathMonitor.shared
    #else
        NoPathMonitor.shared
    #endif
}
