/// Decides which address of a server to connect to, and when: Happy Eyeballs version 2 (RFC 8305), without sockets or
/// clocks.
///
///     resolving ──first attempt──► connecting ──attemptSucceeded──► over (won)
///         └──────── nothing to try ──────┴──── all failed ────────► over (failed)
///
/// IPv6 and IPv4 addresses are looked up separately. Attempts alternate between the families, IPv6 first (§4). An
/// attempt starts 250 ms after the one before it, or at once when one fails (§5); earlier attempts continue meanwhile.
/// If the IPv4 answer comes first, the race waits a little for the IPv6 answer (§3).
///
/// When every address that is known so far has failed, the race waits for the answer of the other family no longer than
/// for another attempt (`attemptDelay`). Then it fails, with the reason why the addresses have failed: a slow name
/// server must not hide that the server refuses connections.
///
/// The first attempt that is *usable* wins, and all others are closed. Where a TLS handshake follows, a connected
/// socket is not usable until that handshake is complete.
///
/// Every input returns the actions to perform, in order. An input about an attempt that has ended changes nothing.
package struct AddressRace: Sendable {
    /// The number of an attempt at one address, unique within its race. Starts at 1.
    package typealias AttemptID = Int

    package enum Phase: Hashable, Sendable {
        /// No attempt has started. Next states: connecting, over.
        case resolving
        /// At least one attempt has started. Next state: over.
        case connecting
        /// The race is won or has failed.
        case over
    }

    package enum Action: Hashable, Sendable {
        /// Connect, then report `attemptSucceeded` or `attemptFailed`.
        case connect(SocketAddress, id: AttemptID)
        /// Call `timerFired` at this instant instead of any earlier one. `nil` cancels the call.
        case arm(Instant?)
        /// The attempt has lost. Close its socket.
        case close(AttemptID)
        /// The attempt has won. This is the last action of a race.
        case won(AttemptID)
        /// Every address has failed, or there are no addresses. `error(connectingTo:)` returns the reason. This is the
        /// last action of a race.
        case fail
    }

    /// A failed attempt or a failed name lookup.
    package struct Failure: Hashable, Sendable {
        /// The address of the attempt, or `nil` for a name lookup.
        package var address: SocketAddress?
        package var error: TransportError
    }

    /// The settings of a race.
    package struct Policy: Sendable {
        /// The time from the start of one attempt to the start of the next, and how long the race waits for more
        /// addresses after all others have failed. Clamped to 100 ms...2 s (§8).
        package let attemptDelay: Duration
        /// How long the race waits for the IPv6 answer after the IPv4 answer. Clamped to 0...2 s.
        package let resolutionDelay: Duration
        /// The family of the source address, if there is one. Addresses of the other family cannot be reached from it.
        package var sourceFamily: AddressFamily?
        /// The maximum number of addresses of one family that are kept and tried; the others are ignored. It bounds the
        /// length of a race and the work for one answer of a name server, which may have thousands of addresses.
        package var maximumPerFamily = 32
        /// Whether the addresses are those of a proxy. While one of them is asked to connect, no other one is: the server would
        /// see two links, and a proxy that locks accounts two logins.
        package var isProxied = false
        /// The families that are looked up. A complete list of addresses may have others.
        package var families = Set(AddressFamily.allCases)
        /// Addresses that are tried after all others, because they did not answer lately.
        package var avoided: Set<SocketAddress> = []

        package init(attemptDelay: Duration = .milliseconds(250), resolutionDelay: Duration = .milliseconds(50)) {
            self.attemptDelay = min(max(attemptDelay, .milliseconds(100)), .seconds(2))
            self.resolutionDelay = min(max(resolutionDelay, .zero), .seconds(2))
        }
    }

    /// What a connected socket waits for before it is usable.
    package enum Awaited: String, Sendable {
        case proxy = "the proxy has not answered"
        case tls = "TLS handshake not completed"
    }

    package let policy: Policy
    package private(set) var phase = Phase.resolving
    /// The failures so far, in the order in which they happened.
    package private(set) var failures: [Failure] = []
    /// Once the race is won: the addresses that failed, or that did not answer although they were tried before the winner.
    package private(set) var passedOver: [Failure] = []
    /// The attempts in progress, in the order in which they started.
    package private(set) var running: [(id: AttemptID, address: SocketAddress, start: Instant)] = []
    /// The running attempts whose socket is connected, and what they wait for.
    package private(set) var connected: [AttemptID: Awaited] = [:]
    /// The addresses that have not been tried, by family. A Unix domain socket counts as IPv4.
    private var untried: [AddressFamily: [SocketAddress]] = [:]
    /// Every address that the race has taken, in that order. No address is tried twice.
    package private(set) var addresses: [SocketAddress] = []
    private var known: Set<SocketAddress> = []
    /// The families whose lookup has been answered.
    package private(set) var answered: Set<AddressFamily> = []
    private var lastID: AttemptID = 0
    /// The family of the latest attempt.
    private var lastFamily: AddressFamily?
    /// Before the first attempt: when the wait for the IPv6 answer ends.
    private var resolutionDeadline = Instant.distantFuture
    /// After every known address has failed: when the wait for the other family ends.
    private var lastChance = Instant.distantFuture
    /// When the next attempt may start while others are in progress.
    private var nextStart = Instant.atOnce
    private var armed: Instant?

    package init(_ policy: Policy = Policy()) {
        self.policy = policy
        answered = Set(AddressFamily.allCases).subtracting(policy.families)
    }

    // MARK: Inputs

    /// Takes the result of the name lookup for one family. Only the first result of a family counts.
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

    /// Takes the complete list of addresses, when no name lookup is needed.
    package mutating func resolved(to addresses: [SocketAddress], at now: Instant) -> [Action] {
        guard phase != .over else { return [] }
        answered = [.ipv6, .ipv4]
        take(addresses)
        return advance(at: now)
    }

    /// How many times as long as the winner an address must have been silent to be taken for one that does not answer.
    private static let silenceOfDead = 10

    /// Records that the attempt's socket is connected and waits for something else. It is not taken for an address that does
    /// not answer.
    package mutating func attemptConnected(_ id: AttemptID, awaiting awaited: Awaited = .tls) {
        connected[id] = awaited
    }

    /// Records that the attempt connects once more to the same address. It stays in the race.
    package mutating func attemptRepeated(_ id: AttemptID, at now: Instant) {
        connected[id] = nil
        // How long the first connection took says nothing about the address now.
        guard let index = running.firstIndex(where: { $0.id == id }) else { return }
        running[index].start = now
    }

    /// Records that the attempt is usable. It wins the race.
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

    // MARK: Rules

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

    /// The families whose lookup has not been answered. One that the source address cannot reach does not count.
    private var unanswered: [AddressFamily] {
        AddressFamily.allCases.filter { !answered.contains($0) && (policy.sourceFamily ?? $0) == $0 }
    }

    /// Whether every lookup that matters has been answered.
    package var isResolved: Bool { unanswered.isEmpty }

    /// Whether a lookup has failed, so that the name may have other addresses than those that are known.
    package var hasFailedLookup: Bool { failures.contains { $0.address == nil && !$0.error.isNoSuchName } }

    private var hasTried: Bool { lastID > 0 }

    /// When the next attempt may start.
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

    /// Takes the next address: from the family whose turn it is, otherwise from the other family. Those to avoid come last.
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

    // MARK: Errors

    /// Returns the error for a race in which every address failed.
    ///
    /// A single failure is returned as it is. Of several failures, the code and error number come from the most
    /// informative one (a refused connection says more than a missing route), and the message lists all of them. That the
    /// name has no addresses of a family is left out if it has others, because most names have addresses of one family only.
    /// A lookup that was not answered is not: the server may have other addresses.
    ///
    /// If the race ended before every lookup was answered, the message says so.
    package func error(connectingTo name: String) -> TransportError {
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
        if reported.count == 1 {
            let message = list([first.message] + missing)
            return TransportError(first.code, errno: first.errno, message)
        }
        let telling = reported.min { $0.code.rank < $1.code.rank } ?? first
        let message = "connecting to \(name): no address can be reached: " + list(reported.map(\.message) + missing)
        return TransportError(telling.code, errno: telling.errno, message)
    }

    /// Returns the error for a race that did not end within `timeout`: if every address so far has failed, the reason for
    /// that.
    ///
    /// - Parameter obstacle: Why the lookups have not begun, or `nil` if they have.
    package func timeoutError(
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
        // A family without addresses does not matter if the other family has some, whether they failed or are in
        // progress. A lookup that failed does.
        let hadAddresses = !running.isEmpty || failures.contains { $0.address != nil }
        var errors: [TransportError] = []
        for failure in failures
        where failure.address != nil || !hadAddresses || !failure.error.isNoSuchName {
            if errors.contains(failure.error) { continue }
            errors.append(failure.error)
        }
        return errors
    }

    /// Joins at most eight of `messages`, which are enough for a diagnosis.
    private func list(_ messages: [String]) -> String {
        let more = messages.count > 8 ? "; and \(messages.count - 8) more" : ""
        return messages.prefix(8).joined(separator: "; ") + more
    }
}

extension Instant {
    /// Earlier than every instant that a clock shows.
    fileprivate static let atOnce = Instant(nanoseconds: .min)
}

extension TransportError {
    /// Whether a proxy answered, so that its address can be used.
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
