/// When requests are out of time, and serials out of quarantine.
extension RequestTable {
    /// Stops watching deadlines: everyone has left, and nobody comes in any more.
    package mutating func forgetDeadlines() { deadlines = DeadlineQueue() }

    /// The next request whose deadline has passed at `now`; it is still in the table, to be cancelled.
    @usableFromInline
    package mutating func nextExpired(at now: Instant) -> Ticket? {
        while let ticket = deadlines.popDue(at: now) {
            if entries.contains(ticket) { return ticket }
        }
        serials?.endQuarantine(at: now)
        return nil
    }

    /// When to look for expired requests and quarantines again; `nil` for never.
    @usableFromInline
    package var nextDeadline: Instant? {
        switch (deadlines.earliest, serials?.nextQuarantineEnd) {
        case (let a?, let b?): min(a, b)
        case (let a, let b): a ?? b
        }
    }
}
