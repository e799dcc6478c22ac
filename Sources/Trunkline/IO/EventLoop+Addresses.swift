extension EventLoop {
    /// Looks up the addresses of `host` in both families and waits for both answers, at most for `timeout`. Returns the
    /// addresses, IPv6 first, without duplicates.
    ///
    /// - If one family fails, is empty or is not answered in time, returns the addresses of the other.
    /// - If there is no address, returns an error that names the host: `timedOut` if an answer is missing, otherwise
    ///   `nameResolutionFailed`.
    /// - If the task is cancelled, returns at once with an error and cancels the look-ups.
    nonisolated(nonsending) func addresses(
        of host: String,
        port: UInt16,
        within timeout: Duration
    ) async -> NameLookup.Answer {
        let (question, isAnswered) = (HostQuestion(host), Alarm(on: self))
        schedule(LoopClosure { question.ask(on: self, port: port) { isAnswered.ring() } })
        await isAnswered.wait(until: now.advanced(by: timeout))
        return question.outcome(after: timeout)
    }
}

/// The look-ups of one name in both families.
private final class HostQuestion: Sendable {
    private struct State: Sendable {
        var lookups: [NameLookup] = []
        var answers: [AddressFamily: NameLookup.Answer] = [:]
        var isOver = false
    }

    private let host: String
    private let state = Lock(State())

    init(_ host: String) { self.host = host }

    /// Begins the look-ups. `completion` is called after the last answer. Call this on the loop.
    func ask(on loop: any EventLoop, port: UInt16, _ completion: @escaping @Sendable () -> Void) {
        for family in AddressFamily.allCases where !state.withLock({ $0.isOver }) {
            let lookup = loop.resolve(host, port: port, family: family) { [weak self] answer in
                guard let self else { return }
                let count = state.withLock { state in
                    state.answers[family] = answer
                    return state.answers.count
                }
                if count == AddressFamily.allCases.count { completion() }
            }
            state.withLock { $0.lookups.append(lookup) }
        }
    }

    /// Ends the question. Returns the addresses that were found, or why there are none.
    func outcome(after timeout: Duration) -> NameLookup.Answer {
        let (lookups, answers) = state.withLock { state in
            defer { state.isOver = true }
            return (exchange(&state.lookups, with: []), state.answers)
        }
        let obstacle = lookups.compactMap(\.obstacle).first
        for lookup in lookups { lookup.cancel() }

        var (addresses, failures, missing): ([SocketAddress], [String], [String]) = ([], [], [])
        for family in AddressFamily.allCases {
            switch answers[family] {
            case .success(let found)?:
                for address in found where !addresses.contains(address) { addresses.append(address) }
            case .failure(let error)?: failures.append(error.message)
            case nil: missing.append(family.name)
            }
        }
        if !addresses.isEmpty { return .success(addresses) }
        let name = host.withoutCredentials.escaped()
        if !missing.isEmpty {
            let families = missing.joined(separator: " and ")
            let reason = obstacle.map { ": \($0)" } ?? ""
            let message = "resolving \(name): no answer for \(families) within \(timeout)\(reason)"
            return .failure(TransportError(.timedOut, ([message] + failures).joinedPhrases))
        }
        if failures.isEmpty { failures = ["resolving \(name): the name has no addresses"] }
        return .failure(TransportError(.nameResolutionFailed, failures.joinedPhrases))
    }
}
