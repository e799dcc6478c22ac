/// The requests of one client, each with the waiter for its outcome, from the call to the end.
///
///     append ──► in the queue ◄──────────► on a link          register ──► on a link
///                      └───── forget ──────────┴──► removed
struct RequestTable<Waiter> {
    fileprivate struct Record {
        var facts: RequestFacts
        var waiter: Waiter
    }

    /// A connection takes requests from here; call `noteAdmissions` afterwards.
    var queue: RequestQueue
    private var records = SequentialMap<Record>()
    private var deadlines = DeadlineQueue()

    init(maximumWaiting: Int, maximumBytes: Int) {
        queue = RequestQueue(maximumWaiting: maximumWaiting, maximumBytes: maximumBytes)
    }

    // MARK: All requests

    var count: Int { records.count }

    var ids: [RequestID] { records.sorted.map { RequestID($0.key) } }

    var oldestOnLink: Instant? {
        records.compactMap { if case .onLink = $0.facts.place { $0.facts.accepted } else { nil } }.min()
    }

    var capacity: Int { max(records.capacity, queue.capacity, deadlines.capacity) }

    subscript(_ id: RequestID) -> RequestFacts? { records.read(id.number) { $0.facts } }

    func waiter(of id: RequestID) -> Waiter? { records.read(id.number) { $0.waiter } }

    mutating func setWaiter(_ waiter: Waiter, of id: RequestID) {
        records.update(id.number) { $0.waiter = waiter }
    }

    @discardableResult
    mutating func forget(_ id: RequestID) -> Waiter? {
        let record = records.remove(id.number)
        switch consume record {  // moved, not copied
        case .some(let record): return record.waiter
        case nil: return nil
        }
    }

    mutating func forgetAll() -> [(id: RequestID, place: RequestFacts.Place, waiter: Waiter)] {
        let all = records.sorted.map { (id: RequestID($0.key), place: $0.value.facts.place, waiter: $0.value.waiter) }
        (records, deadlines) = (SequentialMap(), DeadlineQueue())
        _ = queue.removeAll()
        queue.takeAdmissions { _ in }
        return all
    }

    // MARK: On no link

    mutating func append(
        _ request: consuming QueuedRequest,
        _ waiter: consuming Waiter,
        deadline: Instant?,
        accepted: Instant
    ) {
        let (id, type) = (request.id, request.frame.type)
        let turn = queue.append(consume request)
        let facts = RequestFacts(place: .waiting(turn), type: type, hasWaited: true, accepted: accepted)
        records.insert(Record(facts: facts, waiter: waiter), for: id.number)
        if let deadline { watch(id, deadline) }
    }

    mutating func noteAnswer(_ id: RequestID) {
        if case .waiting(let turn)? = self[id]?.place { queue.noteAnswer(id, turn) }
    }

    func request(_ id: RequestID) -> QueuedRequest? {
        switch self[id]?.place {
        case .waiting(let turn)?: queue.waiting(turn, id: id)
        case .delayed?: queue.delayed(id)
        case .onLink?, nil: nil
        }
    }

    mutating func giveBack(_ requests: [QueuedRequest]) {
        for request in requests.reversed() where records.contains(request.id.number) {
            move(request.id, to: .waiting(queue.prepend(request)))
        }
    }

    /// A call of `forget` or `delay` must follow.
    mutating func remove(_ id: RequestID) -> QueuedRequest? {
        switch self[id]?.place {
        case .waiting(let turn)?: queue.remove(turn, id: id)
        case .delayed?: queue.removeDelayed(id)
        case .onLink?, nil: nil
        }
    }

    /// The deadline of the request still applies.
    mutating func delay(_ request: QueuedRequest, until instant: Instant) {
        move(request.id, to: .delayed)
        queue.delay(request, until: instant)
    }

    mutating func wake(_ id: RequestID) {
        if records.contains(id.number), let turn = queue.wake(id) { move(id, to: .waiting(turn)) }
    }

    // MARK: On a link

