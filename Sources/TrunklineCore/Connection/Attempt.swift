/// An attempt without a ready link. A class, so that a connection without an attempt has no memory for one.
final class Attempt {
    let decision: ReconnectMachine.Attempt
    let startedAt: Instant
    /// `nil` before dialling may begin, and once there is a link.
    var dialer: (any Dialer)?
    var deadline: Instant?
    private var addresses: [SocketAddress] = []
    private var firstPath: (address: SocketAddress, path: NetworkPath)?
    private let initialPath: NetworkPath
    var progress: DialProgress { dialer?.progress ?? DialProgress() }
    var path: NetworkPath { firstPath?.path ?? initialPath }
    /// The paths when it began, or when the name was resolved.
    private(set) var paths: [NetworkPath]
    private var hadNetwork: Bool
    /// It waits for other links to close, because it must not overlap them.
    let isHeld: Bool

    init(_ decision: ReconnectMachine.Attempt, startedAt: Instant, isHeld: Bool, _ view: PathView) {
        (self.decision, self.startedAt, self.isHeld) = (decision, startedAt, isHeld)
        initialPath = view.path(to: decision.endpoint)
        paths = view.paths(to: decision.endpoint)
        hadNetwork = view.hasNetwork
    }

    func noteProgress(_ view: PathView) {
        let progress = progress
        // The addresses of an earlier attempt are kept until there are new ones.
        if !progress.addresses.isEmpty, progress.addresses != addresses {
            addresses = progress.addresses
            view.resolved(decision.endpoint, to: addresses)
            paths = view.paths(to: decision.endpoint)
            hadNetwork = view.hasNetwork
        }
        if firstPath == nil, let address = progress.firstAddress { firstPath = (address, view.path(to: address)) }
    }

    func pathsAtEnd(_ view: PathView) -> (before: NetworkPath, after: NetworkPath) {
        guard let first = firstPath else { return (initialPath, view.path(to: decision.endpoint)) }
        return (first.path, view.path(to: first.address))
    }

    /// Whether it began on a path that no longer exists.
    func isConcerned(by change: NetworkChange, _ view: PathView) -> Bool {
        // An attempt that reads files, or waits for links to drain, has not begun to connect.
        guard !isHeld, progress.phase != nil else { return false }
        return change == .wake || view.paths(to: decision.endpoint) != paths
            || paths == [.unknown] && view.hasNetworkNow && !hadNetwork
    }
}
