/// Whether there is a link, and if not, when to try for one, and where. The rules of reconnecting and failover, without
/// sockets or clocks.
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
/// At most one attempt exists at a time: that of `connecting`, or that of a planned change (`PlannedChange`), which makes the
/// next link while the present one goes on. Every attempt and every link has a number, which travels with the effect and
/// comes back with its outcome; an outcome with an old number changes nothing.
///
/// A *round* gives every endpoint one turn, one right after the other. Between rounds, and after every lost link, the
/// policy says how long to wait. Waits are counted from one link that proved itself to the next, giving up or not, so
/// that steady demand cannot turn a server that is down into one that is stormed. A link proves itself by an answer
/// (`linkAnswered`), by a push and a lifetime of `pushProof`, by an orderly end after a handshake, or by lasting for
/// `Policy.stableAfter`.
package struct ReconnectMachine: Sendable {
    package enum State: Equatable, Sendable {
        /// No link, and none is needed, or it was given up. → connecting, waiting, suspended, closed
        case idle
        /// One attempt is under way, up to its link being ready. → ready, connecting, waiting, noNetwork, idle, suspended, closed
        case connecting(Attempt)
        /// There is a link, and perhaps a planned change. → ready (the next link), waiting, connecting, idle, suspended, closed
        case ready(session: UInt64)
        /// No link until then, for `cause`; `attempt` is the number of the next. → connecting, noNetwork, idle, suspended, closed
        case waiting(until: Instant, attempt: Int, cause: DisconnectCause)
        /// No link, and no attempt, as no route leads to any endpoint. → waiting, connecting, idle, suspended, closed
        case noNetwork(cause: DisconnectCause)
        /// No link, whoever wants one. → idle, connecting, waiting, closed
        case suspended
        /// For good.
        case closed
    }

    /// One attempt to connect.
    package struct Attempt: Equatable, Sendable {
        /// Distinguishes it from every other attempt of this machine, and is its link's session number.
        package var id: UInt64
        /// One more than the number of attempts in a row that failed or led to a link that did no work.
        package var number: Int
        package var endpoint: Endpoint
    }

    package indirect enum Action: Equatable, Sendable {
        case none
        /// Connect to the attempt's endpoint and report `linkReady` or `attemptFailed` with its id. What there is of
        /// an earlier attempt is to be dropped.
        case connect(Attempt)
        /// Call `timerFired` at this instant. What there is of an earlier attempt is to be dropped.
        case wait(until: Instant)
        /// Drop what there is of an attempt, and call `timerFired` at `deadline`.
        case rest
        /// Close the link of this session, and drop what there is of an attempt: it was we who ended it.
        case close(session: UInt64)
        /// The link of this session is ready no more: nothing new goes out on it, what is out may still be answered.
        /// Then perform the other action.
        case drain(session: UInt64, then: Action)
        /// There is no server: whoever waits for a link is told so.
        case giveUp
    }

    /// Why an endpoint that works is left.
    package enum Departure: Sendable, CaseIterable {
        /// Its server said that it is about to go.
        case goAway
        /// Too many of its requests fail.
        case errorRate
        /// Its server answers no more on this link, as servers do after so many requests: nothing speaks against the
        /// next one.
        case lastResponse
        /// Nobody wants the answers any more that are due on this link.
        case unanswered
        /// Requests that were given up hold what the next ones need: serial numbers, or places below the limit.
        case exhausted
        /// Its server answers nothing at all.
        case silence

        /// What to say of the link.
        var cause: DisconnectCause {
            switch self {
            case .goAway, .lastResponse: .goAway
            case .errorRate: .closedLocally
            case .unanswered, .silence: .unanswered
            case .exhausted: .exhausted
            }
        }
    }

    /// Who needs a link.
    package enum Demand: Comparable, Sendable {
        /// No request waits for a link, and nobody waits for pushes.
        case none
        /// Somebody waits for pushes, but no request for a link.
        case pushes
        /// A request waits for a link.
        case request
    }

    /// What the machine goes by. See `ClientOptions.Reconnecting` and `ClientOptions.Failover`.
    package struct Policy: Sendable {
        package var reconnect: any ReconnectPolicy = Backoff()
        /// After how many failed attempts in a row to give up; `nil` for never.
        package var maximumAttempts: Int?
        /// How long a link that did no work must stay ready for the policy to start anew.
        package var stableAfter: Duration = .seconds(10)
        /// Whether a link that ended in order is replaced even without demand.
        package var keepsLinkWarm = false
        package var retriesPermanentCauses = false
        package var order = EndpointOrder.ordered
        package var halfLife: Duration = .seconds(30)
        /// How long to stay away from the preferred endpoint; `nil` to stay where it works.
        package var returnsToPreferredAfter: Duration?
        /// How old a link may be before the next is made; `nil` for any age.
        package var maximumLinkAge: Duration?
        /// Whether the next link may be made while there is one.
        package var overlapsLinks = true
        /// Whether a link is used until the next is ready although its server has said that it goes.
        package var sendsAfterGoAway = true

        package init() {}
    }

    /// After an orderly end, a request waits for as long as is drawn from here before it connects: when a server with
    /// many clients ends all links at once, they come back spread out.
    static let promptDelay = (floor: Duration.milliseconds(10), jitter: Duration.milliseconds(40))

    /// A link that delivered pushes, and answered nothing, must have lasted for so long to prove itself: a server may
    /// say by a push why it closes.
    static let pushProof = Duration.seconds(1)

    /// A server's hint is obeyed up to here: none may send its clients away for good.
    static let longestHint = Duration.seconds(3600)

    /// When the network has changed for the better, the next attempt waits for as long as is drawn from zero to here: the
    /// clients of a network that comes back do not come all at once.
    static let networkJitter = Duration.milliseconds(80)

    /// At most one attempt in this time is made, or made anew, because the network has changed, lest a route that comes and
    /// goes keeps an attempt from its end. The first after a time without any route does not count.
    static let networkPace = Duration.seconds(1)

    /// Where a name may lead elsewhere by now, or the system's tables may not know everything, a pause is no longer than this.
    static let longestPause = Duration.seconds(60)

    package internal(set) var state = State.idle
    package let policy: Policy
    package internal(set) var ring: EndpointRing
    var generator: SeededGenerator
    /// The number of the latest attempt.
    var lastID: UInt64 = 0
    /// Attempts since the last link that proved itself that failed or led to a link that did not, or since it gave up.
    var failures = 0
    /// Waits since the last link that proved itself. A link that was lost before it did counts too, or a server that
    /// accepts and closes at once would be asked again and again without growing waits; so does giving up.
    var round = 0
    /// Why the last attempt failed or the last link ended.
    package internal(set) var lastCause = DisconnectCause.closedLocally
    /// Where the link of `ready` leads.
    var linkEndpoint: Endpoint?
    /// Since when the link is ready. Set in `ready` only.
    var readySince: Instant?
    /// In `ready`: whether the link began with a handshake.
    var hadHandshake = false
    /// In `ready`: whether the link has answered a request.
    package private(set) var hasAnswered = false
    /// In `ready`: whether the link has delivered a push.
    package private(set) var hasDelivered = false
    /// In `waiting` and `idle` after a link that proved itself and ended in order: a request may connect from here on.
    package internal(set) var promptFrom: Instant?
    /// When to see about returning to the preferred endpoint. Set in `ready`, and from one link to the next to the same
    /// server, whose links may be too short for it.
    var returnAt: Instant?
    /// When the link is to be replaced for its age. Set in `ready` only.
    var agedAt: Instant?
    /// In `ready`: the next link that is being made.
    package internal(set) var change: PlannedChange?
    /// In `noNetwork`: when to look for a route once more; `nil` for not before one appears.
    var pausedUntil: Instant?
    /// A change that waits for another to be over: to an endpoint that somebody has chosen, or that is preferred.
    var postponed: PlannedChange?
    /// When an attempt was last made because the network had changed.
    var lastPrompt = Instant.distantPast
    /// In `idle`: before this instant there is no attempt.
    var restUntil = Instant.distantPast
    /// In `waiting`: its end as far as the policy goes. A server's hint may make it later.
    var policyUntil = Instant.distantPast
    /// In `suspended`: whether to connect when it is resumed.
    var isWanted = false

    package init(endpoints: [Endpoint], policy: Policy, seed: UInt64) {
        self.policy = policy
        generator = SeededGenerator(seed: seed)
        ring = EndpointRing(endpoints, order: policy.order, halfLife: policy.halfLife, seed: generator.next())
    }

    package var endpoints: [Endpoint] { ring.endpoints }

    /// The link that is ready has answered a request.
    package mutating func linkAnswered() { hasAnswered = true }

    /// The link that is ready has delivered a push.
    package mutating func linkDelivered() { hasDelivered = true }

    /// A new link has proved nothing yet.
    mutating func beginReady(afterHandshake: Bool, at now: Instant) {
        (readySince, hadHandshake, promptFrom) = (now, afterHandshake, nil)
        (hasAnswered, hasDelivered) = (false, false)
        planRenewal(at: now)
    }

    /// The attempt under way, be it that of a planned change.
    package var attempt: Attempt? {
        if case .connecting(let attempt) = state { attempt } else { change?.attempt }
    }

    /// When `timerFired` wants to be called; `nil` for never.
    package var deadline: Instant? {
        switch state {
        case .waiting(let until, _, _): until
        case .ready:
            if let change {
                change.attempt != nil
                    ? nil : change.isRenewable ? min(change.until, agedAt ?? .distantFuture) : change.until
            } else {
                [returnAt, agedAt].compactMap { $0 }.min()
            }
        case .noNetwork: pausedUntil
        case .idle, .connecting, .suspended, .closed: nil
        }
    }
}

extension ReconnectMachine.State {
    /// Whether attempts pause for want of a route.
    package var isWithoutNetwork: Bool {
        if case .noNetwork = self { true } else { false }
    }
}
