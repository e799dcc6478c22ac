public import Trunkline

/// What the server has seen, and waiting until it has.
extension LoopbackServer {
    /// What the server has seen and done so far.
    public var journal: Journal { record }

    /// The latest requests and cancel frames, in the order of their arrival; see `Journal`.
    package var received: [Frame] { record.received }

    /// Connections that are open.
    package var connectionCount: Int { record.connectionCount }

    /// Connections that were ever accepted.
    package var totalConnections: Int { record.totalConnections }

    /// Starts the journal anew.
    package func forget() { record = record.emptied }

    // MARK: Waiting

    /// Why a fact was not awaited to the end.
    public struct WaitError: Error, Sendable, CustomStringConvertible {
        /// What came first.
        @nonexhaustive
        public enum Reason: Sendable, Hashable {
            /// The time was over.
            case timedOut
            /// The waiting task was cancelled.
            case cancelled
            /// The server was stopped.
            case stopped
        }

        /// What came first.
        public let reason: Reason
        /// What the server had seen by then.
        public let journal: Journal

        /// The reason, and what the server had seen.
        public var description: String { "\(reason) while waiting; the server had seen: \(journal)" }
    }

    /// Returns as soon as `condition` holds of the journal, at once if it does already. It is asked after every change,
    /// on the server's loop.
    ///
    /// ```swift
    /// try await server.wait { $0.connectionCount == 1 }
    /// try await server.wait { $0.requestCount >= 500 }
    /// ```
    ///
    /// - Parameter limit: How long to wait at most, from this call.
    @discardableResult
    public func wait(
        within limit: Duration = .seconds(10),
        until condition: @escaping @Sendable (Journal) -> Bool
    ) async throws(WaitError) -> Journal {
        lastID += 1
        let id = lastID
        let deadline = loop.now.advanced(by: limit)
        let reason = await withTaskCancellationHandler {
            await withContinuation { (continuation: Continuation<WaitError.Reason?>) in
                // Asked here and not before: each `await` above may let the loop do other things first.
                if condition(record) { return continuation.resume(returning: nil) }
                if isStopped { return continuation.resume(returning: .stopped) }
                waiters[id] = FactWaiter(condition: condition, deadline: deadline, continuation: continuation)
                if Task.isCancelled { stopWaiting(id, .cancelled) }
                // Asked again: on the way here the task may have been suspended, and the fact may have come.
                settle()
            }
        } onCancel: {
            loop.schedule(Completion { [weak self] in self?.assumeIsolated { $0.stopWaiting(id, .cancelled) } })
        }
        if let reason { throw WaitError(reason: reason, journal: record) }
        return record
    }

    /// Waits for a cancel frame and returns the first: of the request `serial`, or of any if it is `nil`.
    @discardableResult
    public func waitForCancel(
        of serial: SerialNumber? = nil,
        within limit: Duration = .seconds(10)
    ) async throws(WaitError) -> Frame {
        let isMeant = { @Sendable (frame: Frame) in frame.kind == .cancel && (serial == nil || frame.serial == serial) }
        return try await waitForFrame(within: limit, where: isMeant)
    }

    /// Waits for a request that satisfies `predicate` and returns the first.
    @discardableResult
    public func waitForRequest(
        within limit: Duration = .seconds(10),
        where predicate: @escaping @Sendable (Frame) -> Bool = { _ in true }
    ) async throws(WaitError) -> Frame {
        try await waitForFrame(within: limit) { $0.kind != .cancel && predicate($0) }
    }

    /// Waits until so many requests have come in all.
    package func waitForRequests(_ count: Int, within limit: Duration = .seconds(10)) async throws(WaitError) {
        try await wait(within: limit) { $0.requestCount >= count }
    }

    /// Waits until exactly so many connections are open.
    package func waitForConnections(_ count: Int, within limit: Duration = .seconds(10)) async throws(WaitError) {
        try await wait(within: limit) { $0.connectionCount == count }
    }

    private func waitForFrame(
        within limit: Duration,
        where predicate: @escaping @Sendable (Frame) -> Bool
    ) async throws(WaitError) -> Frame {
        while true {
            let journal = try await wait(within: limit) { $0.received.contains(where: predicate) }
            if let frame = journal.received.first(where: predicate) { return frame }
        }
    }

    // MARK: On the loop

    /// Lets those go on whose condition holds, or who would wait in vain.
    func serveWaiters() {
        guard !waiters.isEmpty else { return }
        for (id, waiter) in waiters.sorted(by: { $0.key < $1.key }) {
            if waiter.condition(record) {
                stopWaiting(id, nil)
            } else if isStopped {
                stopWaiting(id, .stopped)
            }
        }
    }

    private func stopWaiting(_ id: RequestID, _ reason: WaitError.Reason?) {
        waiters.removeValue(forKey: id)?.continuation.resume(returning: reason)
    }

    func armTimer() {
        let next = [deadlines.earliest, waiters.values.map(\.deadline).min(), handshakeDeadline].compactMap { $0 }.min()
        if next == nil, timer == nil { return }
        let timer = timer ?? LoopTimer(target: self)
        self.timer = timer
        if timer.deadline != next { loop.arm(timer, at: next) }
    }
}

/// Who waits for a fact. Leaves the server's table once, and is told once.
struct FactWaiter {
    let condition: @Sendable (LoopbackServer.Journal) -> Bool
    let deadline: Instant
    let continuation: Continuation<LoopbackServer.WaitError.Reason?>
}

extension LoopbackServer: TimerTarget {
    package nonisolated func timerFired() {
        assumeIsolated { $0.expire() }
    }

    private func expire() {
        let now = loop.now
        runDelayed(at: now)
        endHandshakes(at: now)
        for (id, waiter) in waiters.sorted(by: { $0.key < $1.key }) where waiter.deadline <= now {
            stopWaiting(id, .timedOut)
        }
        settle()
    }
}

extension LoopbackServer {
    /// How many replies wait for their time.
    package var delayedCount: Int { delayed.count }
}
