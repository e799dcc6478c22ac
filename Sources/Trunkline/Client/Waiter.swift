/// Who waits for a request. It leaves the request table once, and is told once.
enum Waiter: Sendable {
    /// A caller in `send` or `post`.
    case caller(Suspension<Outcome>)
    /// One of the requests of a `send(all:)`, or of the messages of a `post(all:)`.
    case batch(Batch, index: Int)
    /// One of the requests of a `Greeter.send(all:)`.
    case greeting(GreetingBatch, index: Int)
    /// A handle given out by `start`.
    case handle(PendingRequest)
    /// A stream given out by `stream`.
    case stream(ReplyChannel)
    /// The callers who asked for the same, with a `CachePolicy`.
    case shared(SharedExchange)
    /// Nobody: a message that `enqueue` has accepted. It holds this room, for so many bytes.
    case enqueued(MessageRoom, cost: Int)
    /// A caller in `enqueue` until its message is accepted; nobody from then on.
    case enqueuing(EnqueuedMessage)
    /// One of the former but a stream, whose reply turned out to come in parts.
    case joining(JoinedReply)
    /// One of these, whose call has terms of its own. The box is the price of those calls; others have none.
    indirect case particular(Waiter, Terms)

    /// The same, with the terms of its call unless they are the usual ones and nobody compares the response with the
    /// request, which they hold.
    func under(
        _ retry: RetryPolicy,
        waitsForReady: Bool,
        _ frame: borrowing Frame,
        deadline: Instant?,
        expectsResponse: Bool,
        session: UInt64? = nil,
        keepsRequest: Bool
    ) -> Waiter {
        let keepsRequest = keepsRequest && expectsResponse
        if case .ifUnsent = retry, waitsForReady, session == nil, !keepsRequest { return self }
        let terms = Terms(
            retry,
            waitsForReady: waitsForReady,
            frame: copy frame,
            deadline: deadline,
            expectsResponse: expectsResponse,
            session: session
        )
        return .particular(self, terms)
    }

    /// The terms of its call, if they are not the usual ones.
    var terms: Terms? {
        if case .particular(_, let terms) = self { terms } else { nil }
    }

    /// The handle that was given out for the request, if it was `start` that was called.
    var handle: PendingRequest? {
        switch self {
        case .handle(let handle): handle
        case .joining(let reply): reply.waiter.handle
        case .particular(let waiter, _): waiter.handle
        case .caller, .batch, .greeting, .stream, .shared, .enqueued, .enqueuing: nil
        }
    }

    /// Those who share the request, if it is that of several.
    var shared: SharedExchange? {
        switch self {
        case .shared(let exchange): exchange
        case .joining(let reply): reply.waiter.shared
        case .particular(let waiter, _): waiter.shared
        case .caller, .batch, .greeting, .handle, .stream, .enqueued, .enqueuing: nil
        }
    }

    /// Whether it wants to hear that its request is on a link.
    var wantsAdmission: Bool {
        switch self {
        case .handle, .enqueuing: true
        case .joining(let reply): reply.waiter.wantsAdmission
        case .particular(let waiter, _): waiter.wantsAdmission
        case .caller, .batch, .greeting, .stream, .shared, .enqueued: false
        }
    }

    /// The usual one is told in place: this is done once per request.
    @inline(__always)
    func resume(_ outcome: consuming Outcome) {
        if case .caller(let suspension) = self { suspension.resume(returning: outcome) } else { tell(outcome) }
    }

    @inline(never)
    private func tell(_ outcome: Outcome) {
        switch self {
        case .caller(let suspension): suspension.resume(returning: outcome)
        case .batch(let batch, let index): batch.complete(index, outcome)
        case .greeting(let batch, let index): batch.complete(index, outcome)
        case .handle(let request): request.complete(outcome)
        case .stream(let channel): channel.finish(outcome)
        case .shared(let exchange): exchange.complete(outcome)
        case .enqueued(let room, let cost): room.release(cost, outcome)
        case .enqueuing(let message): message.complete(outcome)
        case .joining(let reply): reply.complete(outcome)
        case .particular(let waiter, let terms): waiter.resume(outcome.mapError { terms.amended($0) })
        }
    }
}

/// The results of one `send(all:)` or `post(all:)`, gathered until the last is there; one suspension for all of them.
///
/// Sendable although it is not checked: after it is made it is touched on its client's loop only, where requests
/// complete.
final class Batch: @unchecked Sendable {
    private let suspension: Suspension<[Outcome]>
    private let retry: RetryPolicy
    private let waitsForReady: Bool
    /// Whether they are requests, and no one-way messages.
    let expectsResponse: Bool
    private let keepsRequests: Bool
    private var outcomes: [Outcome?]
    private var missing: Int

    init(
        count: Int,
        _ suspension: Suspension<[Outcome]>,
        _ retry: RetryPolicy,
        waitsForReady: Bool,
        expectsResponse: Bool,
        keepsRequests: Bool
    ) {
        self.suspension = suspension
        self.retry = retry
        self.waitsForReady = waitsForReady
        self.expectsResponse = expectsResponse
        self.keepsRequests = keepsRequests
        outcomes = Array(repeating: nil, count: count)
        missing = count
    }

    /// Who waits for the request at `index`.
    func waiter(_ index: Int, _ frame: borrowing Frame, _ deadline: Instant?) -> Waiter {
        let waiter = Waiter.batch(self, index: index)
        return waiter.under(
            retry,
            waitsForReady: waitsForReady,
            frame,
            deadline: deadline,
            expectsResponse: expectsResponse,
            keepsRequest: keepsRequests && expectsResponse
        )
    }

    func complete(_ index: Int, _ outcome: Outcome) {
        guard outcomes[index] == nil else { return }
        outcomes[index] = outcome
        missing -= 1
        if missing == 0 { suspension.resume(returning: outcomes.compactMap { $0 }) }
    }
}
