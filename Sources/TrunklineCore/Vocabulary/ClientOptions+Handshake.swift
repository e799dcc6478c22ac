extension ClientOptions {
    /// The options of the handshake, which runs on every new link before any other traffic.
    public struct Handshake: Sendable {
        /// The closure that logs in, negotiates or identifies the client on every new link. Default none.
        ///
        /// The closure is not isolated to an actor, and runs before any other traffic on the link. Requests that
        /// callers make in the meantime wait, and go out in order when the handshake is complete.
        ///
        /// If it throws, the attempt fails:
        ///
        /// - With a ``HandshakeRefusal``, that error says whether the failure is permanent.
        /// - `invalidRequest`, `invalidResponse` and `invalidArgument` are programming errors in the closure, and
        ///   permanent failures.
        /// - After any other error the client tries again.
        public var perform: (@Sendable (Handshaker) async throws -> Void)?
        /// The closure that restores the subscriptions of the client on a new link, after ``perform``.
        ///
        /// It receives the requests of ``Client/subscribe(_:timeout:)->_`` in the order in which they were made. The
        /// messages of ``Client/subscribe(posting:timeout:)`` have been written by then. By default it sends all
        /// requests, at most ``maximumInFlight`` at a time. If the server rejects one of them, the attempt fails and is
        /// repeated. To keep the link instead, see <doc:ServerSettings#Servers-with-hundreds-of-subscriptions>.
        public var restore: @Sendable (Handshaker, [Request]) async throws -> Void = { handshaker, subscriptions in
            try await handshaker.restore(subscriptions)
        }
        /// The maximum number of requests of a handshake that are unanswered, and of messages that are not written, at
        /// a time. Others wait for their turn. Default 64, at least 1.
        ///
        /// The limit also applies to the default ``restore``. `requests.maximumInFlight` is an additional limit if it
        /// is below 1,024.
        public var maximumInFlight = 64
        /// How long ``perform`` may take, and how long ``restore`` may go without a response. Default 2 s.
        ///
        /// `perform` is also bounded by `connecting.timeout`. `restore` has this time from its start, and again from
        /// every response to one of its requests. So *n* subscriptions take at most *n* + 1 times this. Meanwhile
        /// callers wait within their own deadlines.
        public var timeout: Duration = .seconds(2)

        /// Creates options with the default values.
        public init() {}
    }
}

/// The error that a handshake throws if the server refused it.
public struct HandshakeRefusal: Error, Sendable, CustomStringConvertible {
    /// What the server refused, for the advice in the log.
    @nonexhaustive
    public enum Kind: Sendable, Hashable {
        /// The credentials are wrong or have expired.
        case credentials
        /// The credentials are right, but do not permit what the handshake asked for.
        case permission
        /// The versions or the features of both sides do not agree.
        case version
        /// The server is overloaded, starting or being maintained. It may accept the same handshake later.
        case busy
        /// Anything else.
        case other
    }

    /// What the server refused. By default `credentials` if the failure is permanent, and otherwise `other`.
    public var kind: Kind
    /// Whether the failure is permanent, such as wrong credentials.
    ///
    /// If true, the client does not try the endpoint again until its failure is forgotten (`failover.halfLife`). When
    /// every endpoint has a permanent failure, waiting callers receive `unavailable`, and the next attempt begins
    /// `reconnecting.refusalPause` (30 s) later at the earliest, whatever the number of requests.
    /// `reconnecting.retriesPermanentCauses` tries again without a request, after the same pause.
    public var isPermanent: Bool
    /// The reason, as a human-readable text.
    public var reason: String
    /// What the server has said, for ``ClientError/reason``, ``DisconnectReport/reason`` and the metrics by name; `nil`
    /// by default.
    public var serverReason: ServerReason?
    /// The minimum time before the next attempt at this endpoint, as the server requested it; `nil` if it requested
    /// none. Honored up to one hour while other endpoints can be used, otherwise up to
    /// `reconnecting.maximumRetryAfter` (60 s).
    public var retryAfter: Duration?

    /// Creates a refusal.
    ///
    /// - Parameters:
    ///   - reason: The reason, as a human-readable text.
    ///   - isPermanent: Whether the failure is permanent. Default true.
    ///   - kind: What the server refused. By default `credentials` if the failure is permanent, and otherwise `other`.
    ///   - retryAfter: The minimum time before the next attempt at this endpoint, or `nil`.
    public init(_ reason: String, isPermanent: Bool = true, kind: Kind? = nil, retryAfter: Duration? = nil) {
        self.reason = reason
        self.kind = kind ?? (isPermanent ? .credentials : .other)
        self.isPermanent = isPermanent
        self.retryAfter = retryAfter
    }

    /// Creates a refusal for what the server has said, such as the ``ClientError/reason`` of a rejected request.
    ///
    /// - Parameters:
    ///   - reason: What the server has said. Its description is the text of the refusal.
    ///   - isPermanent: Whether the failure is permanent. Default true.
    ///   - kind: What the server refused. By default `credentials` if the failure is permanent, and otherwise `other`.
    ///   - retryAfter: The minimum time before the next attempt at this endpoint, or `nil`.
    public init(
        saying reason: ServerReason,
        isPermanent: Bool = true,
        kind: Kind? = nil,
        retryAfter: Duration? = nil
    ) {
        self.init("\(reason)", isPermanent: isPermanent, kind: kind, retryAfter: retryAfter)
        serverReason = reason
    }

    /// The reason, in one line. Control and format characters are escaped.
    public var description: String { "the handshake was refused: \(reason.asMessage)" }
}
