/// Judging deadlines: what the links held when a deadline passed is read first. See `EventLoop`.
extension Connection {
    /// The wait of deadlines for reading.
    struct DeadlineWait {
        /// The turn in which `isOn` was decided.
        let turn: Instant
        /// Whether deadlines wait for a later turn.
        let isOn: Bool
        /// When the wait began, and how much had been read then and in that turn.
        let beganAt: Instant
        let begin: Int
        private(set) var read: Int

        /// Notes progress without reading: `count` frames were handled that had been left for this turn (`catchUp`).
        mutating func noteCaughtUp(_ count: Int) { read &-= count }
    }

    /// The number of bytes that are read from a link, at most, before a deadline that has passed is judged. A link on
    /// which more arrives than can be read would otherwise never meet a deadline.
    ///
    /// More than a socket's receive buffer holds with the defaults of Linux (6 MiB), so that everything that came in
    /// time is read.
    static let readBeforeDeadline = 8 * 1024 * 1024

    /// The longest time that a deadline waits for reading, in case a server sends very small frames without end.
    static let longestDeadlineWait = Duration.seconds(1)

    /// Whether deadlines that are due must wait for a later turn: links have used up their share of this turn and hold
    /// more, or frames that were read are left for the next turn. They may have come in time.
    ///
    /// Called only from timers, which come after all reading of their turn.
    func mustReadFirst() -> Bool {
        let now = loop.turnTime
        if let wait = turn.deadlineWait, wait.turn == now { return wait.isOn }
        let begun = turn.deadlineWait?.isOn == true ? turn.deadlineWait : nil
        let read = counts.bytesReceived &+ counts.framesReceived
        let (begin, beganAt) = (begun?.begin ?? read, begun?.beganAt ?? now)
        let unread = unreadCount
        // Without progress there is nothing to wait for.
        let isOn =
            unread > 0 && begun?.read != read && read &- begin < Self.readBeforeDeadline &* unread
            && now.since(beganAt) < Self.longestDeadlineWait
        turn.deadlineWait = DeadlineWait(turn: now, isOn: isOn, beganAt: beganAt, begin: begin, read: read)
        return isOn
    }

    /// Ends the wait of deadlines when everything has been read, so that the next one has the whole limit. Called after
    /// each reading, and after frames that were left for this turn.
    func endDeadlineWait() {
        if turn.deadlineWait?.isOn == true, unreadCount == 0 { turn.deadlineWait = nil }
    }

    /// The number of links on which more can be read, or frames are left, in the next turn.
    private var unreadCount: Int {
        var count = 0
        for link in links.all {
            let isLeft = link.isCatchingUp && !port.isPaused
            if isLeft || link.isToBeReadOn || link.holdsMore { count += 1 }
        }
        return count
    }
}

extension Link {
    /// Whether the transport itself holds bytes, which it reports in the next turn.
    fileprivate var holdsMore: Bool { transport.isReading && secured?.hasMore == true }
}
