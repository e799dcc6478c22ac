/// The requests in a row that timed out, from link to link, while not a single frame came from the endpoint: a server that
/// accepts links and answers nothing on them.
///
/// Where there is a ping, it finds out about each link. Elsewhere this is all there is to go by, and a client that sends one
/// request per second must not have to wait for an error rate.
package struct EndpointSilence: Sendable {
    /// The least time from the first timeout to the latest: many at once, or very short ones, prove nothing.
    private let patience: Duration
    /// `nil` for never.
    private let maximumTimeouts: Int?
    private var count = 0
    /// When the first of them timed out.
    private var since = Instant.distantFuture

    package init(maximumTimeouts: Int?, patience: Duration) {
        self.maximumTimeouts = maximumTimeouts.map { max(1, $0) }
        self.patience = patience
    }

    /// Whether a request has timed out since the last frame.
    package var hasBegun: Bool { count > 0 }

    /// A frame has come from the endpoint, or it is another now.
    package mutating func end() { (count, since) = (0, .distantFuture) }

    /// So many requests have timed out that were for the server to answer.
    package mutating func timedOut(_ timeouts: Int, at now: Instant) {
        if timeouts > 0, count == 0 { since = now }
        count += timeouts
    }

    /// Whether it has lasted for too long.
    package func isTooLong(at now: Instant) -> Bool {
        guard let maximumTimeouts else { return false }
        return count >= maximumTimeouts && now.since(since) >= patience
    }
}
