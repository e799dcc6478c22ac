/// Replies that come in parts: a part finds its request as the response does, but the request stays.
extension RequestTable {
    /// A part of a reply has come on the present link. As `answer`, but nobody leaves.
    ///
    /// One for a request that was given up shows that the server still works on it: its serial stays in quarantine.
    package mutating func part(_ serial: SerialNumber, unstarted: OutboundPosition, at now: Instant) -> Answer {
        let lowest = max(1, retiredEnd)
        guard lowest < unstarted else { return .unknown }
        let until = now.advanced(by: quarantine)
        guard serials != nil else {
            let answer = holder(order.first(before: unstarted))
            if case .late = answer { order.prolong(until: until) }
            return answer
        }
        let (holding, positions) = (serials?.holding(serial), lowest..<unstarted)
        if holding == .late { serials?.prolongQuarantine(of: serial, until: until) }
        return holder(holding, at: positions)
    }

    /// A part of a reply has come on the link of `session`, on which the requests at `positions` have started.
    package mutating func part(
        _ serial: SerialNumber,
        on session: UInt64,
        _ positions: Range<OutboundPosition>,
        at now: Instant
    ) -> Answer {
        guard let index = retired.firstIndex(where: { $0.session == session }) else { return .unknown }
        let until = now.advanced(by: quarantine)
        guard serials != nil else {
            let answer = holder(retired[index].order.first(before: positions.upperBound))
            if case .late = answer { retired[index].order.prolong(until: until) }
            return answer
        }
        let holding = retired[index].serials?.holding(serial)
        if holding == .late { retired[index].serials?.prolongQuarantine(of: serial, until: until) }
        return holder(holding, at: positions)
    }

    private func holder(_ ticket: Ticket?) -> Answer {
        guard let ticket else { return .unknown }
        guard let entry = entries[ticket] else { return .late }
        return .resume(ticket, entry.waiter)
    }

    private func holder(_ holding: SerialAllocator.Holding?, at positions: Range<OutboundPosition>) -> Answer {
        switch holding {
        case .request(let ticket)?:
            guard let entry = entries[ticket], positions.contains(entry.position) else { return .unknown }
            return .resume(ticket, entry.waiter)
        case .late?: return .late
        case .unknown?, nil: return .unknown
        }
    }
}
