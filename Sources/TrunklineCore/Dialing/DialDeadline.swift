/// The deadline of an attempt. It waits for TLS to read the bytes that it holds: they may have come in time.
struct DialDeadline {
    private(set) var instant: Instant
    private var waitsSince: Instant?

    /// In case a server sends very small frames without end.
    static let longestWait = Duration.seconds(1)

    init(_ instant: Instant) { self.instant = instant }

    mutating func loopWasLate(_ delay: LoopDelay, of timeout: Duration) {
        let later = delay.prolonging(instant, of: timeout)
        // The later deadline may wait as long as the first.
        if later > instant { waitsSince = nil }
        instant = later
    }

    /// Once the deadline has passed.
    mutating func mustReadFirst(holdsUnread: Bool, at now: Instant) -> Bool {
        guard holdsUnread else { return false }
        let since = waitsSince ?? now
        waitsSince = since
        return now.since(since) < Self.longestWait
    }
}
