/// What a race that nobody won has to say.
extension AddressRace {
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

extension TransportError.Code {
    /// The lower, the more it says about the server.
    fileprivate var rank: Int {
        switch self {
        case .tls: 0
        case .refused: 1
        case .reset: 2
        case .closedByPeer, .closedLocally: 3
        case .timedOut, .halfOpen: 4
        case .unreachable: 5
        case .system: 6
        case .invalidAddress: 7
        case .nameResolutionFailed: 8
        }
    }
}
