extension ClientOptions {
    /// What happens on every new link before anything else.
    public struct Handshake: Sendable {
        /// Logs in, negotiates, identifies: runs on every new link before any other traffic, on no actor. Default none.
        ///
        /// What it throws ends the attempt: `HandshakeRefusal` says whether for good; any other error is taken for a
        /// failure that time may mend, unless it is `invalidRequest`, which is a mistake of the closure's own. Requests that callers make meanwhile wait and go out after it, in order.
        public var perform: (@Sendable (Handshaker) async throws -> Void)?
        /// Restores what the server knew of us, after `perform`, given the requests of `Client.subscribe(_:timeout:)` in their
        /// order. Those of `Client.subscribe(posting:timeout:)` have been written by then.
        ///
        /// By default it sends all of them, `maximumInFlight` at a time. If the server rejects one, the attempt fails and
        /// is repeated. To keep the link instead, send them with `Handshaker.send(all:)` and ignore what may be
        /// rejected:
        ///
        /// ```swift
        /// options.handshake.restore = { handshaker, subscriptions in
        ///     let outcomes = await handshaker.send(all: subscriptions)
        ///     for case .failure(let error) in outcomes where error.code != .rejected {
        ///         throw error
        ///     }
        /// }
        /// ```
        public var restore: @Sendable (Handshaker, [Request]) async throws -> Void = { handshaker, subscriptions in
            try await handshaker.restore(subscriptions)
        }
        /// How many requests of `Handshaker.send(all:)`, and so of the default `restore`, may be unanswered at a time.
        /// Default 64, at least 1. A `requests.maximumInFlight` below 1,024 limits it, too.
        public var maximumInFlight = 64
        /// How long `perform` may take, and how long `restore` may go without a response. Default 2 s.
        ///
        /// `perform` is bounded by `connecting.timeout` too. `restore` is bounded by its progress alone, however many
        /// subscriptions there are: it has this time from its start, and again from every response to one of its
        /// requests. With *n* subscriptions that is at most *n* + 1 times this; callers wait within their own deadlines.
        public var timeout: Duration = .seconds(2)
    }
}

/// Thrown by a handshake that the server did not accept.
public struct HandshakeRefusal: Error, Sendable, CustomStringConvertible {
    /// Time does not mend it (wrong credentials): there is no further attempt until somebody asks for a link again, and
    /// callers who wait are told `unavailable`. `reconnecting.retriesPermanentCauses` overrules it.
    public var isPermanent: Bool
    /// What the server said, for people.
    public var reason: String
    /// How long the server wants us to stay away at least.
    public var retryAfter: Duration?

    /// A refusal for good, unless `isPermanent` is false.
    public init(_ reason: String, isPermanent: Bool = true, retryAfter: Duration? = nil) {
        self.reason = reason
        self.isPermanent = isPermanent
        self.retryAfter = retryAfter
    }

    /// The reason in words, in one line: control and format characters are escaped.
    public var description: String { "the handshake was refused: \(reason.asMessage)" }
}
