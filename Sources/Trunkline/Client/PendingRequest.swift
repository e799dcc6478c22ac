/// A request that is under way without anybody waiting for it: see `Client.start(_:timeout:options:)`.
///
/// Of a `Request` it is a `PendingRequest<Response>`, of a `TypedRequest` one of what the request reads its response as.
public struct PendingRequest<Value: Sendable>: Sendable {
    private let handle: RequestHandle
    private let read: @Sendable (Response) throws(ClientError) -> Value

    /// How far the request has come.
    public var state: RequestState { handle.state }

    /// The serial number it went out under; `nil` while it waits its turn, 0 in protocols without serials.
    public var serial: SerialNumber? { handle.serial }

    /// Gives the request up, as cancelling the task of a `send` does. Without effect when it is over.
    public func cancel() { handle.cancel() }

    /// The response, awaited if need be, as often as you like. A typed request reads it anew each time.
    ///
    /// Cancelling the task that waits here cancels the request.
    public var value: Value {
        get async throws(ClientError) { try read(try await handle.outcome().get()) }
    }
}

extension PendingRequest<Response> {
    init(_ handle: RequestHandle) { self.init(handle: handle) { $0 } }

    /// The same, its response read by `request`.
    func read<Typed: TypedRequest>(by request: Typed) -> PendingRequest<Typed.Reply> {
        PendingRequest<Typed.Reply>(handle: handle) { response throws(ClientError) in try request.read(response) }
    }
}

/// How far a request has come.
@nonexhaustive
public enum RequestState: Sendable, Hashable {
    /// It waits to be written.
    case queued
    /// It is with the server.
    case written
    /// It ended with a response or an error.
    case completed
    /// It was cancelled.
    case cancelled
}

/// What the client and the holders of a `PendingRequest` know of it.
final class RequestHandle: Sendable {
    private struct Progress {
        var state = RequestState.queued
        var serial: SerialNumber?
        var outcome: Outcome?
        var waiters: [UInt64: Continuation<Outcome>] = [:]
        var lastWaiter: UInt64 = 0
    }

    private let progress = Lock(Progress())
    private let onCancel: @Sendable () -> Void

    init(onCancel: @escaping @Sendable () -> Void) { self.onCancel = onCancel }

    /// How far the request has come.
    var state: RequestState { progress.withLock { $0.state } }

    /// `nil` while it waits its turn, 0 in protocols without serials.
    var serial: SerialNumber? { progress.withLock { $0.serial } }

    func cancel() { onCancel() }

    /// What becomes of the request, awaited if need be. Cancelling the task that waits here cancels the request.
    func outcome() async -> Outcome {
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
