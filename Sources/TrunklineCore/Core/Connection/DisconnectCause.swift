/// The reason why an attempt to connect failed or a link ended.
@nonexhaustive
public enum DisconnectCause: String, Sendable, Hashable, CaseIterable {
    /// The name of the host could not be resolved.
    case nameResolution
    /// The connection was refused: no server listens at the address.
    case refused
    /// The address cannot be reached, for example because no route leads to it.
    case unreachable
    /// The local address of the link was removed from this host, or the interface that has it is down. See
    /// ``ClientOptions/Network-swift.struct``.
    case pathLost
    /// The link was not ready in time, for example because the handshake took too long.
    ///
    /// This is also the cause if the kernel ended an established link because the peer acknowledged nothing.
    case timedOut
    /// The peer, or a device on the path, reset the connection.
    case reset
    /// The server closed the connection.
    case closedByServer
    /// The server announced its shutdown (`goAway`).
    case goAway
    /// The link was established but made no progress: no complete frame arrived, although single bytes may have.
    case halfOpen
    /// Requests were not answered before they were abandoned: ``ClientOptions/Liveness-swift.struct/maximumStalls``
    /// requests in a row timed out, or requests that are sent next would wait for the response to an abandoned one. The
    /// second case exists in protocols matched in order, and for requests that no other may follow
    /// (``PipeliningCodec/mayPipeline(behind:)``); ``DisconnectReport/departure`` says which it was.
    case unanswered
    /// No serial number was free, or ``ClientOptions/Requests-swift.struct/maximumInFlight`` was reached, and abandoned
    /// requests held at least half of the serial numbers or of that limit. The client replaced the link, so that other
    /// requests could be sent. See <doc:Requests#Running-out-of-serials>.
    case exhausted
    /// The server sent something that the protocol does not allow.
    case protocolViolation
    /// The server sent more than a limit of this client allows, such as `maximumFrameSize` or
    /// ``ClientOptions/Inbound-swift.struct/maximumUndecoded``. The client ended the link, because the next frame could
    /// not be found.
    case limitExceeded
    /// TLS could not be set up, the TLS handshake failed, or TLS failed on an established link.
    case tls
    /// The proxy (``ClientOptions/Connecting-swift.struct/proxy``) could not be reached, or did not connect to the
    /// server.
    case proxy
    /// The child process of the link ended, by itself or by a signal; ``DisconnectReport/exit`` says how.
    case exited
    /// The handshake (``ClientOptions/Handshake-swift.struct``) failed: the server refused it, or its closure threw an
    /// error.
    case handshakeRefused
    /// The client ended the link itself: it was closed or suspended, replaced by a planned change, or ended because too
    /// many requests failed.
    case closedLocally
    /// Any other system error.
    case system
}

extension DisconnectCause {
    /// An established link ended because nothing came from the peer: it is probably down, or cannot be reached.
    var isOfSilentPeer: Bool { self == .halfOpen || self == .timedOut || self == .unreachable }
}
