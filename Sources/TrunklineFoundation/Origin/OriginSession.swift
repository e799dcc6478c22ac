package import Foundation
package import TrunklineCore

#if canImport(FoundationNetworking)
    package import FoundationNetworking
#endif

/// Sends requests to origins through a URLSession that keeps nothing: no cookies, no cache, no credentials. Redirects
/// are not followed: the 3xx is the response.
///
/// Requests that are not idempotent and requests with a body each use a new connection: see `FreshSessions`.
///
/// A URLSession has no back-pressure, so the bodies of responses are spooled: see `BodySpool`. On Linux, callers see
/// these properties of URLSession:
/// - Timeouts are whole seconds.
/// - The body of a redirect is held in memory, and the body of a 3xx without `Location` is lost.
/// - `http_proxy` and similar environment variables are used.
/// - A GET request cannot have a body.
package final class OriginSession: Sendable {
    package struct Options: Sendable {
        /// In bytes, of a response's body for a slow reader.
        var memory = 1024 * 1024
        /// In bytes, in a file for a slow reader. Beyond it the transfer fails.
        package var maximumSpooled = 4 * 1024 * 1024 * 1024
        /// Kept connections to one host and, in addition, connections for one request each. Further requests wait.
        var maximumConnectionsPerHost = 64

        package init() {}
    }

    private let session: URLSession
    /// The queue on which the sessions are called: on Linux such a call waits for the session's work queue, which the
    /// disk may block. Cancellations and completion handlers use this queue too, so that they keep their order.
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
        // Pieces have at most 16 KiB, so this is at most 1 MiB.
        let queue = BoundedQueue(room: 64, name: "trunkline.origin")
        transfers = OriginTransfers(calls)
        session = URLSession(configuration: configuration, delegate: transfers, delegateQueue: queue)
        fresh = FreshSessions(like: session, room: options.maximumConnectionsPerHost, on: calls)
    }

    deinit {
        // Transfers in progress continue.
        let session = session
        calls.async { session.finishTasksAndInvalidate() }
    }

    /// `timeout` is the longest time without progress, rounded up to whole seconds, at least 1 s.
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
    /// RFC 9110 §9.2.2.
    package var isIdempotent: Bool {
        ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"].contains(httpMethod ?? "GET")
    }
}

package enum OriginBody: Sendable {
    case none
    case data(Data)
    case file(TemporaryFile)
    case userFile(URL)
}

extension OriginSession: CustomReflectable {
    /// Empty: its `URLSession` holds the header fields of requests.
    package var customMirror: Mirror { Mirror(self, children: []) }
}
