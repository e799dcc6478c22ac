import Synchronization
import Trunkline

/// Counts every event, on the event loop.
final class CountingObserver: ClientObserver {
    let delivery = EventDelivery.onEventLoop
    private let accepted = Atomic<Int>(0)
    private let answered = Atomic<Int>(0)
    private let others = Atomic<Int>(0)

    func observe(_ events: [ClientEvent]) {
        for event in events {
            switch event.content {
            case .requestsAccepted(let requests): accepted.wrappingAdd(requests.count, ordering: .relaxed)
            case .requestsAnswered(let requests): answered.wrappingAdd(requests.count, ordering: .relaxed)
            default: others.wrappingAdd(1, ordering: .relaxed)
            }
        }
    }
}
