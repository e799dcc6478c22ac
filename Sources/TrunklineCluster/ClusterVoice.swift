import TrunklineCore
import TrunklineLogging

/// The observers and the log of a cluster, to which its clients report, too.
///
/// Unchecked `Sendable`: `timer` is used only on the event loop of the cluster, after the initializer.
final class ClusterVoice: TimerTarget, @unchecked Sendable {
    private let loop: any EventLoop
    private let observers: [SharedObserver]
    private let rules: Lock<ClusterLogRules>?
    private let records: EventQueue<LogRecord>?
    private lazy var timer = LoopTimer(target: self)

    private static let capacity = 1024

    init(_ options: ClientOptions, _ discovery: String, on loop: any EventLoop) {
        self.loop = loop
        observers = options.observers.map { SharedObserver($0, on: loop) }
        rules = options.logging.map { Lock(ClusterLogRules($0, discovery, at: loop.now)) }
        records = options.logging.map { logging in
            EventQueue(capacity: Self.capacity, on: loop) { records, missed in
                for record in records { logging.write(record) }
                if missed > 0 { logging.write(.missing(missed, client: logging.name, after: records.last)) }
            }
        }
        log { _ in }
    }

    var clientObservers: [any ClientObserver] { observers }

    func logging(_ logging: ClientLogging?, of endpoint: Endpoint) -> ClientLogging? {
        guard let logging else { return nil }
        var own = ClientLogging(level: logging.level, name: logging.name) { [weak self] record in
            guard let self else { return }
            log { $0.note(record, of: endpoint, at: self.loop.now) }
        }
        (own.summaryInterval, own.isOfCluster) = (logging.summaryInterval, true)
        (own.certificateWarning, own.certificateError) = (logging.certificateWarning, logging.certificateError)
        return own
    }

    func tell(_ change: ClusterChange) {
        let event = ClientEvent(.clusterChanged(change), at: loop.now)
        for observer in observers where observer.interests.contains(event.kind) { observer.observe([event]) }
        log { $0.note(change, at: event.instant) }
    }

    /// What the clients know, they have told.
    func callFailed(_ error: ClientError, wasPlaced: Bool, count: Int) {
        if !wasPlaced {
            let event = ClientEvent(.requestRefused(error), at: loop.now)
            for observer in observers where !observer.interests.isDisjoint(with: event.kinds) {
                observer.observe(Array(repeating: event, count: count))
            }
        }
        let now = loop.now
        log { rules in for _ in 0..<count { rules.callFailed(error, at: now) } }
    }

    func responseUndecodable(_ error: ClientError) {
        let event = ClientEvent(.responseUndecodable(error), at: loop.now)
        for observer in observers where !observer.interests.isDisjoint(with: event.kinds) { observer.observe([event]) }
        log { $0.responseUndecodable(error, at: event.instant) }
    }

    func deallocated() {
        let now = loop.now
        log { $0.deallocate(at: now) }
    }

    func close(_ metrics: Cluster.Metrics) {
        let now = loop.now
        log { $0.close(metrics, at: now) }
    }

    var queueMetrics: [String: ClientMetrics.EventQueueMetrics] {
        var metrics: [String: ClientMetrics.EventQueueMetrics] = [:]
        for observer in observers {
            guard let queue = observer.queue else { continue }
            metrics[observer.name, default: ClientMetrics.EventQueueMetrics()].merge(queue.metrics)
        }
        if let records { metrics["\(ClientLogging.self)"] = records.metrics }
        return metrics
    }

    var queues: [any DeliveryQueue] { observers.compactMap(\.queue) + (records.map { [$0] } ?? []) }

    private func log(_ change: (inout ClusterLogRules) -> Void) {
        guard let rules, let records else { return }
        let now = loop.now
        let (lines, isArmed) = rules.withLock { rules in
            let before = rules.nextFlush
            change(&rules)
            if let next = rules.nextFlush, next <= now { rules.flush(at: now) }
            return (rules.takeRecords(), rules.nextFlush == before)
        }
        if !lines.isEmpty { records.add(lines.dated(by: loop)) }
        if !isArmed { loop.schedule(LoopClosure { [weak self] in self?.arm() }) }
    }

    private func arm() { loop.arm(timer, at: rules?.withLock { $0.nextFlush }) }

    func timerFired() {
        log { _ in }
        arm()
    }
}

/// An observer of a cluster: receives the events of all clients, one call at a time.
final class SharedObserver: ClientObserver {
    private let observer: any ClientObserver
    let interests: ClientEvent.Kinds
    let delivery = EventDelivery.onEventLoop
    var name: String { "\(type(of: observer))" }
    let queue: EventQueue<ClientEvent>?
    private let turn = Lock<Void>(())

    init(_ observer: any ClientObserver, on loop: any EventLoop) {
        (self.observer, interests) = (observer, observer.interests)
        queue = observer.delivery.capacity.map { capacity in
            EventQueue(capacity: capacity, on: loop) { events, missed in
                if !events.isEmpty { observer.observe(events) }
                if missed > 0 { observer.missed(missed) }
            }
        }
    }

    func observe(_ events: [ClientEvent]) {
        if let queue { queue.add(events) } else { turn.withLock { _ in observer.observe(events) } }
    }
}
