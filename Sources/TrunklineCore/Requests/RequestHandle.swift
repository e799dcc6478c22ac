/// The state of a request.
@nonexhaustive
public enum RequestState: Sendable, Hashable {
    /// The request is not written yet. It waits for a link, for its turn, or for the end of a back-off.
    case queued
    /// The kernel has accepted the last byte of the request, and the response has not arrived.
    case written
    /// The request ended with a response or an error other than a cancellation.
    case completed
    /// The request was cancelled.
    case cancelled
}

/// A request in progress, as the holders of its `PendingRequest` see it.
package protocol RequestProgress: AnyObject, Sendable {
    var state: RequestState { get }
    /// `nil` while the request is not on a link, 0 in protocols without serials.
    var serial: SerialNumber? { get }
    var session: SessionID? { get }
    func cancel()
    /// Cancelling the waiting task cancels the request.
    func outcome() async -> Outcome
}

/// The state of a request, shared by the client and the holders of its `PendingRequest`.
final class RequestHandle: RequestProgress, CancellationReceiver {
    private struct Progress {
        var state = RequestState.queued
        var serial: SerialNumber?
        var session: SessionID?
        var outcome: Outcome?
        var waiters: [UInt64: Continuation<Outcome>] = [:]
        var lastWaiter: UInt64 = 0
    }

    private let progress = Lock(Progress())
    private let onCancel: @Sendable () -> Void
    /// Receives the outcome, once, and may replace it.
    private let onEnd: (@Sendable (Outcome) -> Outcome)?

    init(onEnd: (@Sendable (Outcome) -> Outcome)?, onCancel: @escaping @Sendable () -> Void) {
        self.onCancel = onCancel
        self.onEnd = onEnd
    }

    convenience init(_ outcome: Outcome) {
        self.init(onEnd: nil) {}
        complete(outcome)
    }

    var state: RequestState { progress.withLock { $0.state } }

    var serial: SerialNumber? { progress.withLock { $0.serial } }

    var session: SessionID? { progress.withLock { $0.session } }

    func cancel() { onCancel() }

    func outcome() async -> Outcome {
        await withContinuation(cancelling: self, 0...0) { continuation, _ in
            let outcome = progress.withLock { progress in
                if progress.outcome == nil {
                    progress.lastWaiter += 1
                    progress.waiters[progress.lastWaiter] = continuation
                }
                return progress.outcome
            }
            if let outcome { continuation.resume(returning: outcome) }
        }
    }

    func cancelWaits(_ numbers: ClosedRange<UInt64>) { onCancel() }

    // MARK: For the client

    func admitted(as serial: SerialNumber, on session: SessionID?) {
        progress.withLock { ($0.serial, $0.session) = (serial, session) }
    }

    func noteWritten() {
        progress.withLock { if $0.state == .queued { $0.state = .written } }
    }

    /// The request will be sent on another link, or again.
    func noteOffLink() {
        progress.withLock { progress in
            if progress.state == .written { progress.state = .queued }
            (progress.serial, progress.session) = (nil, nil)
        }
    }

    func complete(_ outcome: Outcome) {
        let outcome = onEnd?(outcome) ?? outcome
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
