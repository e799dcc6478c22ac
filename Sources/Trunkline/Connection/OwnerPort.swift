/// What a connection knows about its owner, and the events that the owner has not received yet.
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
    /// Whether the owner takes only heartbeats at present.
    var isPaused: Bool
    /// How much memory the pushes take, counted as in `Link.Held`, that links have handed over because they ended or
    /// drained, since the owner paused.
    var surplusBytes = 0
    /// Events that the owner has not received yet. Exclusive access: see `LoopActor`.
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    @safe var events: [ConnectionEvent] = []
    /// An empty array whose memory is reused for the next events.
    private var spare: [ConnectionEvent] = []

    init(isPaused: Bool) { self.isPaused = isPaused }

    /// Notes the owner, which is known from its first call.
    func note(_ owner: any ConnectionOwner) {
        if !isKnown { (self.owner, isKnown) = (owner, true) }
    }

    /// Whether events are to be delivered: never within a call of the owner.
    var hasToDeliver: Bool { !isCalling && !events.isEmpty }

    /// Takes the events. Give the array back when it is empty again.
    func takeBatch() -> [ConnectionEvent] { exchange(&events, with: exchange(&spare, with: [])) }

    func giveBack(_ batch: inout [ConnectionEvent]) {
        batch.removeAll(keepingCapacity: batch.count <= 8192)
        spare = exchange(&batch, with: [])
    }

    /// Takes the events at the end of a call of the owner.
    func takeEvents() -> [ConnectionEvent] { events.isEmpty ? [] : exchange(&events, with: []) }
}
