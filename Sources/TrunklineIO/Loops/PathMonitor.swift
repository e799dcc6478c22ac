/// Watches the host's network for changes, and finds the path to an address. There is one for the process, and one for
/// each simulated network.
package protocol PathMonitor: AnyObject, Sendable {
    /// Notifies `observer` of every change from now on, on `loop`, until it is deallocated. Call this on `loop`.
    ///
    /// The observer is held weakly. Returns false if changes cannot be watched; then `path` returns `unknown`.
    func add(_ observer: any PathObserver, on loop: any EventLoop) -> Bool

    /// Returns the path that a new socket to `address` would use now; with `source`, a socket that is bound to that
    /// address.
    ///
    /// May be called on any thread. Takes microseconds.
    func path(to address: SocketAddress, from source: SocketAddress?) -> NetworkPath

    /// Whether `address` (its port is ignored) is an address of this host on an interface that is up. True if that is
    /// unknown.
    func isUsable(_ address: SocketAddress) -> Bool

    /// Whether an interface other than the loopback is up and has an address. True if that is unknown.
    var hasNetwork: Bool { get }
}

/// Receives changes of the network.
package protocol PathObserver: AnyObject, Sendable {
    /// Called on the loop that was passed to `add`.
    func networkChanged(_ change: NetworkChange)
}

/// A change of the host's network.
package enum NetworkChange: Sendable {
    /// An address, a route or an interface has changed.
    case paths
    /// The machine has slept.
    case wake
}

/// The monitor for systems without one: it reports no changes.
package final class NoPathMonitor: PathMonitor {
    package static let shared = NoPathMonitor()

    package func add(_ observer: any PathObserver, on loop: any EventLoop) -> Bool { false }
    package func path(to address: SocketAddress, from source: SocketAddress?) -> NetworkPath {
        address.isLoopback ? .local : .unknown
    }
    package func isUsable(_ address: SocketAddress) -> Bool { true }
    package var hasNetwork: Bool { true }
}
