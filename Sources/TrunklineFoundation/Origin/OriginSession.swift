package import Foundation
package import Trunkline

#if canImport(FoundationNetworking)
    package import FoundationNetworking
#endif

/// Requests to origin servers, through a URLSession that keeps nothing: no cookies, no cache, no credentials. Redirects
/// are not followed: the 3xx comes back.
///
/// What must not be carried out twice, and what has a body, goes over a connection of its own: see `FreshSessions`.
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
        /// Connections to one host that are kept for further requests, and as many that are for one request each; further
        /// requests wait.
        package var maximumConnectionsPerHost = 64

        package init() {}
    }

    private let session: URLSession
    /// Where the sessions are spoken to: on Linux that waits for their work queue, which may be held up by the disk. Cancels
    /// and answers to a session's questions come from here as well, so they keep their order.
    let calls = DispatchQueue(label: "trunkline.origin.calls")
    private let transfers: OriginTransfers
    private let fresh: FreshSessions
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
        transfers = OriginTransfers(calls)
        session = URLSession(configuration: configuration, delegate: transfers, delegateQueue: queue)
        fresh = FreshSessions(like: session, room: options.maximumConnectionsPerHost, on: calls)
    }

    deinit {
        // What is under way goes on for those who wait for it.
        let session = session
        calls.async { session.finishTasksAndInvalidate() }
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
        let (session, transfers, fresh, prepared) = (session, transfers, fresh, request)
        let mayBeRepeated = if case .none = body { request.isIdempotent } else { false }
        calls.async {
            if mayBeRepeated {
                transfers.begin(transfer, prepared, in: session)
            } else {
                fresh.begin(transfer, prepared)
            }
        }
        return transfer
    }
}

extension URLRequest {
    /// Whether to do it twice is to do it once (RFC 9110 §9.2.2).
    package var isIdempotent: Bool {
        ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"].contains(httpMethod ?? "GET")
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
