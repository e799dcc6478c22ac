/// Counts the requests that time out in a row, across links, while no frame comes from the endpoint. Without ping-pong
/// heartbeats, this is the only evidence of a server that accepts links and answers nothing: a client that sends one
/// request per second must not have to wait for an error rate.
struct EndpointSilence: Sendable {
    /// From the first timeout to the latest: many at once, or very short ones, prove nothing.
    private let patience: Duration
    private let maximumTimeouts: Int?
    private var count = 0
    private var since = Instant.distantFuture

    init(maximumTimeouts: Int?, patience: Duration) {
        self.maximumTimeouts = maximumTimeouts.map { max(1, $0) }
        self.patience = patience
    }

    var hasBegun: Bool { count > 0 }

    mutating func end() { (count, since) = (0, .distantFuture) }

    mutating func timedOut(_ timeouts: Int, at now: Instant) {
        if timeouts > 0, count == 0 { since = now }
        count += timeouts
    }

    func text(at now: Instant) -> String {
        "\(count == 1 ? "1 request" : "\(count) requests in a row") timed out within \(now.since(since).text), and no frame came from the server"
            + " (liveness.maximumStalls is \(maximumTimeouts.map { "\($0)" } ?? "nil"))"
    }

    func isTooLong(at now: Instant) -> Bool {
        guard let maximumTimeouts else { return false }
        return count >= maximumTimeouts && now.since(since) >= patience
    }
}
