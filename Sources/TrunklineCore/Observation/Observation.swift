/// Collects the events of one client, and delivers them at the end of each call of the client or its connection.
///
/// Unchecked `Sendable`: `events` is accessed only on the event loop of the client.
final class Observation: @unchecked Sendable {
    private struct Audience {
        let observer: any ClientObserver
        let interests: ClientEvent.Kinds
        let queue: EventQueue<ClientEvent>?
    }

    private let interests: ClientEvent.Kinds
    let wantsRequests: Bool
    let wantsSteps: Bool
    let log: (any AttachedObserver)?
    private let audiences: [Audience]
    let queues: [any DeliveryQueue]
    var queueMetrics: [String: ClientMetrics.EventQueueMetrics] {
        var metrics: [String: ClientMetrics.EventQueueMetrics] = [:]
        func add(_ name: String, _ queue: (any DeliveryQueue)?) {
            guard let queue else { return }
            metrics[name, default: ClientMetrics.EventQueueMetrics()].merge(queue.metrics)
        }
        for audience in audiences { add("\(type(of: audience.observer))", audience.queue) }
        if let log { add(log.name, log.deliveries) }
        add("recorder", recorder?.deliveries)
        return metrics
    }
    /// Whether a queue keeps the events of requests, so that their memory cannot be used again.
    private let queuesRequests: Bool
    /// Records every event except the most frequent ones.
    private let recorder: (any ClientRecorder)?
    private let interestsOfObservers: ClientEvent.Kinds
    private let loop: any EventLoop
    private let source: ClusterSource?
    private var events: [ClientEvent] = []
    private var spare = Spare()
    private var isDelivering = false

    init?(_ options: ClientOptions, of endpoints: [Endpoint], _ recorder: (any ClientRecorder)?, on loop: any EventLoop)
    {
        self.loop = loop
        self.recorder = recorder
        source = options.membership?.source
        log = options.loggingSettings?.makeObserver(of: endpoints, on: loop)
        let observers = options.observers + (log.map { [$0] } ?? [])
        audiences = observers.map { observer in
            let queue = observer.delivery.capacity.map { capacity in
                EventQueue<ClientEvent>(capacity: capacity, on: loop) { events, missed in
                    if !events.isEmpty { observer.observe(events) }
                    if missed > 0 { observer.missed(missed) }
                }
            }
            return Audience(observer: observer, interests: observer.interests, queue: queue)
        }
        queues =
            audiences.compactMap(\.queue) + (log.map { [$0.deliveries] } ?? [])
            + (recorder?.deliveries.map { [$0] } ?? [])
        queuesRequests = audiences.contains { $0.queue != nil && !$0.interests.isDisjoint(with: [.requests, .steps]) }
        let wanted: ClientEvent.Kinds = audiences.reduce(into: []) { $0.formUnion($1.interests) }
        interestsOfObservers = wanted
        interests = recorder == nil ? wanted : wanted.union(.all)
        (wantsRequests, wantsSteps) = (wanted.contains(.requests), wanted.contains(.steps))
        if interests.isEmpty { return nil }
    }

    func wants(_ kinds: ClientEvent.Kinds) -> Bool { !interests.isDisjoint(with: kinds) }

    /// The caller has checked that the event is wanted.
    @inline(__always)
    func add(_ content: consuming ClientEvent.Content, at now: Instant) {
        let event = ClientEvent(content, at: now, from: source)
        if let recorder { recorder.note(event) }
        if recorder == nil || !interestsOfObservers.isDisjoint(with: event.kinds) { events.append(event) }
    }

    func add(_ kind: ClientEvent.Kinds, _ content: @autoclosure () -> ClientEvent.Content) {
        if wants(kind) { add(content(), at: loop.now) }
    }

    func add(accepted requests: inout [ClientEvent.AcceptedRequest], at now: Instant) {
        add(.requestsAccepted(exchange(&requests, with: exchange(&spare.accepted, with: []))), at: now)
    }

    func add(answered requests: inout [ClientEvent.AnsweredRequest]) {
        add(.requestsAnswered(exchange(&requests, with: exchange(&spare.answered, with: []))), at: loop.now)
    }

    func add(written ids: [RequestID], on session: SessionID) {
        add(.requestsWritten(ids: ids, session: session), at: loop.now)
    }

    func spareIDs() -> [RequestID] { exchange(&spare.written, with: []) }

    @inline(__always)
    func deliver() { if !events.isEmpty, !isDelivering { deliverAll() } }

    @inline(never)
    private func deliverAll() {
        isDelivering = true
        // An observer may cause further events.
        while !events.isEmpty {
            var batch = exchange(&events, with: exchange(&spare.events, with: []))
            deliver(batch)
            reclaim(&batch)
        }
        isDelivering = false
    }

    private func deliver(_ batch: [ClientEvent]) {
        for audience in audiences {
            let isAll = audience.interests == interestsOfObservers
            let wanted = isAll ? batch : batch.filter { !audience.interests.isDisjoint(with: $0.kinds) }
            if wanted.isEmpty { continue }
            if let queue = audience.queue { queue.add(wanted) } else { audience.observer.observe(wanted) }
        }
    }

    /// If an observer keeps the events, memory of the same size is allocated.
    private func reclaim(_ batch: inout [ClientEvent]) {
        for event in batch {
            switch event.content {
            case .requestsAccepted(let requests): reclaim(requests, into: &spare.accepted)
            case .requestsAnswered(let requests): reclaim(requests, into: &spare.answered)
            case .requestsWritten(let ids, _): reclaim(ids, into: &spare.written)
            default: break
            }
        }
        spare.events = batch.isWorthKeeping ? exchange(&batch, with: []) : []
        batch = []
        spare.empty()
    }

    private func reclaim<Element>(_ list: [Element], into spare: inout [Element]) {
        if queuesRequests {
            // The next list will be about as long: one allocation instead of one for each doubling.
            spare = []
            spare.reserveCapacity(min(list.count, 1024))
        } else if list.isWorthKeeping {
            spare = list
        }
    }
}

extension Array {
    /// Whether the memory is not much more than the elements need.
    fileprivate var isWorthKeeping: Bool { capacity <= 8192 && capacity <= 4 * count + 64 }
}

extension Observation {
    private struct Spare {
        var events: [ClientEvent] = []
        var accepted: [ClientEvent.AcceptedRequest] = []
        var answered: [ClientEvent.AnsweredRequest] = []
        var written: [RequestID] = []

        mutating func empty() {
            // The events first: they hold the other arrays.
            events.removeAll(keepingCapacity: true)
            accepted.removeAll(keepingCapacity: true)
            answered.removeAll(keepingCapacity: true)
            written.removeAll(keepingCapacity: true)
        }
    }
}
