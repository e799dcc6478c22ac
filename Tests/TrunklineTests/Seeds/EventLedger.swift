import Trunkline

/// Checks the events of one client against each other and against its metrics: every request that was accepted ends
/// once, and nothing happens to it outside its life.
final class EventLedger: ClientObserver {
    let delivery = EventDelivery.onEventLoop

    fileprivate struct State {
        var open: Set<RequestID> = []
        var ended: Set<RequestID> = []
        var admissions: [RequestID: Int] = [:]
        var refused = 0
        var contradictions: [String] = []
    }

    private let state = Lock(State())

    func observe(_ events: [ClientEvent]) {
        state.withLock { state in
            for event in events { state.take(event) }
        }
    }

    func missed(_ count: Int) { state.withLock { $0.contradictions.append("\(count) events were missed") } }

    /// What is wrong at the end of the client, whose metrics are `metrics`.
    func contradictions(with metrics: ClientMetrics) -> [String] {
        state.withLock { state in
            var contradictions = state.contradictions
            func expect(_ name: String, _ count: Int, _ expected: Int) {
                if count != expected {
                    contradictions.append("\(count) events \(name), but the metrics say \(expected)")
                }
            }
            expect("accepted", state.open.count + state.ended.count, metrics.requests)
            expect("ended", state.ended.count, metrics.responses + metrics.written + metrics.failed)
            expect("refused", state.refused, metrics.refusals.values.reduce(0, +))
            return contradictions
        }
    }
}

extension EventLedger.State {
    fileprivate mutating func take(_ event: ClientEvent) {
        switch event.content {
        case .requestsAccepted(let requests):
            for request in requests {
                let isNew = open.insert(request.id).inserted && !ended.contains(request.id)
                if !isNew { contradictions.append("\(request.id) was accepted twice: \(event)") }
                if request.session != nil { admissions[request.id, default: 0] += 1 }
            }
        case .requestWaiting(let id, _), .requestFirstPart(let id), .requestRetrying(let id, _, _):
            if !open.contains(id) { contradictions.append("not alive: \(event)") }
        case .requestAdmitted(let id, _):
            if !open.contains(id) { contradictions.append("not alive: \(event)") }
            admissions[id, default: 0] += 1
        case .requestsWritten(let ids, _):
            for id in ids {
                // A server may answer before it has received the whole request, which is then written to its end.
                admissions[id, default: 0] -= 1
                if admissions[id, default: 0] < 0 { contradictions.append("\(id) was not admitted: \(event)") }
            }
        case .requestsAnswered(let requests):
            for request in requests {
                if open.remove(request.id) == nil { contradictions.append("\(request.id) is not alive: \(event)") }
                ended.insert(request.id)
            }
        case .messageWritten(let id, _), .requestFailed(let id, _, _):
            if open.remove(id) == nil { contradictions.append("not alive: \(event)") }
            ended.insert(id)
        case .lateResponse(let id): if !ended.contains(id) { contradictions.append("not ended: \(event)") }
        case .requestRefused: refused += 1
        case .stateChanged, .attemptPlanned, .linkReady, .linkDraining, .linkEnded, .limitReached, .limitCleared,
            .pushesDropped, .serverRequestsRefused, .serverRequestsDropped, .endpointsChanged, .clusterChanged,
            .tlsFilesChanged, .requestRejected, .responseInvalid, .clientClosed,
            .clientDeallocated, .addressFailed, .certificateSeen, .processOutput, .loopLate, .unknownResponse,
            .responseUndecodable, .datagramsDropped, .heartbeatIntervalChanged:
            break
        @unknown default: contradictions.append("unknown: \(event)")
        }
    }
}
