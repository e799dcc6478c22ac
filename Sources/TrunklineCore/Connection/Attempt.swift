/// An attempt to connect that has no ready link yet: what the connection knows about it, beside the dialer and the link.
///
/// A class, so that a connection without an attempt has no memory for one.
final class Attempt {
    /// Its endpoint and numbers, as the machine has decided.
    let decision: ReconnectMachine.Attempt
    /// When it began.
    let startedAt: Instant
    /// Connects to its endpoint; `nil` before it may begin, and once it has a link.
    var dialer: (any Dialer)?
    /// The end of its time, handshake included: set when it is connected.
    var deadline: Instant?
    /// The addresses that dialling has found for the name of its endpoint.
    var addresses: [SocketAddress] = []
    /// The first address that it tried, and the path at that time.
    var firstPath: (address: SocketAddress, path: NetworkPath)?
    /// The path to its endpoint when it began, as far as addresses were known.
    let initialPath: NetworkPath
    /// How far connecting has come.
    var progress: DialProgress { dialer?.progress ?? DialProgress() }
    var path: NetworkPath { firstPath?.path ?? initialPath }
    /// The paths to its endpoint when it began, or when the name was resolved.
    var paths: [NetworkPath] = []
    /// Whether this host had a network at that time.
    var hadNetwork = true
    /// Whether it waits for other links to close, because it must not overlap them.
    var isHeld = false

    init(_ decision: ReconnectMachine.Attempt, startedAt: Instant, initialPath: NetworkPath) {
        (self.decision, self.startedAt) = (decision, startedAt)
        self.initialPath = initialPath
    }
}
