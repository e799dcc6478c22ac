/// Counts the messages that `enqueue` accepted and that have not ended. Callers check it without the event loop, so the
/// number of commands that wait for the event loop is bounded. A message takes and returns its room once.
final class MessageRoom: Sendable {
    private struct State {
        var count = 0
        var bytes = 0
        var failures = 0
        var isClosed = false
    }

    private let state = Lock(State())
    private let maximumCount: Int
    private let maximumBytes: Int

    init(_ options: ClientOptions) {
        maximumCount = max(1, options.requests.maximumWaiting)
        maximumBytes = max(1, min(options.outbound.highWatermark, options.requests.maximumWaitingBytes))
    }

    var isEmpty: Bool { state.withLock { $0.count == 0 && $0.bytes == 0 } }

    var failures: Int { state.withLock { $0.failures } }

    var overload: ClientError {
        let (count, bytes) = state.withLock { ($0.count, $0.bytes) }
        return ClientError(
            .overloaded,
            .notSent,
            "\(Quantity.count(count, "enqueued message")) with \(byteSize(bytes)) in total \(count == 1 ? "is" : "are") not yet written"
                + " (maximumWaiting \(maximumCount), highWatermark \(maximumBytes))"
        )
    }

    /// Returns whether there was room. A single message is accepted whatever its size.
    func reserve(_ cost: Int) throws(ClientError) -> Bool {
        let (hasRoom, isClosed) = state.withLock { state -> (Bool, Bool) in
            guard !state.isClosed else { return (false, true) }
            guard state.count == 0 || (state.count < maximumCount && state.bytes + cost <= maximumBytes) else {
                return (false, false)
            }
            state.count += 1
            state.bytes += cost
            return (true, false)
        }
        if isClosed { throw .clientIsClosed }
        return hasRoom
    }

    /// Takes room even if there is not enough.
    func reserveForOutgoing(_ cost: Int) {
        state.withLock {
            $0.count += 1
            $0.bytes += cost
        }
    }

    func release(_ cost: Int, _ outcome: Outcome) {
        let hasFailed = if case .failure = outcome { true } else { false }
        state.withLock {
            $0.count -= 1
            $0.bytes -= cost
            if hasFailed { $0.failures += 1 }
        }
    }

    func close() { state.withLock { $0.isClosed = true } }
}

/// A message for which there was no room. Its caller is resumed when it is put on a link.
///
/// Unchecked `Sendable`: after its creation it is accessed only on the event loop of its client.
final class EnqueuedMessage: @unchecked Sendable {
    private let room: MessageRoom
    private let cost: Int
    private var continuation: Continuation<Outcome>?

    init(_ continuation: Continuation<Outcome>, in room: MessageRoom, cost: Int) {
        self.room = room
        self.cost = cost
        self.continuation = continuation
    }

    var isAccepted: Bool { continuation == nil }

    /// Called when the message is put on a link, which may happen more than once.
    func accept() {
        guard let caller = continuation.take() else { return }
        room.reserveForOutgoing(cost)
        caller.resume(returning: .success(.none))
    }

    func complete(_ outcome: Outcome) {
        if let caller = continuation.take() {
            caller.resume(returning: outcome)
        } else {
            room.release(cost, outcome)
        }
    }
}

extension Waiter {
    /// Whether `enqueue` accepted its message before it was submitted: the limits on waiting requests do not apply.
    var hasRoom: Bool { if case .enqueued = receiver { true } else { false } }

    var isAccepted: Bool {
        switch receiver {
        case .enqueued: true
        case .enqueuing(let message): message.isAccepted
        default: false
        }
    }

    func accept() { if case .enqueuing(let message) = receiver { message.accept() } }
}
