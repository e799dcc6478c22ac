/// What happened on a connection, for its client, in order.
///
/// Events are collected while the connection works and handed over when it is done: nobody is called back in the midst of a
/// call, and what they tell of is done.
enum ConnectionEvent: Sendable {
    /// A response has come; its request has left its link.
    case answered(RequestID, Waiter, Frame)
    /// A part of a response has come; its request stays.
    case part(RequestID, Waiter, Frame)
    /// A request or message has left its link for this reason: it was given up, or could not be encoded.
    indirect case failed(RequestID, Waiter, ClientError)
    /// The kernel has the last byte of a message: it has left its link.
    case wrote(RequestID, Waiter)
    /// The kernel has the last byte of a request whose caller wants to know, or of a part of one.
    case wrotePart(RequestID)
    /// A part of a request could not be encoded.
    case refusedPart(RequestID, FrameError)
    /// A message that was not yet accepted, or a request with a handle, is on a link now.
    case admitted(Waiter, serial: SerialNumber)
    /// A frame has come that nobody waits for.
    case push(Frame)
    /// A response, or a part of one, has come for a request that was given up.
    case late(isPart: Bool)
    /// A response, or a part of one, has come that no request asked for.
    case unknownResponse
    /// A frame has come that a client has no use for.
    case unexpected
    /// A link is usable.
    case ready(session: UInt64)
    /// Pushes are those of the link of `session` from now on.
    case pushesBegin(session: UInt64)
    /// A link takes no new requests: these go out elsewhere, nothing of them was written.
    case returned([QueuedRequest<Waiter>])
    /// A link is gone.
    indirect case lost(LinkLoss)
    /// There may be room for requests that wait.
    case room
    /// Every attempt that the policy allows has failed; no other follows until somebody needs a link.
    indirect case unavailable(ClientError)
    /// The connection is closed for good.
    case closed
}

/// What a link leaves behind that is gone.
struct LinkLoss: Sendable {
    let remains: LinkMachine<Waiter>.Remains
    let endpoint: Endpoint
    let cause: any Error
    /// It took new requests until then.
    let wasReady: Bool

    init(_ link: Link, _ remains: LinkMachine<Waiter>.Remains, _ cause: any Error) {
        self.remains = remains
        endpoint = link.endpoint
        self.cause = cause
        wasReady = link.draining == nil
    }
}

/// Who is told of everything that happens on a connection: its client. Called on the loop that both share.
///
/// A conformance marked `@preconcurrency` checks the isolation as `assumeIsolated` does, but calls directly: each
/// `assumeIsolated` costs two allocations for its closure.
protocol ConnectionOwner: AnyObject, Sendable {
    /// Takes every event out of its place.
    func handle(_ events: inout [ConnectionEvent?])
}

/// What a client asks of its connection for every batch of commands or events, on the loop that both share.
protocol RequestCarrier: AnyObject, Sendable {
    /// The end of a batch: lets requests and parts of requests go out that may, and judges the link. Returns what has happened,
    /// and when to look at the links again.
    func work(
        on queue: inout RequestQueue<Waiter>,
        _ parts: inout RequestParts,
        demand: ReconnectMachine.Demand,
        watchesErrors: Bool,
        for owner: any ConnectionOwner
    ) -> (events: [ConnectionEvent?], nextLook: Instant?)
}

extension Connection: @preconcurrency RequestCarrier {}
