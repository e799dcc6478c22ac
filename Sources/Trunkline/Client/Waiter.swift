/// Who waits for a request. It leaves the request table once, and is told once.
enum Waiter: Sendable {
    /// A caller in `send` or `post`.
    case caller(Continuation<Outcome>)
    /// One of the requests of a `send(all:)`, or of the messages of a `post(all:)`.
    case batch(Batch, index: Int)
    /// One of the requests of a `Handshaker.send(all:)`.
    case handshake(HandshakeBatch, index: Int)
    /// A handle given out by `start`.
    case handle(RequestHandle)
    /// A stream given out by `stream`.
    case stream(ReplyChannel)
    /// The callers who asked for the same, with a `CachePolicy`.
    case coalesced(CoalescedRequest)
    /// Nobody: a message that `enqueue` has accepted. It holds this room, for so many bytes.
    case enqueued(MessageRoom, cost: Int)
    /// A caller in `enqueue` until its message is accepted; nobody from then on.
    case enqueuing(EnqueuedMessage)
    /// One of the former but a stream, whose reply turned out to come in parts.
    case reassembling(Reassembly)
    /// One of these, whose call has options of its own. The box is the price of those calls; others have none.
    indirect case tracked(Waiter, TrackedCall)

    /// The call, if its options are not the usual ones.
    var tracked: TrackedCall? { if case .tracked(_, let call) = self { call } else { nil } }

    /// The waiter without its call's options and without its reassembly.
    var innermost: Waiter {
        switch self {
        case .tracked(let waiter, _): waiter.innermost
        case .reassembling(let reassembly): reassembly.waiter.innermost
        case .caller, .batch, .handshake, .handle, .stream, .coalesced, .enqueued, .enqueuing: self
        }
    }

    /// The handle that was given out for the request, if it was `start` that was called.
    var handle: RequestHandle? { if case .handle(let handle) = innermost { handle } else { nil } }

    /// The coalesced request, if it is that of several calls.
    var coalesced: CoalescedRequest? { if case .coalesced(let request) = innermost { request } else { nil } }

    /// Whether it wants to hear that its request is on a link.
    var wantsAdmission: Bool {
        switch self {
        case .handle, .enqueuing: true
        case .reassembling(let reassembly): reassembly.waiter.wantsAdmission
        case .tracked(let waiter, _): waiter.wantsAdmission
        case .caller, .batch, .handshake, .stream, .coalesced, .enqueued: false
        }
    }

    /// The usual one is told in place: this is done once per request.
    @inline(__always)
    func resume(_ outcome: consuming Outcome) {
        if case .caller(let continuation) = self { continuation.resume(returning: outcome) } else { tell(outcome) }
    }

    @inline(never)
    private func tell(_ outcome: Outcome) {
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

/// The results of one `send(all:)` or `post(all:)`, gathered until the last is there; one continuation for all of them.
///
/// Sendable although it is not checked: after it is made it is touched on its client's loop only, where requests
/// complete.
final class Batch: @unchecked Sendable {
    let options: ResolvedOptions
    private let continuation: Continuation<[Outcome]>
    private var outcomes: [Outcome?]
    private var missing: Int

    init(count: Int, _ options: ResolvedOptions, _ continuation: Continuation<[Outcome]>) {
        self.options = options
        self.continuation = continuation
        outcomes = Array(repeating: nil, count: count)
        missing = count
    }

    func complete(_ index: Int, _ outcome: Outcome) {
        guard outcomes[index] == nil else { return }
        outcomes[index] = outcome
        missing -= 1
        if missing == 0 { continuation.resume(returning: outcomes.compactMap { $0 }) }
    }
}
