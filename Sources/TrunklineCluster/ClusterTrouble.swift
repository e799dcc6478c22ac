import TrunklineCore

/// Why servers of a cluster are not ready. All errors between two changes of the servers share it: to collect it takes
/// as long as there are servers.
struct ClusterTrouble: Sendable {
    /// As many as an error of a client has attempts.
    private static let mostCauses = 8

    let text: String
    let attempts: [ClientError.Attempt]
    let cause: (any Error)?

    init(of servers: ClusterServers) {
        var (text, attempts) = ("", [ClientError.Attempt]())
        var (ready, others) = (0, 0)
        for index in servers.all.indices {
            if servers.all[index].isReady {
                ready += 1
                continue
            }
            guard let report = servers.all[index].lastReport else { continue }
            guard attempts.count < Self.mostCauses else {
                others += 1
                continue
            }
            let (endpoint, cause) = (servers.all[index].found.endpoint, report.error ?? EndedLink(cause: report.cause))
            attempts.append(ClientError.Attempt(endpoint: endpoint, cause: cause))
            text += "; \(endpoint): \("\(cause)".asMessage)"
        }
        if others > 0 { text += "; and \(Quantity.count(others, "other server"))" }
        self.text = Self.summary(servers, ready: ready) + text
        self.attempts = attempts
        cause = attempts.last?.cause ?? servers.discoveryError
    }

    private static func summary(_ servers: ClusterServers, ready: Int) -> String {
        let count = servers.all.count
        if count == 0 {
            let reason = servers.discoveryError.map { ": \("\($0)".asMessage)" } ?? ""
            return "no server was found\(reason)"
        }
        if ready == 0 { return count == 1 ? "the only server is not ready" : "none of the \(count) servers is ready" }
        return "\(ready) of \(Quantity.count(count, "server")) can be reached, but can take no further request"
    }
}

private struct EndedLink: Error, LoggableError {
    let cause: DisconnectCause
    var description: String { "the link ended: \(cause.rawValue)" }
}
