/// An attempt without a ready link. A class, so that a connection without an attempt has no memory for one.
final class Attempt {
    let decision: ReconnectMachine.Attempt
    let startedAt: Instant
    /// `nil` before dialling may begin, and once there is a link.
    var dialer: (any Dialer)?
    var deadline: Instant?
    var addresses: [SocketAddress] = []
    var firstPath: (address: SocketAddress, path: NetworkPath)?
    let initialPath: NetworkPath
    var progress: DialProgress { dialer?.progress ?? DialProgress() }
    var path: NetworkPath { firstPath?.path ?? initialPath }
    /// The paths when it began, or when the name was resolved.
    var paths: [NetworkPath] = []
    var hadNetwork = true
    /// It waits for other links to close, because it must not overlap them.
    var isHeld = false

    init(_ decision: ReconnectMachine.Attempt, startedAt: Instant, initialPath: NetworkPath) {
        (self.decision, self.startedAt) = (decision, startedAt)
        self.initialPath = initialPath
    }
}
