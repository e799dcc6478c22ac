/// What the replay of a recording needs beyond what callers and servers can do.
extension ClientDiagnostics {
    /// Makes the ready link count as one that has answered a request, as the recorded one has.
    package func markLinkAsProved() async { await client.connection.markLinkAsProved() }

    /// Whether the client gives the ready link up within `duration` if nothing arrives on it.
    package func givesLinkUp(within duration: Duration) async -> Bool {
        await client.connection.givesLinkUp(within: duration)
    }
}

extension Connection {
    fileprivate func markLinkAsProved() { machine.linkAnswered() }

    fileprivate func givesLinkUp(within duration: Duration) -> Bool {
        guard let end = ready?.state.machine.liveness.rules.deadAt else { return false }
        return end <= loop.now.advanced(by: duration)
    }
}
