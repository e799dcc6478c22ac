/// The share of an endpoint's requests that failed recently. Counting takes no time argument: `roll(to:)`, called once
/// per turn of the event loop, sets the time. The window slides by tenths, so it reaches back 9 to 10 of them.
struct ErrorRateWindow: Sendable {
    private struct Counts: Sendable {
        var ended = 0
        var failed = 0
    }

    private static let bucketCount = 10

    private let share: Double
    private let minimumRequests: Int
    private let bucketLength: Duration
    private var present = Counts()
    /// The sum of `past`, the nine tenths before `present` as a ring.
    private var sum = Counts()
    private var past = [Counts](repeating: Counts(), count: bucketCount - 1)
    private var oldest = 0
    private var end: Instant?

    init(share: Double, minimumRequests: Int, window: Duration) {
        self.share = share
        self.minimumRequests = max(1, minimumRequests)
        bucketLength = max(.nanoseconds(1), .nanoseconds(window.clampedNanoseconds / Int64(Self.bucketCount)))
    }

    /// Answers with an error count too.
    mutating func countAnswered(_ count: Int = 1) { present.ended &+= count }

    mutating func countFailed() {
        present.ended &+= 1
        present.failed &+= 1
    }

    var isExceeded: Bool {
        let failed = sum.failed + present.failed
        // The usual case comes first, because this is evaluated in every turn.
        guard failed > 0 else { return false }
        let ended = sum.ended + present.ended
        return ended >= minimumRequests && Double(failed) >= share * Double(ended)
    }

    var text: String {
        let (failed, ended) = (sum.failed + present.failed, sum.ended + present.ended)
        let window = Duration.nanoseconds(bucketLength.clampedNanoseconds * Int64(Self.bucketCount))
        return "\(failed) of \(ended) requests failed within \(window.text) (failover.errorRate allows a share of"
            + " \(share) of at least \(minimumRequests))"
    }

    mutating func roll(to now: Instant) {
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

    mutating func reset() {
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
