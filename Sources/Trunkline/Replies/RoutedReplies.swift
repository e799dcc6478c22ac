/// The reply to a request that was sent with a sender other than a client: a task of its own performs the request, on one
/// client after the other if it may be tried elsewhere. After the first part has arrived, it stays where it is.
final class RoutedReplies: ReplySource {
    private struct State {
        /// The reply from the latest client, and its number among those of this request, from 1.
        var replies: ReplyStream<Response>?
        var number = 0
        /// The tries up to this one have failed, and another one may follow.
        var failed = 0
        /// The fate of the tries that have failed.
        var earlierFate = ClientError.Fate.notSent
        /// Why no further client is tried.
        var failure: ClientError?
        var isAbandoned = false
        /// Whether the end was delivered.
        var isOver = false
        /// Whether a second piece of the request was sent, so that no other client can take it.
        var isContinued = false
        /// Rung when `isSettled` becomes true. One for each reader that waits.
        var alarms: [Alarm] = []
        var task: Task<Void, Never>?

        /// Whether a reader has something to do: there is a reply that has not failed, or no further one.
        var isSettled: Bool { number > failed || failure != nil }

        /// Records that a try has failed. Both the reader and the task may learn of it first.
        mutating func tryFailed(_ number: Int, _ error: ClientError) {
            failed = max(failed, number)
            earlierFate = error.fate.after(earlierFate)
        }

        mutating func takeAlarms() -> [Alarm] { isSettled ? exchange(&alarms, with: []) : [] }
    }

    /// A request in parts that is performed by clients.
    struct Call: Sendable {
        let request: Request
        /// Whether further pieces of the request follow.
        let isOpen: Bool
        let timeout: Timeout
        let partTimeout: Timeout
        let options: CallOptions
        let buffering: ReplyBuffering
    }

    private let state = Lock(State())
    private let loop: any EventLoop
    /// The longest wait of a reader for a client; `nil` for no limit.
    private let partTimeout: Duration?

    /// - Parameter partTimeout: The default of the longest wait for one part.
    init(_ sender: some RequestSender, _ call: Call, partTimeout: Duration?) {
        loop = sender.ownLoop ?? EventLoops.shared.next()
        self.partTimeout = call.partTimeout.duration(orByDefault: partTimeout)
        // Ends with the reply, or when it is abandoned, as it is at the latest when its stream is deallocated.
        let task = Task(executorPreference: sender.ownLoop?.taskExecutor) { [weak self] in
            do throws(ClientError) {
                if let cluster = sender as? Cluster {
                    try await cluster.performReply(timeout: call.timeout, options: call.options) {
                        client,
                        timeout,
                        options throws(ClientError) in
                        try await self?.run(call, on: client, timeout, options)
                    }
                } else {
                    try await sender.perform(timeout: call.timeout, options: call.options) {
                        client,
                        timeout,
                        options throws(ClientError) in
                        _ = try await self?.run(call, on: client, timeout, options)
                    }
                }
            } catch {
                self?.update { $0.failure = error }
            }
        }
        state.withLock { $0.task = task }
    }

    /// Performs the request on one client, until its reply has ended. Throws if another one may be tried. Returns the
    /// error with which the reply has ended otherwise.
    private func run(
        _ call: Call,
        on client: Client,
        _ timeout: Timeout,
        _ options: CallOptions
    ) async throws(ClientError) -> ClientError? {
        let end = RequestHandle(onEnd: nil) {}
        let replies = client.stream(call, timeout, options) { end.complete($0) }
        let isAbandoned = update { state in
            (state.replies, state.number) = (replies, state.number + 1)
            return state.isAbandoned
        }
        if isAbandoned { replies.cancel() }
        let outcome = await end.outcome()
        guard case .failure(let error) = outcome else { return nil }
        if replies.hasParts { return error }
        let isFinal = update { state in
            if state.isContinued { state.failure = error }
            state.tryFailed(state.number, error)
            return state.isContinued
        }
        if !isFinal { throw error }
        return error
    }

    /// Changes the state, and lets readers go on that have something to do.
    @discardableResult
    private func update<Result: Sendable>(_ change: (inout State) -> Result) -> Result {
        let (result, alarms) = state.withLock { state in
            let result = change(&state)
            return (result, state.takeAlarms())
        }
        for alarm in alarms { alarm.ring() }
        return result
    }

    // MARK: For readers

    func next() async throws(ClientError) -> Response? {
        while true {
            guard let (replies, number) = try await settled() else { return nil }
            do throws(ClientError) {
                guard let response = try await replies.reading.source.next() else { return nil }
                return response
            } catch {
                if replies.hasParts || Task.isCancelled { throw error.after(state.withLock(\.earlierFate)) }
                // Another client may be tried: the task decides.
                update { $0.tryFailed(number, error) }
            }
        }
    }

    /// Waits for a reply that has not failed. Returns `nil` at the end; throws the failure once.
    private func settled() async throws(ClientError) -> (ReplyStream<Response>, number: Int)? {
        let deadline = partTimeout.map { loop.now.advanced(by: $0) } ?? .distantFuture
        while !Task.isCancelled {
            let alarm = Alarm(on: loop)
            let isSettled = state.withLock { state in
                if !state.isSettled { state.alarms.append(alarm) }
                return state.isSettled
            }
            if isSettled { break }
            await alarm.wait(until: deadline)
            guard loop.now >= deadline else { continue }
            state.withLock { $0.failure = $0.failure ?? .waitedForServer(partTimeout).after($0.earlierFate) }
            abandon()
        }
        if Task.isCancelled { abandon() }
        let settled = state.withLock { state -> Result<(ReplyStream<Response>, number: Int)?, ClientError> in
            if state.isOver { return .success(nil) }
            if state.number > state.failed, let replies = state.replies { return .success((replies, state.number)) }
            state.isOver = true
            return .failure(state.failure ?? .cancelledUnsent.after(state.earlierFate))
        }
        return try settled.get()
    }

    func post(_ frame: Frame) async throws(ClientError) {
        guard let (replies, _) = try await settled() else { throw .replyEnded }
        state.withLock { $0.isContinued = true }
        try await replies.reading.source.post(frame)
    }

    func abandon() {
        let (task, replies) = state.withLock { state in
            state.isAbandoned = true
            return (state.task, state.replies)
        }
        replies?.cancel()
        task?.cancel()
    }

    func end() {
        state.withLock { $0.isOver = true }
        abandon()
    }
}

extension ClientError {
    /// A reader has waited too long for a client that takes its request.
    fileprivate static func waitedForServer(_ timeout: Duration?) -> ClientError {
        ClientError(.timedOut, .notSent, "no server took the request within \((timeout ?? .zero).text)")
    }
}

extension ReplyStream<Response> {
    /// Whether a part has arrived.
    fileprivate var hasParts: Bool { (reading.source as? ReplyChannel)?.firstPart != nil }
}
