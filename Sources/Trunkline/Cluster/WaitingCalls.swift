import Synchronization

/// The calls that wait until a server of the cluster can take a request, in the order in which they came.
///
/// Unchecked `Sendable`: `timer` is used only on the event loop, after the initializer.
final class WaitingCalls: CancellationReceiver, TimerTarget, @unchecked Sendable {
    /// Why a wait ended.
    enum End: Sendable {
        /// A server can take a request, or could just now.
        case ready
        case cancelled
        case expired
        /// Too many calls are waiting.
        case full
        /// The cluster is closed.
        case closed
    }

    private struct State {
        var waiters: [UInt64: Continuation<End>] = [:]
        var deadlines = DeadlineQueue()
        var lastNumber: UInt64 = 0
        /// Whether the table has servers.
        var isReady = false
        var isClosed = false

        /// Takes all waiters, oldest first.
        mutating func takeAll() -> [Continuation<End>] {
            deadlines = DeadlineQueue()
            return exchange(&waiters, with: [:]).sorted { $0.key < $1.key }.map(\.value)
        }
    }

    private let loop: any EventLoop
    private let maximum: Int
    private let state = Lock(State())
    private let count = Atomic<Int>(0)
    private lazy var timer = LoopTimer(target: self)
    /// Rung when no call waits any more.
    private let whenEmpty: Alarm

    /// - Parameter maximum: The largest number of calls that wait.
    init(maximum: Int, on loop: any EventLoop) {
        (self.maximum, self.loop) = (max(0, maximum), loop)
        whenEmpty = Alarm(on: loop)
    }

    /// The number of calls that wait.
    var waitingCount: Int { count.load(ordering: .relaxed) }

    /// Waits until a server can take a request.
    ///
    /// - Parameters:
    ///   - turn: The place of the call among the waiting ones, which it keeps from wait to wait.
    ///   - isFull: Whether there are servers, and all of them have reached their limits.
    func wait(until deadline: Instant?, _ turn: inout UInt64?, isFull: Bool) async -> End {
        let number =
            turn
            ?? state.withLock { state in
                state.lastNumber += 1
                return state.lastNumber
            }
        turn = number
        return await withContinuation(cancelling: self, number...number) { continuation, cancellation in
            let (end, isFirst) = state.withLock { state -> (End?, Bool) in
                if state.isClosed { return (.closed, false) }
                if cancellation.isRequested { return (.cancelled, false) }
                if state.isReady, !isFull { return (.ready, false) }
                guard state.waiters.count < maximum else { return (.full, false) }
                let earliest = state.deadlines.earliest ?? .distantFuture
                state.waiters[number] = continuation
                if let deadline { state.deadlines.insert(RequestID(number), deadline: deadline) }
                count.store(state.waiters.count, ordering: .relaxed)
                return (nil, (deadline ?? .distantFuture) < earliest)
            }
            if let end { return continuation.resume(returning: end) }
            if isFirst { loop.schedule(LoopClosure { [self] in arm() }) }
        }
    }

    func cancelWaits(_ numbers: ClosedRange<UInt64>) { end(numbers.lowerBound, .cancelled) }

    private func end(_ number: UInt64, _ end: End) {
        let waiter = state.withLock { state in
            defer { count.store(state.waiters.count, ordering: .relaxed) }
            return state.waiters.removeValue(forKey: number)
        }
        waiter?.resume(returning: end)
        if waiter != nil { noteEmpty() }
    }

    // MARK: For the cluster

    /// The table has changed. If it has servers, all calls go on.
    func tableChanged(isEmpty: Bool) {
        let waiters = state.withLock { state -> [Continuation<End>] in
            state.isReady = !isEmpty
            if isEmpty { return [] }
            count.store(0, ordering: .relaxed)
            return state.takeAll()
        }
        for waiter in waiters { waiter.resume(returning: .ready) }
        if !waiters.isEmpty { noteEmpty() }
    }

    /// A request has ended, so that a server below its limit can take the next one. Also when a call that was woken for
    /// that has gone on.
    func requestEnded() {
        guard count.load(ordering: .relaxed) > 0 else { return }
        let next = state.withLock { $0.isReady ? $0.waiters.keys.min() : nil }
        if let next { end(next, .ready) }
    }

    /// Refuses every further call, and ends those that wait.
    func close() {
        let waiters = state.withLock { state in
            state.isClosed = true
            count.store(0, ordering: .relaxed)
            return state.takeAll()
        }
        for waiter in waiters { waiter.resume(returning: .closed) }
        noteEmpty()
    }

    /// Waits until no call waits, at most until `deadline`.
    func waitUntilEmpty(until deadline: Instant) async {
        while waitingCount > 0, loop.now < deadline, !Task.isCancelled { await whenEmpty.wait(until: deadline) }
    }

    private func noteEmpty() { if waitingCount == 0 { whenEmpty.ring() } }

    // MARK: Deadlines

    func timerFired() {
        let now = loop.turnTime
        let expired = state.withLock { state in
            var expired: [Continuation<End>] = []
            while let id = state.deadlines.popDue(at: now) {
                if let waiter = state.waiters.removeValue(forKey: id.number) { expired.append(waiter) }
            }
            if state.deadlines.isCrowded(alive: state.waiters.count) {
                let waiters = state.waiters
                state.deadlines.compact { waiters[$0.number] != nil }
            }
            count.store(state.waiters.count, ordering: .relaxed)
            return expired
        }
        for waiter in expired { waiter.resume(returning: .expired) }
        if !expired.isEmpty { noteEmpty() }
        arm()
    }

    private func arm() { loop.arm(timer, at: state.withLock { $0.deadlines.earliest }) }
}
