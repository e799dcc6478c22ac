import TrunklineCore

/// Who is told at once, on the loop, of everything that happens on a connection: its client.
protocol ConnectionOwner: AnyObject, Sendable {
    /// Called within the connection's isolation; the owner shares its loop.
    func connection(did event: ConnectionEvent)
    /// Whether a request whose frame is at one of `positions` waits for its response. Asked when a link is silent, so it
    /// may take its time.
    func hasUnanswered(at positions: Range<OutboundPosition>) -> Bool
    /// Whether requests that were given up on the present link may still be answered there.
    var hasAbandoned: Bool { get }
    /// Who needs a link, if nothing from `unstarted` on has been written. Asked when a link ends.
    func demand(from unstarted: OutboundPosition) -> ReconnectMachine.Demand
    /// The link is gone, and with it the frames of its own of which nothing was written. Returns how many requests were
    /// lost with it. Called within the connection's isolation.
    func connectionLost(_ cause: any Error, to endpoint: Endpoint, unsent: [Ticket]) -> Int
    /// The link takes no new requests. Returns how many are left on it, and on others that were left before.
    func connectionRetired(_ session: UInt64, before unstarted: OutboundPosition) -> Int
    /// A link that was left is gone. Returns how many requests were lost with it.
    func retiredLinkLost(
        _ session: UInt64,
        _ positions: Range<OutboundPosition>,
        _ cause: any Error,
        to endpoint: Endpoint,
        unsent: [Ticket]
    ) -> Int
}

/// What a client asks of its connection for every batch, on the loop that both share.
///
/// A conformance marked `@preconcurrency` checks the isolation as `assumeIsolated` does, but calls directly: each
/// `assumeIsolated` costs two allocations for its closure. So do the conformances of actors on the hot path here.
protocol OwnedConnection: AnyObject, Sendable {
    /// Whose connection it is, and where its outbound queue stands.
    func beginBatch(of owner: any ConnectionOwner) -> OutboundQueue.Level
    /// Takes `items` over and leaves an empty array with memory for others.
    func enqueue(_ items: inout [OutboundQueue.Item])
    func want()
}

enum ConnectionEvent: Sendable {
    /// A link is usable.
    case ready(session: UInt64)
    /// Complete frames of the link of this session, which was left and on which these requests have started.
    case receivedOnRetired([Frame], session: UInt64, Range<OutboundPosition>)
    /// Pushes of a link that restores subscriptions, more than can be held until it is ready.
    case pushedInGreeting([Frame], session: UInt64)
    /// Complete frames, in order.
    case received([Frame])
    /// These one-way frames are with the kernel, to the last byte.
    case wrote([Ticket])
    /// These frames cannot be encoded and are out of the queue.
    case refused([(ticket: Ticket, error: FrameError)])
    /// Bytes went out, so there may be room below the low watermark.
    case drained
    /// Every attempt that the policy allows has failed; no other follows until somebody wants a link.
    case unavailable
    /// For good.
    case closed
}
