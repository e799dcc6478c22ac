import TrunklineCore

/// A link that takes no new requests: those that had started on it finish there, or meet their deadline.
struct RetiredLink {
    var link: Link
    /// Tells the server's pings from its answers to ours. It judges the link no more: the requests' deadlines do.
    var liveness: Liveness
    /// What had started when it was retired, and what belongs to it: cancellations and pongs.
    var outbound: OutboundQueue
    /// Where the requests are in the outbound order that started on it.
    let positions: Range<OutboundPosition>
    let readySince: Instant?
    /// What is under way then is lost.
    let deadline: Instant
    let cause: DisconnectCause
    /// Whether there may be more to read or to decode than readiness tells of. It may have been left in the midst of reading.
    var mayHaveMore = true
    /// The codec's `closingFrame` was queued, if it has one.
    var hasTakenLeave = false
}
