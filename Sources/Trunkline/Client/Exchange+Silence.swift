import TrunklineCore

/// Servers that accept links and answer nothing on them.
extension Exchange {
    /// The requests in a row that timed out, from link to link, while not a single frame came from the endpoint.
    ///
    /// Where there is a ping, it finds out about each link. Elsewhere this is all there is to go by, and a client that sends
    /// one request per second must not have to wait for an error rate.
    struct Silence: Sendable {
        /// The least time from the first timeout to the latest: many at once, or very short ones, prove nothing.
        private let patience: Duration
        /// `nil` for never.
        private let maximumTimeouts: Int?
        /// Those of this batch: on the present link, or waiting for their turn on it.
        var latest = 0
        private var count = 0
        /// When the first of them timed out.
        private var since = Instant.distantFuture

        init(_ options: ClientOptions.Liveness) {
            maximumTimeouts = options.maximumStalls.map { max(1, $0) }
            patience = options.probeAfter ?? options.deadline
        }

        /// A frame has come from the endpoint, or it is another now.
        mutating func end() { (count, since) = (0, .distantFuture) }

        /// Whether one has timed out that was written.
        var hasBegun: Bool { count > 0 || latest > 0 }

        /// Takes what timed out in this batch, which is the server's fault if it `counts`. Returns how many that were.
        mutating func take(counts: Bool, at now: Instant) -> Int {
            let timedOut = counts ? Swift.exchange(&latest, with: 0) : 0
            latest = 0
            if timedOut > 0, count == 0 { since = now }
            count += timedOut
            return timedOut
        }

        /// Whether it has lasted for too long.
        func isTooLong(at now: Instant) -> Bool {
            guard let maximumTimeouts else { return false }
            return count >= maximumTimeouts && now.since(since) >= patience
        }
    }

    /// A request timed out of which nothing was written. If it waited its turn behind others that timed out, because the
    /// server may still be working on them or every serial is held, it is one more that has no answer.
    mutating func noteTimedOutUnsent() {
        if isReady, silence.hasBegun { silence.latest += 1 }
    }
}
