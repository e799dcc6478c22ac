/// The frames of requests that are on no link: they wait for a link, for their turn, or for the end of a back-off.
///
///     append ──► waiting ──popFirst──► on a link
///                  ▲  ▲                    │
///                  │  └───── prepend ◄─────┤ (nothing of it was written)
///                  └─ wake ─ delayed ◄─────┘ delay (it has failed and is tried again)
///
/// A connection takes requests from here. It learns their IDs and frames, and nothing of their callers.
package struct RequestQueue: Sendable {
    /// A request that has gone from here to a link.
    package struct Admission: Sendable {
        package let id: RequestID
        /// Its place on the link of `session`.
        package let place: LinkMachine.Place
        package let session: SessionID
    }

    /// The place of a waiting request. A request with a lower number is sent first.
    package typealias Turn = Int

    struct Slot: Sendable {
        let turn: Turn
        /// `nil` if the request was removed.
        var request: QueuedRequest?
    }

    /// The requests that wait for a link or their turn, in order.
    var slots = Deque<Slot>()
    /// The requests that wait for their channels.
    var parking: Parking {
        get { rareParking.value }
        _modify { yield &rareParking.value }
    }
    private var rareParking = Rare<Parking>()
    /// Whether no request has ever waited for its channel.
    var isWithoutParking: Bool { rareParking.isInitial }
    /// The answers to the server that wait, by their turns. They go out before all others. Some may have left.
    private var rareAnswers = Rare<Answers>()
    /// Whether no answer has ever waited.
    package var isWithoutAnswers: Bool { rareAnswers.isInitial }

    private struct Answers: EmptyInitializable, Sendable {
        var places = Deque<(turn: Turn, id: RequestID)>()
    }

    /// The turns before the first slot, and after the last.
    var (previousTurn, nextTurn): (Turn, Turn) = (-1, 0)
    private var delayed: [RequestID: QueuedRequest] = [:]
    private var delays = DeadlineQueue()
    /// The requests that have gone to a link, until `takeAdmissions`.
    private var admissions: [Admission] = []
    /// The number of requests that wait for a link or their turn.
    package private(set) var waitingCount = 0
    /// The estimated cost of the frames of the waiting requests, in bytes.
    package private(set) var waitingBytes = 0
    /// The requests, waiting or not, that must go out alone. Usually there are none.
    package private(set) var exclusives: Set<RequestID> = []
    private let maximumWaiting: Int
    private let maximumBytes: Int

    package init(maximumWaiting: Int = .max, maximumBytes: Int = .max) {
        self.maximumWaiting = max(0, maximumWaiting)
        self.maximumBytes = max(0, maximumBytes)
    }

    /// Whether a request waits for a link or its turn.
    package var hasWaiting: Bool { waitingCount > 0 }

    /// The requests that wait for a link or their turn, in order.
    package var waiting: [QueuedRequest] {
        guard isWithoutParking || parking.channels.isEmpty else {
            var queue = self
            queue.unparkAll()
            return queue.waiting
        }
        return (0..<slots.count).compactMap { slots[$0].request }
    }

    /// The number of requests that wait for the end of a back-off.
    package var delayedCount: Int { delayed.count }

    /// The number of requests for which memory is allocated.
    package var capacity: Int { max(slots.capacity, delays.capacity) }

    // MARK: Inserting

    /// The memory cost of a waiting request in addition to its frame, in bytes: its record in the tables, which are a
    /// quarter to half full while they grow, and its deadline.
    private static var waitingCost: Int { 512 }

    /// The memory of the requests that wait for a link, for their turn or for the end of a back-off: what the maximum limits.
    package var usedBytes: Int { waitingBytes + (waitingCount + delayed.count) * Self.waitingCost }

    /// Returns why a request whose frame costs `cost` bytes must not wait, as an error message; `nil` if it may.
    ///
    /// The method is mutating although it changes nothing. For a nonmutating method the compiler copies the queue, and
    /// this method is called for every request.
    package mutating func refusal(for cost: Int) -> String? {
        let count = waitingCount + delayed.count
        guard count < maximumWaiting else {
            let requests = count == 1 ? "request is" : "requests are"
            return "\(count) \(requests) waiting (maximumWaiting is \(maximumWaiting))"
        }
        let bytes = usedBytes
        guard bytes > 0, bytes + cost + Self.waitingCost > maximumBytes else { return nil }
        return "waiting requests use \(bytes) bytes of memory (maximumWaitingBytes is \(maximumBytes))"
    }

    /// Inserts a request behind all others. Returns its turn.
    @discardableResult
    package mutating func append(_ request: consuming QueuedRequest) -> Turn {
        let turn = nextTurn
        nextTurn += 1
        waitingCount += 1
        waitingBytes += request.cost
        slots.append(Slot(turn: turn, request: consume request))
        return turn
    }

    /// Notes that the request `id`, which has just been inserted with `turn`, is an answer to the server. The server may wait
    /// for it before it answers a request in flight, so nothing that holds requests back applies to it.
    package mutating func noteAnswer(_ id: RequestID, _ turn: Turn) {
        if rareAnswers.value.places.count > 2 * waitingCount + 64 {
            var places = exchange(&rareAnswers.value.places, with: Deque())
            places.removeAll { waiting($0.turn, id: $0.id) == nil }
            rareAnswers.value.places = places
        }
        rareAnswers.value.places.append((turn, id))
    }

    /// Removes and returns the first answer that waits; `nil` if none does. If it is put on a link, a call of `went` must
    /// follow.
    package mutating func popAnswer() -> QueuedRequest? {
        guard !isWithoutAnswers else { return nil }
        while let (turn, id) = rareAnswers.value.places.popFirst() {
            if let answer = remove(turn, id: id) { return answer }
        }
        return nil
    }

    /// Inserts a request before all others, because its link takes no new requests and nothing of it was written.
    /// Returns its turn.
    @discardableResult
    package mutating func prepend(_ request: QueuedRequest) -> Turn {
        let turn = previousTurn
        previousTurn -= 1
        waitingCount += 1
        waitingBytes += request.cost
        slots.prepend(Slot(turn: turn, request: request))
        return turn
    }

    // MARK: To a link

    /// Whether the next request expects a response; `nil` if no request waits.
    package mutating func firstExpectsResponse() -> Bool? {
        dropLeft()
        return slots.isEmpty ? nil : slots[0].request?.expectsResponse
    }

    /// Removes and returns the next request. If it is put on a link, a call of `went` must follow.
    package mutating func popFirst() -> QueuedRequest? {
        while let slot = popSlot() {
            // Not `if let`, which copies the request.
            guard case .some(let request) = slot.request else { continue }
            countOut(request.cost)
            return request
        }
        return nil
    }

    /// Notes that the request `id` must go out alone, until it has ended.
    package mutating func makeExclusive(_ id: RequestID) { exclusives.insert(id) }

    /// Forgets the exclusive requests that have ended.
    package mutating func dropExclusives(unless isAlive: (RequestID) -> Bool) {
        exclusives = exclusives.filter(isAlive)
    }

    /// The number of waiting requests before the first exclusive one, at most `most`, and whether that one follows.
    package func countBeforeExclusive(atMost most: Int) -> (count: Int, isExclusive: Bool) {
        var count = 0
        for index in 0..<slots.count {
            guard let id = slots[index].request?.id else { continue }
            if exclusives.contains(id) { return (count, true) }
            guard count < most else { break }
            count += 1
        }
        return (count, false)
    }

    /// The place of the request that has gone to a link last.
    package var latestPlace: LinkMachine.Place? { admissions.last?.place }

    /// Notes that the request `id` is on the link of `session` now.
    package mutating func went(_ id: RequestID, to place: LinkMachine.Place, on session: SessionID) {
        admissions.append(Admission(id: id, place: place, session: session))
    }

    /// Whether any request went to a link since the last call of `takeAdmissions`.
    package var hasAdmissions: Bool { !admissions.isEmpty }

    /// Passes the requests that went to a link to `body`, in order, and forgets them.
    @inline(__always)
    package mutating func takeAdmissions(_ body: (Admission) -> Void) {
        for admission in admissions { body(admission) }
        admissions.removeAll(keepingCapacity: admissions.count <= 1024)
    }

    mutating func popSlot() -> Slot? {
        guard let slot = slots.popFirst() else { return nil }
        // Parked requests keep their turns.
        if isWithoutParking || parking.channels.isEmpty { previousTurn = slot.turn }
        return slot
    }

    /// Removes the empty slots at the head.
    private mutating func dropLeft() { while !slots.isEmpty, slots[0].request == nil { _ = popSlot() } }

    mutating func countOut(_ cost: Int) {
        waitingCount -= 1
        waitingBytes -= cost
    }

    // MARK: Removing

    /// The waiting request with this turn and ID; `nil` if it has been removed.
    package func waiting(_ turn: Turn, id: RequestID) -> QueuedRequest? {
        if !isWithoutParking, let (channel, index) = parkedPlace(of: turn, id) {
            return parking.lines[channel]?[index].request
        }
        return index(of: turn, id).flatMap { slots[$0].request }
    }

    /// Removes and returns the waiting request with this turn and ID; `nil` if it has been removed.
    package mutating func remove(_ turn: Turn, id: RequestID) -> QueuedRequest? {
        if !isWithoutParking, let request = removeParked(turn, id) { return request }
        guard let index = index(of: turn, id), let request = slots[index].request else { return nil }
        slots[index].request = nil
        countOut(request.cost)
        dropRemoved()
        return request
    }

    /// Removes and returns every request, in ascending order of the IDs. Requests that wait for the end of a back-off
    /// are removed only if `includingDelayed` is true.
    package mutating func removeAll(includingDelayed: Bool = true) -> [QueuedRequest] {
        unparkAll()
        var all: [QueuedRequest] = []
        while let request = popFirst() { all.append(request) }
        if includingDelayed {
            all += delayed.values
            (delayed, delays) = ([:], DeadlineQueue())
        }
        return all.sorted { $0.id < $1.id }
    }

    /// The index of the slot with `turn`, by binary search: turns ascend, with gaps where removed requests were.
    private func index(of turn: Turn, _ id: RequestID) -> Int? {
        var (low, high) = (0, slots.count)
        while low < high {
            let middle = (low + high) / 2
            if slots[middle].turn < turn { low = middle + 1 } else { high = middle }
        }
        return low < slots.count && slots[low].turn == turn && slots[low].request?.id == id ? low : nil
    }

    /// Drops the empty slots if they outnumber the others.
    package mutating func dropRemoved() {
        dropLeft()
        if slots.count > 2 * waitingCount + 64 { slots.removeAll { $0.request == nil } }
    }

    // MARK: Retries

    /// Lets a request that has failed wait for the end of its back-off, at `instant`, before it is tried again.
    package mutating func delay(_ request: QueuedRequest, until instant: Instant) {
        delayed[request.id] = request
        delays.insert(request.id, deadline: instant)
        if delays.isCrowded(alive: delayed.count) {
            let delayed = delayed
            delays.compact { delayed[$0] != nil }
        }
    }

    /// The request `id`, if it waits for the end of a back-off.
    package func delayed(_ id: RequestID) -> QueuedRequest? { delayed[id] }

    /// Removes and returns the request `id`, if it waits for the end of a back-off.
    package mutating func removeDelayed(_ id: RequestID) -> QueuedRequest? { delayed.removeValue(forKey: id) }

    /// Returns the next request whose back-off has ended. It stays in its place until `wake` or `removeDelayed`.
    package mutating func nextRested(at now: Instant) -> RequestID? {
        while let id = delays.popDue(at: now) {
            if delayed[id] != nil { return id }
        }
        return nil
    }

    /// Appends a request whose back-off has ended. Returns its turn; `nil` if it was removed.
    package mutating func wake(_ id: RequestID) -> Turn? { delayed.removeValue(forKey: id).map { append($0) } }

    /// When the next back-off ends; `nil` for never.
    package var nextEndOfDelay: Instant? { delays.earliest }

    /// Forgets the ends of all back-offs. No request is left, and none will follow.
    package mutating func forgetDelays() { delays = DeadlineQueue() }
}
