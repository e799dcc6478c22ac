/// A request that is under way without anybody waiting for it: see `Client.start(_:timeout:options:)`.
public final class PendingRequest: Sendable {
    /// How far a request has come.
    public enum State: Sendable, Hashable {
        /// It waits to be written.
        case queued
        /// It is with the server.
        case written
        /// It ended with a response or an error.
        case completed
        /// It was cancelled.
        case cancelled
    }

    private struct Progress {
        var state = State.queued
        var serial: SerialNumber?
        var outcome: Outcome?
        var waiters: [UInt64: Continuation<Outcome>] = [:]
        var lastWaiter: UInt64 = 0
    }

    private let progress = Lock(Progress())
    private let onCancel: @Sendable () -> Void

    init(onCancel: @escaping @Sendable () -> Void) { self.onCancel = onCancel }

    /// How far the request has come.
    public var state: State { progress.withLock { $0.state } }

    /// The serial number it went out under; `nil` while it waits its turn, 0 in protocols without serials.
    public var serial: SerialNumber? { progress.withLock { $0.serial } }

    /// Gives the request up, as cancelling the task of a `send` does. Without effect when it is over.
    public func cancel() { onCancel() }

    /// The response, awaited if need be, as often as you like.
    ///
    /// Cancelling the task that waits here cancels the request.
    public var value: Response {
        get async throws(ClientError) { try await outcome().get() }
    }

    private func outcome() async -> Outcome {
        await withTaskCancellationHandler {
            await withContinuation { continuation in
                let outcome = progress.withLock { progress in
                    if progress.outcome == nil {
                        progress.lastWaiter += 1
                        progress.waiters[progress.lastWaiter] = continuation
                    }
                    return progress.outcome
                }
                if let outcome { continuation.resume(returning: outcome) }
            }
        } onCancel: {
            onCancel()
        }
    }

    // MARK: For the client

    func admitted(as serial: SerialNumber) { progress.withLock { $0.serial = serial } }

    func noteWritten() {
        progress.withLock { if $0.state == .queued { $0.state = .written } }
    }

    /// It is going to be sent again.
    func noteRetry() {
        progress.withLock { progress in
            if progress.state == .written { progress.state = .queued }
            progress.serial = nil
        }
    }

    func complete(_ outcome: Outcome) {
        let waiters = progress.withLock { progress -> [Continuation<Outcome>] in
            guard progress.outcome == nil else { return [] }
            progress.outcome = outcome
            if case .failure(let error) = outcome, error.code == .cancelled {
                progress.state = .cancelled
            } else {
                progress.state = .completed
            }
            return exchange(&progress.waiters, with: [:]).sorted { $0.key < $1.key }.map(\.value)
        }
        for waiter in waiters { waiter.resume(returning: outcome) }
    }
}
