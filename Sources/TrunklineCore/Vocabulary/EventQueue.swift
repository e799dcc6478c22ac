/// The events, log records or dumps that one receiver has not received yet, in a bounded queue. While it is not empty,
/// one task delivers them, in order.
package final class EventQueue<Event: Sizable & Sendable>: DeliveryQueue {
    fileprivate struct State {
        var events: [Event] = []
        /// A request in an event counts as an event.
        var size = 0
        var missed = 0
        var missedInAll = 0
        var isDelivering = false
        var completions: [@Sendable () -> Void] = []
    }

    private let state = Lock(State())
    private let capacity: Int
    private let loop: any EventLoop
    private let receive: @Sendable ([Event], Int) -> Void

    package init(capacity: Int, on loop: any EventLoop, _ receive: @escaping @Sendable ([Event], Int) -> Void) {
        self.capacity = capacity
        self.loop = loop
        self.receive = receive
    }

    /// The latest event may still be on its way to the receiver.
    package var isEmpty: Bool { state.withLock { $0.events.isEmpty } }

    package var metrics: ClientMetrics.EventQueueMetrics {
        var metrics = ClientMetrics.EventQueueMetrics()
        metrics.capacity = capacity
        (metrics.waiting, metrics.missed) = state.withLock { ($0.size, $0.missedInAll) }
        return metrics
    }

    package func add(_ events: [Event]) {
        let begins = state.withLock { state in
            for event in events { state.add(event, capacity: capacity) }
            return !exchange(&state.isDelivering, with: true)
        }
        if begins { startDelivery() }
    }

    package func afterDelivery(_ completion: @escaping @Sendable () -> Void) {
        let isIdle = state.withLock { state in
            if state.isDelivering { state.completions.append(completion) }
            return !state.isDelivering
        }
        if isIdle { completion() }
    }

    private func startDelivery() {
        // It ends when the queue is empty, and keeps the queue alive until then, also after the client. Detached: the
        // caller's task-local values and priority are not those of the events.
        Task.detached(executorPreference: loop.callbackExecutor) { self.deliver() }
    }

    private func deliver() {
        while let (events, missed, completions) = next() {
            if !events.isEmpty || missed > 0 { receive(events, missed) }
            for completion in completions { completion() }
        }
    }

    private func next() -> (events: [Event], missed: Int, completions: [@Sendable () -> Void])? {
        state.withLock { state in
            let next = (
                exchange(&state.events, with: []), exchange(&state.missed, with: 0),
                exchange(&state.completions, with: [])
            )
            state.size = 0
            if next.0.isEmpty, next.1 == 0, next.2.isEmpty {
                state.isDelivering = false
                return nil
            }
            return next
        }
    }
}

extension EventQueue.State {
    /// After a gap nothing is added until the observer has been told about it. An empty queue takes an event of any
    /// size.
    fileprivate mutating func add(_ event: Event, capacity: Int) {
        let fits = missed == 0 && (events.isEmpty || size + event.size <= capacity)
        if fits { events.append(event) }
        if fits {
            size += event.size
        } else {
            missed += event.size
            missedInAll += event.size
        }
    }
}

package protocol DeliveryQueue: Sendable {
    var metrics: ClientMetrics.EventQueueMetrics { get }

    /// At once if no delivery is under way, otherwise in the task that delivers.
    func afterDelivery(_ completion: @escaping @Sendable () -> Void)
}

package protocol Sizable {
    var size: Int { get }
}

extension ClientEvent: Sizable {
    package var size: Int {
        switch content {
        case .requestsAccepted(let requests): requests.count
        case .requestsAnswered(let requests): requests.count
        case .requestsWritten(let ids, _): ids.count
        default: 1
        }
    }
}
