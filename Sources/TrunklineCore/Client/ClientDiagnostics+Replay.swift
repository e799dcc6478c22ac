/// What the replay of a recording needs beyond what callers and servers can do.
extension ClientDiagnostics {
    /// The recorded link has answered a request.
    package func markLinkAsProved() async { await client.connection.entered { $0.machine.linkAnswered() } }

    package func givesLinkUp(within duration: Duration) async -> Bool {
        await client.connection.entered { $0.links.givesLinkUp(by: $0.loop.now.advanced(by: duration)) }
    }
}

extension Links {
    fileprivate func givesLinkUp(by deadline: Instant) -> Bool {
        guard let end = ready?.state.machine.liveness.rules.deadAt else { return false }
        return end <= deadline
    }
}
