/// Judging deadlines: what the links held when a deadline passed is read first. See `EventLoop`.
extension Connection {
    /// The wait of deadlines for reading.
    struct DeadlineWait {
        /// The turn in which `isOn` was decided.
        let turn: Instant
        /// Whether deadlines wait for a later turn.
        let isOn: Bool
        /// How much had been read when the wait began, and in that turn.
        let begin: Int
        let read: Int
    }

    /// The number of bytes that are read from a link, at most, before a deadline that has passed is judged. A link on
    /// which more arrives than can be read would otherwise never meet a deadline.
    ///
    /// More than a socket's receive buffer holds with the defaults of Linux (6 MiB), so that everything that came in
    /// time is read.
    static let readBeforeDeadline = 8 * 1024 * 1024

    /// Whether deadlines that are due must wait for a later turn: links have used up their share of this turn and hold
    /// more, which may have come in time.
    ///
    /// Called only from timers, which come after all reading of their turn.
    func mustReadFirst() -> Bool {
        if let deadlineWait, deadlineWait.turn == loop.turnTime { return deadlineWait.isOn }
        let begun = deadlineWait?.isOn == true ? deadlineWait : nil
        let read = counts.bytesReceived &+ counts.framesReceived
        let begin = begun?.begin ?? read
        // Without progress there is nothing to wait for.
        let isOn =
            holdsUnread && begun?.read != read && read &- begin < Self.readBeforeDeadline &* max(1, links.count)
        deadlineWait = DeadlineWait(turn: loop.turnTime, isOn: isOn, begin: begin, read: read)
        return isOn
    }

    /// Whether more can be read in the next turn.
    private var holdsUnread: Bool {
        for index in links.indices where links[index].isToBeReadOn || links[index].holdsMore { return true }
        return attempt?.race?.holdsUnread == true
    }

    /// Gives the attempt under way its time again if its timer fires much later than its deadline: the process was
    /// stopped, or the machine slept, and neither this side nor the server could go on. Only once for an attempt.
    func prolongAttempt() {
        guard let attempt, !attempt.isProlonged else { return }
        let now = loop.turnTime
        let handshake = handshaking.flatMap { links[$0].handshake }
        let timeout = handshake == nil ? options.connecting.timeout : options.handshake.timeout
        guard now.since(handshake?.deadline ?? attempt.deadline) > timeout / 10 else { return }
        attempt.isProlonged = true
        attempt.deadline = now.advanced(by: options.connecting.timeout)
        guard let handshaking, let handshake else { return }
        let end = now.advanced(by: options.handshake.timeout)
        links[handshaking].handshake?.deadline = handshake.restoring == nil ? min(attempt.deadline, end) : end
    }
}

extension Link {
    /// Whether the transport itself holds bytes, which it reports in the next turn.
    fileprivate var holdsMore: Bool { transport.isReading && transport.hasMore }
}
