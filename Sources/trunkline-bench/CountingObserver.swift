import Synchronization
import Trunkline

final class CountingObserver: ClientObserver {
    let interests: ClientEvent.Kinds
    let delivery: EventDelivery
    private let accepted = Atomic<Int>(0)
    private let answered = Atomic<Int>(0)
    private let others = Atomic<Int>(0)

    init(_ interests: ClientEvent.Kinds = .all, delivery: EventDelivery = .onEventLoop) {
        (self.interests, self.delivery) = (interests, delivery)
    }

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
