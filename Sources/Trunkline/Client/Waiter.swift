/// The receiver of a request's outcome. It is removed from the tables once and resumed once.
enum Waiter: Sendable {
    /// A caller in `send` or `post`.
    case caller(Continuation<Outcome>)
    /// A request of a `send(all:)`, or a message of a `post(all:)`.
    case batch(Batch, index: Int)
    /// A request of a `Handshaker.send(all:)`.
    case handshake(HandshakeBatch, index: Int)
    /// A handle returned by `start`.
    case handle(RequestHandle)
    /// A stream returned by `stream`.
    case stream(ReplyChannel)
    /// The callers of a coalesced request.
    case coalesced(CoalescedRequest)
    /// No caller: a message that `enqueue` accepted. It takes `cost` bytes of the room.
    case enqueued(MessageRoom, cost: Int)
    /// A caller in `enqueue` until its message is accepted; no caller afterwards.
    case enqueuing(EnqueuedMessage)
    /// Any of the above except a stream, whose reply arrives in parts.
    case reassembling(Reassembly)
    /// Any of the above whose call has unusual options. Only such calls pay for the box.
    indirect case tracked(Waiter, TrackedCall)

    /// The call, if its options are not the usual ones.
    var tracked: TrackedCall? { if case .tracked(_, let call) = self { call } else { nil } }

    /// Whether the call has unusual options. Cheaper than `tracked`, for every request.
    var isTracked: Bool { if case .tracked = self { true } else { false } }

    /// The waiter without its call's options and without its reassembly.
    var innermost: Waiter {
        switch self {
        case .tracked(let waiter, _): waiter.innermost
        case .reassembling(let reassembly): reassembly.waiter.innermost
        case .caller, .batch, .handshake, .handle, .stream, .coalesced, .enqueued, .enqueuing: self
        }
    }

    /// The handle of the request, if it was made with `start`.
    var handle: RequestHandle? { if case .handle(let handle) = innermost { handle } else { nil } }

    /// The batch of the request, if it was made with others.
    var batch: Batch? { if case .batch(let batch, _) = innermost { batch } else { nil } }

    /// The coalesced request, if this is one.
    var coalesced: CoalescedRequest? { if case .coalesced(let request) = innermost { request } else { nil } }

    /// What the link must report about the request before its end.
    var reports: QueuedRequest.Progress {
        switch self {
        case .handle: .admissionAndWrite
        case .enqueuing: .admission
        case .reassembling(let reassembly): reassembly.waiter.reports
        case .tracked(let waiter, _): waiter.reports
        case .caller, .batch, .handshake, .stream, .coalesced, .enqueued: .none
        }
    }

    /// The most common case is handled inline, because this runs once per request.
    @inline(__always)
    func resume(_ outcome: consuming Outcome) {
        switch self {
        case .caller(let continuation): continuation.resume(returning: consume outcome)
        default: tell(consume outcome)
        }
    }

    @inline(never)
    private func tell(_ outcome: consuming Outcome) {
        switch self {
        case .caller(let continuation): continuation.resume(returning: outcome)
        case .batch(let batch, let index): batch.complete(index, outcome)
        case .handshake(let batch, let index): batch.complete(index, outcome)
        case .handle(let request): request.complete(outcome)
        case .stream(let channel): channel.finish(outcome)
        case .coalesced(let request): request.complete(outcome)
        case .enqueued(let room, let cost): room.release(cost, outcome)
        case .enqueuing(let message): message.complete(outcome)
        case .reassembling(let reassembly): reassembly.complete(outcome)
        case .tracked(let waiter, let call): waiter.resume(outcome.mapError { call.amended($0) })
        }
    }
}

/// The results of one `send(all:)` or `post(all:)`, collected until the last one has arrived. All share one
/// continuation.
///
/// Unchecked `Sendable`: after its creation it is accessed only on the event loop of its client.
final class Batch: @unchecked Sendable {
    let options: ResolvedOptions
    private let continuation: Continuation<[Outcome]>
    /// Exclusive access: see `LoopActor`. Only `complete` uses it.
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    @safe private var results: Results

    /// One value, so that completing a request is one access to this object.
    private struct Results {
        /// In the order in which the requests ended.
        var outcomes: [Outcome] = []
        /// For each request, the index of its outcome in `outcomes`; -1 while it has none.
        var places: [Int]

        init(count: Int) {
            outcomes.reserveCapacity(count)
            places = Array(repeating: -1, count: count)
        }

        /// Sets the outcome of a request unless it has one. Returns all outcomes, in the order of the requests, if it
        /// was the last.
        mutating func complete(_ index: Int, _ outcome: consuming Outcome) -> [Outcome]? {
            guard places[index] < 0 else { return nil }
            places[index] = outcomes.count
            outcomes.append(outcome)
            guard outcomes.count == places.count else { return nil }
            let outcomes = exchange(&self.outcomes, with: [])
            return places.elementsEqual(places.indices) ? outcomes : places.map { outcomes[$0] }
        }
    }

    init(count: Int, _ options: ResolvedOptions, _ continuation: Continuation<[Outcome]>) {
        self.options = options
        self.continuation = continuation
        results = Results(count: count)
    }

    func complete(_ index: Int, _ outcome: consuming Outcome) {
        if let all = results.complete(index, outcome) { continuation.resume(returning: all) }
    }
}
