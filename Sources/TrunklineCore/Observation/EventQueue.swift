/// The events, log records or dumps that one receiver has not received yet, in a bounded queue.
///
/// While the queue is not empty, a task delivers its events. There is never more than one such task, so the receiver
/// gets the events in order.
package final class EventQueue<Event: Sizable & Sendable>: DeliveryQueue {
    fileprivate struct State {
        var events: [Event] = []
        /// The size of the events: a request in an event counts as an event.
        var size = 0
        /// The size of the events that did not fit after those in `events`.
        var missed = 0
        /// The size of all events that did not fit.
        var missedInAll = 0
        var isDelivering = false
        /// To be called when everything is delivered.
        var completions: [@Sendable () -> Void] = []
    }

    private let state = Lock(State())
    private let capacity: Int
    private let loop: any EventLoop
    /// Receives events, and the size of those that are missing after them.
    private let receive: @Sendable ([Event], Int) -> Void

    package init(capacity: Int, on loop: any EventLoop, _ receive: @escaping @Sendable ([Event], Int) -> Void) {
        self.capacity = capacity
        self.loop = loop
        self.receive = receive
    }

    /// Whether no event waits. The latest one may still be on its way to the receiver.
    package var isEmpty: Bool { state.withLock { $0.events.isEmpty } }

    package var metrics: Client.Metrics.EventQueueMetrics {
        var metrics = Client.Metrics.EventQueueMetrics()
        metrics.capacity = capacity
        (metrics.waiting, metrics.missed) = state.withLock { ($0.size, $0.missedInAll) }
        return metrics
    }

    /// Adds events as far as there is room, and counts the others.
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

    /// Takes everything from the queue. `nil` if there is nothing, in which case this delivery has ended.
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
    /// Adds an event, or counts it as missed if it does not fit. After a gap nothing is added until the observer has been
    /// told about it. An empty queue takes an event of any size.
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

/// An `EventQueue` of any element.
package protocol DeliveryQueue: Sendable {
    /// What waits, and what was missed.
    var metrics: Client.Metrics.EventQueueMetrics { get }

    /// Calls `completion` when everything that is in the queue now has been delivered: at once if no delivery is under
    /// way, otherwise in the task that delivers.
    func afterDelivery(_ completion: @escaping @Sendable () -> Void)
}

/// An element of an `EventQueue`.
package protocol Sizable {
    /// What the element counts against the capacity.
    var size: Int { get }
}

extension ClientEvent: Sizable {
    /// The number of requests in the event, or 1.
    package var size: Int {
        switch content {
        case .requestsAccepted(let requests): requests.count
        case .requestsAnswered(let requests): requests.count
        case .requestsWritten(let ids, _): ids.count
        default: 1
        }
    }
}
