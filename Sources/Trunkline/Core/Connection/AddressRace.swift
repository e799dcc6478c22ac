/// Which address of a server to connect to, and when: Happy Eyeballs version 2 (RFC 8305), without sockets or clocks.
///
///     resolving ──first attempt──► connecting ──attemptSucceeded──► over (won)
///         └──────── nothing to try ──────┴──── all failed ────────► over (failed)
///
/// The two families are asked for separately. IPv6 comes first and then they take turns (§4), each attempt 250 ms after
/// the one before, or at once when one fails (§5); the attempts under way go on meanwhile. If IPv4 answers first, IPv6
/// is waited for a little (§3). The first attempt that is *usable* wins, which is more than connected where a TLS
/// handshake follows; all others are closed.
///
/// Every input returns what is to be done, in that order. Inputs about attempts that are gone change nothing.
package struct AddressRace: Sendable {
    /// Distinguishes the attempts of one race, from 1.
    package typealias AttemptID = Int

    package enum Phase: Hashable, Sendable {
        /// No attempt was started yet. → connecting, over
        case resolving
        /// At least one was. → over
        case connecting
        /// Won or failed.
        case over
    }

    package enum Action: Hashable, Sendable {
        /// Connect and report `attemptSucceeded` or `attemptFailed`.
        case connect(SocketAddress, id: AttemptID)
        /// Call `timerFired` at this instant and at none named before; `nil`: at none.
        case arm(Instant?)
        /// The attempt has lost: close its socket.
        case close(AttemptID)
        /// The attempt has won. The last action of a race.
        case won(AttemptID)
        /// Every address has failed, or there is none: `error(connectingTo:)` tells. The last action of a race.
        case fail
    }

    /// An attempt, or a name's resolution, that failed.
    package struct Failure: Hashable, Sendable {
        /// Where to; `nil` when it was the resolution of the name.
        package var address: SocketAddress?
        package var error: TransportError
    }

    /// What the race goes by.
    package struct Policy: Sendable {
        /// From one attempt to the next; held within 100 ms and 2 s (§8).
        package let attemptDelay: Duration
        /// From IPv4's answer, for how long IPv6's is waited for; held within 0 and 2 s.
        package let resolutionDelay: Duration
        /// The family of the address that sockets are bound to: the other family cannot be reached from it.
        package var sourceFamily: AddressFamily?
        /// Addresses of one family beyond so many are not tried: an answer must not keep us busy for ever.
        package var maximumPerFamily = 32

        package init(attemptDelay: Duration = .milliseconds(250), resolutionDelay: Duration = .milliseconds(50)) {
            self.attemptDelay = min(max(attemptDelay, .milliseconds(100)), .seconds(2))
            self.resolutionDelay = min(max(resolutionDelay, .zero), .seconds(2))
        }
    }

    package let policy: Policy
    package private(set) var phase = Phase.resolving
    /// What has failed so far, in order.
    package private(set) var failures: [Failure] = []
    /// The attempts under way, in the order they were started.
    package private(set) var running: [(id: AttemptID, address: SocketAddress)] = []
    /// Those of them whose socket is connected, and which cannot be used before a TLS handshake is over.
    package private(set) var connected: Set<AttemptID> = []
    /// Not yet tried, by family; what is of no family counts as IPv4.
    private var untried: [AddressFamily: [SocketAddress]] = [:]
    /// Every address ever taken, so that none is tried twice.
    private var known: Set<SocketAddress> = []
    private var answered: Set<AddressFamily> = []
    private var lastID: AttemptID = 0
    /// The family of the latest attempt.
    private var lastFamily: AddressFamily?
    /// Before the first attempt: how long IPv6 is waited for.
    private var resolutionDeadline = Instant.distantFuture
    /// When the next attempt may start although others are under way.
    private var nextStart = Instant.atOnce
    private var armed: Instant?

    package init(_ policy: Policy = Policy()) { self.policy = policy }

    // MARK: Inputs

    /// The name was looked up in one family. Only the first answer of a family counts.
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

    /// There was nothing to look up: these are all addresses there are.
    package mutating func resolved(to addresses: [SocketAddress], at now: Instant) -> [Action] {
        guard phase != .over else { return [] }
        answered = [.ipv6, .ipv4]
        take(addresses)
        return advance(at: now)
    }

    /// The attempt's socket is connected, and its TLS handshake begins. Changes nothing but what a timeout says.
    package mutating func attemptConnected(_ id: AttemptID) { connected.insert(id) }

    /// The attempt can be used.
    package mutating func attemptSucceeded(_ id: AttemptID) -> [Action] {
        guard phase != .over, running.contains(where: { $0.id == id }) else { return [] }
        let losers = running.filter { $0.id != id }
        end()
        return losers.map { .close($0.id) } + [.won(id)]
    }

    package mutating func attemptFailed(_ id: AttemptID, _ error: TransportError, at now: Instant) -> [Action] {
        guard phase != .over, let index = running.firstIndex(where: { $0.id == id }) else { return [] }
        failures.append(Failure(address: running.remove(at: index).address, error: error))
        nextStart = .atOnce
        return advance(at: now)
    }

    package mutating func timerFired(at now: Instant) -> [Action] {
        armed = nil
        return advance(at: now)
    }

    // MARK: Rules

    private mutating func take(_ addresses: [SocketAddress]) {
        for address in addresses {
            let family = address.family ?? .ipv4
            guard !known.contains(address) else { continue }
            guard known.count(where: { ($0.family ?? .ipv4) == family }) < policy.maximumPerFamily else { continue }
            known.insert(address)
            if let source = policy.sourceFamily, let family = address.family, family != source {
                let message = "connecting to \(address): the source address is \(source.name), this one \(family.name)"
                failures.append(Failure(address: address, error: TransportError(.invalidAddress, message)))
            } else {
                untried[family, default: []].append(address)
            }
        }
    }

    private var hasUntried: Bool { untried.values.contains { !$0.isEmpty } }

    /// When the next attempt may start.
    private var earliestStart: Instant {
        switch phase {
        // From an IPv4 source address, nothing that IPv6 says will be of use.
        case .resolving: answered.contains(.ipv6) || policy.sourceFamily == .ipv4 ? .atOnce : resolutionDeadline
        case .connecting, .over: running.isEmpty ? .atOnce : nextStart
        }
    }

    private mutating func advance(at now: Instant) -> [Action] {
        guard phase != .over else { return [] }
        var actions: [Action] = []
        while earliestStart <= now, let address = nextAddress() {
            phase = .connecting
            lastID += 1
            running.append((lastID, address))
            nextStart = now.advanced(by: policy.attemptDelay)
            actions.append(.connect(address, id: lastID))
        }
        if running.isEmpty, !hasUntried, answered.count == AddressFamily.allCases.count {
            end()
            return [.fail]
        }
        let next = hasUntried ? earliestStart : nil
        if next != armed {
            armed = next
            actions.append(.arm(next))
        }
        return actions
    }

    /// Takes the next address: of the family whose turn it is, if it has one.
    private mutating func nextAddress() -> SocketAddress? {
        let turn = lastFamily?.other ?? .ipv6
        for family in [turn, turn.other] where untried[family]?.isEmpty == false {
            lastFamily = family
            return untried[family]?.removeFirst()
        }
        return nil
    }

    private mutating func end() {
        phase = .over
        running = []
        untried = [:]
    }

    // MARK: What a race that nobody won has to say

    /// Why there is no link although every address was tried.
    ///
    /// One failure speaks for itself. Of several, the code and error number are those of the most telling one (a refusal
    /// says more than a missing route), and the message lists them all. What went wrong with names is left out when
    /// there were addresses: most names have addresses of one family only.
    package func error(connectingTo name: String) -> TransportError {
        let reported = reportedErrors
        guard let first = reported.first else {
            return TransportError(.nameResolutionFailed, "resolving \(name): it has no address")
        }
        if reported.count == 1 { return first }
        let telling = reported.min { $0.code.rank < $1.code.rank } ?? first
        let message = "connecting to \(name): no address can be reached: " + list(reported.map(\.message))
        return TransportError(telling.code, errno: telling.errno, message)
    }

    /// Why there is no link at the end of the time.
    package func timeoutError(connectingTo name: String, after timeout: Duration) -> TransportError {
        if phase == .resolving && running.isEmpty {
            return TransportError(.nameResolutionFailed, "resolving \(name): no answer within \(timeout)")
        }
        let silent = running.map { attempt in
            connected.contains(attempt.id)
                ? "connected to \(attempt.address), TLS handshake not completed"
                : "no answer from \(attempt.address)"
        }
        let details = list(silent + reportedErrors.map(\.message))
        let message = "connecting to \(name): no link within \(timeout)" + (details.isEmpty ? "" : ": " + details)
        return TransportError(.timedOut, message)
    }

    private var reportedErrors: [TransportError] {
        // One family without addresses is no news where the other has some: failed, or still under way.
        let hadAddresses = !running.isEmpty || failures.contains { $0.address != nil }
        var errors: [TransportError] = []
        for failure in failures where failure.address != nil || !hadAddresses {
            if errors.contains(failure.error) { continue }
            errors.append(failure.error)
        }
        return errors
    }

    /// At most eight of `messages`: enough to see what is wrong.
    private func list(_ messages: [String]) -> String {
        let more = messages.count > 8 ? "; and \(messages.count - 8) more" : ""
        return messages.prefix(8).joined(separator: "; ") + more
    }
}

extension Instant {
    /// Before every instant a clock shows.
    fileprivate static let atOnce = Instant(nanoseconds: .min)
}

extension TransportError.Code {
    /// The lower, the more it says about the server.
    fileprivate var rank: Int {
        switch self {
        case .tls: 0
        case .refused: 1
        case .reset: 2
        case .closedByPeer, .closedLocally: 3
        case .timedOut, .halfOpen: 4
        case .unreachable, .pathLost: 5
        case .system: 6
        case .invalidAddress: 7
        case .nameResolutionFailed: 8
        }
    }
}
