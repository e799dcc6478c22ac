/// The requests of one client, each with the waiter for its outcome, from the call to the end. The frames of those that
/// are on no link are here too: they wait for a link, for their turn, or for the end of a back-off.
///
///     append ──► waiting ──popFirst──► on a link ──forget──► removed      register ──► on a link
///                  ▲  ▲                    │
///                  │  └──── giveBack ◄─────┤ (nothing of it was written)
///                  └─ wake ─ delayed ◄─────┘ delay (it has failed and is tried again)
///
/// A request keeps its ID, its deadline and the time of its call in every place. Its ID leads to its place in one step.
package struct RequestTable<Waiter> {
    /// The place of a request.
    package enum Place: Sendable {
        /// It waits for a link or its turn, at this distance from the beginning of the queue.
        case waiting(Int)
        case delayed
        case onLink(session: UInt64, LinkMachine.Place)
    }

    /// A request from its call to its end.
    package struct Entry {
        package fileprivate(set) var place: Place
        /// The waiter for its outcome.
        package fileprivate(set) var waiter: Waiter
        /// The type number of the request.
        package let type: UInt32
        /// Whether it has waited for a link or its turn.
        package fileprivate(set) var hasWaited = false
        /// When its caller made it.
        package let accepted: Instant
        /// When it went to its link; `distantFuture` while it is on no link.
        package fileprivate(set) var admitted = Instant.distantFuture
    }

    /// The requests that wait for a link or their turn, in order; `nil` where one has left.
    private var slots = Deque<QueuedRequest?>()
    /// The distance of `slots[0]` from the beginning of the queue. Negative when requests were given back.
    private var start = 0
    private var delayed: [RequestID: QueuedRequest] = [:]
    private var entries = SequentialMap<Entry>()
    private var deadlines = DeadlineQueue()
    private var delays = DeadlineQueue()
    /// The number of requests that wait for a link or their turn.
    package private(set) var waitingCount = 0
    /// The estimated cost of the frames of the waiting requests, in bytes.
    package private(set) var waitingBytes = 0
    private let maximumWaiting: Int
    private let maximumBytes: Int

    package init(maximumWaiting: Int, maximumBytes: Int) {
        self.maximumWaiting = max(0, maximumWaiting)
        self.maximumBytes = max(0, maximumBytes)
    }

    // MARK: All requests

    /// The number of requests, including those on links.
    package var count: Int { entries.count }

    /// Whether a request waits for a link or its turn.
    package var hasWaiting: Bool { waitingCount > 0 }

    /// The IDs of all requests, including those on links, in ascending order.
    package var ids: [RequestID] { entries.sorted.map(\.key) }

    /// When the oldest request on a link was made. Takes time for each request.
    package var oldestOnLink: Instant? {
        entries.compactMap { if case .onLink = $0.place { $0.accepted } else { nil } }.min()
    }

    /// The number of requests for which memory is allocated.
    package var capacity: Int { max(entries.capacity, slots.capacity, deadlines.capacity, delays.capacity) }

    package subscript(_ id: RequestID) -> Place? { entries[id]?.place }

    /// The request `id`; `nil` if it has ended.
    package func entry(_ id: RequestID) -> Entry? { entries[id] }

    /// The waiter of the request `id`; `nil` if the request has ended.
    package func waiter(of id: RequestID) -> Waiter? { entries[id]?.waiter }

    /// Replaces the waiter of the request `id`.
    package mutating func setWaiter(_ waiter: Waiter, of id: RequestID) { entries.update(id) { $0.waiter = waiter } }

    /// Forgets all requests, wherever they are, and returns them in ascending order of the IDs.
    package mutating func forgetAll() -> [(id: RequestID, entry: Entry)] {
        let all = entries.sorted.map { (id: $0.key, entry: $0.value) }
        self = RequestTable(maximumWaiting: maximumWaiting, maximumBytes: maximumBytes)
        return all
    }

    /// Returns the request `id`, if it is on no link.
    package func request(_ id: RequestID) -> QueuedRequest? {
        switch self[id] {
        case .waiting(let distance)?: slot(distance, of: id).flatMap { slots[$0] }
        case .delayed?: delayed[id]
        case .onLink?, nil: nil
        }
    }

    /// The index of the waiting request `id` in `slots`; `nil` if it was removed and not forgotten yet.
    private func slot(_ distance: Int, of id: RequestID) -> Int? {
        let index = distance - start
        guard index >= 0, index < slots.count, slots[index]?.id == id else { return nil }
        return index
    }

    /// The requests that wait for a link or their turn, in order.
    package var waiting: [QueuedRequest] { (0..<slots.count).compactMap { slots[$0] } }

    // MARK: Inserting

    /// The memory cost of a waiting request in addition to its frame, in bytes: its entry in the tables, which are a
    /// quarter to half full while they grow, and its deadline.
    private static var waitingCost: Int { 512 }

    /// Returns why a request whose frame costs `cost` bytes must not wait, as an error message; `nil` if it may.
    ///
    /// The method is mutating although it changes nothing. For a nonmutating method the compiler copies the table, and
    /// this method is called for every request.
    package mutating func refusal(for cost: Int) -> String? {
        let count = waitingCount + delayed.count
        guard count < maximumWaiting else {
            return "\(count) requests are waiting (maximumWaiting is \(maximumWaiting))"
        }
        let bytes = waitingBytes + count * Self.waitingCost
        guard bytes > 0, bytes + cost + Self.waitingCost > maximumBytes else { return nil }
        return "waiting requests use \(bytes) bytes of memory (maximumWaitingBytes is \(maximumBytes))"
    }

    /// Appends a new request.
    ///
    /// - Parameter accepted: When its caller made it.
    package mutating func append(
        _ request: consuming QueuedRequest,
        _ waiter: consuming Waiter,
        deadline: Instant?,
        accepted: Instant
    ) {
        let id = request.id
        let entry = Entry(place: .delayed, waiter: waiter, type: request.frame.type, accepted: accepted)
        entries.insert(entry, for: id)
        enqueue(consume request)
        if let deadline { watch(id, deadline) }
    }

    /// Adds a deadline for `id`: `nextExpired` returns the ID at `deadline`, unless the request has left before.
    package mutating func watch(_ id: RequestID, _ deadline: Instant) { watch(id...id, deadline) }

    /// Adds a deadline for each of `ids`, as above.
    package mutating func watch(_ ids: ClosedRange<RequestID>, _ deadline: Instant) {
        deadlines.insert(ids, deadline: deadline)
        dropDeadDeadlines()
    }

    private mutating func enqueue(_ request: consuming QueuedRequest) {
        waitingCount += 1
        waitingBytes += request.cost
        move(request.id, to: .waiting(start + slots.count))
        slots.append(consume request)
    }

    // MARK: To a link and back

    /// Whether the next request expects a response; `nil` if no request waits.
    package mutating func firstExpectsResponse() -> Bool? {
        dropLeft()
        return slots.isEmpty ? nil : slots[0]?.expectsResponse
    }

    /// Removes and returns the next request, to be put on a link. A call of `went` must follow.
    package mutating func popFirst() -> QueuedRequest? {
        while !slots.isEmpty {
            let first = slots.popFirst()
            start = slots.isEmpty ? 0 : start + 1
            // Not `?? nil`, which copies the request.
            guard case .some(.some(let request)) = first else { continue }
            countOut(request.cost)
            return request
        }
        return nil
    }

    /// Registers a new request that was put on the link of `session` at `now`, without waiting.
    package mutating func register(
        _ id: RequestID,
        _ type: UInt32,
        _ waiter: consuming Waiter,
        at place: LinkMachine.Place,
        on session: UInt64,
        deadline: Instant?,
        accepted: Instant,
        now: Instant
    ) {
        let entry = Entry(
            place: .onLink(session: session, place),
            waiter: waiter,
            type: type,
            accepted: accepted,
            admitted: max(accepted, now)
        )
        entries.insert(entry, for: id)
        if let deadline { watch(id, deadline) }
    }

    /// Records that the request `id` is on the link of `session` since `now`.
    package mutating func went(
        _ id: RequestID,
        to place: LinkMachine.Place,
        on session: UInt64,
        at now: Instant
    ) {
        move(id, to: .onLink(session: session, place), at: now)
    }

    private mutating func move(_ id: RequestID, to place: Place, at now: Instant = .distantFuture) {
        let isThere = entries.update(id) { entry in
            (entry.place, entry.admitted) = (place, max(entry.accepted, now))
            if now == .distantFuture { entry.hasWaited = true }
        }
        assert(isThere, "a request without an entry")
    }

    /// Removes the empty slots at the head.
    private mutating func dropLeft() {
        while !slots.isEmpty, slots[0] == nil {
            _ = slots.popFirst()
            start = slots.isEmpty ? 0 : start + 1
        }
    }

    private mutating func countOut(_ cost: Int) {
        waitingCount -= 1
        waitingBytes -= cost
    }

    /// Puts requests, in order, before all others, because their link takes no new requests and nothing of them was
    /// written.
    package mutating func giveBack(_ requests: [QueuedRequest]) {
        for request in requests.reversed() where entries.contains(request.id) {
            waitingCount += 1
            waitingBytes += request.cost
            start -= 1
            move(request.id, to: .waiting(start))
            slots.prepend(request)
        }
    }

    /// Forgets the request `id`, which has ended, and returns it; `nil` if it was forgotten before.
    @discardableResult
    package mutating func forget(_ id: RequestID) -> Entry? { entries.remove(id) }

    // MARK: Removing

    /// Removes and returns a request that is on no link. A call of `forget` or `delay` must follow.
    package mutating func remove(_ id: RequestID) -> QueuedRequest? {
        switch self[id] {
        case .waiting(let distance)?:
            guard let index = slot(distance, of: id), let request = slots[index] else { return nil }
            slots[index] = nil
            countOut(request.cost)
            dropDead()
            return request
        case .delayed?:
            return delayed.removeValue(forKey: id)
        case .onLink?, nil: return nil
        }
    }

    /// Removes and returns every request that is on no link, in ascending order of the IDs. Requests that wait for the
    /// end of a back-off are removed only if `includingDelayed` is true. A call of `forget` or `delay` must follow for
    /// each of them.
    package mutating func removeAll(includingDelayed: Bool = true) -> [QueuedRequest] {
        var all: [QueuedRequest] = []
        while let request = popFirst() { all.append(request) }
        if includingDelayed {
            all += delayed.values
            (delayed, delays) = ([:], DeadlineQueue())
        }
        return all.sorted { $0.id < $1.id }
    }

    /// Removes the empty slots if they outnumber the others.
    private mutating func dropDead() {
        dropLeft()
        guard slots.count > 2 * waitingCount + 64 else { return }
        slots.removeAll { $0 == nil }
        start = 0
        for index in 0..<slots.count {
            if let request = slots[index] { move(request.id, to: .waiting(index)) }
        }
    }

    // MARK: Retries

    /// Lets a request that has failed wait for the end of its back-off, at `instant`, before it is tried again. Its
    /// deadline still applies.
    package mutating func delay(_ request: QueuedRequest, until instant: Instant) {
        move(request.id, to: .delayed)
        delayed[request.id] = request
        delays.insert(request.id, deadline: instant)
        if delays.isCrowded(alive: delayed.count) {
            let delayed = delayed
            delays.compact { delayed[$0] != nil }
        }
    }

    /// Returns the next request whose back-off has ended. It stays in its place until `wake` or `remove`.
    package mutating func nextRested(at now: Instant) -> RequestID? {
        while let id = delays.popDue(at: now) {
            if delayed[id] != nil { return id }
        }
        return nil
    }

    /// Appends a request whose back-off has ended.
    package mutating func wake(_ id: RequestID) {
        if entries.contains(id), let request = delayed.removeValue(forKey: id) { enqueue(request) }
    }

    /// The number of requests that wait for the end of a back-off.
    package var delayedCount: Int { delayed.count }

    // MARK: Time

    /// Returns the next request whose deadline has passed at `now`. It stays in its place.
    package mutating func nextExpired(at now: Instant) -> RequestID? {
        while let id = deadlines.popDue(at: now) {
            if entries.contains(id) { return id }
        }
        return nil
    }

    /// The number of entries for deadlines, including those of requests that have left.
    package var watchedCount: Int { deadlines.count }

    /// When to check for expired requests and back-offs that have ended; `nil` for never.
    package var nextDeadline: Instant? {
        guard let delay = delays.earliest else { return deadlines.earliest }
        return min(delay, deadlines.earliest ?? delay)
    }

    /// Releases the memory of requests that have left. Called at the end of every batch.
    package mutating func giveBackMemory() {
        dropDead()
        dropDeadDeadlines()
    }

    private mutating func dropDeadDeadlines() {
        guard deadlines.isCrowded(alive: entries.count) else { return }
        let entries = entries
        deadlines.compact { entries.contains($0) }
    }

    /// Removes all deadlines. No request is left, and none will follow, so no timer needs to fire.
    package mutating func forgetDeadlines() { (deadlines, delays) = (DeadlineQueue(), DeadlineQueue()) }
}

extension RequestTable: Sendable where Waiter: Sendable {}
extension RequestTable.Entry: Sendable where Waiter: Sendable {}
