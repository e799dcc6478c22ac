/// Happy Eyeballs version 2 (RFC 8305), without sockets or clocks: which address to connect to, and when.
///
///     resolving ──first attempt──► connecting ──attemptSucceeded──► over (won)
///         └──────── nothing to try ──────┴──── all failed ────────► over (failed)
///
/// Attempts alternate between the families, IPv6 first (§4), 250 ms apart, or at once when one fails (§5). If the IPv4
/// answer comes first, the race waits a little for the IPv6 answer (§3). When every known address has failed, it waits
/// for the other family at most `attemptDelay`: a slow name server must not hide that the server refuses connections.
/// An input about an attempt that has ended changes nothing.
package struct AddressRace: Sendable {
    package typealias AttemptID = Int

    package enum Phase: Hashable, Sendable {
        /// No attempt has started. → connecting, over
        case resolving
        /// At least one attempt has started. → over
        case connecting
        case over
    }

    package enum Action: Hashable, Sendable {
        case connect(SocketAddress, id: AttemptID)
        /// Call `timerFired` at this instant instead of any earlier one. `nil` cancels the call.
        case arm(Instant?)
        case close(AttemptID)
        case won(AttemptID)
        case fail
    }

    package struct Failure: Hashable, Sendable {
        /// `nil` for a name lookup.
        var address: SocketAddress?
        var error: TransportError
    }

    package struct Policy: Sendable {
        /// Also how long the race waits for more addresses after all others have failed. Clamped to 100 ms...2 s (§8).
        let attemptDelay: Duration
        let resolutionDelay: Duration
        var sourceFamily: AddressFamily?
        /// Bounds the length of a race, and the work for an answer of a name server with thousands of addresses.
        var maximumPerFamily = 32
        /// One connected address at a time: the server would see two links, an account-locking proxy two logins.
        var isProxied = false
        var families = Set(AddressFamily.allCases)
        /// Tried after all others, because they did not answer lately.
        var avoided: Set<SocketAddress> = []

        init(attemptDelay: Duration = .milliseconds(250), resolutionDelay: Duration = .milliseconds(50)) {
            self.attemptDelay = min(max(attemptDelay, .milliseconds(100)), .seconds(2))
            self.resolutionDelay = min(max(resolutionDelay, .zero), .seconds(2))
        }
    }

    enum Awaited: String, Sendable {
        case proxy = "the proxy has not answered"
        case tls = "TLS handshake not completed"
    }

    let policy: Policy
    private(set) var phase = Phase.resolving
    private(set) var failures: [Failure] = []
    /// Once the race is won: the addresses that failed, or were tried before the winner and did not answer.
    private(set) var passedOver: [Failure] = []
    private(set) var running: [(id: AttemptID, address: SocketAddress, start: Instant)] = []
    private(set) var connected: [AttemptID: Awaited] = [:]
    private var untried: [AddressFamily: [SocketAddress]] = [:]
    private(set) var addresses: [SocketAddress] = []
    private var known: Set<SocketAddress> = []
    private(set) var answered: Set<AddressFamily> = []
    private var lastID: AttemptID = 0
    private var lastFamily: AddressFamily?
    /// Before the first attempt: when the wait for the IPv6 answer ends.
    private var resolutionDeadline = Instant.distantFuture
    /// After every known address has failed: when the wait for the other family ends.
    private var lastChance = Instant.distantFuture
    private var nextStart = Instant.atOnce
    private var armed: Instant?

    package init(_ policy: Policy = Policy()) {
        self.policy = policy
        answered = Set(AddressFamily.allCases).subtracting(policy.families)
    }

    package mutating func resolved(
        _ family: AddressFamily,
        _ answer: Result<[SocketAddress], TransportError>,
        at now: Instant
    ) -> [Action] {
        guard phase != .over, answered.insert(family).inserted else { return [] }
        switch answer {
        case .success(let addresses): take(addresses)
        case .failure(let error): failures.append(Failure(address: nil, error: error))
        }
        if resolutionDeadline == .distantFuture { resolutionDeadline = now.advanced(by: policy.resolutionDelay) }
        return advance(at: now)
    }

    package mutating func resolved(to addresses: [SocketAddress], at now: Instant) -> [Action] {
        guard phase != .over else { return [] }
        answered = [.ipv6, .ipv4]
        take(addresses)
        return advance(at: now)
    }

    /// How many times as long as the winner an address must have been silent to be taken for one that does not answer.
    private static let silenceOfDead = 10

    /// The socket is connected, so the address counts as one that answers.
    mutating func attemptConnected(_ id: AttemptID, awaiting awaited: Awaited = .tls) {
        connected[id] = awaited
    }

    /// The attempt connects once more to the same address, and stays in the race.
    mutating func attemptRepeated(_ id: AttemptID, at now: Instant) {
        connected[id] = nil
        // How long the first connection took says nothing about the address now.
        guard let index = running.firstIndex(where: { $0.id == id }) else { return }
        running[index].start = now
    }

    package mutating func attemptSucceeded(_ id: AttemptID, at now: Instant) -> [Action] {
        guard phase != .over, let winner = running.first(where: { $0.id == id }) else { return [] }
        let losers = running.filter { $0.id != id }
        passedOver = failures.filter { $0.address != nil && !$0.error.isAnswerOfProxy }
        // An address that is only slower, or whose TLS handshake has begun, is not dead.
        let needed = now.since(winner.start)
        for loser in losers where loser.id < id && connected[loser.id] == nil {
            let silence = now.since(loser.start)
            guard silence >= .milliseconds(100), silence >= needed * Self.silenceOfDead else { continue }
            let error = TransportError(.timedOut, "no answer from \(loser.address) in \(silence.text)")
            passedOver.append(Failure(address: loser.address, error: error))
        }
        end()
        return losers.map { .close($0.id) } + [.won(id)]
    }

    package mutating func attemptFailed(_ id: AttemptID, _ error: TransportError, at now: Instant) -> [Action] {
        guard phase != .over, let index = running.firstIndex(where: { $0.id == id }) else { return [] }
        failures.append(Failure(address: running.remove(at: index).address, error: error))
        connected[id] = nil
        nextStart = .atOnce
        return advance(at: now)
    }

    package mutating func timerFired(at now: Instant) -> [Action] {
        armed = nil
        return advance(at: now)
    }

    private mutating func take(_ addresses: [SocketAddress]) {
        var counts: [AddressFamily: Int] = [:]
        for address in self.addresses { counts[address.family ?? .ipv4, default: 0] += 1 }
        for address in addresses {
            let family = address.family ?? .ipv4
            guard counts[family, default: 0] < policy.maximumPerFamily, known.insert(address).inserted else { continue }
            counts[family, default: 0] += 1
            self.addresses.append(address)
            if let source = policy.sourceFamily, let family = address.family, family != source {
                let message =
                    "connecting to \(address): the source address is \(source.name), but this address is \(family.name)"
                failures.append(Failure(address: address, error: TransportError(.invalidAddress, message)))
            } else {
                untried[family, default: []].append(address)
            }
        }
    }

    private var hasUntried: Bool { untried.values.contains { !$0.isEmpty } }

    private var unanswered: [AddressFamily] {
        AddressFamily.allCases.filter { !answered.contains($0) && (policy.sourceFamily ?? $0) == $0 }
    }

    var isResolved: Bool { unanswered.isEmpty }

    var hasFailedLookup: Bool { failures.contains { $0.address == nil && !$0.error.isNoSuchName } }

    private var hasTried: Bool { lastID > 0 }

    private var earliestStart: Instant {
        switch phase {
        // With an IPv4 source address, IPv6 addresses are of no use.
        case .resolving: answered.contains(.ipv6) || policy.sourceFamily == .ipv4 ? .atOnce : resolutionDeadline
        case .connecting, .over:
            running.isEmpty ? .atOnce : policy.isProxied && !connected.isEmpty ? .distantFuture : nextStart
        }
    }

    private mutating func advance(at now: Instant) -> [Action] {
        guard phase != .over else { return [] }
        var actions: [Action] = []
        while earliestStart <= now, let address = nextAddress() {
            phase = .connecting
            lastID += 1
            running.append((lastID, address, now))
            nextStart = now.advanced(by: policy.attemptDelay)
            actions.append(.connect(address, id: lastID))
        }
        let isOut = running.isEmpty && !hasUntried
        if isOut, hasTried, lastChance == .distantFuture { lastChance = now.advanced(by: policy.attemptDelay) }
        if isOut, isResolved || lastChance <= now {
            end()
            return [.fail]
        }
        let next = hasUntried ? earliestStart : isOut && hasTried ? lastChance : nil
        if next != armed {
            armed = next
            actions.append(.arm(next))
        }
        return actions
    }

    private mutating func nextAddress() -> SocketAddress? {
        let turn = lastFamily?.other ?? .ipv6
        for isAvoided in policy.avoided.isEmpty ? [false] : [false, true] {
            for family in [turn, turn.other] {
                guard let place = untried[family]?.firstIndex(where: { policy.avoided.contains($0) == isAvoided })
                else {
                    continue
                }
                lastFamily = family
                return untried[family]?.remove(at: place)
            }
        }
        return nil
    }

    private mutating func end() {
        phase = .over
        running = []
        untried = [:]
    }

    /// Of several failures, the most informative gives the code: a refusal says more than a missing route.
    func error(connectingTo name: String) -> TransportError {
        let reported = reportedErrors
        guard let first = reported.first else {
            // A permanent failure, whichever answer comes first.
            if let family = policy.sourceFamily?.name {
                let reason = "the source address is \(family), but the name has no \(family) address"
                return TransportError(.invalidAddress, "connecting to \(name): \(reason)")
            }
            let family = policy.families.count == 1 ? policy.families.first.map { "\($0.name) " } : nil
            return TransportError(.nameResolutionFailed, "resolving \(name): the name has no \(family ?? "")address")
        }
        let missing = unanswered.map { "the look-up of \($0.name) addresses is not answered" }
        // A copy: it keeps what else is known about the failure.
        var telling = reported.min { $0.code.rank < $1.code.rank } ?? first
        let list = list(reported.map(\.message) + missing)
        let isOnly = reported.count == 1
        telling.message = (isOnly ? list : "connecting to \(name): no address can be reached: \(list)").asMessage
        return telling
    }

    /// If every address so far has failed, the reason for that. `obstacle`: why the lookups have not begun.
    func timeoutError(
        connectingTo name: String,
        after timeout: Duration,
        obstacle: String? = nil
    ) -> TransportError {
        if phase == .resolving && running.isEmpty {
            let what = obstacle.map { "not looked up within \(timeout): \($0)" } ?? "no answer within \(timeout)"
            return TransportError(.nameResolutionFailed, "resolving \(name): \(what)")
        }
        if running.isEmpty { return error(connectingTo: name) }
        let silent = running.map { attempt in
            connected[attempt.id].map { "connected to \(attempt.address), \($0.rawValue)" }
                ?? "no answer from \(attempt.address)"
        }
        let details = list(silent + reportedErrors.map(\.message))
        let message = "connecting to \(name): no link within \(timeout)" + (details.isEmpty ? "" : ": " + details)
        return TransportError(.timedOut, message)
    }

    private var reportedErrors: [TransportError] {
        // A family without addresses matters only if the other has none either. A lookup that failed does matter.
        let hadAddresses = !running.isEmpty || failures.contains { $0.address != nil }
        var errors: [TransportError] = []
        for failure in failures
        where failure.address != nil || !hadAddresses || !failure.error.isNoSuchName {
            if errors.contains(failure.error) { continue }
            errors.append(failure.error)
        }
        return errors
    }

    private func list(_ messages: [String]) -> String {
        let more = messages.count > 8 ? "; and \(messages.count - 8) more" : ""
        return messages.prefix(8).joined(separator: "; ") + more
    }
}

extension Instant {
    fileprivate static let atOnce = Instant(nanoseconds: .min)
}

extension TransportError {
    /// The proxy answered, so its address can be used.
    fileprivate var isAnswerOfProxy: Bool {
        if case .proxy(let failure) = code { failure != .unreachable } else { false }
    }
}

extension TransportError.Code {
    /// The lower the rank, the more the code says about the server.
    fileprivate var rank: Int {
        switch self {
        case .proxy(.unreachable): 5
        case .tls, .proxy: 0
        case .refused: 1
        case .reset: 2
        case .closedByPeer, .closedLocally, .exited: 3
        case .timedOut, .halfOpen: 4
        case .unreachable, .pathLost: 5
        case .system: 6
        case .invalidAddress: 7
        case .nameResolutionFailed: 8
        }
    }
}
