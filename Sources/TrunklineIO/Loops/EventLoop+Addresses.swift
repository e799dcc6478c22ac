extension EventLoop {
    /// Waits for the answers of all `families`, at most for `timeout`. Cancelling the task cancels the look-ups.
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

package struct HostAnswer: Sendable {
    var found: [AddressFamily: [SocketAddress]] = [:]
    var failures: [AddressFamily: TransportError] = [:]
    /// Why there is no address at all; `timedOut` if an answer is missing.
    package var failure: TransportError?
}

/// The addresses of a name, from the latest answer of each family. A failed look-up leaves those of its family.
package struct KnownAddresses: Sendable {
    private var known: [AddressFamily: [SocketAddress]] = [:]

    package init() {}

    package var all: [SocketAddress] {
        var (seen, list): (Set<SocketAddress>, [SocketAddress]) = ([], [])
        for family in AddressFamily.allCases {
            for address in known[family] ?? [] where seen.insert(address).inserted { list.append(address) }
        }
        return list
    }

    /// One address of each family: most probably those of one server.
    package var isOfOneServer: Bool { AddressFamily.allCases.allSatisfy { known[$0]?.count == 1 } }

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

private final class HostQuestion: Sendable {
    private struct State: Sendable {
        var lookups: [NameLookup] = []
        var answers: [AddressFamily: NameLookup.Answer] = [:]
        var isOver = false
    }

    private let host: String
    private let families: [AddressFamily]
    private let state = Lock(State())

    init(_ host: String, _ families: Set<AddressFamily>) {
        self.host = host
        self.families = AddressFamily.allCases.filter { families.contains($0) }
    }

    /// Calls `completion` after the last answer. Call this on the loop.
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
