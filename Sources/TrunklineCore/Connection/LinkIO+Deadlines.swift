/// Judging deadlines: what the links held when a deadline passed is read first. See `EventLoop`.
extension LinkIO {
    /// An object, because most connections need none.
    final class DeadlineWait {
        /// The turn in which `isOn` was decided.
        let turn: Instant
        let isOn: Bool
        let beganAt: Instant
        let begin: Int
        private(set) var read: Int

        init(turn: Instant, isOn: Bool, beganAt: Instant, begin: Int, read: Int) {
            (self.turn, self.isOn, self.beganAt) = (turn, isOn, beganAt)
            (self.begin, self.read) = (begin, read)
        }

        /// Progress without reading: `count` frames were handled that had been left for this turn (`catchUp`).
        func noteCaughtUp(_ count: Int) { read &-= count }
    }

    /// At most this much is read before a passed deadline is judged, or a busy link would never meet one. More than the
    /// receive buffer of Linux by default (6 MiB), so that all that came in time is read.
    static let readBeforeDeadline = 8 * 1024 * 1024

    /// Whether due deadlines wait for a later turn: what the links hold, or left for the next turn, may have come in
    /// time. Called only from timers, which come after all reading of their turn.
    func mustReadFirst() -> Bool {
        let now = loop.turnTime
        if let wait = deadlineWait, wait.turn == now { return wait.isOn }
        let begun = deadlineWait?.isOn == true ? deadlineWait : nil
        let read = reports.counts.bytesReceived &+ reports.counts.framesReceived
        let (begin, beganAt) = (begun?.begin ?? read, begun?.beganAt ?? now)
        let unread = unreadCount
        // Without progress there is nothing to wait for.
        let isOn =
            unread > 0 && begun?.read != read && read &- begin < Self.readBeforeDeadline &* unread
            && now.since(beganAt) < DialDeadline.longestWait
        deadlineWait = DeadlineWait(turn: now, isOn: isOn, beganAt: beganAt, begin: begin, read: read)
        return isOn
    }

    /// Gives the next wait the whole limit. Called after each reading, and after frames that were left for this turn.
    func endDeadlineWait() {
        if deadlineWait?.isOn == true, unreadCount == 0 { deadlineWait = nil }
    }

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
    fileprivate var holdsMore: Bool { transport.isReading && secured?.hasMore == true }
}
