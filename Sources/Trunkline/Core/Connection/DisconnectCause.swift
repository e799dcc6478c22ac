/// Why an attempt to connect failed, or a link ended.
@nonexhaustive
public enum DisconnectCause: String, Sendable, Hashable, CaseIterable {
    /// The host's name could not be resolved.
    case nameResolution
    /// Nobody listens there.
    case refused
    /// There is no way to the address.
    case unreachable
    /// The local address of the link is gone from this host, or the interface that has it is down. See `options.network`.
    case pathLost
    /// There was no usable link in time.
    case timedOut
    /// The peer, or something on the way, reset the connection.
    case reset
    /// The server closed the connection in good order.
    case closedByServer
    /// The server said that it is about to go.
    case goAway
    /// The link looked established but gave no sign of life: no complete frame, whatever bytes came.
    case halfOpen
    /// The server answered nothing, or the answers that are due on the link are wanted by nobody any more: see
    /// `options.liveness.maximumStalls` and `PipeliningCodec.mayPipeline(behind:)`.
    case unanswered
    /// Requests that were given up held every serial number of the link, or every place below
    /// `options.requests.maximumInFlight`: see `options.requests.quarantine`.
    case exhausted
    /// The server sent what the protocol does not allow.
    case protocolViolation
    /// TLS could not be established, or was broken off.
    case tls
    /// The handshake failed: the server refused it, or it took too long.
    case handshakeRefused
    /// We closed it, suspended it, or replaced it by a planned change.
    case closedLocally
    /// Any other error of the system.
    case system
}
