/// The requests of one client that are on no link: they wait for one, for their turn, or for the end of a back-off. Knows
/// of the others on which link they are.
///
///     append ──► waiting ──popFirst──► on a link ──forget──► gone
///                  ▲  ▲                    │
///                  │  └──── giveBack ◄─────┤ (nothing of it was written)
///                  └─ wake ─ resting ◄─────┘ rest (it has failed and is tried again)
///
/// A request keeps its ID and its deadline wherever it is, and its ID leads to its place in one step.
package struct RequestQueue<Waiter> {
    /// Where a request is.
    package enum Place: Sendable {
        /// It waits for a link or its turn: at this distance from the beginning of the queue.
        case waiting(Int)
        case resting
        case onLink(session: UInt64, LinkMachine<Waiter>.Place)
    }

    /// Those that wait for a link or their turn, in order; `nil` where one has left.
    private var slots = Deque<QueuedRequest<Waiter>?>()
    /// The distance of `slots[0]` from the beginning of the queue; below zero when requests came back.
    private var start = 0
    private var resting: [RequestID: QueuedRequest<Waiter>] = [:]
    private var places = SequentialMap<Place>()
    private var deadlines = DeadlineQueue()
    private var rests = DeadlineQueue()
    /// How many requests wait for a link or their turn.
    package private(set) var waitingCount = 0
    /// What their frames cost.
    private var waitingBytes = 0
    private let maximumWaiting: Int
    private let maximumBytes: Int

    package init(maximumWaiting: Int, maximumBytes: Int) {
        self.maximumWaiting = max(0, maximumWaiting)
        self.maximumBytes = max(0, maximumBytes)
    }

    // MARK: All requests

    /// How many requests there are, those on links included.
    package var count: Int { places.count }

    /// Whether no request waits for a link or its turn.
    package var isEmpty: Bool { waitingCount == 0 }

    /// Every request, those on links included, in ascending order.
    package var ids: [RequestID] { places.sorted.map(\.key) }

    /// The number of requests for which there is memory.
    package var capacity: Int { max(places.capacity, slots.capacity, deadlines.capacity, rests.capacity) }

    package subscript(_ id: RequestID) -> Place? { places[id] }

    /// The request of `id`, if it is on no link.
    package func request(_ id: RequestID) -> QueuedRequest<Waiter>? {
        switch places[id] {
        case .waiting(let distance)?: slots[distance - start]
        case .resting?: resting[id]
        case .onLink?, nil: nil
        }
    }

    /// The requests that wait for a link or their turn, in order.
    package var waiting: [QueuedRequest<Waiter>] { (0..<slots.count).compactMap { slots[$0] } }

    // MARK: In

    /// What a request that waits costs besides its frame, in bytes: its places in the tables, of which between a quarter and
    /// half are filled while they grow, and its deadline.
    private static var waitingCost: Int { 512 }

    /// Why a request whose frame costs `cost` bytes may not wait; `nil` when it may.
    ///
    /// Mutating, although nothing changes: for any other method the compiler copies the queue, which is asked for every request.
    package mutating func refusal(for cost: Int) -> String? {
        let count = waitingCount + resting.count
        guard count < maximumWaiting else { return "\(count) requests are waiting already" }
        let bytes = waitingBytes + count * Self.waitingCost
        guard bytes > 0, bytes + cost + Self.waitingCost > maximumBytes else { return nil }
        return "\(bytes) bytes of memory are taken by requests that wait (maximumWaitingBytes is \(maximumBytes))"
    }

    /// Appends a new request.
    package mutating func append(_ request: consuming QueuedRequest<Waiter>, deadline: Instant?) {
        let id = request.id
        enqueue(request)
        if let deadline { watch(id, deadline) }
    }

    /// Has `id` turn up among the expired at `deadline`, unless it has left by then.
    package mutating func watch(_ id: RequestID, _ deadline: Instant) {
        deadlines.insert(id, deadline: deadline)
        dropDeadDeadlines()
    }

    private mutating func enqueue(_ request: consuming QueuedRequest<Waiter>) {
        waitingCount += 1
        waitingBytes += OutboundQueue.cost(of: request.frame)
        places.insert(.waiting(start + slots.count), for: request.id)
        slots.append(request)
    }

    // MARK: To a link and back

    /// Whether the request whose turn is next expects a response; `nil` when there is none.
    package mutating func firstExpectsResponse() -> Bool? {
        dropLeft()
        return slots.isEmpty ? nil : slots[0]?.expectsResponse
    }

    /// Takes the request out whose turn is next, to be put on a link: `went` is to follow.
    package mutating func popFirst() -> QueuedRequest<Waiter>? {
        dropLeft()
        guard let first = slots.popFirst(), let request = first else { return nil }
        start = slots.isEmpty ? 0 : start + 1
        countOut(request)
        return request
    }

    /// The request of `id` is on the link of `session` now.
    package mutating func went(_ id: RequestID, to place: LinkMachine<Waiter>.Place, on session: UInt64) {
        places.insert(.onLink(session: session, place), for: id)
    }

    /// Drops the places at the head of those that left.
    private mutating func dropLeft() {
        while !slots.isEmpty, slots[0] == nil {
            _ = slots.popFirst()
            start = slots.isEmpty ? 0 : start + 1
        }
    }

    private mutating func countOut(_ request: borrowing QueuedRequest<Waiter>) {
        waitingCount -= 1
        waitingBytes -= OutboundQueue.cost(of: request.frame)
    }

    /// Puts requests, in order, before all others: their link takes no new ones, and nothing of them was written.
    package mutating func giveBack(_ requests: [QueuedRequest<Waiter>]) {
        for request in requests.reversed() where places.contains(request.id) {
            waitingCount += 1
            waitingBytes += OutboundQueue.cost(of: request.frame)
            start -= 1
            places.insert(.waiting(start), for: request.id)
            slots.prepend(request)
        }
    }

    /// The request of `id` has left its link for good. Returns false when it had left before.
    @discardableResult
    package mutating func forget(_ id: RequestID) -> Bool { places.remove(id) != nil }

    // MARK: Out

    /// Takes out a request that is on no link.
    package mutating func remove(_ id: RequestID) -> QueuedRequest<Waiter>? {
        switch places[id] {
        case .waiting(let distance)?:
            places.remove(id)
            guard let request = slots[distance - start] else { return nil }
            slots[distance - start] = nil
            countOut(request)
            dropDead()
            return request
        case .resting?:
            places.remove(id)
            return resting.removeValue(forKey: id)
        case .onLink?, nil: return nil
        }
    }

    /// Takes out every request that is on no link, in ascending order of the IDs; without those that rest, unless
    /// `includingResting`.
    package mutating func removeAll(includingResting: Bool = true) -> [QueuedRequest<Waiter>] {
        var all: [QueuedRequest<Waiter>] = []
        while let request = popFirst() { all.append(request) }
        if includingResting {
            all += resting.values
            (resting, rests) = ([:], DeadlineQueue())
        }
        for request in all { places.remove(request.id) }
        return all.sorted { $0.id < $1.id }
    }

    /// Drops the places of those that left when they outnumber the others.
    private mutating func dropDead() {
        dropLeft()
        guard slots.count > 2 * waitingCount + 64 else { return }
        slots.removeAll { $0 == nil }
        start = 0
        for index in 0..<slots.count {
            if let request = slots[index] { places.insert(.waiting(index), for: request.id) }
        }
    }

    // MARK: Retries

    /// A request that has just failed on its link, or found none, rests until `instant` before it is tried again. Its
    /// deadline is still watched.
    package mutating func rest(_ request: QueuedRequest<Waiter>, until instant: Instant) {
        places.insert(.resting, for: request.id)
        resting[request.id] = request
        rests.insert(request.id, deadline: instant)
        if rests.isCrowded(alive: resting.count) {
            let resting = resting
            rests.compact { resting[$0] != nil }
        }
    }

    /// The next request whose rest is over; it still rests, until `wake` or `remove`.
    package mutating func nextRested(at now: Instant) -> QueuedRequest<Waiter>? {
        while let id = rests.popDue(at: now) {
            if let request = resting[id] { return request }
        }
        return nil
    }

    /// Appends a request that rested, with another waiter.
    package mutating func wake(_ id: RequestID, as waiter: Waiter) {
        guard var request = resting.removeValue(forKey: id) else { return }
        request.waiter = waiter
        enqueue(request)
    }

    /// How many requests rest.
    package var restingCount: Int { resting.count }

    // MARK: Time

    /// The next request whose deadline has passed at `now`; it is still there, wherever it is.
    package mutating func nextExpired(at now: Instant) -> RequestID? {
        while let id = deadlines.popDue(at: now) {
            if places.contains(id) { return id }
        }
        return nil
    }

    /// How many deadlines are watched, those of requests that have left included.
    package var watchedCount: Int { deadlines.count }

    /// When to look for expired requests and for rests that are over; `nil` for never.
    package var nextDeadline: Instant? {
        guard let rest = rests.earliest else { return deadlines.earliest }
        return min(rest, deadlines.earliest ?? rest)
    }

    /// Gives memory back that requests which have left still take. To be called at the end of every batch.
    package mutating func giveBackMemory() {
        dropDead()
        dropDeadDeadlines()
    }

    private mutating func dropDeadDeadlines() {
        guard deadlines.isCrowded(alive: places.count) else { return }
        let places = places
        deadlines.compact { places.contains($0) }
    }

    /// Nobody is left, and nobody comes any more: no timer is to fire for those who were.
    package mutating func forgetDeadlines() { (deadlines, rests) = (DeadlineQueue(), DeadlineQueue()) }
}

extension RequestQueue: Sendable where Waiter: Sendable {}
