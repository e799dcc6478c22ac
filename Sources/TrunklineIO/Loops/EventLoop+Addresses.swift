extension EventLoop {
    /// Looks up the addresses of `host` in both families and waits for both answers, at most for `timeout`. If the task is
    /// cancelled, returns at once and cancels the look-ups.
    package nonisolated(nonsending) func addresses(
        of host: String,
        port: UInt16,
        in families: Set<AddressFamily> = Set(AddressFamily.allCases),
        within timeout: Duration
    ) async -> HostAnswer {
        let (question, isAnswered) = (HostQuestion(host, families), Alarm(on: self))
        schedule(LoopClosure { question.ask(on: self, port: port) { isAnswered.ring() } })
        await isAnswered.wait(until: now.advanced(by: timeout))
        return question.outcome(after: timeout)
    }
}

/// What the look-ups of a name in each family have found.
package struct HostAnswer: Sendable {
    /// The addresses of each family that was answered, also if there are none.
    var found: [AddressFamily: [SocketAddress]] = [:]
    /// Why another family is not answered: its look-up failed or took too long. It may have addresses.
    var failures: [AddressFamily: TransportError] = [:]
    /// Why there is no address at all; `nil` if there is one. The code is `timedOut` if an answer is missing, otherwise
    /// `nameResolutionFailed`.
    package var failure: TransportError?
}

/// The addresses of a name: for each family, those of its latest answer.
///
/// If the look-up of one family fails, its addresses stay: half an answer says nothing about them.
package struct KnownAddresses: Sendable {
    private var known: [AddressFamily: [SocketAddress]] = [:]

    package init() {}

    /// The addresses, IPv6 first, without duplicates.
    package var all: [SocketAddress] {
        var (seen, list): (Set<SocketAddress>, [SocketAddress]) = ([], [])
        for family in AddressFamily.allCases {
            for address in known[family] ?? [] where seen.insert(address).inserted { list.append(address) }
        }
        return list
    }

    /// Whether there is one address of each family: most probably they are those of one server.
    package var isOfOneServer: Bool { AddressFamily.allCases.allSatisfy { known[$0]?.count == 1 } }

    /// Takes an answer. Returns what is missing in it; `nil` if it is complete.
    package mutating func take(_ answer: HostAnswer) -> TransportError? {
        if let failure = answer.failure { return failure }
        known.merge(answer.found) { $1 }
        let missing = AddressFamily.allCases.compactMap { family in answer.failures[family].map { (family, $0) } }
        guard let first = missing.first?.1 else { return nil }
        let reasons = missing.map { family, error in
            let kept = known[family]?.count ?? 0
            let addresses = "\(family.name) \(kept == 1 ? "address" : "addresses")"
            let rest =
                switch kept {
                case 0: "no \(addresses) are used"
                case 1: "the one \(addresses) found before stays in use"
                default: "the \(kept) \(addresses) found before stay in use"
                }
            return "\(error.message); \(rest)"
        }
        return TransportError(first.code, errno: first.errno, reasons.joinedPhrases)
    }
}

/// The look-ups of one name in its families.
private final class HostQuestion: Sendable {
    private struct State: Sendable {
        var lookups: [NameLookup] = []
        var answers: [AddressFamily: NameLookup.Answer] = [:]
        var isOver = false
    }

    private let host: String
    private let families: [AddressFamily]
    private let state = Lock(State())

    package init(_ host: String, _ families: Set<AddressFamily>) {
        self.host = host
        self.families = AddressFamily.allCases.filter { families.contains($0) }
    }

    /// Begins the look-ups. `completion` is called after the last answer. Call this on the loop.
    func ask(on loop: any EventLoop, port: UInt16, _ completion: @escaping @Sendable () -> Void) {
        for family in families where !state.withLock({ $0.isOver }) {
            let lookup = loop.resolve(host, port: port, family: family) { [weak self] answer in
                guard let self else { return }
                let count = state.withLock { state in
                    state.answers[family] = answer
                    return state.answers.count
                }
                if count == families.count { completion() }
            }
            state.withLock { $0.lookups.append(lookup) }
        }
    }

    /// Ends the question. Returns the addresses that were found, or why there are none.
    func outcome(after timeout: Duration) -> HostAnswer {
        let (lookups, answers) = state.withLock { state in
            defer { state.isOver = true }
            return (exchange(&state.lookups, with: []), state.answers)
        }
        let obstacle = lookups.compactMap(\.obstacle).first
        for lookup in lookups { lookup.cancel() }

        var (answer, failures, missing) = (HostAnswer(), [String](), [AddressFamily]())
        for family in families {
            switch answers[family] {
            case .success(let found)?: answer.found[family] = found
            case .failure(let error)?:
                failures.append(error.message)
                if error.isNoSuchName { answer.found[family] = [] } else { answer.failures[family] = error }
            case nil: missing.append(family)
            }
        }
        let name = host.withoutCredentials.escaped()
        func unanswered(_ families: [AddressFamily]) -> TransportError {
            let names = families.map(\.name).joined(separator: " and ")
            let reason = obstacle.map { ": \($0)" } ?? ""
            return TransportError(.timedOut, "resolving \(name): no answer for \(names) within \(timeout)\(reason)")
        }
        for family in missing { answer.failures[family] = unanswered([family]) }
        guard answer.found.values.allSatisfy(\.isEmpty) else { return answer }
        if !missing.isEmpty {
            answer.failure = TransportError(.timedOut, ([unanswered(missing).message] + failures).joinedPhrases)
        } else {
            if failures.isEmpty { failures = ["resolving \(name): the name has no addresses"] }
            answer.failure = TransportError(.nameResolutionFailed, failures.joinedPhrases)
        }
        return answer
    }
}
