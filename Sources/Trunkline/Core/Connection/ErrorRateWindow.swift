/// What share of an endpoint's requests failed lately.
///
/// Counting is one increment, and takes no time: `roll(to:)`, once per turn of the loop, says what time it is. The
/// window slides by tenths, so it reaches back between nine and ten tenths of its length.
package struct ErrorRateWindow: Sendable {
    private struct Counts: Sendable {
        var ended = 0
        var failed = 0
    }

    private static let bucketCount = 10

    private let share: Double
    private let minimumRequests: Int
    private let bucketLength: Duration
    /// The tenth that is under way.
    private var present = Counts()
    /// The sum of `past`.
    private var sum = Counts()
    /// The nine tenths before, as a ring. Never grows.
    private var past = [Counts](repeating: Counts(), count: bucketCount - 1)
    /// The oldest of `past`.
    private var oldest = 0
    /// The end of the tenth under way; `nil` until time is told for the first time.
    private var end: Instant?

    /// - Parameters:
    ///   - share: From which share of failed requests on it is too much, above 0 up to 1.
    ///   - minimumRequests: Fewer than these say nothing; at least 1.
    ///   - window: How far back it looks; at least 10 ns.
    package init(share: Double, minimumRequests: Int, window: Duration) {
        self.share = share
        self.minimumRequests = max(1, minimumRequests)
        bucketLength = max(.nanoseconds(1), .nanoseconds(window.clampedNanoseconds / Int64(Self.bucketCount)))
    }

    /// A request was answered, be it with an error of the server's.
    package mutating func countAnswered(_ count: Int = 1) { present.ended &+= count }

    /// A request timed out, or was lost with its link.
    package mutating func countFailed() {
        present.ended &+= 1
        present.failed &+= 1
    }

    /// Whether it is too much.
    package var isExceeded: Bool {
        let failed = sum.failed + present.failed
        // The usual case first: this is asked every turn.
        guard failed > 0 else { return false }
        let ended = sum.ended + present.ended
        return ended >= minimumRequests && Double(failed) >= share * Double(ended)
    }

    /// It is `now`: what is older than the window counts no more.
    package mutating func roll(to now: Instant) {
        guard let end else { return self.end = now.advanced(by: bucketLength) }
        guard now >= end else { return }
        let late = now.since(end).clampedNanoseconds / bucketLength.clampedNanoseconds
        if late >= Int64(Self.bucketCount) {
            reset()
            self.end = now.advanced(by: bucketLength)
            return
        }
        for _ in 0...late { turnOver() }
        self.end = end.advanced(by: .nanoseconds(bucketLength.clampedNanoseconds * (late + 1)))
    }

    /// Forgets everything: the endpoint is another now.
    package mutating func reset() {
        present = Counts()
        sum = Counts()
        for index in past.indices { past[index] = Counts() }
    }

    private mutating func turnOver() {
        sum.ended += present.ended - past[oldest].ended
        sum.failed += present.failed - past[oldest].failed
        past[oldest] = present
        oldest = (oldest + 1) % past.count
        present = Counts()
    }
}
