import Foundation
import TrunklineCore

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Sends requests that must not use a kept connection. Each request has its own session, which ends with the request.
///
/// The URLSession of Linux is built on libcurl. If a kept connection ends without a response, libcurl sends the request
/// again, whatever its method: an origin that had already performed it would perform it twice. libcurl cannot read a
/// body twice, so it resends such a request without its body and waits for the timeout. On a new connection it does
/// not resend requests.
///
/// At most `room` requests to one origin run at once; the others wait in order. Called on the queue of calls.
final class FreshSessions: Sendable {
    /// Removed when no request is running.
    private struct Line {
        var running = 0
        var waiting = Deque<(OriginTransfer, URLRequest)>()
        /// When more requests wait, the cancelled ones are removed.
        var sweep = 256

        mutating func add(_ transfer: OriginTransfer, _ request: URLRequest) {
            waiting.append((transfer, request))
            guard waiting.count > sweep else { return }
            waiting.removeAll { $0.0.body == nil }
            sweep = max(256, 2 * waiting.count)
        }
    }

    private let lines = Lock<[String: Line]>([:])
    private let model: URLSession
    private let room: Int
    private let calls: DispatchQueue

    init(like model: URLSession, room: Int, on calls: DispatchQueue) {
        (self.model, self.room, self.calls) = (model, max(1, room), calls)
    }

    func begin(_ transfer: OriginTransfer, _ request: URLRequest) {
        let origin = request.url.map { TunnelRequest.origin(of: $0) } ?? ""
        let isNext = lines.withLock { lines in
            if lines[origin, default: Line()].running < room {
                lines[origin, default: Line()].running += 1
                return true
            }
            lines[origin]?.add(transfer, request)
            return false
        }
        if isNext { start(transfer, request, origin) }
    }

    private func start(_ transfer: OriginTransfer, _ request: URLRequest, _ origin: String) {
        let transfers = OriginTransfers(calls) { [self] in calls.async { self.next(origin) } }
        let session = URLSession(
            configuration: model.configuration,
            delegate: transfers,
            delegateQueue: model.delegateQueue
        )
        let hasBegun = transfers.begin(transfer, request, in: session)
        session.finishTasksAndInvalidate()
        if !hasBegun { next(origin) }
    }

    private func next(_ origin: String) {
        let next = lines.withLock { lines -> (OriginTransfer, URLRequest)? in
            while let (transfer, request) = lines[origin]?.waiting.popFirst() {
                if transfer.body != nil { return (transfer, request) }
            }
            lines[origin]?.running -= 1
            if lines[origin]?.running == 0 { lines[origin] = nil }
            return nil
        }
        if let (transfer, request) = next { start(transfer, request, origin) }
    }
}
