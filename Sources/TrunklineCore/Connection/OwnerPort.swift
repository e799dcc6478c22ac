/// The demand of a connection's owner, and the events that the owner has not received yet.
///
/// Confined to the event loop of the connection. A class, as `Links` is.
final class OwnerPort {
    /// The client that the connection belongs to, or its `FrameUse`.
    private(set) weak var owner: (any ConnectionOwner)?
    private var isKnown = false
    /// Whether the owner is calling: it takes the events itself at the end of its batch.
    var isCalling = false
    /// The owner's latest demand for a link.
    var demand = ReconnectMachine.Demand.none
    /// Whether the owner holds requests or parts that could not go out.
    var isWaiting = false
    /// Whether the owner takes no frames at present; a client still takes heartbeats.
    var isPaused: Bool
    /// How much memory the pushes take, counted as in `Link.Held`, that links have handed over because they ended or
    /// drained, since the owner paused.
    var surplusBytes = 0
    /// Events that the owner has not received yet. Only assigned as a whole, as the fields of `Link`.
    private(set) var events: [ConnectionEvent] = []
    /// An empty array whose memory is reused for the next events.
    private var spare: [ConnectionEvent] = []

    /// Creates the port of a connection that is used alone, whose `frameUse` has no reader yet; or of a client, which
    /// is known from its first call.
    init(of frameUse: FrameUse?) {
        isPaused = frameUse != nil
        if let frameUse { note(frameUse) }
    }

    /// Notes the owner, unless it is known.
    func note(_ owner: any ConnectionOwner) {
        if !isKnown { (self.owner, isKnown) = (owner, true) }
    }

    /// The number of requests that wait for a link, or for their turn; 0 within a call of the owner.
    var waitingCount: Int { isCalling ? 0 : owner?.waitingCount ?? 0 }

    /// Whether events are to be delivered: never within a call of the owner.
    var hasToDeliver: Bool { !isCalling && !events.isEmpty }

    func append(_ event: ConnectionEvent) {
        var events = takeEvents()
        events.append(event)
        self.events = events
    }

    /// Takes the events out, to add some to them. Give them back.
    func takeEvents() -> [ConnectionEvent] {
        let events = events
        self.events = []
        return events
    }

    /// Takes the events when a call of the owner ends. An empty array stays in the port, which reuses its memory.
    func takeAll() -> [ConnectionEvent] { events.isEmpty ? [] : takeEvents() }

    func giveBack(_ events: consuming [ConnectionEvent]) { self.events = events }

    /// Takes the events to deliver them. Give the array back as memory when it is empty again.
    func takeBatch() -> [ConnectionEvent] {
        let (batch, spare) = (events, spare)
        self.spare = []
        events = spare
        return batch
    }

    func keepMemory(_ batch: inout [ConnectionEvent]) {
        batch.removeAll(keepingCapacity: batch.count <= 8192)
        spare = exchange(&batch, with: [])
    }
}

/// Where closures enter the connection, and the calls of its client.
extension Connection {
    /// Runs `body`, and then delivers the events to the owner.
    func entered<Result>(_ body: (isolated Connection) -> Result) -> Result {
        let result = body(self)
        deliverEvents()
        return result
    }

    /// Runs `body` on the loop, soon, unless the connection has been deallocated by then.
    nonisolated func schedule(_ body: @escaping @Sendable (isolated Connection) -> Void) {
        loop.schedule(LoopClosure { [weak self] in self?.onLoop(body) })
    }

    /// Runs `body` at once. Call this on the loop, but not from the owner.
    nonisolated func onLoop<Result: Sendable>(_ body: (isolated Connection) -> Result) -> Result {
        defer { assumeIsolated { $0.deliverEvents() } }
        return assumeIsolated(body)
    }

    /// Runs `body` at once, within a call of the owner. No events are delivered meanwhile: the owner takes them itself
    /// at the end of its batch.
    nonisolated func inCallOfOwner<Result: Sendable>(_ body: (isolated Connection) -> Result) -> Result {
        onItsLoop { $0.port.isCalling = true }
        defer { onItsLoop { $0.port.isCalling = false } }
        return assumeIsolated(body)
    }

