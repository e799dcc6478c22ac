/// Carries the parts of one reply from the loop to the task that reads the stream.
final class ReplyChannel: Sendable {
    /// What a reader is told: an element, the end, or the failure.
    typealias Element = Result<Response?, ClientError>

    private struct State {
        var buffer: PushBuffer
        /// The response. It has a place of its own, so that it always fits.
        var last: Response?
        /// Why there is no response; told once, after the parts.
        var failure: ClientError?
        /// The parts of an error response, which its reader is given as the failure: their bodies, or the beginning of
        /// them.
        var errorResponse: [UInt8] = []
        /// The request has left the client.
        var isFinished = false
        /// Why nothing can be added to the request any more.
        var ending: ClientError?
        /// Nobody wants the rest.
        var isAbandoned = false
        /// The reader has been told why it ends: there is nothing more to say.
        var isSilent = false
        var hasParts = false
        /// Whether reading from the socket is suspended on account of this buffer.
        var suspendsReading = false
        var waiters: [UInt64: (continuation: Continuation<Element>, since: Instant)] = [:]
        var lastWaiter: UInt64 = 0

        /// What is there for a reader: parts, the response or the failure, the end; `nil` when it has to wait.
        mutating func take() -> Element? {
            if isSilent { return .success(nil) }
            if case .frame(let part)? = buffer.next() { return .success(Response(part)) }
            if let last = last.take() { return .success(last) }
            if let failure = failure.take() { return .failure(failure) }
            return isFinished ? .success(nil) : nil
        }
    }

    private let state: Lock<State>
    private let requestID: RequestID
    /// That of the request.
    let type: UInt32
    private let commandQueue: CommandQueue
    private let loop: any EventLoop
    /// The end of the time for the whole reply.
    private let deadline: Instant?
    private let partTimeout: Duration?
    /// How many bytes are told of an error response that comes in parts.
    private let maximumErrorResponse: Int

    init(
        _ requestID: RequestID,
        _ buffering: ReplyBuffering,
        _ commandQueue: CommandQueue,
        on loop: any EventLoop,
        type: UInt32,
        deadline: Instant?,
        partTimeout: Duration?
    ) {
        self.requestID = requestID
        self.type = type
        maximumErrorResponse = min(max(1, buffering.maximumBytes), 1 << 62)  // one more is no overflow
        self.commandQueue = commandQueue
        self.loop = loop
        self.deadline = deadline
        self.partTimeout = partTimeout
        state = Lock(State(buffer: buffering.buffer))
    }

    // MARK: On the loop

    /// Whether reading from the socket is suspended on account of this buffer.
    var suspendsReading: Bool { state.withLock { $0.suspendsReading } }

    /// Whether a part has come: then the request cannot be sent again.
    var hasParts: Bool { state.withLock { $0.hasParts } }

    /// Why nothing can be added to the request any more; `nil` while it is under way.
    var ending: ClientError? { state.withLock { $0.ending } }

    /// When to look again whether the request is out of time; `nil` when it is, at `now`.
    ///
    /// While nobody waits for an element, its time has not begun; whoever begins to wait does so after `now`. So one
    /// deadline per stream is enough, and calls of `next` need not tell the loop.
    func nextLook(at now: Instant) -> Instant? {
        let since = state.withLock { state in state.waiters.values.map(\.since).min() }
        // Without a reader, not so soon that a very short time keeps the loop busy.
        let wait = since == nil ? partTimeout.map { max($0, .milliseconds(10)) } : partTimeout
        let due = min(deadline ?? .distantFuture, wait.map { (since ?? now).advanced(by: $0) } ?? .distantFuture)
        return due > now ? due : nil
    }

    /// A part has come.
    func offer(_ part: Frame) -> Waiter.Reception {
        let (reception, served) = state.withLock { state -> (Waiter.Reception, (Continuation<Element>, Element)?) in
            guard !state.isAbandoned, !state.isFinished else { return (.taken, nil) }
            state.hasParts = true
            if part.isErrorResponse {
                // One byte more than is told, so that it is known that there were more.
                state.errorResponse += part.body.prefix(max(0, maximumErrorResponse + 1 - state.errorResponse.count))
                // Its reader gets none of them, and yet the reply goes on.
                for id in state.waiters.keys { state.waiters[id]?.since = loop.now }
                return (.taken, nil)
            }
            let offer = state.buffer.offer(part)
            if offer == .overflow { return (.exceeds("more parts than the buffer of this stream holds"), nil) }
            if let id = state.waiters.keys.min(), let element = state.take() {
                let waiter = state.waiters.removeValue(forKey: id)
                return (.taken, waiter.map { ($0.continuation, element) })
            }
            guard offer == .takenButFull, !state.suspendsReading else { return (.taken, nil) }
            state.suspendsReading = true
            return (.full(self), nil)
        }
        if let served { served.0.resume(returning: served.1) }
        return reception
    }

