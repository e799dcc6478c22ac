/// What a connection has learned for `liveness.adaptiveInterval`. Confined to the event loop of its connection.
final class Heartbeats {
    var memory = HeartbeatMemory()
    var present: Present?
    /// Kept until it is known whether the next attempt at the same endpoint succeeds.
    var losses: [(key: HeartbeatMemory.Key, idle: Duration, at: Instant)] = []

    /// How long a loss waits for that. With several endpoints, others may be used meanwhile.
    private static let patience = AdaptiveInterval.memory
    private static let maximumLosses = 16

    struct Present {
        let session: SessionID
        let key: HeartbeatMemory.Key
        var interval: Duration
        var countedPing = Instant.distantPast
    }

    /// The server or the network is down, so the loss before says nothing about the interval.
    func attemptFailed(_ endpoint: Endpoint) { losses.removeAll { $0.key.endpoint == endpoint } }

    func noteLoss(_ key: HeartbeatMemory.Key, afterIdle idle: Duration, at now: Instant) {
        losses.removeAll { $0.key == key }
        if losses.count == Self.maximumLosses { losses.removeFirst() }
        losses.append((key, idle, now))
    }

    func takeLoss(_ key: HeartbeatMemory.Key, at now: Instant) -> Duration? {
        let loss = losses.first { $0.key == key && now.since($0.at) <= Self.patience }
        losses.removeAll { $0.key.endpoint == key.endpoint }
        return loss?.idle
    }
}
