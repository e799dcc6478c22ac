/// The frames of requests that are on no link: they wait for a link, for their turn, or for the end of a back-off.
///
///     append ──► waiting ──popFirst──► on a link
///                  ▲  ▲                    │
///                  │  └───── prepend ◄─────┤ (nothing of it was written)
///                  └─ wake ─ delayed ◄─────┘ delay (it has failed and is tried again)
package struct RequestQueue: Sendable {
    struct Admission: Sendable {
        let id: RequestID
        let place: PlaceOnLink
        let session: SessionID
    }

    /// A request with a lower number is sent first.
    package typealias Turn = Int

    struct Slot: Sendable {
        let turn: Turn
        var request: QueuedRequest?
    }

    var slots = Deque<Slot>()
    var parking: Parking {
        get { rareParking.value }
        _modify { yield &rareParking.value }
    }
    private var rareParking = Rare<Parking>()
    var isWithoutParking: Bool { rareParking.isInitial }
    /// The answers to the server that wait. They go out before all others. Some may have left.
    private var rareAnswers = Rare<Answers>()
    var isWithoutAnswers: Bool { rareAnswers.isInitial }

    private struct Answers: EmptyInitializable, Sendable {
        var places = Deque<(turn: Turn, id: RequestID)>()
    }

    /// The turns before the first slot, and after the last.
    var (previousTurn, nextTurn): (Turn, Turn) = (-1, 0)
    private var delayed: [RequestID: QueuedRequest] = [:]
    private var delays = DeadlineQueue()
    private var admissions: [Admission] = []
    private(set) var waitingCount = 0
    private(set) var waitingBytes = 0
    /// The requests, waiting or not, that must go out alone. Usually there are none.
    private(set) var exclusives: Set<RequestID> = []
    private let maximumWaiting: Int
    private let maximumBytes: Int

    init(maximumWaiting: Int = .max, maximumBytes: Int = .max) {
        self.maximumWaiting = max(0, maximumWaiting)
        self.maximumBytes = max(0, maximumBytes)
    }

    var hasWaiting: Bool { waitingCount > 0 }

    var waiting: [QueuedRequest] {
        guard isWithoutParking || parking.channels.isEmpty else {
            var queue = self
            queue.unparkAll()
            return queue.waiting
        }
        return (0..<slots.count).compactMap { slots[$0].request }
    }

    var delayedCount: Int { delayed.count }

    var capacity: Int { max(slots.capacity, delays.capacity) }

    // MARK: Inserting

    /// In bytes beside the frame: a record in tables that are a quarter to half full while they grow, and a deadline.
    private static var waitingCost: Int { 512 }

    /// What `maximumBytes` limits.
    var usedBytes: Int { waitingBytes + (waitingCount + delayed.count) * Self.waitingCost }

    /// Mutating although it changes nothing: for a nonmutating method the compiler copies the queue, for every request.
    mutating func refusal(for cost: Int) -> String? {
        let count = waitingCount + delayed.count
        guard count < maximumWaiting else {
            let requests = count == 1 ? "request is" : "requests are"
            return "\(count) \(requests) waiting (maximumWaiting is \(maximumWaiting))"
        }
        let bytes = usedBytes
        guard bytes > 0, bytes + cost + Self.waitingCost > maximumBytes else { return nil }
        return "waiting requests use \(bytes) bytes of memory (maximumWaitingBytes is \(maximumBytes))"
    }

    @discardableResult
    mutating func append(_ request: consuming QueuedRequest) -> Turn {
        let turn = nextTurn
        nextTurn += 1
        waitingCount += 1
        waitingBytes += request.cost
        slots.append(Slot(turn: turn, request: consume request))
        return turn
    }

    /// The server may wait for it before it answers a request in flight, so nothing that holds requests back applies.
    mutating func noteAnswer(_ id: RequestID, _ turn: Turn) {
        if rareAnswers.value.places.count > 2 * waitingCount + 64 {
            var places = exchange(&rareAnswers.value.places, with: Deque())
            places.removeAll { waiting($0.turn, id: $0.id) == nil }
            rareAnswers.value.places = places
        }
        rareAnswers.value.places.append((turn, id))
    }

    /// If the answer is put on a link, a call of `went` must follow.
    mutating func popAnswer() -> QueuedRequest? {
        guard !isWithoutAnswers else { return nil }
        while let (turn, id) = rareAnswers.value.places.popFirst() {
            if let answer = remove(turn, id: id) { return answer }
        }
        return nil
    }

    @discardableResult
    mutating func prepend(_ request: QueuedRequest) -> Turn {
        let turn = previousTurn
        previousTurn -= 1
        waitingCount += 1
        waitingBytes += request.cost
        slots.prepend(Slot(turn: turn, request: request))
        return turn
    }

    // MARK: To a link

    mutating func firstExpectsResponse() -> Bool? {
        dropLeft()
        return slots.isEmpty ? nil : slots[0].request?.expectsResponse
    }

    /// If the request is put on a link, a call of `went` must follow.
    mutating func popFirst() -> QueuedRequest? {
        while let slot = popSlot() {
            // Not `if let`, which copies the request.
            guard case .some(let request) = slot.request else { continue }
            countOut(request.cost)
            return request
        }
        return nil
    }

    mutating func makeExclusive(_ id: RequestID) { exclusives.insert(id) }

    mutating func dropExclusives(unless isAlive: (RequestID) -> Bool) {
        exclusives = exclusives.filter(isAlive)
    }

    func countBeforeExclusive(atMost most: Int) -> (count: Int, isExclusive: Bool) {
        var count = 0
        for index in 0..<slots.count {
            guard let id = slots[index].request?.id else { continue }
            if exclusives.contains(id) { return (count, true) }
            guard count < most else { break }
            count += 1
        }
        return (count, false)
    }

    var latestPlace: PlaceOnLink? { admissions.last?.place }

    mutating func went(_ id: RequestID, to place: PlaceOnLink, on session: SessionID) {
        admissions.append(Admission(id: id, place: place, session: session))
    }

    var hasAdmissions: Bool { !admissions.isEmpty }

    @inline(__always)
    mutating func takeAdmissions(_ body: (Admission) -> Void) {
        for admission in admissions { body(admission) }
        admissions.removeAll(keepingCapacity: admissions.count <= 1024)
    }

    mutating func popSlot() -> Slot? {
        guard let slot = slots.popFirst() else { return nil }
        // Parked requests keep their turns.
        if isWithoutParking || parking.channels.isEmpty { previousTurn = slot.turn }
        return slot
    }

    private mutating func dropLeft() { while !slots.isEmpty, slots[0].request == nil { _ = popSlot() } }

    mutating func countOut(_ cost: Int) {
        waitingCount -= 1
        waitingBytes -= cost
    }

    // MARK: Removing

    func waiting(_ turn: Turn, id: RequestID) -> QueuedRequest? {
        if !isWithoutParking, let (channel, index) = parkedPlace(of: turn, id) {
            return parking.lines[channel]?[index].request
        }
        return index(of: turn, id).flatMap { slots[$0].request }
    }

    mutating func remove(_ turn: Turn, id: RequestID) -> QueuedRequest? {
        if !isWithoutParking, let request = removeParked(turn, id) { return request }
        guard let index = index(of: turn, id), let request = slots[index].request else { return nil }
        slots[index].request = nil
        countOut(request.cost)
        dropRemoved()
        return request
    }

    mutating func removeAll(includingDelayed: Bool = true) -> [QueuedRequest] {
        unparkAll()
        var all: [QueuedRequest] = []
        while let request = popFirst() { all.append(request) }
        if includingDelayed {
            all += delayed.values
            (delayed, delays) = ([:], DeadlineQueue())
        }
        return all.sorted { $0.id < $1.id }
    }

    private func index(of turn: Turn, _ id: RequestID) -> Int? {
        var (low, high) = (0, slots.count)
        while low < high {
            let middle = (low + high) / 2
            if slots[middle].turn < turn { low = middle + 1 } else { high = middle }
        }
        return low < slots.count && slots[low].turn == turn && slots[low].request?.id == id ? low : nil
    }

    mutating func dropRemoved() {
        dropLeft()
        if slots.count > 2 * waitingCount + 64 { slots.removeAll { $0.request == nil } }
    }

    // MARK: Retries

    mutating func delay(_ request: QueuedRequest, until instant: Instant) {
        delayed[request.id] = request
        delays.insert(request.id, deadline: instant)
        if delays.isCrowded(alive: delayed.count) {
            let delayed = delayed
            delays.compact { delayed[$0] != nil }
        }
    }

    func delayed(_ id: RequestID) -> QueuedRequest? { delayed[id] }

    mutating func removeDelayed(_ id: RequestID) -> QueuedRequest? { delayed.removeValue(forKey: id) }

    mutating func nextRested(at now: Instant) -> RequestID? {
        while let id = delays.popDue(at: now) {
            if delayed[id] != nil { return id }
        }
        return nil
    }

    mutating func wake(_ id: RequestID) -> Turn? { delayed.removeValue(forKey: id).map { append($0) } }

    var nextEndOfDelay: Instant? { delays.earliest }

    /// No request is left, and none will follow.
    mutating func forgetDelays() { delays = DeadlineQueue() }
}
