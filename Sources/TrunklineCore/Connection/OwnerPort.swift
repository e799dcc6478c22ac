/// The demand of a connection's owner, and its events. Confined to the event loop. A class, as `Links`.
final class OwnerPort {
    private(set) weak var owner: (any ConnectionOwner)?
    private var isKnown = false
    /// Whether a call is under way, of the owner or of the driver. At its end the events are taken or delivered.
    private var isBusy = false
    var demand = ReconnectMachine.Demand.none
    /// Whether requests or parts wait in the owner, and how many requests.
    var isWaiting = false
    var waitingCount = 0
    /// The owner takes no frames at present; a client still takes heartbeats.
    var isPaused: Bool
    /// The memory of the pushes that links which ended or drained have handed over since the owner paused.
    var surplusBytes = 0
    /// Only assigned as a whole, as the fields of `Link`.
    private(set) var events: [ConnectionEvent] = []
    /// Empty. Its memory is reused for the next events.
    private var spare: [ConnectionEvent] = []

    /// A client is known from its first call. A `frameUse` has no reader yet.
    init(of frameUse: FrameUse?) {
        isPaused = frameUse != nil
        if let frameUse { note(frameUse) }
    }

    func note(_ owner: any ConnectionOwner) {
        if !isKnown { (self.owner, isKnown) = (owner, true) }
    }

    /// Returns whether this is the outermost call.
    func begin() -> Bool { !exchange(&isBusy, with: true) }

    func end() { isBusy = false }

    func append(_ event: ConnectionEvent) {
        var events = takeEvents()
        events.append(event)
        self.events = events
    }

    func takeEvents() -> [ConnectionEvent] {
        let events = events
        self.events = []
        return events
    }

    /// An empty array stays in the port, which reuses its memory.
    func takeAll() -> [ConnectionEvent] { events.isEmpty ? [] : takeEvents() }

    func giveBack(_ events: consuming [ConnectionEvent]) { self.events = events }

    /// Give the array to `keepMemory` afterwards.
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

protocol ConnectionOwner: AnyObject {
    /// May take the events out of the array. Called on the loop.
    func handle(_ events: inout [ConnectionEvent], of driver: ConnectionDriver)
}
