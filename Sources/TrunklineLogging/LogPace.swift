package import TrunklineCore

/// When lines about a repeated problem are due: the first at once, then summaries at intervals that double.
package struct LogPace: Sendable {
    private let shortest: Duration
    private let longest: Duration
    private var interval: Duration
    package private(set) var next = Instant.distantPast

    package init(from shortest: Duration, to longest: Duration = .seconds(600)) {
        // At most a century, so that it can be doubled.
        self.shortest = min(max(.seconds(1), shortest), .century)
        self.longest = max(self.shortest, longest)
        interval = self.shortest
    }

    package func isDue(at now: Instant) -> Bool { now >= next }

    /// For a line about something else, which a summary need not repeat soon.
    mutating func postpone(from now: Instant) { next = now.advanced(by: interval) }

    package mutating func delay(until instant: Instant) { next = max(next, instant) }

    /// If the problem had paused for an interval, the intervals start over.
    package mutating func wrote(at now: Instant) {
        let isOver = next == .distantPast || now >= next.advanced(by: interval)
        interval = isOver ? shortest : min(longest, interval * 2)
        next = now.advanced(by: interval)
    }
}
