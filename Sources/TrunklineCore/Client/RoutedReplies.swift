/// The reply to a request of a sender other than a client: a task of its own performs the request, on one client after
/// the other if it may be tried elsewhere. After the first part has arrived, it stays where it is.
///
/// The fate is exact because one lock decides between the task and the readers. Until the task has begun to hand the
/// request to a client, a reader whose time is over, or whose task is cancelled, ends the request: nothing is handed
/// over after that. From then on that client decides: the reader cancels the request there, or lets its time expire
/// there, and gets the client's outcome.
package final class RoutedReplies: ReplySource {
    private struct State {
        /// The reply of the latest try. Released outside the lock, because that cancels a request.
        var replies: ReplyStream<Response>?
        var number = 0
        /// Whether the latest try is being handed to its client, so that it may be written.
        var isSubmitting = false
        var ended = 0
        /// The tries up to this one have failed before any part of a reply, and another one may follow.
        var failed = 0
        /// Why the latest of these has failed. Released outside the lock: its cause may be an object of the user.
        var latestError: ClientError?
        var earlierFate = ClientError.Fate.notSent
        let decision: Decision
        var failure: ClientError? { decision.failure }
        var isFailureDelivered = false
        var isAbandoned = false
        /// Whether the reader already knows why the stream ends.
        var isSilent = false
        /// The further pieces that the latest client has, or may have, put on its link. No other client can take the
        /// request then, unless nothing of it was written.
        var pieces = 0
        /// The readers that wait for a client, and the callers of `post`, which have no deadline here.
        var waits: [UInt64: (alarm: Alarm, since: Instant)] = [:]
        var lastWait: UInt64 = 0
        /// Since when a reader of the try that has failed waits. It comes back, perhaps after the next try has begun.
        var returning: Instant?
        var handovers: [Continuation<Void>] = []
        var task: Task<Void, Never>?

        init(_ decision: Decision) { self.decision = decision }

        var current: ReplyStream<Response>? { isSubmitting || failed >= number ? nil : replies }

        func fail(_ error: ClientError) { decision.decide(error.after(earlierFate)) }

        var waitsSince: Instant? {
            let since = waits.values.map(\.since).min() ?? .distantFuture
            let first = min(since, returning ?? .distantFuture)
            return first < .distantFuture ? first : nil
        }

        var alarms: [Alarm] { waits.isEmpty ? [] : waits.sorted { $0.key < $1.key }.map(\.value.alarm) }
    }

    /// Why no further client is tried. Apart from the reply, because the task may ask for it after the reader has
    /// received it and has released the reply.
    private final class Decision: Sendable {
        private let decided = Lock<ClientError?>(nil)

        var failure: ClientError? { decided.withLock { $0 } }

        @discardableResult
        func decide(_ error: ClientError) -> ClientError? {
            decided.withLock { decided in
                if decided == nil { decided = error; return nil }
                return decided
            }
        }
    }

    package struct Call: Sendable {
        let request: Request
        let isOpen: Bool
        let timeout: Timeout
        package let partTimeout: Timeout
        package let options: CallOptions
        let buffering: ReplyBuffering

        package init(
            _ request: Request,
            isOpen: Bool,
            _ timeout: Timeout,
            _ partTimeout: Timeout,
            _ options: CallOptions,
            _ buffering: ReplyBuffering
        ) {
            (self.request, self.isOpen, self.timeout, self.partTimeout) = (request, isOpen, timeout, partTimeout)
            (self.options, self.buffering) = (options, buffering)
        }

        /// The whole reply has another default than other calls.
        package func timeout(by defaults: ClientOptions.Requests) -> Timeout {
            timeout.or(options.timeout).duration(orByDefault: defaults.streamTimeout).map { .after($0) } ?? .never
        }
    }

    struct Route: Sendable {
        let waited: Duration?
        var onFirstPart: (@Sendable () -> Void)?
        let onEnd: @Sendable (Outcome, ReplyChannel.Progress) -> Void
    }

    /// Makes the call with a client, as the body of ``RequestSender/perform(timeout:options:_:)`` does. Calls the last
    /// argument when the first part has arrived. Returns the error with which the reply has ended after it began.
    package typealias Try =
        @Sendable (
            Client, Timeout, CallOptions, (@Sendable () -> Void)?
        ) async throws(ClientError) -> ClientError?

    /// Decides the error of the request. Returns the earlier error if that was decided before, because the reader waits
    /// no longer.
    package typealias Ending = @Sendable (ClientError) -> ClientError?

    private let state: Lock<State>
    private let loop: any EventLoop
    private let partTimeout: Duration?

    package init(
        _ call: Call,
        _ partTimeout: Duration?,
        on loop: any EventLoop,
        executor: (any TaskExecutor)?,
        performing perform: @escaping @Sendable (Try, @escaping Ending) async throws(ClientError) -> Void
    ) {
        (self.loop, self.partTimeout) = (loop, partTimeout)
        let decision = Decision()
        state = Lock(State(decision))
        // Ends with the reply, or when it is abandoned, as it is at the latest when its stream is deallocated.
        let task = Task(executorPreference: executor) { [weak self] in
            do throws(ClientError) {
                let run: Try = { [weak self] client, timeout, options, onFirstPart throws(ClientError) in
                    guard let self else { throw .cancelledUnsent }
                    return try await self.run(call, on: client, timeout, options, onFirstPart)
                }
                try await perform(run) { decision.decide($0) }
            } catch {
                self?.update { $0.fail(error) }
            }
        }
        state.withLock { $0.task = task }
    }

    /// Throws if another client may be tried. Returns the error with which the reply has ended otherwise.
    private func run(
        _ call: Call,
        on client: Client,
        _ timeout: Timeout,
        _ options: CallOptions,
        _ onFirstPart: (@Sendable () -> Void)?
    ) async throws(ClientError) -> ClientError? {
        let (number, waited) = try begin()
        let end = RequestHandle(onEnd: nil) { [weak self] in self?.cancelTry(number) }
        let replies = client.stream(
            call,
            timeout,
            options,
            // Weak: the client has the request no longer than this method runs.
            Route(waited: waited, onFirstPart: onFirstPart) { [weak self] outcome, progress in
                self?.tryEnded(number, outcome, progress)
                end.complete(outcome)
            }
        )
        handedOver(replies)
        guard case .failure(let error) = await end.outcome() else { return nil }
        let mayFollow = state.withLock { $0.failed >= number && ($0.failure == nil || $0.isAbandoned) }
        if mayFollow { throw error }
        return error
    }

    /// Returns how long a reader waits already. Throws if the request has ended.
    private func begin() throws(ClientError) -> (number: Int, waited: Duration?) {
        let now = loop.now
        let begun = state.withLock { state -> Result<(number: Int, waited: Duration?), ClientError> in
            // This try tells nothing about the client that was chosen.
            if state.failure != nil || state.isAbandoned { return .failure(.cancelledUnsent) }
            let waited = state.waitsSince.map { now.since($0) }
            state.number += 1
            (state.isSubmitting, state.pieces, state.returning) = (true, 0, nil)
            return .success((state.number, waited))
        }
        return try begun.get()
    }

    private func handedOver(_ replies: ReplyStream<Response>) {
        // Whatever has been cancelled meanwhile could not be cancelled there.
        let (_, isAbandoned, handovers) = update { state in
            let old = exchange(&state.replies, with: replies)
            state.isSubmitting = false
            return (old, state.isAbandoned, exchange(&state.handovers, with: []))
        }
        for continuation in handovers { continuation.resume() }
        if isAbandoned || Task.isCancelled { replies.cancel() }
    }

    /// Called before the readers of the try, if any, receive the outcome.
    private func tryEnded(_ number: Int, _ outcome: Outcome, _ progress: ReplyChannel.Progress) {
        let now = loop.now
        update { state -> ClientError? in
            state.ended = max(state.ended, number)
            guard case .failure(let error) = outcome, !progress.hasParts else { return nil }
            state.failed = max(state.failed, number)
            state.returning = progress.waited.map { now.advanced(by: .zero - $0) }
            if state.isAbandoned || state.pieces > 0 && error.fate != .notSent { state.fail(error) }
            state.earlierFate = error.fate.after(state.earlierFate)
            return exchange(&state.latestError, with: error)
        }
    }

    private func cancelTry(_ number: Int) {
        state.withLock { $0.number == number ? $0.current : nil }?.cancel()
    }

    @discardableResult
    private func update<Result: Sendable>(_ change: (inout State) -> Result) -> Result {
        let (result, alarms) = state.withLock { state in
            let result = change(&state)
            return (result, state.alarms)
        }
        for alarm in alarms { alarm.ring() }
        return result
    }

    package func next(after waited: Duration) async throws(ClientError) -> Response? {
        let since = loop.now.advanced(by: .zero - waited)
        while let (replies, number) = try await reply(forReaderSince: since) {
            do throws(ClientError) {
                if let response = try await replies.reading.source.next(after: loop.now.since(since)) {
                    return response
                }
                if !hasFailed(number) { return nil }
            } catch {
                if !hasFailed(number) { throw error.after(state.withLock(\.earlierFate)) }
                // Another client may be tried: the task of the request decides, unless that of this reader is
                // cancelled.
                if Task.isCancelled { abandon(because: error) }
            }
        }
        return nil
    }

    private func hasFailed(_ number: Int) -> Bool { state.withLock { $0.failed >= number } }

    private enum Step {
        case take(ReplyStream<Response>, number: Int)
        case fail(ClientError)
        case end
        case abandon(ClientError)
        case awaitHandover
        case wait
    }

    /// Waits for a reply that has not failed. Returns `nil` at the end; throws the failure once.
    private func reply(
        forReaderSince since: Instant
    ) async throws(ClientError) -> (replies: ReplyStream<Response>, number: Int)? {
        let deadline = partTimeout.map { since.advanced(by: $0) } ?? .distantFuture
        var wait: Wait?
        defer { if let wait { end(wait) } }
        while true {
            let (isLate, isCancelled) = (loop.now >= deadline, Task.isCancelled)
            let step = state.withLock { state -> Step in
                if state.isSilent { return .end }
                if let current = state.current { return .take(current, number: state.number) }
                if let failure = state.failure {
                    return exchange(&state.isFailureDelivered, with: true) ? .end : .fail(failure)
                }
                guard isLate || isCancelled else { return .wait }
                if state.isSubmitting { return .awaitHandover }
                // The task may not have learned yet that the client has failed.
                state.fail(
                    isCancelled
                        ? .cancelled(after: state.earlierFate) : .tooLate(after: state.latestError, in: partTimeout)
                )
                (state.isFailureDelivered, state.isAbandoned) = (true, true)
                return state.failure.map { .abandon($0) } ?? .end
            }
            switch step {
            case .take(let replies, let number): return (replies, number)
            case .fail(let error): throw error
            case .end: return nil
            case .abandon(let error):
                update { $0.task }?.cancel()
                throw error
            case .awaitHandover: await handover()
            case .wait:
                if let wait { await wait.alarm.wait(until: deadline) } else { wait = beginWait(since) }
            }
        }
    }

    private typealias Wait = (alarm: Alarm, id: UInt64)

    private func beginWait(_ since: Instant) -> Wait {
        let alarm = Alarm(on: loop)
        return state.withLock { state in
            state.lastWait += 1
            state.waits[state.lastWait] = (alarm, since)
            return (alarm, state.lastWait)
        }
    }

    private func end(_ wait: Wait) { state.withLock { $0.waits[wait.id] = nil } }

    private func handover() async {
        await withContinuation { continuation in
            let isOver = state.withLock { state in
                if state.isSubmitting { state.handovers.append(continuation) }
                return !state.isSubmitting
            }
            if isOver { continuation.resume() }
        }
    }

    package func post(_ frame: Frame) async throws(ClientError) {
        while true {
            let (replies, number) = try await replyForPiece()
            do throws(ClientError) {
                return try await replies.reading.source.post(frame)
            } catch {
                guard error.fate == .notSent else { throw error }
                state.withLock { if $0.number == number { $0.pieces -= 1 } }
                // A piece that cannot be encoded, or whose caller gives up, says nothing about the request. Otherwise
                // the request has ended on this client. Another one may take it, and this piece.
                guard error.code != .invalidRequest, await fails(number) else { throw error }
            }
        }
    }

    /// Counts a piece that the client gets. The fate of an error is that of the piece.
    private func replyForPiece() async throws(ClientError) -> (replies: ReplyStream<Response>, number: Int) {
        var wait: Wait?
        defer { if let wait { end(wait) } }
        while true {
            if Task.isCancelled { throw .cancelledUnsent }
            let step = state.withLock { state -> Step in
                if let current = state.current {
                    state.pieces += 1
                    return .take(current, number: state.number)
                }
                return state.failure.map { .fail($0) } ?? .wait
            }
            switch step {
            case .take(let replies, let number): return (replies, number)
            // After an error response, the reply has ended, as it has for an upload of a client.
            case .fail(let error), .abandon(let error):
                throw error.code == .rejected ? .replyEnded : error.withFate(.notSent)
            case .end, .awaitHandover, .wait:
                if let wait { await wait.alarm.wait(until: .distantFuture) } else { wait = beginWait(.distantFuture) }
            }
        }
    }

    private func fails(_ number: Int) async -> Bool {
        var wait: Wait?
        defer { if let wait { end(wait) } }
        while !Task.isCancelled {
            let (hasEnded, hasFailed) = state.withLock { ($0.ended >= number, $0.failed >= number) }
            if hasEnded { return hasFailed }
            if let wait { await wait.alarm.wait(until: .distantFuture) } else { wait = beginWait(.distantFuture) }
        }
        return false
    }

    package func abandon() { abandon(because: nil) }

    /// If no client has the request, its end is decided here; otherwise the client decides.
    private func abandon(because error: ClientError?) {
        let (task, replies) = update { state in
            state.isAbandoned = true
            if state.current == nil, !state.isSubmitting { state.fail(error ?? .cancelled(after: state.earlierFate)) }
            return (state.task, state.replies)
        }
        replies?.cancel()
        task?.cancel()
    }

    package func end() {
        update { $0.isSilent = true }
        abandon()
    }
}

extension ClientError {
    fileprivate static func tooLate(after error: ClientError?, in timeout: Duration?) -> ClientError {
        if let error, error.fate != .notSent || !error.mayBeSentElsewhere { return error }
        return ClientError(
            .timedOut,
            .notSent,
            "no server took the request within \((timeout ?? .zero).text)",
            endpoint: error?.endpoint,
            attempts: error?.attempts ?? [],
            cause: error?.cause
        )
    }

    fileprivate static func cancelled(after earlier: Fate) -> ClientError {
        if earlier == .notSent { return .cancelledUnsent }
        return ClientError(.cancelled, earlier, "cancelled before the request was sent again")
    }
}
