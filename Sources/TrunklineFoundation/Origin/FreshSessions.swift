import Foundation
import Trunkline

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Requests that must not go over a connection that was used before: each has a session of its own, which goes with it.
///
/// When a connection that was kept ends without an answer, libcurl, of which the URLSession of Linux is made, sends the request
/// once more by itself, whatever its method: an origin that had carried it out carries it out twice. And what has a body it
/// sends without that, since that cannot be read twice, and waits for the timeout. On a new connection it does neither.
///
/// So many at once to one origin; the others wait in order. Called on the queue of calls.
final class FreshSessions: Sendable {
    /// Those to one origin. There is none when there are none.
    private struct Line {
        var running = 0
        var waiting = Deque<(OriginTransfer, URLRequest)>()
        /// With more that wait, those that were given up are dropped.
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

    /// The place of one is the next one's.
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
