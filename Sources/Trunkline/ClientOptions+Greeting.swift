extension ClientOptions {
    /// What happens on every new link before anything else.
    public struct Greeting: Sendable {
        /// Logs in, negotiates, identifies: runs on every new link before any other traffic, on no actor. Default none.
        ///
        /// What it throws ends the attempt: `GreetingRefusal` says whether for good; any other error is taken for a
        /// failure that time may mend, unless it is `invalidRequest`, which is a mistake of the closure's own. Requests that callers make meanwhile wait and go out after it, in order.
        public var perform: (@Sendable (Greeter) async throws -> Void)?
        /// Restores what the server knew of us, after `perform`, given the requests of `Client.subscribe` in their order.
        ///
        /// By default it sends each of them; one that the server rejects ends the attempt.
        public var restore: @Sendable (Greeter, [Request]) async throws -> Void = { greeter, subscriptions in
            for subscription in subscriptions { _ = try await greeter.send(subscription) }
        }
        /// For both together. `connecting.timeout` bounds it too. Default 2 s.
        public var timeout: Duration = .seconds(2)
    }
}

/// Thrown by a greeting that the server did not accept.
public struct GreetingRefusal: Error, Sendable, CustomStringConvertible {
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
    public var description: String { "the greeting was refused: \(reason.asMessage)" }
}
