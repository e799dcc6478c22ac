import Foundation
import TrunklineCore
import TrunklineIO

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Requests that must not go over a connection that was used before: each has a session of its own, which goes with it.
///
/// When a connection that was kept ends without an answer, libcurl, of which the URLSession of Linux is made, sends the request
/// once more by itself, whatever its method: an origin that had carried it out carries it out twice. And what has a body it
/// sends without that, since that cannot be read twice, and waits for the timeout. On a new connection it does neither.
///
/// So many at once; the others wait in order. Called on the queue of calls.
final class FreshSessions: Sendable {
    private struct State {
        var running = 0
        var waiting = Deque<(OriginTransfer, URLRequest)>()
        /// With more that wait, those that were given up are dropped.
        var sweep = 256
    }

    private let state = Lock(State())
    private let model: URLSession
    private let room: Int
    private let calls: DispatchQueue

    init(like model: URLSession, room: Int, on calls: DispatchQueue) {
        (self.model, self.room, self.calls) = (model, room, calls)
    }

    func begin(_ transfer: OriginTransfer, _ request: URLRequest) {
        let isNext = state.withLock { state in
            if state.running < room {
                state.running += 1
                return true
            }
            state.waiting.append((transfer, request))
            if state.waiting.count > state.sweep {
                state.waiting.removeAll { $0.0.body == nil }
                state.sweep = max(256, 2 * state.waiting.count)
            }
            return false
        }
        if isNext { start(transfer, request) }
    }

    private func start(_ transfer: OriginTransfer, _ request: URLRequest) {
        let transfers = OriginTransfers(calls) { [self] in calls.async { self.next() } }
        let session = URLSession(
            configuration: model.configuration,
            delegate: transfers,
            delegateQueue: model.delegateQueue
        )
        let hasBegun = transfers.begin(transfer, request, in: session)
        session.finishTasksAndInvalidate()
        if !hasBegun { next() }
    }

    /// Its place is the next one's.
    private func next() {
        let next = state.withLock { state -> (OriginTransfer, URLRequest)? in
            while let (transfer, request) = state.waiting.popFirst() {
                if transfer.body != nil { return (transfer, request) }
            }
            state.running -= 1
            return nil
        }
        if let (transfer, request) = next { start(transfer, request) }
    }
}
