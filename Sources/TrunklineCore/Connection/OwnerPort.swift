/// The demand of a connection's owner, and its events. Confined to the event loop. A class, as `Links`.
final class OwnerPort {
    private(set) weak var owner: (any ConnectionOwner)?
    private var isKnown = false
    /// Whether a call is under way, of the owner or of the driver. At its end the events are taken or delivered.
    private var isBusy = false
    var demand = ReconnectMachine.Demand.none
    /// The owner takes no frames at present; a client still takes heartbeats.
    var isPaused: Bool
    /// Whether requests or parts wait in the owner, and how many requests.
    var isWaiting = false
    var waitingCount = 0
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
    @discardableResult
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
        batch.empty(keepingCapacity: batch.count <= 8192)
        spare = exchange(&batch, with: [])
    }
}

protocol ConnectionOwner: AnyObject {
    /// May take the events out of the array. Called on the loop.
    func handle(_ events: inout [ConnectionEvent])
}
