/// The congestion window of a link of datagrams, in unanswered requests: TCP's slow start and congestion avoidance (RFC
/// 5681 §3.1, RFC 8085 §3.1).
struct DatagramWindow: Sendable {
    private(set) var size: Int
    private let minimum: Int
    /// Below this size the window grows with each answer, above it by one with each `size` answers.
    private var threshold = Int.max
    private var answersSinceGrowth = 0
    private var reducedAt = Instant.distantPast

    init(minimum: Int) {
        self.minimum = max(1, minimum)
        size = self.minimum
    }

    mutating func answered(_ count: Int, unanswered: Int) {
        // A window that was not used says nothing about the path (RFC 7661 §4.1).
        guard unanswered + count > size / 2 else { return }
        guard size >= threshold else { return size = min(size + count, threshold) }
        answersSinceGrowth += count
        if answersSinceGrowth >= size {
            size += 1
            answersSinceGrowth = 0
        }
    }

    /// Requests that were in flight when the window was reduced do not reduce it again.
    mutating func lost(sentAt: Instant, at now: Instant) {
        guard sentAt >= reducedAt else { return }
        (size, reducedAt, answersSinceGrowth) = (max(minimum, size / 2), now, 0)
        threshold = size
    }
}
