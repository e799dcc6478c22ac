import Foundation
import TrunklineCore

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// The delegate of one session. Called on the session's serial queue, which it must not block.
final class OriginTransfers: NSObject, URLSessionDataDelegate {
    private let running = Lock<[Int: OriginTransfer]>([:])
    private let calls: DispatchQueue
    private let onEnd: (@Sendable () -> Void)?

    init(_ calls: DispatchQueue, onEnd: (@Sendable () -> Void)? = nil) {
        (self.calls, self.onEnd) = (calls, onEnd)
        super.init()
    }

    /// Called on the queue of calls. Returns `false` if the transfer was cancelled before.
    @discardableResult
    func begin(_ transfer: OriginTransfer, _ request: URLRequest, in session: URLSession) -> Bool {
        guard let body = transfer.body else { return false }
        let task =
            switch body {
            case .none: session.dataTask(with: request)
            case .data(let data): session.uploadTask(with: request, from: data)
            case .file(let file): session.uploadTask(with: request, fromFile: URL(fileURLWithPath: file.path))
            case .userFile(let url): session.uploadTask(with: request, fromFile: url)
            }
        running.withLock { $0[task.taskIdentifier] = transfer }
        transfer.start(task)
        return true
    }

    private func end(_ task: URLSessionTask, _ error: (any Error)?) {
        guard let transfer = running.withLock({ $0.removeValue(forKey: task.taskIdentifier) }) else { return }
        transfer.complete(error, of: task)
        onEnd?()
    }

    private func transfer(of task: URLSessionTask) -> OriginTransfer? {
        running.withLock { $0[task.taskIdentifier] }
    }

    func urlSession(
        _ session: URLSession,
        task: URLSessionTask,
        willPerformHTTPRedirection response: HTTPURLResponse,
        newRequest request: URLRequest,
        completionHandler: @escaping @Sendable (URLRequest?) -> Void
    ) {
        guard let transfer = transfer(of: task) else { return }
        calls.async {
            // The URLSession of Linux traps if the completion handler is called after the task was cancelled.
            guard transfer.isRunning else { return }
            #if canImport(FoundationNetworking)
                // It also traps if the request's timeout expired before this call. In that case the task has a
                // response, and no event reports it.
                guard task.response == nil else {
                    self.end(task, nil)
                    return task.cancel()
                }
            #endif
            completionHandler(nil)
        }
    }

    func urlSession(
        _ session: URLSession,
        dataTask: URLSessionDataTask,
        didReceive response: URLResponse,
        completionHandler: @escaping @Sendable (URLSession.ResponseDisposition) -> Void
    ) {
        transfer(of: dataTask)?.begin(response)
        completionHandler(.allow)
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        transfer(of: dataTask)?.receive(data)
    }

    #if canImport(FoundationNetworking)
        /// On Linux, a 401 (Basic, Digest) without credentials causes a challenge after the whole response has arrived,
        /// and the task then never ends. The 401 is the response.
        func urlSession(
            _ session: URLSession,
            task: URLSessionTask,
            didReceive challenge: URLAuthenticationChallenge,
            completionHandler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
        ) {
            end(task, nil)
            // On another queue: the handler cancels the task, which waits for the session's work queue, which may wait
            // for this method.
            DispatchQueue.global().async { completionHandler(.cancelAuthenticationChallenge, nil) }
        }
    #endif

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        end(task, error)
    }
}