    mutating func register(
        _ id: RequestID,
        _ type: UInt32,
        _ waiter: consuming Waiter,
        at place: PlaceOnLink,
        on session: SessionID,
        deadline: Instant?,
        accepted: Instant,
        now: Instant
    ) {
        let place = RequestFacts.Place.onLink(session: session, place)
        let facts = RequestFacts(place: place, type: type, accepted: accepted, admitted: max(accepted, now))
        records.insert(Record(facts: facts, waiter: waiter), for: id.number)
        if let deadline { watch(id, deadline) }
    }

    mutating func noteAdmissions(at now: @autoclosure () -> Instant) {
        guard queue.hasAdmissions else { return }
        let now = now()
        queue.takeAdmissions { admission in
            let place = RequestFacts.Place.onLink(session: admission.session, admission.place)
            let isThere = records.update(admission.id.number) { record in
                (record.facts.place, record.facts.admitted) = (place, max(record.facts.accepted, now))
            }
            assert(isThere, "a request without a record")
        }
    }

    /// Registers new requests that were put on a link without being taken from the queue.
    @inline(__always)
    mutating func registerAdmissions(
        accepted: Instant,
        at now: Instant,
        _ request: (RequestID) -> (type: UInt32, waiter: Waiter)
    ) {
        queue.takeAdmissions { admission in
            let (type, waiter) = request(admission.id)
            let place = RequestFacts.Place.onLink(session: admission.session, admission.place)
            let facts = RequestFacts(place: place, type: type, accepted: accepted, admitted: max(accepted, now))
            records.insert(Record(facts: facts, waiter: waiter), for: admission.id.number)
        }
    }

    private mutating func move(_ id: RequestID, to place: RequestFacts.Place) {
        let isThere = records.update(id.number) { record in
            (record.facts.place, record.facts.admitted) = (place, .distantFuture)
            record.facts.hasWaited = true
        }
        assert(isThere, "a request without a record")
    }

    // MARK: Time

    /// `nextExpired` returns the ID at `deadline`, unless the request has left before.
    mutating func watch(_ id: RequestID, _ deadline: Instant) { watch(id...id, deadline) }

    mutating func watch(_ ids: ClosedRange<RequestID>, _ deadline: Instant) {
        deadlines.insert(ids, deadline: deadline)
        dropDeadDeadlines()
    }

    mutating func nextExpired(at now: Instant) -> RequestID? {
        while let id = deadlines.popDue(at: now) {
            if records.contains(id.number) { return id }
        }
        return nil
    }

    var watchedCount: Int { deadlines.count }

    var nextDeadline: Instant? {
        guard let delay = queue.nextEndOfDelay else { return deadlines.earliest }
        return min(delay, deadlines.earliest ?? delay)
    }

    /// Called at the end of every batch.
    mutating func giveBackMemory() {
        queue.dropRemoved()
        dropDeadDeadlines()
        if !queue.exclusives.isEmpty { queue.dropExclusives { records.contains($0.number) } }
    }

    private mutating func dropDeadDeadlines() {
        guard deadlines.isCrowded(alive: records.count) else { return }
        let records = records
        deadlines.compact { records.contains($0.number) }
    }

    /// No request is left, and none will follow, so no timer needs to fire.
    mutating func forgetDeadlines() {
        deadlines = DeadlineQueue()
        queue.forgetDelays()
    }
}

extension RequestTable: Sendable where Waiter: Sendable {}
extension RequestTable.Record: Sendable where Waiter: Sendable {}

/// What is known about a request from its call to its end, apart from its waiter.
struct RequestFacts: Sendable {
    enum Place: Sendable {
        case waiting(RequestQueue.Turn)
        case delayed
        case onLink(session: SessionID, PlaceOnLink)
    }

    fileprivate(set) var place: Place
    let type: UInt32
    fileprivate(set) var hasWaited = false
    let accepted: Instant
    /// `distantFuture` while the request is on no link.
    fileprivate(set) var admitted = Instant.distantFuture
}