    /// The request has ended. What has come can still be read.
    func finish(_ outcome: Outcome) {
        let (served, mayResume) = state.withLock { state in
            guard !state.isFinished else { return ([(Continuation<Element>, Element)](), false) }
            state.isFinished = true
            if case .failure(let error) = outcome, error.code != .rejected { state.ending = error }
            state.ending = state.ending ?? .replyEnded
            switch outcome {
            case .success(let response) where !state.isAbandoned: state.last = response
            case .success: state.failure = .readNoFurther
            case .failure(let error):
                let parts = state.errorResponse
                state.failure = parts.isEmpty ? error : error.rejected(after: parts, upTo: maximumErrorResponse)
            }
            state.errorResponse = []
            var served: [(Continuation<Element>, Element)] = []
            for (_, waiter) in exchange(&state.waiters, with: [:]).sorted(by: { $0.key < $1.key }) {
                if let element = state.take() { served.append((waiter.continuation, element)) }
            }
            return (served, exchange(&state.suspendsReading, with: false))
        }
        for (continuation, element) in served { continuation.resume(returning: element) }
        if mayResume { commandQueue.post(.resumeReading) }
    }

    // MARK: From any task

    func next() async throws(ClientError) -> Response? {
        let id = state.withLock { state -> UInt64 in
            state.lastWaiter += 1
            return state.lastWaiter
        }
        let element: Element = await withTaskCancellationHandler {
            await withContinuation { continuation in
                let element = state.withLock { state -> Element? in
                    if let element = state.take() { return element }
                    state.waiters[id] = (continuation, loop.now)
                    return nil
                }
                if let element { continuation.resume(returning: element) }
            }
        } onCancel: {
            // The loop tells what became of the request, and so ends the waiting.
            abandon()
        }
        let mayResume = state.withLock { state in
            guard state.suspendsReading, state.buffer.isRoomy else { return false }
            state.suspendsReading = false
            return true
        }
        if mayResume { commandQueue.post(.resumeReading) }
        return try element.get()
    }

    /// Adds a frame to the request; see `OpenRequest`.
    func post(_ frame: Frame) async throws(ClientError) {
        if let ending { throw ending.withFate(.notSent) }
        if Task.isCancelled { throw .cancelledUnsent }
        let id = commandQueue.nextRequestPartID()
        let error = await withTaskCancellationHandler {
            await withContinuation { continuation in
                let requestPart = RequestPart(id: id, request: requestID, frame: frame, continuation: continuation)
                commandQueue.postRequest(.addPart(requestPart, self))
                // As in `Client.outcome`: a cancellation may have come before.
                if Task.isCancelled { commandQueue.post(.cancel(id...id)) }
            }
        } onCancel: {
            commandQueue.post(.cancel(id...id))
        }
        if let error { throw error }
    }

    /// As `abandon`, for a reader who knows why: the stream is at its end at once.
    func end() {
        abandon()
        state.withLock { $0.isSilent = true }
    }

    /// Nobody wants the rest of the reply: what has come of it is dropped, and the request is given up.
    func abandon() {
        let (isFinished, mayResume) = state.withLock { state in
            guard !state.isAbandoned else { return (true, false) }
            state.isAbandoned = true
            let isUnread = !state.buffer.isEmpty || state.last != nil
            state.buffer.removeAll()
            state.last = nil
            if state.isFinished, isUnread, state.failure == nil { state.failure = .readNoFurther }
            return (state.isFinished, exchange(&state.suspendsReading, with: false))
        }
        if !isFinished { commandQueue.post(.cancel(requestID...requestID)) }
        if mayResume { commandQueue.post(.resumeReading) }
    }
}

extension ClientError {
    /// The reply was there, or all but.
    fileprivate static var readNoFurther: ClientError {
        ClientError(.cancelled, .answered, "cancelled before all of the reply was read")
    }
}
