/// Counts the requests that time out in a row, across links, while not a single frame comes from the endpoint. It
/// detects a server that accepts links and answers nothing on them.
///
/// With ping-pong heartbeats, pings detect a dead link. Without them, this count is the only evidence, and a client
/// that sends one request per second must not have to wait for an error rate.
package struct EndpointSilence: Sendable {
    /// The minimum time from the first timeout to the latest. Many timeouts at once, or very short ones, prove nothing.
    private let patience: Duration
    /// The number of timeouts that is too many; `nil` for no limit.
    private let maximumTimeouts: Int?
    private var count = 0
    /// When the first of the counted requests timed out.
    private var since = Instant.distantFuture

    package init(maximumTimeouts: Int?, patience: Duration) {
        self.maximumTimeouts = maximumTimeouts.map { max(1, $0) }
        self.patience = patience
    }

    /// Whether a request has timed out since the last frame.
    package var hasBegun: Bool { count > 0 }

    /// Ends the count: a frame has come from the endpoint, or the client uses another endpoint.
    package mutating func end() { (count, since) = (0, .distantFuture) }

    /// Counts `timeouts` requests that timed out and that the server should have answered.
    package mutating func timedOut(_ timeouts: Int, at now: Instant) {
        if timeouts > 0, count == 0 { since = now }
        count += timeouts
    }

    /// What was counted, and the limit.
    package func text(at now: Instant) -> String {
        "\(count == 1 ? "1 request" : "\(count) requests in a row") timed out within \(now.since(since).text), and no frame came from the server"
            + " (liveness.maximumStalls is \(maximumTimeouts.map { "\($0)" } ?? "nil"))"
    }

    /// Whether the silence is long enough to leave the endpoint.
    package func isTooLong(at now: Instant) -> Bool {
        guard let maximumTimeouts else { return false }
        return count >= maximumTimeouts && now.since(since) >= patience
    }
}
