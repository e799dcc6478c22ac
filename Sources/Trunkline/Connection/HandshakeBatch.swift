/// The requests of one `Handshaker.send(all:)`, of which a bounded number is unanswered at a time.
///
/// The connection takes them out in order and sends them; each completes with its response, in any order.
final class HandshakeBatch: Sendable {
    private struct State {
        /// The index of the next request to be sent.
        var next = 0
        /// How many have been sent and have no outcome yet.
        var unanswered = 0
        /// `nil` until the request at that index has ended.
        var outcomes: [Outcome?]
        /// How many of `outcomes` are `nil`.
        var missing: Int
        /// Whether a call of `refill` is on its way.
        var isRefilling = false
        /// `nil` once the caller has been resumed.
        var continuation: Continuation<[Outcome]>?

        /// The caller and its results, if it is to be resumed now.
        mutating func finished(early: Bool = false) -> (Continuation<[Outcome]>, [Outcome])? {
            guard missing == 0 || early, let continuation = continuation.take() else { return nil }
            return (continuation, outcomes.compactMap { $0 })
        }
    }

    let session: UInt64
    private let frames: [Frame]
    private let window: Int
    private let stopsAtFailure: Bool
    private let state: Lock<State>
    private let refill: @Sendable (HandshakeBatch) -> Void

    /// - Parameters:
    ///   - stopsAtFailure: Whether the first failure resumes the caller, with the outcomes so far.
    ///   - refill: Called on the loop when more requests may be sent; arranges for them to be sent later.
    init(
        _ requests: [Request],
        _ session: UInt64,
        window: Int,
        stopsAtFailure: Bool,
        _ continuation: Continuation<[Outcome]>,
        refill: @escaping @Sendable (HandshakeBatch) -> Void
    ) {
        self.session = session
        frames = requests.map(\.frame)
        self.window = max(1, window)
        self.stopsAtFailure = stopsAtFailure
        self.refill = refill
        state = Lock(
            State(
                outcomes: Array(repeating: nil, count: requests.count),
                missing: requests.count,
                continuation: continuation
            )
        )
    }

    /// Takes the next request out to be sent; `nil` if there is none, or if it must wait for an answer: the window is
    /// full, or the protocol is matched in order and does not let it follow the one before.
    func takeNext(_ codec: any FrameCodec) -> (index: Int, frame: Frame)? {
        state.withLock { state in
            state.isRefilling = false
            guard state.next < frames.count, state.unanswered < window, state.continuation != nil else { return nil }
            if state.unanswered > 0, codec.matching == .inOrder, !codec.mayPipeline(behind: frames[state.next - 1]) {
                return nil
            }
            state.next += 1
            state.unanswered += 1
            return (state.next - 1, frames[state.next - 1])
        }
    }

    /// Undoes the latest `takeNext`, for want of a serial number. Returns false when no answer to one of these requests
    /// would free one.
    func putBack() -> Bool {
        state.withLock { state in
            guard state.unanswered > 1 else { return false }
            state.next -= 1
            state.unanswered -= 1
            return true
        }
    }

    /// The request at `index` has ended.
    func complete(_ index: Int, _ outcome: Outcome) {
        let (finished, mayRefill) = state.withLock { state -> ((Continuation<[Outcome]>, [Outcome])?, Bool) in
            guard state.outcomes[index] == nil else { return (nil, false) }
            state.outcomes[index] = outcome
            state.missing -= 1
            state.unanswered -= 1
            var fails = false
            if case .failure = outcome { fails = stopsAtFailure }
            let finished = state.finished(early: fails)
            guard state.continuation != nil, state.next < frames.count, !state.isRefilling else {
                return (finished, false)
            }
            state.isRefilling = true
            return (finished, true)
        }
        if let (continuation, outcomes) = finished { continuation.resume(returning: outcomes) }
        if mayRefill { refill(self) }
    }

    /// Nothing more can be sent: ends those that have not been.
    func failRest(_ outcome: Outcome) {
        let finished = state.withLock { state in
            while state.next < frames.count {
                state.outcomes[state.next] = outcome
                state.next += 1
                state.missing -= 1
            }
            return state.finished()
        }
        if let (continuation, outcomes) = finished { continuation.resume(returning: outcomes) }
    }
}

extension ClientOptions {
    /// How many requests of a handshake may be unanswered at a time: a limit that protects the server holds for them,
    /// too.
    fileprivate var handshakeWindow: Int {
        let limit = requests.maximumInFlight
        return limit < Connection.strictLimit ? min(limit, handshake.maximumInFlight) : handshake.maximumInFlight
    }
}

extension Connection {
    /// Sends `requests` in order, at most `options.handshake.maximumInFlight` unanswered at a time. Returns their
    /// outcomes when the last one has ended; with `stopsAtFailure` after the first failure, which is the last of them
    /// then.
    func sendInHandshake(_ requests: [Request], _ session: UInt64, stopsAtFailure: Bool) async -> [Outcome] {
        guard !requests.isEmpty else { return [] }
        return await withTaskCancellationHandler {
            await withContinuation { continuation in
                guard !Task.isCancelled else {
                    return continuation.resume(returning: requests.map { _ in .failure(.cancelledUnsent) })
                }
                let batch = HandshakeBatch(
                    requests,
                    session,
                    window: options.handshakeWindow,
                    stopsAtFailure: stopsAtFailure,
                    continuation
                ) { [weak self] batch in
                    // Later in any case: answers are being taken in, or the handshake is being ended.
                    self?.schedule { $0.fill(batch) }
                }
                entered { $0.fill(batch) }
            }
        } onCancel: {
            giveUpHandshake(session)
        }
    }

    /// Sends as many requests of `batch` as may go out now.
    private func fill(_ batch: HandshakeBatch) {
        guard let index = handshaking(batch.session) else { return batch.failRest(.handshakeIsOver) }
        if let loss = links[index].handshake?.loss {
            return batch.failRest(.failure(.lostDuringHandshake(loss, .notSent)))
        }
        while let (number, frame) = batch.takeNext(codec) {
            let waiter = Waiter.handshake(batch, index: number)
            if addToHandshake(frame, index, waiter, expectsResponse: true) { continue }
            guard batch.putBack() else {
                waiter.resume(.failure(.noSerialLeft))
                continue
            }
            break
        }
    }
}
