/// An event of a connection, for its owner, in order.
///
/// Events are collected while the connection works and handed over when it has finished: an owner is never called in
/// the middle of a call, and an event describes something that has already happened.
enum ConnectionEvent: Sendable {
    /// A response was received. Its request has left its link, on which its frame was at this position.
    case answered(RequestID, Frame, OutboundPosition)
    /// A part of a response was received. Its request stays on its link.
    case part(RequestID, Frame)
    /// A request or message has left its link because of this error: it was abandoned, or it could not be encoded.
    indirect case failed(RequestID, ClientError, TryOnLink)
    /// The kernel has accepted the last byte of a message. It has left its link, on which its frame was at this
    /// position.
    case wrote(RequestID, OutboundPosition)
    /// The kernel has accepted the last byte of a part of a request, or of a request whose caller wants to know.
    case wrotePart(RequestID)
    /// A part of a request could not be encoded.
    case refusedPart(RequestID, ClientError)
    /// A request that reports its progress is on a link now.
    case admitted(RequestID, serial: SerialNumber)
    /// These pushes were received, with nothing in between. In one event, because handing over and buffering each one
    /// alone would cost as much as receiving it. If there is no client, these are frames of every kind.
    case pushes([Frame])
    /// These pushes came on a link that has ended or drains, and are more than links may hand over while the owner is
    /// paused. A full buffer that suspends reading drops them.
    case surplusPushes([Frame])
    /// A response, or a part of one, was received for this abandoned request.
    case late(RequestID, isPart: Bool)
    /// A response, or a part of one, was received without a matching request.
    case unknownResponse
    /// A frame was received that a client does not handle.
    case unexpected
    /// A link is ready.
    case ready(session: SessionID, Endpoint)
    /// From now on pushes are those of the link of `session`.
    case pushesBegin(session: SessionID)
    /// A link takes no new requests. These go out on another link; no byte of them was written.
    case returned([QueuedRequest])
    /// A draining link has ended, with no request in flight.
    case drained(session: SessionID)
    /// A link has ended.
    indirect case lost(LinkLoss)
    /// There may be room for waiting requests.
    case room
    /// The connection has given up. It makes no further attempt until a link is needed again.
    indirect case unavailable(ClientError)
    /// The connection is closed for good.
    case closed
    /// An event that was taken out of its place; see `Command.taken`.
    case taken
}

/// What remains of a link that has ended.
struct LinkLoss: Sendable {
    let remains: LinkMachine.Remains
    /// The link when it ended.
    let link: Timeline.Link
    let cause: any Error
    /// Whether the link was ready until it ended, and not draining.
    let wasReady: Bool

    init(_ link: Link, _ remains: LinkMachine.Remains, _ cause: any Error, wasReady: Bool, at now: Instant) {
        self.remains = remains
        self.link = link.state.described(at: now, inFlight: remains.lost.count + remains.unsent.count, hasFailed: true)
        self.cause = cause
        self.wasReady = wasReady
    }
}

/// What uses a connection, and receives all of its events: a client, or a `FrameUse`.
protocol ConnectionOwner: AnyObject {
    /// Handles the events, which it may take out of the array. Called on the loop.
    func handle(_ events: inout [ConnectionEvent], of connection: isolated Connection)
}
