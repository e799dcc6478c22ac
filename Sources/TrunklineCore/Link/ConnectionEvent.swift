/// Delivered when the connection has finished its work: an owner is never called in the middle of a call.
enum ConnectionEvent: Sendable {
    /// The request has left its link, on which its frame was at this position.
    case answered(RequestID, Frame, OutboundPosition)
    /// One event, because there may be very many requests. They have left their link.
    indirect case answeredAll([InFlightTable.AnsweredRequests.Request], Frame)
    case part(RequestID, Frame)
    indirect case sharedPart([InFlightTable.AnsweredRequests.Request], Frame)
    /// The request or message has left its link: it was abandoned, or could not be encoded.
    indirect case failed(RequestID, ClientError, TryOnLink)
    /// The kernel has accepted the last byte of a message, which has left its link.
    case wrote(RequestID, OutboundPosition)
    /// The kernel has accepted the last byte of a part, or of a request whose caller wants to know.
    case wrotePart(RequestID)
    case refusedPart(RequestID, ClientError)
    case admitted(RequestID, serial: SerialNumber)
    /// Nothing came in between. One event, because handing over each push alone would cost as much as receiving it.
    /// Without a client, these are frames of every kind.
    case pushes([Frame])
    /// More than ended links may hand over while the owner is paused. A full buffer that suspends reading drops them.
    case surplusPushes([Frame])
    case late(RequestID, isPart: Bool)
    /// The response of the latest `late`, if the application wants it.
    indirect case lateResponse(LateResponse)
    /// `namesNoRequest`: matched by serial, its serial is outside the range of the protocol.
    case unknownResponse(SerialNumber, type: UInt32, SessionID, ServerReason?, namesNoRequest: Bool)
    /// The frame has the session of its link.
    case requested(Frame)
    /// The server has cancelled its own request.
    case requestCancelled(SerialNumber, SessionID)
    case unexpected
    /// The link is about to be ready, and the server does not know the session of the earlier ones.
    indirect case sessionLost(Endpoint, on: SessionID)
    case ready(session: SessionID, Endpoint)
    /// From now on pushes are those of the link of `session`.
    case pushesBegin(session: SessionID)
    /// No byte of them was written: they go out on another link.
    case returned([QueuedRequest])
    case drained(session: SessionID)
    indirect case lost(LinkLoss)
    case room
    /// The connection makes no further attempt until a link is needed again.
    indirect case unavailable(ClientError)
    case closed
    /// An event that was taken out of its place; see `Command.taken`.
    case taken
}

/// What remains of a link that has ended.
struct LinkLoss: Sendable {
    let remains: LinkMachine.Remains
    let link: Timeline.Link
    let cause: any Error
    let wasReady: Bool

    init(_ link: Link, _ remains: LinkMachine.Remains, _ cause: any Error, wasReady: Bool, at now: Instant) {
        self.remains = remains
        self.link = link.state.described(at: now, inFlight: remains.lost.count + remains.unsent.count, hasFailed: true)
        self.cause = cause
        self.wasReady = wasReady
    }
}
