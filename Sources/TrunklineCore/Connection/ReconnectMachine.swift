/// Whether there is a link, and if not, when to try for one. The rules of reconnecting, without sockets or clocks.
///
///     idle ──wanted──► connecting ──established──► ready
///       ▲                │     ▲                     │ lost
///       │ suspended      │fails└──timer── waiting ◄──┘
///       │                └─ another endpoint, or ─► waiting
///     (any) ──close──► closed
///
/// Exactly one attempt exists at a time. Every attempt and every link has a number, which travels with the effect and
/// comes back with its outcome; an outcome with an old number changes nothing.
package struct ReconnectMachine: Sendable {
    package enum State: Equatable, Sendable {
        /// No link, and nobody wants one. → connecting, closed
        case idle
        /// One attempt is under way. → ready, connecting (the next endpoint), waiting, idle, closed
        case connecting(Attempt)
        /// A link is established. → waiting, closed
        case ready(session: UInt64)
        /// No link until the back-off is over. → connecting, closed
        case waiting(until: Instant, attempt: Int)
        /// For good.
        case closed
    }

    /// One attempt to connect.
    package struct Attempt: Equatable, Sendable {
        /// Distinguishes it from every other attempt of this machine.
        package var id: UInt64
        /// How many attempts have failed since the last stable link, plus one.
        package var number: Int
        package var endpoint: Endpoint
    }

    package enum Action: Equatable, Sendable {
        case none
        /// Connect to the attempt's endpoint and report `established` or `attemptFailed` with its id.
        case connect(Attempt)
        /// Call `timerFired` at this instant.
        case wait(until: Instant)
        /// The limit on attempts is reached: whoever waits for a link is told so.
        case giveUp
    }

    /// What the machine goes by.
    package struct Policy: Sendable {
        package var backoff = Backoff()
        /// After how many failed attempts in a row to give up; `nil` for never.
        package var maximumAttempts: Int?
        /// How long a link must stay ready for the back-off to start anew.
        package var stableAfter: Duration = .seconds(10)

        package init() {}
    }

    package private(set) var state = State.idle
    package let policy: Policy
    package let endpoints: [Endpoint]
    private var generator: SeededGenerator
    /// The endpoint of the next attempt.
    private var nextEndpoint = 0
    private var lastID: UInt64 = 0
    /// Failed attempts since the last stable link.
    private var failures = 0
    /// Failed attempts since the last link, stable or not.
    private var failuresInRow = 0
    /// Endpoints tried since the last wait.
    private var triedInRound = 0
    /// Waits since the last stable link. A link that was lost before it was stable counts too, or a server that
    /// accepts and closes at once would be asked again and again without growing waits.
    private var round = 0
    private var readySince: Instant?

    package init(endpoints: [Endpoint], policy: Policy, seed: UInt64) {
        self.endpoints = endpoints
        self.policy = policy
        generator = SeededGenerator(seed: seed)
    }

    /// The endpoint of the link or the attempt, or else of the next attempt.
    package var endpoint: Endpoint? {
        endpoints.isEmpty ? nil : endpoints[nextEndpoint]
    }

    /// Somebody wants a link.
    package mutating func wanted() -> Action {
        guard state == .idle else { return .none }
        return endpoints.isEmpty ? .giveUp : connect()
    }

    /// The attempt `id` has an established link. Returns its session number; `nil` when the attempt is an old one and
    /// the link is to be closed.
    package mutating func established(_ id: UInt64, at now: Instant) -> UInt64? {
        guard case .connecting(let attempt) = state, attempt.id == id else { return nil }
        state = .ready(session: id)
        failuresInRow = 0
        readySince = now
        return id
    }

    /// The attempt `id` has failed: the next endpoint is tried at once, and after the last one there is a wait.
    package mutating func attemptFailed(_ id: UInt64, at now: Instant) -> Action {
        guard case .connecting(let attempt) = state, attempt.id == id else { return .none }
        failures += 1
        failuresInRow += 1
        nextEndpoint = (nextEndpoint + 1) % endpoints.count
        if let limit = policy.maximumAttempts, failuresInRow >= limit {
            state = .idle
            failures = 0
            failuresInRow = 0
            triedInRound = 0
            return .giveUp
        }
        triedInRound += 1
        return triedInRound == endpoints.count ? wait(at: now) : connect()
    }

    /// The link of `session` is lost.
    package mutating func linkLost(_ session: UInt64, at now: Instant) -> Action {
        guard state == .ready(session: session) else { return .none }
        if let readySince, now.since(readySince) >= policy.stableAfter {
            failures = 0
            round = 0
        }
        readySince = nil
        return wait(at: now)
    }

    /// The instant that `.wait(until:)` named has come.
    package mutating func timerFired(at now: Instant) -> Action {
        guard case .waiting(let until, _) = state else { return .none }
        guard until <= now else { return .wait(until: until) }
        return connect()
    }

    /// No link is wanted ever again.
    package mutating func close() { state = .closed }

    private mutating func connect() -> Action {
        lastID += 1
        let attempt = Attempt(id: lastID, number: failures + 1, endpoint: endpoints[nextEndpoint])
        state = .connecting(attempt)
        return .connect(attempt)
    }

    private mutating func wait(at now: Instant) -> Action {
        let until = now.advanced(by: policy.backoff.delay(round: round, using: &generator))
        triedInRound = 0
        round += 1
        state = .waiting(until: until, attempt: failures + 1)
        return .wait(until: until)
    }
}
