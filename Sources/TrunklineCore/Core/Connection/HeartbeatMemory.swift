/// What a client has learned about heartbeats, by endpoint and path.
package struct HeartbeatMemory: Sendable {
    package struct Key: Sendable, Hashable {
        let endpoint: Endpoint
        let path: NetworkPath

        init(_ endpoint: Endpoint, _ path: NetworkPath) { (self.endpoint, self.path) = (endpoint, path) }
    }

    static let maximumCount = 64

    /// The least recently used first.
    private var entries: [(key: Key, rule: AdaptiveInterval)] = []

    init() {}

    mutating func interval(for key: Key, within range: ClosedRange<Duration>) -> Duration {
        var rule = take(key) ?? AdaptiveInterval(within: range)
        rule.limit(to: range)
        put(rule, key)
        return rule.interval
    }

    mutating func survived(_ key: Key, at now: Instant) -> LearnedInterval? {
        change(key) { $0.survived(at: now) }
    }

    mutating func lost(_ key: Key, afterIdle idle: Duration, at now: Instant) -> LearnedInterval? {
        change(key) { $0.lost(afterIdle: idle, at: now) }
    }

    var learned: [LearnedInterval] { entries.reversed().map { LearnedInterval($0.key, $0.rule) } }

    private mutating func change(_ key: Key, _ change: (inout AdaptiveInterval) -> Bool) -> LearnedInterval? {
        guard var rule = take(key) else { return nil }
        let isNews = change(&rule)
        put(rule, key)
        return isNews ? LearnedInterval(key, rule) : nil
    }

    private mutating func take(_ key: Key) -> AdaptiveInterval? {
        entries.firstIndex { $0.key == key }.map { entries.remove(at: $0).rule }
    }

    private mutating func put(_ rule: AdaptiveInterval, _ key: Key) {
        if entries.count == Self.maximumCount { entries.removeFirst() }
        entries.append((key, rule))
    }
}

extension LearnedInterval {
    fileprivate init(_ key: HeartbeatMemory.Key, _ rule: AdaptiveInterval) {
        self.init(
            endpoint: key.endpoint,
            path: key.path,
            interval: rule.interval,
            longestSurvived: rule.longestSurvived,
            shortestLost: rule.shortestLost,
            change: rule.change
        )
    }
}
