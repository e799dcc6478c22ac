/// Carries the parts of one reply from the event loop to the task that reads the stream.
package final class ReplyChannel: ReplySource, CancellationReceiver {
    typealias Element = Result<Response?, ClientError>

    private struct State {
        var buffer: PushBuffer
        /// Outside the buffer, so that the response always fits.
        var last: Response?
        /// Delivered once, after the parts.
        var failure: ClientError?
        /// The bodies of the parts of an error response, up to the limit. The reader receives them as the failure.
        var errorResponse: [UInt8] = []
        var isFinished = false
        var ending: ClientError?
        var isAbandoned = false
        /// Whether the reader already knows why the stream ends, so that only the end is delivered.
        var isSilent = false
        var firstPart: Instant?
        /// Since when a reader waits that has not reached this channel yet: it waited for a client that takes the
        /// request.
        var arriving: Instant?
        var suspendsReading = false
        var waiters: [UInt64: (continuation: Continuation<Element>, since: Instant)] = [:]
        var lastWaiter: UInt64 = 0

        mutating func take() -> Element? {
            if isSilent { return .success(nil) }
            if case .frame(let part)? = buffer.next() { return .success(Response(part)) }
            if let last = last.take() { return .success(last) }
            if let failure = failure.take() { return .failure(failure) }
            return isFinished ? .success(nil) : nil
        }

        var waitsSince: Instant? {
            let since = waiters.values.map(\.since).min()
            return arriving.map { min($0, since ?? $0) } ?? since
        }

        mutating func mayResumeReading() -> Bool {
            guard suspendsReading, buffer.isRoomy else { return false }
            suspendsReading = false
            return true
        }
    }

    private let state: Lock<State>
    /// `nil` for the reply of a call that has ended without a request.
    private let requestID: RequestID?
    let type: UInt32
    private let commandQueue: CommandQueue
    private let loop: any EventLoop
    private let deadline: Instant?
    private let partTimeout: Duration?
    /// In bytes, of an error response that comes in parts.
    private let maximumErrorResponse: Int
    struct Progress: Sendable {
        let hasParts: Bool
        let waited: Duration?
    }

    /// Receives the outcome of the request, once, before its readers do. May replace it.
    typealias End = @Sendable (Outcome, Progress) -> Outcome
    private let onEnd: End?
    /// Not called for a part of an error response.
    private let onFirstPart: (@Sendable () -> Void)?

    init(
        _ requestID: RequestID?,
        _ buffering: ReplyBuffering,
        _ commandQueue: CommandQueue,
        on loop: any EventLoop,
        type: UInt32,
        deadline: Instant?,
        partTimeout: Duration?,
        arriving: Instant? = nil,
        onFirstPart: (@Sendable () -> Void)? = nil,
        onEnd: End? = nil
    ) {
        (self.onFirstPart, self.onEnd) = (onFirstPart, onEnd)
        self.requestID = requestID
        self.type = type
        maximumErrorResponse = min(max(1, buffering.maximumBytes), 1 << 62)  // adding one must not overflow
        self.commandQueue = commandQueue
        self.loop = loop
        self.deadline = deadline
        self.partTimeout = partTimeout
        var state = State(buffer: buffering.buffer)
        state.arriving = arriving
        self.state = Lock(state)
    }

    var suspendsReading: Bool { state.withLock { $0.suspendsReading } }

    /// From the first part on, the request cannot be sent again.
    var firstPart: Instant? { state.withLock { $0.firstPart } }

    var ending: ClientError? { state.withLock { $0.ending } }

    /// Returns when to check again whether the request has expired, or `nil` if it has. The time of a part does not run
    /// while no reader waits, and a reader that begins to wait does so after `now`. So one deadline per stream is
    /// enough, and calls of `next` do not have to notify the event loop.
    func nextLook(at now: Instant) -> Instant? {
        let since = state.withLock { $0.waitsSince }
        // Without a reader, at least 10 ms, so that a very short timeout does not keep the event loop busy.
        let wait = since == nil ? partTimeout.map { max($0, .milliseconds(10)) } : partTimeout
        let due = min(deadline ?? .distantFuture, wait.map { (since ?? now).advanced(by: $0) } ?? .distantFuture)
        return due > now ? due : nil
    }

    func offer(_ part: Frame, at now: Instant) -> Waiter.Reception {
        let (reception, isFirst) = state.withLock { state in
            let isFirst = state.firstPart == nil
            return (offer(part, at: now, to: &state), isFirst)
        }
        if isFirst, !part.isErrorResponse { onFirstPart?() }
        return reception
    }

    private func offer(_ part: Frame, at now: Instant, to state: inout State) -> Waiter.Reception {
        state.firstPart = state.firstPart ?? now
        if state.arriving != nil { state.arriving = part.isErrorResponse ? now : nil }
        guard !state.isAbandoned, !state.isFinished else { return .taken }
        if part.isErrorResponse {
            // One byte more than the maximum, so that truncation is noticed.
            state.errorResponse += part.body.prefix(max(0, maximumErrorResponse + 1 - state.errorResponse.count))
            // The reader receives none of these parts, but the reply makes progress.
            for id in state.waiters.keys { state.waiters[id]?.since = now }
            return .taken
        }
        let offer = state.buffer.offer(part)
        if offer == .overflow { return .exceeds("the buffer of the reply stream is full (ReplyBuffering)") }
        if let id = state.waiters.keys.min(), let element = state.take(),
            let waiter = state.waiters.removeValue(forKey: id)
        {
            return .serves(waiter.continuation, element)
        }
        guard offer == .takenButFull, !state.suspendsReading else { return .taken }
        state.suspendsReading = true
        return .full(self)
    }

    /// What has arrived can still be read. Called once.
    func finish(_ outcome: Outcome) {
        let outcome = onEnd?(outcome, progress) ?? outcome
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

    private var progress: Progress {
        let now = loop.now
        return state.withLock { state in
            Progress(hasParts: state.firstPart != nil, waited: state.waitsSince.map { now.since($0) })
        }
    }

    package func next(after waited: Duration) async throws(ClientError) -> Response? {
        if let element = nextIfAvailable() { return try element.get() }
        let id = state.withLock { state -> UInt64 in
            state.lastWaiter += 1
            return state.lastWaiter
        }
        let element: Element = await withContinuation(cancelling: self, id...id) { continuation, _ in
            let element = state.withLock { state -> Element? in
                if let element = state.take() { return element }
                state.arriving = nil
                state.waiters[id] = (continuation, loop.now.advanced(by: .zero - waited))
                return nil
            }
            if let element { continuation.resume(returning: element) }
        }
        if state.withLock({ $0.mayResumeReading() }) { commandQueue.post(.resumeReading) }
        return try element.get()
    }

    /// `nil` if `next` would wait. Most parts are there when their reader asks for them, because a batch of them is
    /// decoded before it is resumed. A cancellation handler and a continuation for each would cost three times as much.
    private func nextIfAvailable() -> Element? {
        if Task.isCancelled { return nil }
        let (element, mayResume) = state.withLock { state in (state.take(), state.mayResumeReading()) }
        if mayResume { commandQueue.post(.resumeReading) }
        return element
    }

    package func post(_ frame: Frame) async throws(ClientError) {
        if let ending { throw ending.withFate(.notSent) }
        if Task.isCancelled { throw .cancelledUnsent }
        // A call that ended without a request has an ending.
        guard let requestID else { throw .replyEnded }
        let id = commandQueue.nextRequestPartID()
        let error = await withContinuation(cancelling: commandQueue, id.number...id.number) {
            continuation,
            cancellation in
            let requestPart = RequestPart(id: id, request: requestID, frame: frame, continuation: continuation)
            commandQueue.postRequest(.addPart(requestPart, self))
            // As in `Client.cancelIfNeeded`: a cancel command that came before had no effect.
            if cancellation.isRequested { commandQueue.post(.cancel(id...id)) }
        }
        if let error { throw error }
    }

    package func end() {
        abandon()
        state.withLock { $0.isSilent = true }
    }

    /// The reader's task is cancelled. The event loop then delivers the outcome of the request, which ends the wait.
    package func cancelWaits(_ numbers: ClosedRange<UInt64>) { abandon() }

    package func abandon() {
        let (isFinished, mayResume) = state.withLock { state in
            guard !state.isAbandoned else { return (true, false) }
            state.isAbandoned = true
            let isUnread = !state.buffer.isEmpty || state.last != nil
            state.buffer.removeAll()
            state.last = nil
            if state.isFinished, isUnread, state.failure == nil { state.failure = .readNoFurther }
            return (state.isFinished, exchange(&state.suspendsReading, with: false))
        }
        if !isFinished, let requestID { commandQueue.post(.cancel(requestID...requestID)) }
        if mayResume { commandQueue.post(.resumeReading) }
    }
}

extension ClientError {
    /// The reply, or nearly all of it, had already arrived.
    fileprivate static var readNoFurther: ClientError {
        ClientError(.cancelled, .answered, "cancelled before the whole reply was read")
    }
}
