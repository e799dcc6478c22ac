/// The requests of one `Handshaker.send(all:)`. Only a bounded number of them is unanswered at a time.
///
/// The connection takes them in order and sends them. Each completes with its response, in any order.
///
/// Unchecked Sendable: accessed only on the connection's loop after its creation.
final class HandshakeBatch: @unchecked Sendable {
    let session: UInt64
    private let requests: [Request]
    private let window: Int
    private let stopsAtFailure: Bool
    private let refill: (HandshakeBatch) -> Void
    /// The index of the next request to send.
    private var next = 0
    /// The number of requests that were sent and have no outcome yet.
    private var unanswered = 0
    /// `nil` until the request at that index has ended.
    private var outcomes: [Outcome?]
    /// The number of `outcomes` that are `nil`.
    private var missing: Int
    /// Whether a call of `refill` is scheduled.
    private var isRefilling = false
    /// `nil` after the caller was resumed.
    private var continuation: Continuation<[Outcome]>?

    /// - Parameters:
    ///   - stopsAtFailure: Whether the first failure resumes the caller, with the outcomes so far.
    ///   - refill: Called when more requests may be sent; arranges for them to be sent later.
    init(
        _ requests: [Request],
        _ session: UInt64,
        window: Int,
        stopsAtFailure: Bool,
        _ continuation: Continuation<[Outcome]>,
        refill: @escaping (HandshakeBatch) -> Void
    ) {
        self.session = session
        self.requests = requests
        self.window = max(1, window)
        self.stopsAtFailure = stopsAtFailure
        self.continuation = continuation
        self.refill = refill
        outcomes = Array(repeating: nil, count: requests.count)
        missing = requests.count
    }

    /// Takes the next request to send; `nil` if there is none, or if it must wait for a response. It waits if the
    /// window is full, or if responses are matched in order and the codec lets nothing follow the request before it.
    func takeNext(_ codec: inout LinkCodec) -> (index: Int, frame: Frame)? {
        isRefilling = false
        guard next < requests.count, unanswered < window, continuation != nil else { return nil }
        if unanswered > 0, !codec.mayPipeline(behind: requests[next - 1].frame) {
            return nil
        }
        next += 1
        unanswered += 1
        return (next - 1, requests[next - 1].frame)
    }

    /// Undoes the latest `takeNext` because no serial number is free. Returns false if no response to these requests
    /// would free one.
    func putBack() -> Bool {
        guard unanswered > 1 else { return false }
        next -= 1
        unanswered -= 1
        return true
    }

    /// Stores the outcome of the request at `index`.
    func complete(_ index: Int, _ outcome: Outcome) {
        guard outcomes[index] == nil else { return }
        outcomes[index] = outcome
        missing -= 1
        unanswered -= 1
        let hasFailed = if case .failure = outcome { true } else { false }
        let isOver = missing == 0 || hasFailed && stopsAtFailure
        if isOver { return finish() }
        guard continuation != nil, next < requests.count, !isRefilling else { return }
        isRefilling = true
        refill(self)
    }

    /// Ends all requests that were not sent with `outcome`.
    func failRest(_ outcome: Outcome) {
        for index in next..<requests.count { outcomes[index] = outcome }
        missing -= requests.count - next
        next = requests.count
        if missing == 0 { finish() }
    }

    private func finish() { continuation.take()?.resume(returning: outcomes.compactMap { $0 }) }
}

extension ClientOptions {
    /// How many requests of a handshake may be unanswered at a time. A limit that protects the server applies to them,
    /// too.
    fileprivate var handshakeWindow: Int {
        let limit = requests.maximumInFlight
        return limit < Connection.strictLimit ? min(limit, handshake.maximumInFlight) : handshake.maximumInFlight
    }
}

extension Connection {
    /// Sends `requests` in order, at most `options.handshake.maximumInFlight` unanswered at a time. Returns their
    /// outcomes when the last one has ended. With `stopsAtFailure`, returns after the first failure, whose outcome is
    /// then the last one.
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
                    // Always later: responses are being handled now, or the handshake is being ended.
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
        guard let link = handshaking(batch.session) else { return batch.failRest(.handshakeIsOver) }
        if let loss = link.handshake?.loss {
            return batch.failRest(.failure(.lostDuringHandshake(loss, .notSent)))
        }
        while let (number, frame) = batch.takeNext(&link.state.codec) {
            let waiter = Waiter(.handshake(batch, index: number))
            if addToHandshake(frame, link, waiter, expectsResponse: true) { continue }
            guard batch.putBack() else {
                waiter.resume(.failure(.noSerialLeft))
                continue
            }
            break
        }
    }
}
