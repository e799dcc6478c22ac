public import TrunklineCore

extension LoopbackServer {
    /// A record of what the server has received and done so far.
    public var journal: Journal { record }

    var received: [Frame] { record.received }

    var connectionCount: Int { record.connectionCount }

    var totalConnections: Int { record.totalConnections }

    func forget() { record = record.emptied }

    /// The error of a wait that ended before its condition was met.
    public struct WaitError: Error, Sendable, CustomStringConvertible {
        /// The reason why a wait ended.
        @nonexhaustive
        public enum Reason: Sendable, Hashable {
            /// The time limit passed.
            case timedOut
            /// The waiting task was cancelled.
            case cancelled
            /// The server was stopped.
            case stopped
        }

        /// The reason why the wait ended.
        public let reason: Reason
        /// A record of what the server had received and done when the wait ended.
        public let journal: Journal

        /// The reason, and a summary of the journal.
        public var description: String { "\(reason) while waiting for the server; journal: \(journal)" }
    }

    /// Waits until `condition` returns `true` for the journal, and returns that journal.
    ///
    /// Returns at once if the condition is already true.
    ///
    /// ```swift
    /// try await server.wait { $0.connectionCount == 1 }
    /// try await server.wait { $0.requestCount >= 500 }
    /// ```
    ///
    /// - Parameters:
    ///   - limit: The longest wait, counted from this call. Default 10 s.
    ///   - condition: Called after every change, on the server's event loop. It must not block.
    /// - Throws: ``WaitError`` if the limit passes, the task is cancelled, or the server is stopped first.
    @discardableResult
    public func wait(
        within limit: Duration = .seconds(10),
        until condition: @escaping @Sendable (Journal) -> Bool
    ) async throws(WaitError) -> Journal {
        lastID = lastID.advanced(by: 1)
        let id = lastID
        let deadline = loop.now.advanced(by: limit)
        let reason = await withTaskCancellationHandler {
            await withContinuation { (continuation: Continuation<WaitError.Reason?>) in
                // Checked here: before this point the loop may have run other work.
                if condition(record) { return continuation.resume(returning: nil) }
                if isStopped { return continuation.resume(returning: .stopped) }
                waiters[id] = FactWaiter(condition: condition, deadline: deadline, continuation: continuation)
                if Task.isCancelled { stopWaiting(id, .cancelled) }
                // Checked again: the task may have been suspended before this point.
                settle()
            }
        } onCancel: {
            loop.schedule(LoopClosure { [weak self] in self?.assumeIsolated { $0.stopWaiting(id, .cancelled) } })
        }
        if let reason { throw WaitError(reason: reason, journal: record) }
        return record
    }

    /// Waits for a cancel frame, and returns the first one. If the journal already contains such a frame, the call
    /// returns it at once.
    ///
    /// - Parameters:
    ///   - serial: The serial number of the cancelled request, or `nil`, the default, for any.
    ///   - limit: The longest wait. Default 10 s.
    /// - Throws: ``WaitError`` if the limit passes, the task is cancelled, or the server is stopped first.
    @discardableResult
    public func waitForCancel(
        of serial: SerialNumber? = nil,
        within limit: Duration = .seconds(10)
    ) async throws(WaitError) -> Frame {
        try await waitForFrame(within: limit) { frame in
            frame.kind == .cancel && (serial == nil || (frame.cancelledSerial ?? frame.serial) == serial)
        }
    }

    /// Waits for a request that satisfies `predicate`, and returns the first one. If the journal already contains such
    /// a request, the call returns it at once.
    ///
    /// - Parameters:
    ///   - limit: The longest wait. Default 10 s.
    ///   - predicate: Called on the server's event loop. It must not block. Default: any request.
    /// - Throws: ``WaitError`` if the limit passes, the task is cancelled, or the server is stopped first.
    @discardableResult
    public func waitForRequest(
        within limit: Duration = .seconds(10),
        where predicate: @escaping @Sendable (Frame) -> Bool = { _ in true }
    ) async throws(WaitError) -> Frame {
        try await waitForFrame(within: limit) { $0.kind != .cancel && predicate($0) }
    }

    func waitForRequests(_ count: Int, within limit: Duration = .seconds(60)) async throws(WaitError) {
        try await wait(within: limit) { $0.requestCount >= count }
    }

    func waitForConnections(_ count: Int, within limit: Duration = .seconds(60)) async throws(WaitError) {
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

/// A waiter leaves the server's table once and is resumed once.
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
        let now = loop.turnTime
        runDelayed(at: now)
        endHandshakes(at: now)
        for (id, waiter) in waiters.sorted(by: { $0.key < $1.key }) where waiter.deadline <= now {
            stopWaiting(id, .timedOut)
        }
        settle()
    }
}

extension LoopbackServer {
    var delayedCount: Int { delayed.count }
}
