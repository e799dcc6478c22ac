package import Foundation
import TrunklineCore

#if canImport(FoundationNetworking)
    package import FoundationNetworking
#endif

/// One request to an origin. Cancelling a task that waits for the head or the body cancels the transfer.
package final class OriginTransfer: Sendable {
    private struct State {
        var head: Result<HTTPURLResponse, URLError>?
        var waiters: [Continuation<Result<HTTPURLResponse, URLError>>] = []
        var task: URLSessionTask?
        var isOver = false
        var body: OriginBody?
        var isUnsent = false
    }

    private let state: Lock<State>
    private let spool: BodySpool
    private let calls: DispatchQueue

    init(_ spool: BodySpool, keeping body: OriginBody, on calls: DispatchQueue) {
        (self.spool, self.calls) = (spool, calls)
        state = Lock(State(body: body))
    }

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

    package var isAtEnd: Bool { spool.isAtEnd }

    var held: (memory: Int, file: Int) { spool.held }

    /// The origin certainly has not received the whole request. `false` if in doubt.
    package var isUnsent: Bool { state.withLock { $0.isUnsent } }

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

    /// `nil` if the transfer has already ended.
    var body: OriginBody? { state.withLock { $0.body } }

    var isRunning: Bool { state.withLock { $0.task != nil && !$0.isOver } }

    /// Called on the queue of calls.
    func start(_ task: URLSessionTask) {
        let isOver = state.withLock { state in
            if !state.isOver { state.task = task }
            return state.isOver
        }
        // A task that was never resumed reports no completion, so a cancelled one is started too.
        task.resume()
        if isOver { task.cancel() }
    }

    func begin(_ response: URLResponse) {
        guard let response = response as? HTTPURLResponse else { return fail(URLError(.badServerResponse)) }
        settle(.success(response))
    }

    func receive(_ data: Data) {
        do throws(URLError) { try spool.append(data) } catch {
            // The spool reports the error to the reader.
            stop()
        }
    }

    func complete(_ error: (any Error)?, of task: URLSessionTask) {
        state.withLock { ($0.isOver, $0.body, $0.task) = (true, nil, nil) }
        if let error {
            var error = error as? URLError ?? URLError(.unknown, userInfo: [NSUnderlyingErrorKey: error])
            let isUnsent = Self.isUnsent(task, after: error.code)
            state.withLock { $0.isUnsent = isUnsent }
            // On Linux a truncated body has no specific code.
            let hasHead = state.withLock { if case .success? = $0.head { true } else { false } }
            if hasHead, error.code == .unknown {
                error = URLError(.networkConnectionLost, reason: "\(error)", underlying: error)
            }
            return fail(error)
        }
        // On Linux a 3xx without a target is not reported to the delegate.
        if let response = task.response as? HTTPURLResponse { settle(.success(response)) }
        settle(.failure(URLError(.badServerResponse)))
        spool.finish(.success(()))
    }

    private static func isUnsent(_ task: URLSessionTask, after code: URLError.Code) -> Bool {
        switch code {
        case .cannotFindHost, .dnsLookupFailed: return true
        case .cannotConnectToHost:
            #if canImport(FoundationNetworking)
                // On Linux any failure has this code if one of the origin's addresses refused the connection, even if
                // another address accepted the request and then failed: the system error of the first remains. The body
                // is read after the head is sent, so if no byte of a body was read, the request was not sent
                // completely.
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
