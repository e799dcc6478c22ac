import Foundation
import Trunkline

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// The transfers that are under way, and the delegate that hands each what is its own.
///
/// Called on the session's serial queue, where it must be quick.
final class OriginTransfers: NSObject, URLSessionDataDelegate {
    private let running = Lock<[Int: OriginTransfer]>([:])
    private let calls: DispatchQueue
    private let onEnd: (@Sendable () -> Void)?

    /// - Parameters:
    ///   - calls: Where sessions are spoken to.
    ///   - onEnd: Called once for each transfer, when it is over.
    init(_ calls: DispatchQueue, onEnd: (@Sendable () -> Void)? = nil) {
        (self.calls, self.onEnd) = (calls, onEnd)
        super.init()
    }

    /// Begins `transfer` on the queue of calls. Returns `false` when it was given up before.
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
            // The URLSession of Linux traps when it gets an answer to a question that it has given up, and with a cancel it gives
            // this one up.
            guard transfer.isRunning else { return }
            #if canImport(FoundationNetworking)
                // So it does when the request's timeout comes before the answer: then it has a response, and tells nobody.
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
        /// On Linux a 401 (Basic, Digest) for which there are no credentials is asked about when all of it has come, and then
        /// never ends. It is the answer.
        func urlSession(
            _ session: URLSession,
            task: URLSessionTask,
            didReceive challenge: URLAuthenticationChallenge,
            completionHandler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
        ) {
            end(task, nil)
            // Elsewhere: it cancels the task, which waits for the session's work queue, and that perhaps for this one.
            DispatchQueue.global().async { completionHandler(.cancelAuthenticationChallenge, nil) }
        }
    #endif

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        end(task, error)
    }
}
