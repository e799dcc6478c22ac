/// What went wrong between two sockets. Appears as the `cause` of a `ClientError`.
public struct TransportError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What kind of failure it is.
    @nonexhaustive
    public enum Code: Sendable, Hashable {
        /// The host's name could not be resolved.
        case nameResolutionFailed
        /// Nobody listens there.
        case refused
        /// There is no way to the address.
        case unreachable
        /// The connection's local address is gone from this host, or the interface that has it is down.
        case pathLost
        /// The connection was not established, or the peer gave no sign of life, in time.
        case timedOut
        /// The peer reset the connection.
        case reset
        /// The peer closed the connection.
        case closedByPeer
        /// We closed it ourselves: `suspend()`, or a draining link whose time was over.
        case closedLocally
        /// The link looked established, but a ping was followed by nothing at all.
        case halfOpen
        /// The address cannot be used (a path too long, an address family that is missing).
        case invalidAddress
        /// TLS could not be established, or was broken off.
        case tls(TLSFailure)
        /// Any other system error.
        case system
    }

    /// What kind of failure it is.
    public var code: Code
    /// The system's error number; 0 where there is none.
    public var errno: Int32
    /// What happened, for people: one line, in which control and format characters are escaped.
    public var message: String

    package init(_ code: Code, errno: Int32 = 0, _ message: String) {
        self.code = code
        self.errno = errno
        self.message = message.asMessage
    }

    /// The code and the message.
    public var description: String { "\(code): \(message)" }
}