    /// Sends the requests of `queue` that may go out, and returns whether one more could.
    nonisolated func admitEarly(from queue: inout RequestQueue, _ parts: inout RequestParts) -> Bool {
        onItsLoop(&queue, &parts, ()) { connection, queue, parts, _ in
            connection.port.isCalling = true
            defer { connection.port.isCalling = false }
            connection.admit(from: &queue, &parts)
            return connection.mayAdmit
        }
    }

    /// The number of requests that could go out now, if the link allows them.
    nonisolated var roomNow: Int { onItsLoop { $0.room } }

    /// Lets `body` put requests on the ready link, if there is one, and change the other values. There is room for
    /// `roomNow` of them.
    @inline(__always)
    nonisolated func withReadyLink<First, Second, Third>(
        _ first: inout First,
        _ second: inout Second,
        _ third: inout Third,
        _ body:
            @escaping (inout First, inout Second, inout Third, inout Link.State, LinkRules, inout [ConnectionEvent]) ->
            Void
    ) {
        onItsLoop(&first, &second, &third, body) { connection, first, second, third, body in
            guard let ready = connection.ready else { return }
            var events = connection.port.takeEvents()
            body(&first, &second, &third, &ready.state, connection.rules, &events)
            connection.port.giveBack(events)
            connection.scheduleFlushUnlessFull(ready)
        }
    }

    /// Puts the first requests of a batch on the ready link, at most `room`, and notes their places in `queue`. Returns
    /// their number.
    nonisolated func admitNow(
        _ requests: [Request],
        first: RequestID,
        atMost room: Int,
        expectsResponse: Bool,
        _ queue: inout RequestQueue
    ) -> Int {
        onItsLoop(&queue, (requests, first, room, expectsResponse)) { connection, queue, call in
            guard let ready = connection.ready else { return 0 }
            let (requests, first, room, expectsResponse) = call
            let admitted = ready.state.admit(
                requests,
                first: first,
                atMost: room,
                expectsResponse: expectsResponse,
                &queue,
                by: connection.rules
            )
            if admitted > 0 { connection.scheduleFlushUnlessFull(ready) }
            return admitted
        }
    }

    /// Delivers the events, but never within a call of the owner.
    func deliverEvents() {
        while port.hasToDeliver {
            var batch = port.takeBatch()
            port.owner?.handle(&batch, of: self)
            port.keepMemory(&batch)
        }
        if !port.isCalling { observation?.deliver() }
    }
}

/// An event of a connection, for its owner, in order.
///
/// Events are collected while the connection works and handed over when it has finished: an owner is never called in
/// the middle of a call, and an event describes something that has already happened.
enum ConnectionEvent: Sendable {
    /// A response was received. Its request has left its link, on which its frame was at this position.
    case answered(RequestID, Frame, OutboundPosition)
    /// A response to several requests was received. They have left their link. In one event, because there may be very
    /// many.
    indirect case answeredAll([InFlightTable.AnsweredRequests.Request], Frame)
    /// A part of a response was received. Its request stays on its link.
    case part(RequestID, Frame)
    /// A part for several requests was received. They stay on their link. In one event, because there may be very many.
    indirect case sharedPart([InFlightTable.AnsweredRequests.Request], Frame)
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
    /// The response of the latest `late`, if the application wants it.
    indirect case lateResponse(LateResponse)
    /// A response, or a part of one, was received without a matching request. `namesNoRequest`: matched by serial, its
    /// serial is outside the range of the protocol.
    case unknownResponse(SerialNumber, type: UInt32, SessionID, ServerReason?, namesNoRequest: Bool)
    /// The server has sent a request. The frame has the session of its link.
    case requested(Frame)
    /// The server has cancelled its request with this serial.
    case requestCancelled(SerialNumber, SessionID)
    /// A frame was received that a client does not handle.
    case unexpected
    /// A link is about to be ready on which the server does not know the session of the earlier ones.
    indirect case sessionLost(Endpoint, on: SessionID)
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
    /// The number of requests that wait for a link, or for their turn. Called on the loop.
    nonisolated var waitingCount: Int { get }

    /// Handles the events, which it may take out of the array. Called on the loop.
    func handle(_ events: inout [ConnectionEvent], of connection: isolated Connection)
}
