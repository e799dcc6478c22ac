package import Foundation
import Trunkline
import TrunklineCore
package import TrunklineIO

#if canImport(FoundationNetworking)
    package import FoundationNetworking
#endif

/// Requests to origin servers, through a URLSession that keeps nothing: no cookies, no cache, no credentials. Redirects
/// are not followed: the 3xx comes back.
///
/// A URLSession has no back-pressure, so the bodies of responses are spooled: see `BodySpool`. On Linux these of its habits
/// shine through: timeouts have whole seconds, the body of a redirect is held in memory and that of a 3xx without a
/// `Location` is lost, `http_proxy` and its kin in the environment are heeded, and a GET cannot have a body.
package final class OriginSession: Sendable {
    /// Limits.
    package struct Options: Sendable {
        /// Bytes of a response's body that are held in memory for a slow reader.
        package var memory = 1024 * 1024
        /// Bytes of a response's body that are held in a file for a slow reader; beyond them the transfer fails.
        package var maximumSpooled = 4 * 1024 * 1024 * 1024
        /// Connections to one host.
        package var maximumConnectionsPerHost = 64

        package init() {}
    }

    private let session: URLSession
    /// Where the session is spoken to: on Linux it waits for its work queue, which may be held up by the disk.
    private let calls = DispatchQueue(label: "trunkline.origin.calls")
    private let transfers = OriginTransfers()
    private let options: Options

    package init(_ options: Options = Options()) {
        self.options = options
        let configuration = URLSessionConfiguration.ephemeral
        configuration.httpCookieStorage = nil
        configuration.httpCookieAcceptPolicy = .never
        configuration.httpShouldSetCookies = false
        configuration.urlCache = nil
        configuration.urlCredentialStorage = nil
        configuration.requestCachePolicy = .reloadIgnoringLocalCacheData
        configuration.httpMaximumConnectionsPerHost = options.maximumConnectionsPerHost
        // Of pieces of 16 KiB at most: one mebibyte.
        let queue = BoundedQueue(room: 64, name: "trunkline.origin")
        session = URLSession(configuration: configuration, delegate: transfers, delegateQueue: queue)
    }

    deinit {
        let session = session
        calls.async { session.invalidateAndCancel() }
    }

    /// Begins `request` with `body`, which replaces that of the request.
    ///
    /// - Parameter timeout: The longest time without progress on the network, rounded up to whole seconds.
    package func begin(_ request: URLRequest, body: OriginBody, timeout: Duration) -> OriginTransfer {
        var request = request
        (request.httpBody, request.httpBodyStream) = (nil, nil)
        request.timeoutInterval = max(1, (Double(timeout.clampedNanoseconds) / 1e9).rounded(.up))
        let spool = BodySpool(memory: options.memory, limit: options.maximumSpooled)
        let transfer = OriginTransfer(spool, keeping: body, on: calls)
        let (session, transfers, prepared) = (session, transfers, request)
        calls.async {
            let task =
                switch body {
                case .none: session.dataTask(with: prepared)
                case .data(let data): session.uploadTask(with: prepared, from: data)
                case .file(let file): session.uploadTask(with: prepared, fromFile: URL(fileURLWithPath: file.path))
                case .userFile(let url): session.uploadTask(with: prepared, fromFile: url)
                }
            transfers.add(transfer, of: task)
            transfer.start(task)
        }
        return transfer
    }
}

/// What a request carries to an origin, known as a whole so that its length can be told.
package enum OriginBody: Sendable {
    case none
    case data(Data)
    /// A file of ours, which goes when the transfer is over.
    case file(TemporaryFile)
    /// A file of the caller's.
    case userFile(URL)
}

/// The transfers that are under way, and the delegate that hands each what is its own.
///
/// Called on the session's serial queue, where it must be quick.
final class OriginTransfers: NSObject, URLSessionDataDelegate {
    private let running = Lock<[Int: OriginTransfer]>([:])

    func add(_ transfer: OriginTransfer, of task: URLSessionTask) {
        running.withLock { $0[task.taskIdentifier] = transfer }
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
        completionHandler(nil)
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
            let transfer = running.withLock { $0.removeValue(forKey: task.taskIdentifier) }
            transfer?.complete(nil, response: task.response)
            // Elsewhere: it cancels the task, which waits for the session's work queue, and that perhaps for this one.
            DispatchQueue.global().async { completionHandler(.cancelAuthenticationChallenge, nil) }
        }
    #endif

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        let transfer = running.withLock { $0.removeValue(forKey: task.taskIdentifier) }
        transfer?.complete(error, response: task.response)
    }
}
