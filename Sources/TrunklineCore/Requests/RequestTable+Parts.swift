/// Replies that come in parts: a part finds its request as the response does, but the request stays.
extension RequestTable {
    /// A part of a reply has come on the present link. As `answer`, but nobody leaves.
    ///
    /// One for a request that was given up shows that the server still works on it: its serial stays in quarantine.
    package mutating func part(_ serial: SerialNumber, unstarted: OutboundPosition, at now: Instant) -> Answer {
        let lowest = max(1, retiredEnd)
        guard lowest < unstarted else { return .unknown }
        guard serials != nil else { return holder(order.first(before: unstarted)) }
        return holder(of: serial, at: lowest..<unstarted, now)
    }

    /// A part of a reply has come on the link of `session`, on which the requests at `positions` have started.
    package mutating func part(
        _ serial: SerialNumber,
        on session: UInt64,
        _ positions: Range<OutboundPosition>,
        at now: Instant
    ) -> Answer {
        guard serials != nil else { return holder(retiredOrders[session]?.first(before: positions.upperBound)) }
        return holder(of: serial, at: positions, now)
    }

    private func holder(_ ticket: Ticket?) -> Answer {
        guard let ticket else { return .unknown }
        guard let entry = entries[ticket] else { return .late }
        return .resume(ticket, entry.waiter)
    }

    private mutating func holder(
        of serial: SerialNumber,
        at positions: Range<OutboundPosition>,
        _ now: Instant
    ) -> Answer {
        switch serials?.holding(serial) {
        case .request(let ticket)?:
            guard let entry = entries[ticket], positions.contains(entry.position) else { return .unknown }
            return .resume(ticket, entry.waiter)
        case .late?:
            serials?.prolongQuarantine(of: serial, until: now.advanced(by: quarantine))
            return .late
        case .unknown?, nil: return .unknown
        }
    }
}
