/// What offers pushes to a channel: a client, or all clients of a cluster.
package protocol PushChannelOwner: AnyObject, Sendable {
    var endsWithClient: Bool { get }
    func source(of session: SessionID) -> ClusterSource?
    func resumeReading()
    func stopListening(_ channel: PushChannel)
}

/// Carries pushes from the event loops to the tasks that iterate one stream.
package final class PushChannel: CancellationReceiver {
    private typealias Served = (Continuation<Push?>, Push?)

    private struct State {
        var buffer: PushBuffer
        var isFinished = false
        var suspendsReading = false
        var waiters: [UInt64: Continuation<Push?>] = [:]
        var lastWaiter: UInt64 = 0
        let cluster: (any PushChannelOwner)?

        mutating func take() -> Push? {
            guard let element = buffer.next() else { return nil }
            guard let cluster, case .frame(let frame) = element, let session = frame.session else {
                return Push(element)
            }
            return .message(PushMessage(frame, from: cluster.source(of: session)))
        }

        /// Removes the readers for which there is an element, in order. They are to be resumed without the lock.
        mutating func serve(_ served: inout [Served]) {
            while let id = waiters.keys.min() {
                let element = take()
                guard element != nil || isFinished, let waiter = waiters.removeValue(forKey: id) else { return }
                served.append((waiter, element))
            }
        }

        mutating func mayResumeReading() -> Bool {
            guard suspendsReading, buffer.isRoomy else { return false }
            suspendsReading = false
            return true
        }
    }

    let number: UInt64
    let selection: PushSelection.Rule
    private let state: Lock<State>
    private let owner: any PushChannelOwner

    package init(_ number: UInt64, _ selection: PushSelection, buffer: PushBuffer, owner: any PushChannelOwner) {
        self.number = number
        self.selection = selection.rule
        self.owner = owner
        state = Lock(State(buffer: buffer, cluster: owner.endsWithClient ? nil : owner))
    }

    var suspendsReading: Bool { state.withLock { $0.suspendsReading } }

    /// `isNewlyFull`: this buffer must suspend reading now and did not before. `dropped` may count earlier pushes.
    /// `isSurplus`: a full buffer that suspends reading drops the pushes.
    func offer(_ pushes: [Frame], isSurplus: Bool) -> (isNewlyFull: Bool, taken: Int, dropped: Int) {
        let wanted = wanted(of: pushes)
        guard !wanted.isEmpty else { return (false, 0, 0) }
        var (isNewlyFull, taken, dropped) = (false, 0, 0)
        update { state, served in
            let (takenBefore, droppedBefore) = (state.buffer.takenCount, state.buffer.overflowCount)
            defer {
                taken = state.buffer.takenCount - takenBefore
                dropped = state.buffer.overflowCount - droppedBefore
            }
            for push in wanted where !state.isFinished {
                defer {
                    // At once, so that a push for a waiting reader takes no room from the next one.
                    if !state.waiters.isEmpty { state.serve(&served) }
                }
                switch state.buffer.offer(push, mayExceed: !isSurplus) {
                case .taken: break
                case .takenButFull:
                    if !state.suspendsReading { isNewlyFull = true }
                    state.suspendsReading = true
                case .overflow:
                    state.buffer.noteOverflow()
                    state.isFinished = true
                }
            }
        }
        return (isNewlyFull, taken, dropped)
    }

    /// A channel with a key is offered nothing else.
    private func wanted(of pushes: [Frame]) -> [Frame] {
        switch selection {
        case .all, .key: pushes
        case .type(let type): pushes.filter { $0.type == type }
        // A malformed push may be meant for this channel, so it becomes a gap.
        case .matching(let isWanted): pushes.filter { $0.malformedReason != nil || isWanted(PushMessage($0)) }
        }
    }

    package func noteReconnected() { update { state, _ in state.buffer.noteReconnected() } }

    func noteMalformed(_ count: Int) { update { state, _ in state.buffer.noteDropped(count) } }

    func clientEnded() { if owner.endsWithClient { finish() } }

    package func finish() {
        update { state, _ in
            state.isFinished = true
            state.suspendsReading = false
        }
    }

    private func update(_ change: (inout State, inout [Served]) -> Void) {
        let served = state.withLock { state -> [Served] in
            guard !state.isFinished else { return [] }
            var served: [Served] = []
            change(&state, &served)
            state.serve(&served)
            return served
        }
        for (waiter, element) in served { waiter.resume(returning: element) }
    }

    /// `nil` if `next()` would wait. Most elements are there when their reader asks for them; a cancellation handler
    /// and a continuation for each would cost three times as much as taking it.
    func nextIfAvailable() -> Push?? {
        if Task.isCancelled { return .some(nil) }
        let (element, mayResume, isFinished) = state.withLock { state -> (Push?, Bool, Bool) in
            let element = state.take()
            return (element, state.mayResumeReading(), state.isFinished)
        }
        if mayResume { owner.resumeReading() }
        return element != nil || isFinished ? .some(element) : nil
    }

    func next() async -> Push? {
        let id = state.withLock { state -> UInt64 in
            state.lastWaiter += 1
            return state.lastWaiter
        }
        let element: Push? = await withContinuation(cancelling: self, id...id) { continuation, cancellation in
            let (isReady, element) = state.withLock { state -> (Bool, Push?) in
                if cancellation.isRequested { return (true, nil) }
                if let element = state.take() { return (true, element) }
                if state.isFinished { return (true, nil) }
                state.waiters[id] = continuation
                return (false, nil)
            }
            if isReady { continuation.resume(returning: element) }
        }
        if state.withLock({ $0.mayResumeReading() }) { owner.resumeReading() }
        return element
    }

    package func cancelWaits(_ numbers: ClosedRange<UInt64>) {
        state.withLock { $0.waiters.removeValue(forKey: numbers.lowerBound) }?.resume(returning: nil)
    }

    func stop() {
        finish()
        owner.stopListening(self)
    }
}
