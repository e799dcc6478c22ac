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
        for index in retired.indices { retired[index].serials?.endQuarantine(at: now) }
        return nil
    }

    /// When to look for expired requests and quarantines again; `nil` for never.
    @usableFromInline
    package var nextDeadline: Instant? {
        var next = deadlines.earliest
        if let end = serials?.nextQuarantineEnd { next = min(next ?? end, end) }
        for link in retired {
            if let end = link.serials?.nextQuarantineEnd { next = min(next ?? end, end) }
        }
        return next
    }

    /// Gives memory back that deadlines of requests that have left still take.
    package mutating func dropDeadDeadlines() {
        guard deadlines.isCrowded(alive: entries.count) else { return }
        let entries = entries
        deadlines.compact { entries.contains($0) }
    }

    /// The number of requests for which there is memory.
    package var capacity: Int { max(entries.capacity, deadlines.capacity) }
}
