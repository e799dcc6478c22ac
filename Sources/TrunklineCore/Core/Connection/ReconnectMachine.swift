/// The rules of reconnecting and failover, without sockets or clocks.
///
///                    ┌──────────── another endpoint's turn ─┐
///                    ▼                                      │ fails
///     idle ──wanted──► connecting ───────────────────────────┤
///      ▲ ▲             │ ▲     ▲ ▲                           │ every endpoint had its turn
///      │ └─ gives up ──┤ │     │ └── timer, reconnectNow ── waiting ◄─ a route appears ─┐
///      │ └─ unneeded ┐ ▼ │     │                             ▲                          │
///      │             ready     └── error rate, silence ──────┤      fails without route │
///      │             ▲  │└────────────── lost ───────────────┘      connecting ──► noNetwork
///      │             └──┘ planned change
///      └── resume ── suspended ◄── suspend ── (any)          closed ◄── close ── (any)
///
/// At most one attempt exists at a time: that of `connecting`, or that of a planned change. Its number travels with the
/// action and comes back with the outcome. An outcome with an old number changes nothing.
///
/// A *round* gives every endpoint one turn. Between rounds, and after every lost link, the policy decides how long to
/// wait. The number of waits grows until a link proves itself. Giving up does not reset it, so steady demand cannot
/// flood a server that is down with attempts. A link proves itself if it answered a request; if it lasted for
/// `shortestProof` and delivered a push, or began with a handshake and was closed cleanly with nothing in flight; or if
/// it was ready for `Policy.stableAfter`, and the client did not leave it because of silence.
package struct ReconnectMachine: Sendable {
    package enum State: Equatable, Sendable {
        /// No link is needed, or the machine gave up. → connecting, waiting, suspended, closed
        case idle
        /// One attempt is in progress. → ready, connecting, waiting, noNetwork, idle, suspended, closed
        case connecting(Attempt)
        /// A link, perhaps with a planned change. → ready (the next link), waiting, connecting, idle, suspended, closed
        case ready(session: SessionID)
        /// `attempt`: the number of the next one. → connecting, idle, suspended, closed
        case waiting(until: Instant, attempt: Int, cause: DisconnectCause)
        /// No route leads to any endpoint. → waiting, connecting, idle, suspended, closed
        case noNetwork(cause: DisconnectCause)
        /// No link, even if requests wait for one. → idle, connecting, waiting, closed
        case suspended
        case closed
    }

    package struct Attempt: Equatable, Sendable {
        /// Also the session number of the attempt's link.
        var id: SessionID
        /// One more than the number of attempts in a row that failed or led to a link that did no work.
        var number: Int
        var endpoint: Endpoint
    }

    package indirect enum Action: Equatable, Sendable {
        case none
        /// Discard what is left of an earlier attempt. Connect, then report `linkReady` or `attemptFailed`.
        case connect(Attempt)
        /// Discard what is left of an earlier attempt. Call `timerFired` at this instant.
        case wait(until: Instant)
        /// Discard what is left of an attempt. Call `timerFired` at `deadline`.
        case rest
        /// Discard what is left of an attempt. Close the link, as ended by the client.
        case close(session: SessionID)
        /// Drain the link, because of `lastCause`. Then perform the other action.
        case drain(session: SessionID, then: Action)
        case giveUp
    }

    /// Why the client leaves an endpoint that works.
    enum Departure: Sendable, CaseIterable {
        case goAway
        case errorRate
        /// The server may limit the requests per link. This does not count against the next link.
        case lastResponse
        /// The responses that are due are all for abandoned requests.
        case unanswered
        /// Abandoned requests hold the serial numbers or places that others need.
        case exhausted
        case silence

        var cause: DisconnectCause {
            switch self {
            case .goAway, .lastResponse: .goAway
            case .errorRate: .closedLocally
            case .unanswered, .silence: .unanswered
            case .exhausted: .exhausted
            }
        }
    }

    enum Demand: Comparable, Sendable {
        case none
        /// There is a subscription or a stream of pushes, but no request waits for a link.
        case pushes
        case request
    }

    /// See `ClientOptions.Reconnecting` and `ClientOptions.Failover`.
    package struct Policy: Sendable {
        var reconnect: any ReconnectPolicy = Backoff()
        var maximumAttempts: Int?
        var stableAfter: Duration = .seconds(10)
        var keepsLinkWarm = false
        var retriesPermanentCauses = false
        var refusalPause: Duration = .seconds(30)
        /// If no other endpoint can be used. Otherwise `longestHint`.
        var maximumRetryAfter: Duration = .seconds(60)
        var order = EndpointOrder.ordered
        var halfLife: Duration = .seconds(30)
        var returnsToPreferredAfter: Duration?
        var maximumLinkAge: Duration?
        var overlapsLinks = true
        var sendsAfterGoAway = true

        init() {}
    }

    /// After an orderly end: if a server with many clients closes all links at once, the clients come back spread out.
    static let promptDelay = (floor: Duration.milliseconds(10), jitter: Duration.milliseconds(40))

    /// A server may accept logins, send a push that says why it closes, and close: such links must be paced.
    static let shortestProof = Duration.seconds(1)

    static let longestHint = Duration.seconds(3600)

    /// The clients of a network that comes back do not connect all at once.
    static let networkJitter = Duration.milliseconds(80)

    /// A route that comes and goes must not keep an attempt from completing.
    static let networkPace = Duration.seconds(1)

    /// The name may resolve to other addresses by now, or the routing tables of the system may be incomplete.
    static let longestPause = Duration.seconds(60)

    /// After the policy has given up a change that could have led to the same endpoint.
    static let owedRenewalDelay = Duration.seconds(60)

    var phase = Phase.idle(restUntil: .distantPast)
    let policy: Policy
    var ring: EndpointRing
    var generator: SeededGenerator
    let client: UInt64
    var attemptCount: UInt64 = 0
    /// Attempts that failed or led to a link that did not prove itself, since one did or the machine gave up.
    var failures = 0
    /// Waits since a link proved itself. Giving up adds one. So does a lost link that had not proved itself: otherwise
    /// a server that accepts and closes at once would receive attempts without growing waits.
    var round = 0
    var lastCause = DisconnectCause.closedLocally
    /// `nil` if the client left the latest link for another reason than a planned change.
    var lastReplacement: PlannedChange.Reason?
    /// When a request may connect after an orderly end; `nil` once an attempt fails or a link is ready.
    var promptFrom: Instant?
    /// When to return from `endpoint`, if the next link leads there too: links may be too short for it.
    var keptReturn: (endpoint: Endpoint, at: Instant)?
    /// Waits until another change is complete. Leads to the chosen or the preferred endpoint.
    var postponed: PlannedChange?
    /// When an attempt last began because the network had changed.
    var lastPrompt = Instant.distantPast

    enum Phase: Sendable {
        case idle(restUntil: Instant)
        case connecting(Attempt)
        case ready(ReadyLink)
        case waiting(Wait)
        /// `until`: when to try again; `nil` to wait until a route appears.
        case noNetwork(cause: DisconnectCause, until: Instant?)
        case suspended(isWanted: Bool, restUntil: Instant)
        case closed
    }

    struct Wait: Sendable {
        var until: Instant
        let attempt: Int
        let cause: DisconnectCause
        /// Without the hint of a server, which may extend the wait.
        let policyUntil: Instant
    }

    struct ReadyLink: Sendable {
        let session: SessionID
        let endpoint: Endpoint
        let since: Instant
        let hadHandshake: Bool
        var hasAnswered = false
        var hasDelivered = false
        var returnAt: Instant?
        /// For its age, or because it `owesRenewal`.
        var agedAt: Instant?
        /// It must be replaced, because the server does not know a subscription on it.
        var owesRenewal = false
        var change: PlannedChange?

        var deadline: Instant? {
            guard let change else { return [returnAt, agedAt].compactMap { $0 }.min() }
            if change.attempt != nil { return nil }
            return change.isRenewable ? min(change.until, agedAt ?? .distantFuture) : change.until
        }

        init(_ attempt: Attempt, afterHandshake: Bool, at now: Instant) {
            (session, endpoint) = (attempt.id, attempt.endpoint)
            (since, hadHandshake) = (now, afterHandshake)
        }
    }

    init(endpoints: [Endpoint], policy: Policy, seed: UInt64, client: UInt64 = 0) {
        self.policy = policy
        self.client = client
        generator = SeededGenerator(seed: seed)
        ring = EndpointRing(endpoints, order: policy.order, halfLife: policy.halfLife, seed: generator.next())
    }

    var endpoints: [Endpoint] { ring.endpoints }

    var state: State {
        switch phase {
        case .idle: .idle
        case .connecting(let attempt): .connecting(attempt)
        case .ready(let link): .ready(session: link.session)
        case .waiting(let wait): .waiting(until: wait.until, attempt: wait.attempt, cause: wait.cause)
        case .noNetwork(let cause, _): .noNetwork(cause: cause)
        case .suspended: .suspended
        case .closed: .closed
        }
    }

    /// Changes have no effect in another state.
    var link: ReadyLink? {
        get { if case .ready(let link) = phase { link } else { nil } }
        set { if case .ready = phase, let newValue { phase = .ready(newValue) } }
    }

    var change: PlannedChange? {
        get { link?.change }
        set { link?.change = newValue }
    }

    var heedsDemand: Bool {
        switch phase {
        case .idle, .suspended: true
        case .waiting: promptFrom != nil
        case .connecting, .ready, .noNetwork, .closed: false
        }
    }

    mutating func linkAnswered() { link?.hasAnswered = true }

    mutating func linkDelivered() { link?.hasDelivered = true }

    /// Includes that of a planned change.
    var attempt: Attempt? {
        if case .connecting(let attempt) = phase { attempt } else { change?.attempt }
    }

    /// When to call `timerFired`; `nil` for never.
    var deadline: Instant? {
        switch phase {
        case .waiting(let wait): wait.until
        case .ready(let link): link.deadline
        case .noNetwork(_, let until): until
        case .idle, .connecting, .suspended, .closed: nil
        }
    }
}

extension ReconnectMachine.State {
    var isWithoutNetwork: Bool {
        if case .noNetwork = self { true } else { false }
    }
}
