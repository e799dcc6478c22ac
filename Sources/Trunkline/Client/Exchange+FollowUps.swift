import TrunklineCore

/// Follow-ups on their way from their submission to the outbound queue.
extension Exchange {
    /// Lets the first held follow-up from `next` on go out whose request has started; moves `next` to where to go on.
    /// Returns whether there was one for which there is room.
    mutating func releaseFollowUp(from next: inout Int) -> Bool {
        while next < followUps.held.count {
            guard let entry = table[followUps.held[next].request], entry.position != 0,
                entry.position < outbound.unstarted
            else {
                next += 1
                continue
            }
            // Links that were left have queues of their own.
            if entry.position < table.retiredEnd {
                let item = followUps.release(at: next, serial: entry.serial)
                outgoingRetired.append((item, entry.position))
                continue
            }
            guard isBelowWatermark() else { return false }
            outbound.byteCount += OutboundQueue.cost(of: followUps.held[next].frame)
            outgoing.append(followUps.release(at: next, serial: entry.serial))
            return true
        }
        return false
    }

    /// Takes what is to be written on links that take no new requests, with the places of its requests.
    mutating func takeOutgoingRetired() -> [(item: OutboundQueue.Item, position: OutboundPosition)] {
        outgoingRetired.isEmpty ? [] : Swift.exchange(&outgoingRetired, with: [])
    }
}
