package import Foundation
import Trunkline

#if canImport(FoundationNetworking)
    package import FoundationNetworking
#endif

/// One request to an origin that is under way: its response's head as soon as it is there, then its body.
///
/// Cancelling a task that waits for either cancels the transfer, and so does `cancel()`. A transfer that is over, or
/// cancelled, holds nothing.
package final class OriginTransfer: Sendable {
    private struct State {
        var head: Result<HTTPURLResponse, URLError>?
        var waiters: [Continuation<Result<HTTPURLResponse, URLError>>] = []
        /// Begun and not over.
        var task: URLSessionTask?
        /// It is over, or has been given up.
        var isOver = false
        /// Kept until it is over.
        var body: OriginBody?
        var isUnsent = false
    }

    private let state: Lock<State>
    private let spool: BodySpool
    /// Where the task is spoken to.
    private let calls: DispatchQueue

    init(_ spool: BodySpool, keeping body: OriginBody, on calls: DispatchQueue) {
        (self.spool, self.calls) = (spool, calls)
        state = Lock(State(body: body))
    }

    /// The response's head, awaited if need be.
    package var response: HTTPURLResponse {
        get async throws(URLError) {
            let result = await withTaskCancellationHandler {
                await withContinuation { (waiter: Continuation<Result<HTTPURLResponse, URLError>>) in
                    let head = state.withLock { state in
                        if state.head == nil { state.waiters.append(waiter) }
                        return state.head
                    }
                    if let head { waiter.resume(returning: head) }
                }
            } onCancel: {
                cancel()
            }
            return try result.get()
        }
    }

    /// The next piece of the body; `nil` at its end.
    package func next() async throws(URLError) -> Data? {
        let result = await withTaskCancellationHandler {
            do throws(URLError) { return Result<Data?, URLError>.success(try await spool.next()) } catch {
                return .failure(error)
            }
        } onCancel: {
            cancel()
        }
        return try result.get()
    }

    /// Whether the whole of the body has been taken.
    package var isAtEnd: Bool { spool.isAtEnd }

    /// How many bytes of the body are held in memory and in a file.
    package var held: (memory: Int, file: Int) { spool.held }

    /// Whether it failed and the origin has certainly not seen the request as a whole. When in doubt: no.
    package var isUnsent: Bool { state.withLock { $0.isUnsent } }

    /// Gives it up at once. Without effect when it is over.
    package func cancel() {
        let error = URLError(.cancelled)
        let waiters = state.withLock { state in
            defer {
                (state.isOver, state.waiters, state.body) = (true, [], nil)
                state.head = state.head ?? .failure(error)
            }
            return state.waiters
        }
        for waiter in waiters { waiter.resume(returning: .failure(error)) }
        stop()
        spool.abandon(error)
    }

    private func stop() {
        let task = state.withLock { state in
            defer { state.task = nil }
            return state.task
        }
        if let task { calls.async { task.cancel() } }
    }

    // MARK: What the session says

    /// What is to be sent; `nil` when it is over already.
    var body: OriginBody? { state.withLock { $0.body } }

    /// Whether it has begun, and has neither ended nor been given up.
    var isRunning: Bool { state.withLock { $0.task != nil && !$0.isOver } }

    /// Called on the queue of calls.
    func start(_ task: URLSessionTask) {
        let isOver = state.withLock { state in
            if !state.isOver { state.task = task }
            return state.isOver
        }
        // A task that was never resumed is not told that it is over, so it begins all the same.
        task.resume()
        if isOver { task.cancel() }
    }

    func begin(_ response: URLResponse) {
        guard let response = response as? HTTPURLResponse else { return fail(URLError(.badServerResponse)) }
        settle(.success(response))
    }

    func receive(_ data: Data) {
        do throws(URLError) { try spool.append(data) } catch {
            // The reader learns of it from the spool.
            stop()
        }
    }

    func complete(_ error: (any Error)?, of task: URLSessionTask) {
        state.withLock { ($0.isOver, $0.body, $0.task) = (true, nil, nil) }
        if let error {
            var error = error as? URLError ?? URLError(.unknown, userInfo: [NSUnderlyingErrorKey: error])
            let isUnsent = Self.isUnsent(task, after: error.code)
            state.withLock { $0.isUnsent = isUnsent }
            // On Linux a body that is cut off has no code of its own.
            let hasHead = state.withLock { if case .success? = $0.head { true } else { false } }
            if hasHead, error.code == .unknown {
                error = URLError(.networkConnectionLost, reason: "\(error)", underlying: error)
            }
            return fail(error)
        }
        // On Linux a 3xx that leads nowhere is not announced.
        if let response = task.response as? HTTPURLResponse { settle(.success(response)) }
        settle(.failure(URLError(.badServerResponse)))
        spool.finish(.success(()))
    }

    private static func isUnsent(_ task: URLSessionTask, after code: URLError.Code) -> Bool {
        switch code {
        case .cannotFindHost, .dnsLookupFailed: return true
        case .cannotConnectToHost:
            #if canImport(FoundationNetworking)
                // On Linux any failure is called so when one of the origin's addresses refused, also when another took the
                // request and went away: the system's error of that attempt stays. The body is read after the head is sent, so
                // a body of which nothing was read says that not all of the request can have been.
                return task.countOfBytesExpectedToSend > 0 && task.countOfBytesSent == 0
            #else
                return true
            #endif
        case .secureConnectionFailed, .serverCertificateUntrusted, .serverCertificateHasBadDate,
            .serverCertificateNotYetValid, .serverCertificateHasUnknownRoot:
            return true
        default: return false
        }
    }

    private func fail(_ error: URLError) {
        settle(.failure(error))
        spool.finish(.failure(error))
    }

    private func settle(_ head: Result<HTTPURLResponse, URLError>) {
        let waiters = state.withLock { state -> [Continuation<Result<HTTPURLResponse, URLError>>] in
            guard state.head == nil else { return [] }
            state.head = head
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.resume(returning: head) }
    }
}
