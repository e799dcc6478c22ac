/// The events that one observer has not received yet, in a bounded queue.
///
/// While the queue is not empty, a task delivers its events. There is never more than one such task, so the observer
/// receives the events in order.
final class EventQueue: Sendable {
    fileprivate struct State {
        var events: [ClientEvent] = []
        /// The size of the events: a request in an event counts as an event.
        var size = 0
        /// The size of the events that did not fit after those in `events`.
        var missed = 0
        var isDelivering = false
    }

    private let state = Lock(State())
    private let observer: any ClientObserver
    private let capacity: Int
    private let loop: any EventLoop

    init(for observer: any ClientObserver, capacity: Int, on loop: any EventLoop) {
        self.observer = observer
        self.capacity = capacity
        self.loop = loop
    }

    /// Adds events as far as there is room, and counts the others.
    func add(_ events: [ClientEvent]) {
        let begins = state.withLock { state in
            for event in events { state.add(event, capacity: capacity) }
            return !exchange(&state.isDelivering, with: true)
        }
        guard begins else { return }
        // It ends when the queue is empty, and keeps the queue alive until then, also after the client. Detached: the
        // caller's task-local values and priority are not those of the events.
        Task.detached(executorPreference: loop.callbackExecutor) { self.deliver() }
    }

    private func deliver() {
        while let (events, missed) = next() {
            if !events.isEmpty { observer.observe(events) }
            if missed > 0 { observer.missed(missed) }
        }
    }

    /// Takes everything from the queue. `nil` if there is nothing, in which case this delivery has ended.
    private func next() -> (events: [ClientEvent], missed: Int)? {
        state.withLock { state in
            let next = (exchange(&state.events, with: []), exchange(&state.missed, with: 0))
            state.size = 0
            if next.0.isEmpty, next.1 == 0 {
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
    fileprivate mutating func add(_ event: ClientEvent, capacity: Int) {
        let fits = missed == 0 && (events.isEmpty || size + event.size <= capacity)
        if fits { events.append(event) }
        if fits { size += event.size } else { missed += event.size }
    }
}

extension ClientEvent {
    /// The number of requests in the event, or 1.
    fileprivate var size: Int {
        switch content {
        case .requestsAccepted(let requests): requests.count
        case .requestsAnswered(let requests): requests.count
        case .requestsWritten(let ids, _): ids.count
        default: 1
        }
    }
}
