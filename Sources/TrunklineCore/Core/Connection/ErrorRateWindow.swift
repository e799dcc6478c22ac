/// The share of an endpoint's requests that failed recently.
///
/// Counting is one increment and takes no time argument. `roll(to:)`, called once per turn of the event loop, sets the
/// time. The window slides by tenths, so it reaches back between nine and ten tenths of its length.
package struct ErrorRateWindow: Sendable {
    private struct Counts: Sendable {
        var ended = 0
        var failed = 0
    }

    private static let bucketCount = 10

    private let share: Double
    private let minimumRequests: Int
    private let bucketLength: Duration
    /// The counts of the current tenth.
    private var present = Counts()
    /// The sum of `past`.
    private var sum = Counts()
    /// The counts of the nine tenths before, as a ring. Never grows.
    private var past = [Counts](repeating: Counts(), count: bucketCount - 1)
    /// The index of the oldest element of `past`.
    private var oldest = 0
    /// The end of the current tenth; `nil` before the first `roll(to:)`.
    private var end: Instant?

    /// Creates a window without counts.
    ///
    /// - Parameters:
    ///   - share: The share of failed requests at or above which the rate is exceeded: above 0, at most 1.
    ///   - minimumRequests: The minimum number of requests within the window for the rate to be exceeded; at least 1.
    ///   - window: How far back the window reaches; at least 10 ns.
    package init(share: Double, minimumRequests: Int, window: Duration) {
        self.share = share
        self.minimumRequests = max(1, minimumRequests)
        bucketLength = max(.nanoseconds(1), .nanoseconds(window.clampedNanoseconds / Int64(Self.bucketCount)))
    }

    /// Counts requests that were answered, including those answered with an error.
    package mutating func countAnswered(_ count: Int = 1) { present.ended &+= count }

    /// Counts a request that timed out or was lost with its link.
    package mutating func countFailed() {
        present.ended &+= 1
        present.failed &+= 1
    }

    /// Whether the share of failed requests is too high.
    package var isExceeded: Bool {
        let failed = sum.failed + present.failed
        // The usual case comes first, because this is evaluated in every turn.
        guard failed > 0 else { return false }
        let ended = sum.ended + present.ended
        return ended >= minimumRequests && Double(failed) >= share * Double(ended)
    }

    /// What was counted, and the limit.
    package var text: String {
        let (failed, ended) = (sum.failed + present.failed, sum.ended + present.ended)
        let window = Duration.nanoseconds(bucketLength.clampedNanoseconds * Int64(Self.bucketCount))
        return "\(failed) of \(ended) requests failed within \(window.text) (failover.errorRate allows a share of"
            + " \(share) of at least \(minimumRequests))"
    }

    /// Sets the time to `now` and discards the counts that are older than the window.
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

    /// Discards all counts, because the client uses another endpoint.
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
