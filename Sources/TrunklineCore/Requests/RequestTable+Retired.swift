/// Requests on links that take no new ones any more: they finish there, or meet their deadline.
///
/// Every such link has serials, or an order, of its own. A serial number may be that of a request on each of several links.
extension RequestTable {
    /// The link takes no new requests: those before `unstarted` have started on it, or on one that was left earlier.
    ///
    /// The others keep their serials and their places for the next link, on which all other serials are free. Returns how
    /// many are left behind in all.
    package mutating func retire(_ session: UInt64, before unstarted: OutboundPosition) -> Int {
        let positions = max(1, retiredEnd)..<max(1, retiredEnd, unstarted)
        let entries = entries
        retired.append(
            RetiredLink(
                session: session,
                positions: positions,
                serials: serials?.splitOff { entries[$0].map { $0.position < unstarted } ?? true },
                order: order.splitOff(before: unstarted),
                count: entries.sorted.count { positions.contains($0.value.position) }
            )
        )
        retiredEnd = positions.upperBound
        return retiredCount
    }

    /// How many requests have not left that started on links that take no new ones.
    package var retiredCount: Int { retired.reduce(0) { $0 + $1.count } }

    /// The links that take no new requests and have none left.
    package var drainedSessions: [UInt64] { retired.isEmpty ? [] : retired.filter { $0.count == 0 }.map(\.session) }

    /// A response has come on the link of `session`, on which the requests at `positions` have started.
    package mutating func answer(
        _ serial: SerialNumber,
        on session: UInt64,
        _ positions: Range<OutboundPosition>
    ) -> Answer {
        guard let index = retired.firstIndex(where: { $0.session == session }) else { return .unknown }
        guard serials != nil else {
            guard let ticket = retired[index].order.popFirst(before: positions.upperBound) else { return .unknown }
            return answered(ticket)
        }
        switch retired[index].serials?.take(answered: serial) {
        case .request(let ticket)?: return entries.contains(ticket) ? answered(ticket) : .unknown
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
            lost.append((ticket, entry.waiter))
        }
        forgetRetired(session)
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
        serials?.linkLost()
        return removed
    }

    /// The link of `session`, which took no new requests, is closed.
    package mutating func forgetRetired(_ session: UInt64) {
        retired.removeAll { $0.session == session }
        if retired.isEmpty { retiredEnd = 0 }
    }

    @inlinable
    mutating func noteLeft(_ entry: Entry) {
        if entry.position < retiredEnd, entry.position != 0 { noteLeftRetired(entry.position) }
    }

    @usableFromInline
    mutating func noteLeftRetired(_ position: OutboundPosition) {
        guard let index = retired.firstIndex(where: { $0.positions.contains(position) }) else { return }
        retired[index].count -= 1
    }
}
