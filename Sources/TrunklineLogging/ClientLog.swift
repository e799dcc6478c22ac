import TrunklineCore

/// Passes the events of one client to `LogRules` on the event loop, and the records to the user's closure in a task.
///
/// Unchecked `Sendable`: after the initializer, the mutable state is accessed only on the client's event loop.
final class ClientLog: AttachedObserver, TimerTarget, @unchecked Sendable {
    let interests: ClientEvent.Kinds = [.failures, .links, .limits, .pushes, .endpoints, .mismatches]
    let delivery = EventDelivery.onEventLoop

    private let loop: any EventLoop
    private let queue: EventQueue<LogRecord>
    var deliveries: any DeliveryQueue { queue }
    var name: String { "\(ClientLogging.self)" }
    private var rules: LogRules
    private var timer: LoopTimer?
    weak var client: (any ObservedClient)?

    private static let capacity = 1024

    init(_ logging: ClientLogging, of endpoints: [Endpoint], on loop: any EventLoop) {
        self.loop = loop
        rules = LogRules(logging, of: endpoints, at: loop.now)
        let (write, name) = (logging.write, logging.name)
        queue = EventQueue(capacity: Self.capacity, on: loop) { records, missed in
            for record in records { write(record) }
            if missed > 0 { write(.missing(missed, client: name, after: records.last)) }
        }
        deliver()
    }

    func observe(_ events: [ClientEvent]) {
        var isUrgent = false
        for event in events {
            rules.note(event)
            switch event.content {
            case .requestRejected, .responseInvalid, .unknownResponse, .responseUndecodable: break
            default: isUrgent = true
            }
        }
        // Lines about answers are written in the next turn, with others.
        if isUrgent {
            flush()
        } else {
            deliver()
            arm()
        }
    }

    func timerFired() { flush() }

    private func flush() {
        let now = loop.now
        rules.flush(at: now, rules.needsLoad(at: now) ? client?.load(at: now) : nil)
        deliver()
        arm()
    }

    private func arm() {
        let next = rules.nextFlush
        guard next != timer?.deadline else { return }
        let timer = timer ?? LoopTimer(target: self)
        self.timer = timer
        loop.arm(timer, at: next)
    }

    private func deliver() {
        let records = rules.takeRecords()
        if !records.isEmpty { queue.add(records.dated(by: loop)) }
    }
}
