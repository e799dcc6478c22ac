/// Requests on links that take no new ones any more: they finish there, or meet their deadline.
extension RequestTable {
    /// The link takes no new requests: those before `unstarted` have started on it, or on one that was left earlier.
    ///
    /// The others keep their serials and their places for the next link. Returns how many are left behind in all.
    package mutating func retire(_ session: UInt64, before unstarted: OutboundPosition) -> Int {
        retiredOrders[session] = order.splitOff(before: unstarted)
        retiredEnd = unstarted
        retiredCount = entries.sorted.count { $0.value.position != 0 && $0.value.position < unstarted }
        return retiredCount
    }

    /// A response has come on the link of `session`, on which the requests at `positions` have started.
    package mutating func answer(
        _ serial: SerialNumber,
        on session: UInt64,
        _ positions: Range<OutboundPosition>
    ) -> Answer {
        guard serials != nil else {
            guard let ticket = retiredOrders[session]?.popFirst(before: positions.upperBound) else { return .unknown }
            return answered(ticket)
        }
        switch serials?.take(answered: serial) {
        case .request(let ticket)?:
            guard let entry = entries[ticket] else { return .unknown }
            if positions.contains(entry.position) { return answered(ticket) }
            // A request of another link.
            serials?.putBack(serial, ticket)
            return .unknown
        case .late?: return .late
        case .unknown?, nil: return .unknown
        }
    }

    /// A link that took no new requests is gone: hands out, in the order of their tickets, those that had started on it.
    package mutating func retiredLinkLost(
        _ session: UInt64,
        _ positions: Range<OutboundPosition>
    ) -> [(ticket: Ticket, waiter: Waiter)] {
        var lost: [(ticket: Ticket, waiter: Waiter)] = []
        for (ticket, entry) in entries.sorted where positions.contains(entry.position) {
            entries.remove(ticket)
            noteLeft(entry)
            if entry.expectsResponse { serials?.release(entry.serial) }
            lost.append((ticket, entry.waiter))
        }
        serials?.linkLost { positions.contains($0) }
        retiredOrders[session] = nil
        return lost
    }

    /// Hands out, in the order of their tickets, everyone who has not started on a link that took no new requests. Those
    /// that have may still be answered there. There is no other link.
    package mutating func removeAllButRetired() -> [(ticket: Ticket, entry: Entry)] {
        guard retiredEnd != 0 else { return removeAll() }
        var removed: [(ticket: Ticket, entry: Entry)] = []
        for (ticket, entry) in entries.sorted where entry.position == 0 || entry.position >= retiredEnd {
            entries.remove(ticket)
            if entry.expectsResponse, entry.position != 0 { serials?.release(entry.serial) }
            removed.append((ticket, entry))
        }
        order = ResponseOrder()
        return removed
    }

    /// Every link that took no new requests is closed.
    package mutating func forgetRetired() {
        let end = retiredEnd
        serials?.linkLost { $0 < end }
        retiredOrders = [:]
        (retiredEnd, retiredCount) = (0, 0)
    }

    @inlinable
    mutating func noteLeft(_ entry: Entry) {
        if entry.position < retiredEnd, entry.position != 0 { retiredCount -= 1 }
    }
}
