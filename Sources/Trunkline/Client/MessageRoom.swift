/// How much `enqueue` has accepted that has not ended: known to callers without asking the loop, so that what they post
/// is bounded before the loop takes it.
///
/// A message takes its room once, before it is posted or when the loop lets it go out, and gives it back once, when it
/// leaves the request table.
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

    /// Whether no accepted message is left.
    var isEmpty: Bool { state.withLock { $0.count == 0 && $0.bytes == 0 } }

    /// How many accepted messages have failed.
    var failures: Int { state.withLock { $0.failures } }

    /// Why a message is refused for which there is no room.
    var overload: ClientError {
        let (count, bytes) = state.withLock { ($0.count, $0.bytes) }
        return ClientError(
            .overloaded,
            .notSent,
            "\(count) enqueued messages of \(bytes) bytes are not yet written"
                + " (maximumWaiting \(maximumCount), highWatermark \(maximumBytes))"
        )
    }

    /// Takes room for a message of `cost` bytes; returns whether there was enough. One message may be there alone,
    /// whatever its size.
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
        if isClosed { throw ClientError(.closed, .notSent, "the client is closed") }
        return hasRoom
    }

    /// Takes room for a message that goes out now, whether there is enough or not.
    func reserveForOutgoing(_ cost: Int) {
        state.withLock {
            $0.count += 1
            $0.bytes += cost
        }
    }

    /// Gives the room of a message back that has ended.
    func release(_ cost: Int, _ outcome: Outcome) {
        let hasFailed = if case .failure = outcome { true } else { false }
        state.withLock {
            $0.count -= 1
            $0.bytes -= cost
            if hasFailed { $0.failures += 1 }
        }
    }

    /// Nothing more is accepted.
    func close() { state.withLock { $0.isClosed = true } }
}

/// A message that `enqueue` could not accept at once: accepted, and its caller told, when it goes out.
///
/// Sendable although it is not checked: after it is made it is touched on its client's loop only, where requests go out
/// and complete.
final class EnqueuedMessage: @unchecked Sendable {
    private let room: MessageRoom
    private let cost: Int
    /// Who waits; `nil` once the message is accepted.
    private var continuation: Continuation<Outcome>?

    init(_ continuation: Continuation<Outcome>, in room: MessageRoom, cost: Int) {
        self.room = room
        self.cost = cost
        self.continuation = continuation
    }

    var isAccepted: Bool { continuation == nil }

    /// It goes out, perhaps not for the first time.
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
    /// Whether its message was accepted by `enqueue` without asking the loop: the bounds on what waits do not concern it.
    var hasRoom: Bool { if case .enqueued = innermost { true } else { false } }

    /// Whether it is a message that `enqueue` has accepted, so that its caller cannot cancel it any more.
    var isAccepted: Bool {
        switch innermost {
        case .enqueued: true
        case .enqueuing(let message): message.isAccepted
        default: false
        }
    }

    /// The message goes out: tells a caller who waits for no more than that.
    func accept() { if case .enqueuing(let message) = innermost { message.accept() } }
}
