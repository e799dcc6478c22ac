/// The failures since the last ready link, for the errors of callers that wait for one.
struct AttemptHistory {
    private(set) var failures: [ClientError.Attempt] = []
    /// Why the latest link was lost, or the latest attempt without a link failed.
    var lastCause: (any Error)?

    mutating func attemptFailed(_ endpoint: Endpoint, _ cause: any Error) {
        if failures.count == 8 { failures.removeFirst() }
        failures.append(ClientError.Attempt(endpoint: endpoint, cause: cause))
    }

    mutating func linkIsReady() { self = AttemptHistory() }

    func unavailable(hasEndpoints: Bool) -> ClientError {
        let latest = Dictionary(failures.map { ($0.endpoint, DisconnectCause($0.cause)) }) { $1 }
        let isSecurity = !latest.isEmpty && latest.values.allSatisfy { $0 == .tls }
        let usual = isSecurity ? "TLS failed at every endpoint" : "no endpoint could be reached"
        // With several endpoints, the cause of each: the last one may say least.
        var endpoints: [Endpoint] = []
        for failure in failures.reversed() where !endpoints.contains(failure.endpoint) {
            endpoints.append(failure.endpoint)
        }
        let causes =
            endpoints.count < 2
            ? []
            : endpoints.reversed().compactMap { endpoint in
                // The log shows the message, and must not show what an error of the caller's own contains.
                failures.last { $0.endpoint == endpoint }.map { "\(endpoint): \(ErrorText.labelled($0.cause))" }
            }
        return ClientError(
            isSecurity ? .tlsFailed : .unavailable,
            .notSent,
            ([hasEndpoints ? usual : "the list of endpoints is empty"] + causes).joined(separator: "; "),
            endpoint: failures.last?.endpoint,
            attempts: failures,
            cause: lastCause
        )
    }
}
