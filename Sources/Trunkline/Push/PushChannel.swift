/// Carries pushes from the event loop to the tasks that iterate one stream.
final class PushChannel: Sendable {
    private struct State {
        var buffer: PushBuffer
        var isFinished = false
        /// Whether this buffer suspends reading from the socket.
        var suspendsReading = false
        var waiters: [UInt64: Continuation<Push?>] = [:]
        var lastWaiter: UInt64 = 0
    }

    /// The pushes that a channel receives.
    enum Selection: Sendable {
        case all
        case type(UInt32)
        case matching(@Sendable (PushMessage) -> Bool)
        case key(PushKey)
    }

    /// Orders the channels of one client by creation.
    let number: UInt64
    let selection: Selection
    private let state: Lock<State>
    private let commandQueue: CommandQueue

    init(_ number: UInt64, _ selection: Selection, buffer: PushBuffer, commandQueue: CommandQueue) {
        self.number = number
        self.selection = selection
        self.commandQueue = commandQueue
        state = Lock(State(buffer: buffer))
    }

    // MARK: On the loop

    /// Whether the channel receives `frame`. False for a channel with a key, whose pushes are found by key.
    func wants(_ frame: Frame) -> Bool {
        switch selection {
        case .all: true
        case .type(let type): frame.type == type
        // A malformed push may be meant for this channel, so it becomes a gap.
        case .matching(let isWanted): frame.malformedReason != nil || isWanted(PushMessage(frame))
        case .key: false
        }
    }

    /// Whether this buffer suspends reading from the socket.
    var suspendsReading: Bool { state.withLock { $0.suspendsReading } }

    /// Buffers or drops a push. Returns true if this buffer must suspend reading now and did not before.
    func offer(_ frame: Frame) -> Bool {
        var isNewlyFull = false
        update { state in
            switch state.buffer.offer(frame) {
            case .taken: break
            case .takenButFull:
                isNewlyFull = !state.suspendsReading
                state.suspendsReading = true
            case .overflow:
                state.buffer.noteOverflow()
                state.isFinished = true
            }
        }
        return isNewlyFull
    }

    func noteReconnected() { update { $0.buffer.noteReconnected() } }

    /// Notes that `count` pushes that may have been meant for this channel were malformed.
    func noteMalformed(_ count: Int) { update { $0.buffer.noteDropped(count) } }

    /// Ends the channel. Pushes in the buffer can still be read.
    func finish() {
        update { state in
            state.isFinished = true
            state.suspendsReading = false
        }
    }

    /// Changes the state, and resumes waiting readers with the elements that are available.
    private func update(_ change: (inout State) -> Void) {
        let served = state.withLock { state -> [(Continuation<Push?>, Push?)] in
            guard !state.isFinished else { return [] }
            change(&state)
            var served: [(Continuation<Push?>, Push?)] = []
            while let id = state.waiters.keys.min() {
                let element = Self.take(from: &state)
                guard element != nil || state.isFinished, let waiter = state.waiters.removeValue(forKey: id) else {
                    break
                }
                served.append((waiter, element))
            }
            return served
        }
        for (waiter, element) in served { waiter.resume(returning: element) }
    }

    /// Removes the next element from the buffer.
    private static func take(from state: inout State) -> Push? { state.buffer.next().map { Push($0) } }

    // MARK: From any task

    func next() async -> Push? {
        let id = state.withLock { state -> UInt64 in
            state.lastWaiter += 1
            return state.lastWaiter
        }
        let element: Push? = await withTaskCancellationHandler {
            await withContinuation { continuation in
                let (isReady, element) = state.withLock { state -> (Bool, Push?) in
                    if Task.isCancelled { return (true, nil) }
                    if let element = Self.take(from: &state) { return (true, element) }
                    if state.isFinished { return (true, nil) }
                    state.waiters[id] = continuation
                    return (false, nil)
                }
                if isReady { continuation.resume(returning: element) }
            }
        } onCancel: {
            state.withLock { $0.waiters.removeValue(forKey: id) }?.resume(returning: nil)
        }
        let mayResume = state.withLock { state in
            guard state.suspendsReading, state.buffer.isRoomy else { return false }
            state.suspendsReading = false
            return true
        }
        if mayResume { commandQueue.post(.resumeReading) }
        return element
    }

    /// Ends the channel because the stream was finished or can no longer be iterated.
    func stop() {
        finish()
        commandQueue.post(.stopListening(self))
    }
}
