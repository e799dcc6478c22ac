package protocol PathMonitor: AnyObject, Sendable {
    /// Holds `observer` weakly. Call this on `loop`. Returns false if changes cannot be watched, and paths are
    /// `unknown`.
    func add(_ observer: any PathObserver, on loop: any EventLoop) -> Bool

    /// The path of a new socket to `address`, bound to `source` if there is one. On any thread; takes microseconds.
    func path(to address: SocketAddress, from source: SocketAddress?) -> NetworkPath

    /// Ignores the port. True if the answer is unknown.
    func isUsable(_ address: SocketAddress) -> Bool

    var hasNetwork: Bool { get }
}

package protocol PathObserver: AnyObject, Sendable {
    func networkChanged(_ change: NetworkChange)
}

package enum NetworkChange: Sendable {
    case paths
    case wake
}

final class NoPathMonitor: PathMonitor {
    static let shared = NoPathMonitor()

    package func add(_ observer: any PathObserver, on loop: any EventLoop) -> Bool { false }
    package func path(to address: SocketAddress, from source: SocketAddress?) -> NetworkPath {
        address.isLoopback ? .local : .unknown
    }
    package func isUsable(_ address: SocketAddress) -> Bool { true }
    package var hasNetwork: Bool { true }
}
