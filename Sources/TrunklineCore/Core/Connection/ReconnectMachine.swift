/// Decides whether there is a link, and if not, when and where the next attempt begins: the rules of reconnecting and
/// failover, without sockets or clocks.
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
/// At most one attempt exists at a time: that of `connecting`, or that of a planned change (`PlannedChange`), which
/// prepares the next link while the present one stays in use. Every attempt and every link has a number. The number
/// travels with the action and comes back with its outcome. An outcome with an old number changes nothing.
///
/// A *round* gives every endpoint one turn, one right after the other. Between rounds, and after every lost link, the
/// policy decides how long to wait. The number of waits grows until a link proves itself. Giving up does not reset it,
/// so steady demand cannot flood a server that is down with attempts.
///
/// A link proves itself in one of these ways:
/// - It answered a request (`linkAnswered`).
/// - It delivered a push and was ready for at least `shortestProof`.
/// - It began with a handshake, was ready for at least `shortestProof`, and the server closed it cleanly with no request
///   in flight.
/// - It was ready for `Policy.stableAfter`, and the client did not leave it because of silence.
package struct ReconnectMachine: Sendable {
    package enum State: Equatable, Sendable {
        /// There is no link, because none is needed or the machine gave up. Next states: connecting, waiting,
        /// suspended, closed.
        case idle
        /// One attempt is in progress, until its link is ready. Next states: ready, connecting, waiting, noNetwork,
        /// idle, suspended, closed.
        case connecting(Attempt)
        /// There is a link, and perhaps a planned change. Next states: ready (the next link), waiting, connecting,
        /// idle, suspended, closed.
        case ready(session: SessionID)
        /// There is no link until `until`, because of `cause`. `attempt` is the number of the next attempt. Next
        /// states: connecting, idle, suspended, closed.
        case waiting(until: Instant, attempt: Int, cause: DisconnectCause)
        /// There is no link and no attempt, because no route leads to any endpoint. Next states: waiting, connecting,
        /// idle, suspended, closed.
        case noNetwork(cause: DisconnectCause)
        /// There is no link, even if requests wait for one. Next states: idle, connecting, waiting, closed.
        case suspended
        /// There is no link any more. A final state.
        case closed
    }

    /// One attempt to connect to one endpoint.
    package struct Attempt: Equatable, Sendable {
        /// The number of the attempt, unique within this machine. It is also the session number of the attempt's link.
        package var id: SessionID
        /// One more than the number of attempts in a row that failed or led to a link that did no work.
        package var number: Int
        package var endpoint: Endpoint
    }

    package indirect enum Action: Equatable, Sendable {
        case none
        /// Discard what is left of an earlier attempt. Connect to the attempt's endpoint, then report `linkReady` or
        /// `attemptFailed` with the attempt's ID.
        case connect(Attempt)
        /// Discard what is left of an earlier attempt. Call `timerFired` at this instant.
        case wait(until: Instant)
        /// Discard what is left of an attempt. Call `timerFired` at `deadline`.
        case rest
        /// Discard what is left of an attempt. Close the link of this session, as ended by the client.
        case close(session: SessionID)
        /// Drain the link of this session, because of `lastCause`: it takes no new requests, and those in flight may still
        /// be answered. Then perform the other action.
        case drain(session: SessionID, then: Action)
        /// No server is available: fail the callers that wait for a link.
        case giveUp
    }

    /// Why the client leaves an endpoint that works.
    package enum Departure: Sendable, CaseIterable {
        /// The server announced its shutdown.
        case goAway
        /// Too many of its requests fail.
        case errorRate
        /// The server has sent its last response on this link, for example because it limits the requests per link.
        /// This does not count against the next link, which begins only if something needs it.
        case lastResponse
        /// The responses that are due on this link are all for abandoned requests.
        case unanswered
        /// Abandoned requests hold the serial numbers, or the places below `maximumInFlight`, that other requests need.
        case exhausted
        /// The server answers nothing.
        case silence

        /// The cause in the report of the link.
        var cause: DisconnectCause {
            switch self {
            case .goAway, .lastResponse: .goAway
            case .errorRate: .closedLocally
            case .unanswered, .silence: .unanswered
            case .exhausted: .exhausted
            }
        }
    }

    /// Why the client needs a link.
    package enum Demand: Comparable, Sendable {
        /// No request waits for a link, and there is no subscription and no stream of pushes.
        case none
        /// There is a subscription or a stream of pushes, but no request waits for a link.
        case pushes
        /// A request waits for a link.
        case request
    }

    /// The settings of the machine. See `ClientOptions.Reconnecting` and `ClientOptions.Failover`.
    package struct Policy: Sendable {
        package var reconnect: any ReconnectPolicy = Backoff()
        /// The number of failed attempts in a row after which the machine gives up; `nil` for never.
        package var maximumAttempts: Int?
        /// How long a link that did no work must stay ready before the policy starts over.
        package var stableAfter: Duration = .seconds(10)
        /// Whether a link that the server closed cleanly is replaced even without demand.
        package var keepsLinkWarm = false
        package var retriesPermanentCauses = false
        /// How long an endpoint is not tried after its server has refused the login.
        package var refusalPause: Duration = .seconds(30)
        /// The maximum of a server's hint (`retryAfter`) if no other endpoint can be used.
        package var maximumRetryAfter: Duration = .seconds(60)
        package var order = EndpointOrder.ordered
        package var halfLife: Duration = .seconds(30)
        /// How long the client uses another endpoint before it returns to the preferred one; `nil` to stay where it
        /// works.
        package var returnsToPreferredAfter: Duration?
        /// The maximum age of a link before it is replaced; `nil` for no limit.
        package var maximumLinkAge: Duration?
        /// Whether the next link may be established while there is one.
        package var overlapsLinks = true
        /// Whether a link is used until the next one is ready although its server has announced its shutdown.
        package var sendsAfterGoAway = true

        package init() {}
    }

    /// How long a request waits after an orderly end before it connects: a random time within this range. If a server
    /// with many clients closes all links at once, the clients come back spread out.
    static let promptDelay = (floor: Duration.milliseconds(10), jitter: Duration.milliseconds(40))

    /// The minimum lifetime for a link to prove itself without an answer. A server may accept logins, send a push that
    /// says why it closes, and close: such links must be paced.
    static let shortestProof = Duration.seconds(1)

    /// The maximum of a server's hint (`retryAfter`) while other endpoints can be used. `Policy.maximumRetryAfter` is the
    /// maximum if they cannot.
    static let longestHint = Duration.seconds(3600)

    /// The maximum of the random wait before the next attempt after the network has improved. The clients of a network
    /// that comes back do not connect all at once.
    static let networkJitter = Duration.milliseconds(80)

    /// The minimum time between two attempts that begin, or restart, because the network has changed. Otherwise a route
    /// that comes and goes would keep an attempt from completing. The first attempt after a time without any route does
    /// not count.
    static let networkPace = Duration.seconds(1)

    /// The maximum length of a pause (`noNetwork`) if a name may resolve to other addresses by now, or if the routing
    /// tables of the system may be incomplete.
    static let longestPause = Duration.seconds(60)

    /// The time until the next renewal of a link that must be replaced, after the reconnect policy has given up a change
    /// that could have led to the same endpoint.
    static let owedRenewalDelay = Duration.seconds(60)

    /// The state, with what is valid in it.
    var phase = Phase.idle(restUntil: .distantPast)
    package let policy: Policy
    package internal(set) var ring: EndpointRing
    var generator: SeededGenerator
    /// The number of the client within its cluster; 0 without a cluster.
    let client: UInt64
    /// The number of the latest attempt.
    var attemptCount: UInt64 = 0
    /// The number of attempts that failed or led to a link that did not prove itself, since the last link that did or
    /// since the machine gave up.
    var failures = 0
    /// The number of waits since the last link that proved itself. A lost link that had not proved itself adds a wait
    /// too: otherwise a server that accepts and closes at once would receive attempts without growing waits. Giving up
    /// also adds one.
    var round = 0
    /// Why the last attempt failed or the last link ended.
    package internal(set) var lastCause = DisconnectCause.closedLocally
    /// Why the latest link was replaced by a planned change; `nil` if the client left it for another reason.
    package internal(set) var lastReplacement: PlannedChange.Reason?
    /// After a link that proved itself and had an orderly end, until an attempt fails or a link is ready: the instant
    /// from which a request may connect.
    package internal(set) var promptFrom: Instant?
    /// When to consider the return to the preferred endpoint from `endpoint`, if the next link leads there: links may be
    /// too short for it.
    var keptReturn: (endpoint: Endpoint, at: Instant)?
    /// A change that waits until another one is complete. It leads to an endpoint that the caller has chosen, or to the
    /// preferred one.
    var postponed: PlannedChange?
    /// When an attempt last began because the network had changed.
    var lastPrompt = Instant.distantPast

    /// A state with what is valid in it.
    enum Phase: Sendable {
        /// No attempt begins before `restUntil`.
        case idle(restUntil: Instant)
        case connecting(Attempt)
        case ready(ReadyLink)
        case waiting(Wait)
        /// `until`: when to try again; `nil` to wait until a route appears.
        case noNetwork(cause: DisconnectCause, until: Instant?)
        /// `isWanted`: whether to connect after `resume()`, but not before `restUntil`.
        case suspended(isWanted: Bool, restUntil: Instant)
        case closed
    }

    /// The wait before the next attempt.
    struct Wait: Sendable {
        var until: Instant
        /// The number of the next attempt.
        let attempt: Int
        let cause: DisconnectCause
        /// The end of the wait according to the policy. A server's hint may extend it.
        let policyUntil: Instant
    }

    /// The ready link.
    struct ReadyLink: Sendable {
        let session: SessionID
        let endpoint: Endpoint
        let since: Instant
        /// Whether it began with a handshake.
        let hadHandshake: Bool
        /// Whether it has answered a request.
        var hasAnswered = false
        /// Whether it has delivered a push.
        var hasDelivered = false
        /// When to consider the return to the preferred endpoint.
        var returnAt: Instant?
        /// When it is replaced for its age, or because it must be.
        var agedAt: Instant?
        /// Whether it must be replaced. The server does not know a subscription on it.
        var owesRenewal = false
        /// The planned change, if there is one.
        var change: PlannedChange?

        /// When a change, a return or a renewal is due; `nil` for never.
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

    package init(endpoints: [Endpoint], policy: Policy, seed: UInt64, client: UInt64 = 0) {
        self.policy = policy
        self.client = client
        generator = SeededGenerator(seed: seed)
        ring = EndpointRing(endpoints, order: policy.order, halfLife: policy.halfLife, seed: generator.next())
    }

    package var endpoints: [Endpoint] { ring.endpoints }

    package var state: State {
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

    /// The ready link. Changes have no effect in another state.
    var link: ReadyLink? {
        get { if case .ready(let link) = phase { link } else { nil } }
        set { if case .ready = phase, let newValue { phase = .ready(newValue) } }
    }

    /// The planned change, if there is one.
    package internal(set) var change: PlannedChange? {
        get { link?.change }
        set { link?.change = newValue }
    }

    /// Whether `linkNeeded` has an effect now.
    package var heedsDemand: Bool {
        switch phase {
        case .idle, .suspended: true
        case .waiting: promptFrom != nil
        case .connecting, .ready, .noNetwork, .closed: false
        }
    }

    /// Records that the ready link has answered a request.
    package mutating func linkAnswered() { link?.hasAnswered = true }

    /// Records that the ready link has delivered a push.
    package mutating func linkDelivered() { link?.hasDelivered = true }

    /// The attempt in progress, including that of a planned change.
    package var attempt: Attempt? {
        if case .connecting(let attempt) = phase { attempt } else { change?.attempt }
    }

    /// When to call `timerFired`; `nil` for never.
    package var deadline: Instant? {
        switch phase {
        case .waiting(let wait): wait.until
        case .ready(let link): link.deadline
        case .noNetwork(_, let until): until
        case .idle, .connecting, .suspended, .closed: nil
        }
    }
}

extension ReconnectMachine.State {
    /// Whether attempts are paused because there is no route.
    package var isWithoutNetwork: Bool {
        if case .noNetwork = self { true } else { false }
    }
}
