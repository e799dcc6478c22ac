/// The times without a ready link, as far as requests waited in them.
struct LinkGaps {
    /// When the present gap began; `nil` while a link is ready.
    private var since: Instant? = .distantPast
    /// The latest earlier gaps.
    private var past: [(from: Instant, to: Instant)] = []

    private static let capacity = 16

    mutating func begin(at now: Instant) { since = since ?? now }

    /// Ends the present gap. `isOfInterest`: whether any request waits.
    mutating func end(at now: Instant, isOfInterest: Bool) {
        guard let from = exchange(&since, with: nil), isOfInterest else { return }
        if past.count == Self.capacity { past.removeFirst() }
        past.append((from, now))
    }

    /// The time between `start` and `end` in which no link was ready, in nanoseconds.
    func overlap(from start: Instant, to end: Instant) -> Int64 {
        let all = past + (since.map { [(from: $0, to: Instant.distantFuture)] } ?? [])
        return all.reduce(0) { sum, gap in
            sum + max(0, min(gap.to, end).nanoseconds - max(gap.from, start).nanoseconds)
        }
    }
}
