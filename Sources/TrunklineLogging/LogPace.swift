package import TrunklineCore

/// Decides when a line about a repeated problem may be written: the first at once, a summary of those that follow after
/// an interval that doubles while the problem goes on.
package struct LogPace: Sendable {
    private let shortest: Duration
    private let longest: Duration
    private var interval: Duration
    /// The instant of the next line.
    package private(set) var next = Instant.distantPast

    package init(from shortest: Duration, to longest: Duration = .seconds(600)) {
        // Not longer than a century, so that it can be doubled.
        self.shortest = min(max(.seconds(1), shortest), .century)
        self.longest = max(self.shortest, longest)
        interval = self.shortest
    }

    /// Whether a line may be written at `now`.
    package func isDue(at now: Instant) -> Bool { now >= next }

    /// Notes that a line about something else was written at `now`, which a summary need not repeat soon.
    mutating func postpone(from now: Instant) { next = now.advanced(by: interval) }

    /// Allows no line before `instant`.
    package mutating func delay(until instant: Instant) { next = max(next, instant) }

    /// Notes that a line was written at `now`. If the problem had paused for an interval, the intervals start over.
    package mutating func wrote(at now: Instant) {
        let isOver = next == .distantPast || now >= next.advanced(by: interval)
        interval = isOver ? shortest : min(longest, interval * 2)
        next = now.advanced(by: interval)
    }
}
