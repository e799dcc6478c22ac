/// An error of name resolution, sockets or TLS. It appears as the ``ClientError/cause`` of a ``ClientError``.
public struct TransportError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of failure.
    @nonexhaustive
    public enum Code: Sendable, Hashable {
        /// The name of the host could not be resolved.
        case nameResolutionFailed
        /// The connection was refused: no server listens at the address. Also if the system connected the client's
        /// socket to itself, which it may do if no server listens at a port of this host.
        case refused
        /// The address cannot be reached, for example because no route leads to it, or because this host has no address
        /// of its family.
        case unreachable
        /// The local address of the link was removed from this host, or the interface that has it is down.
        case pathLost
        /// The link was not ready in time, or the kernel gave up a link because the peer acknowledged nothing.
        case timedOut
        /// The peer, or a device on the path, reset the connection.
        case reset
        /// The peer closed the connection.
        case closedByPeer
        /// The client closed the link itself: by ``Client/suspend()``, for example, or because a link had drained for
        /// longer than `options.failover.drainTimeout`.
        case closedLocally
        /// The link was established but made no progress: nothing arrived after a ping, or a frame stayed incomplete
        /// for too long.
        case halfOpen
        /// The address cannot be used. For example, a path is too long, the host does not support the address family,
        /// or the program of a command does not exist.
        case invalidAddress
        /// TLS could not be set up, the TLS handshake failed, or TLS failed on an established link.
        case tls(TLSFailure)
        /// The link could not be established through the proxy (``ClientOptions/Connecting-swift.struct/proxy``).
        case proxy(ProxyFailure)
        /// The child process of the link ended
        /// (``Endpoint/command(_:_:environment:inheritsEnvironment:workingDirectory:)``).
        case exited(ProcessExit)
        /// Any other system error. For example, every local port is in use, or a file cannot be read.
        case system
    }

    /// The kind of failure.
    public var code: Code
    /// The error number of the system (`errno`); 0 if there is none.
    public var errno: Int32
    /// A human-readable description of what happened: one line of at most 2,048 characters, with control and format
    /// characters escaped.
    public var message: String
    /// Why the server ended the link, in its own words, if it said so before (``Frame/reason``).
    public package(set) var reason: ServerReason? {
        get { reasonBox?.reason }
        set { reasonBox = newValue.map { ReasonBox($0) } }
    }

    /// An answer: there is no such name, or it has no address of the family.
    package var isNoSuchName = false

    /// The tunnel through a proxy has ended, and it cannot be known whether the proxy or the server ended it.
    package var isOfTunnel = false

    /// In a box, because few errors have one.
    private var reasonBox: ReasonBox?

    private final class ReasonBox: Sendable, Hashable {
        let reason: ServerReason
        init(_ reason: ServerReason) { self.reason = reason }
        static func == (a: ReasonBox, b: ReasonBox) -> Bool { a.reason == b.reason }
        func hash(into hasher: inout Hasher) { hasher.combine(reason) }
    }

    package init(_ code: Code, errno: Int32 = 0, _ message: String) {
        self.code = code
        self.errno = errno
        self.message = message.asMessage
    }

    /// The code and the message.
    public var description: String {
        if case .exited = code { return .labelled("exited", message) }
        return .labelled(code.text, message)
    }
}

extension TransportError.Code {
    fileprivate var text: String {
        switch self {
        case .tls(let failure): "tls(\(failure))"
        case .proxy(let failure): "proxy(\(failure))"
        default: "\(self)"
        }
    }
}
