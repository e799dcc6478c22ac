/// Protocols matched in order: what may follow what, and when an order is of no more use.
extension RequestTable {
    /// Lets nothing follow the request at `position`, the latest one, before it is answered.
    package mutating func hold(behind position: OutboundPosition) { heldBehind = position }

    /// Whether the next request has to wait for the answer to the latest one. Not for one that left unsent, nor for one on
    /// a link that is gone or was left.
    @inlinable
    package var isHeld: Bool { heldBehind != 0 && order.last == heldBehind }

    /// Whether the next request waits for an answer for which nobody else waits.
    package var isHeldInVain: Bool {
        guard isHeld, let holder = order.places.last else { return false }
        return !entries.contains(holder.ticket)
    }

    /// Whether answers are to come on the present link, and nobody waits for any of them. No frame from `unstarted` on has
    /// been written.
    package func isForsaken(before unstarted: OutboundPosition) -> Bool {
        let lowest = max(1, retiredEnd)
        // The latest is asked first: while a link is busy, it is not given up, and the others need not be looked through.
        guard lowest < unstarted, let latest = order.latest(before: unstarted), !entries.contains(latest) else {
            return false
        }
        return !hasUnanswered(at: lowest..<unstarted)
    }

    /// How long the server may take for the oldest request that is not answered, if that was given up; `nil` if it was not,
    /// and for protocols with serials.
    package mutating func oldestAbandonedUntil() -> Instant? { order.oldestAbandonedUntil() }

    /// Whether somebody waits for the answer that comes next on the present link.
    package mutating func isFirstAwaited(before unstarted: OutboundPosition) -> Bool {
        order.first(before: unstarted).map { entries.contains($0) } ?? false
    }

    /// Whether every request before `unstarted` has been answered: then no answer was left out.
    package mutating func isLevel(before unstarted: OutboundPosition) -> Bool { order.first(before: unstarted) == nil }
}
