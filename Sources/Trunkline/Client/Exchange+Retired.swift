import TrunklineCore

/// Requests under way on links that take no new ones.
extension Exchange {
    /// The link takes no new requests. Returns how many are left on it, and on others before it.
    mutating func retire(_ session: UInt64, before unstarted: OutboundPosition) -> Int {
        order.stalls = 0
        return table.retire(session, before: unstarted)
    }

    /// A link that took no new requests is gone: hands out those who had started on it.
    mutating func retiredLinkLost(
        _ session: UInt64,
        _ positions: Range<OutboundPosition>
    ) -> [(ticket: Ticket, waiter: Waiter)] {
        let lost = table.retiredLinkLost(session, positions)
        inFlight -= lost.count
        return lost
    }

    /// Links that take no new requests, and have none left.
    var drainedSessions: [UInt64] { table.drainedSessions }

    /// A link that took no new requests is closed.
    mutating func forgetRetired(_ session: UInt64) { table.forgetRetired(session) }
}
