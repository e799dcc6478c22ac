/// Writes the log of one client: passes its events to `LogRules` on the event loop, and the records to the closure of
/// `ClientLogging` in a task.
///
/// A timer is armed only while something that was counted waits for its summary.
///
/// Unchecked `Sendable`: the properties that change are accessed only on the event loop of the client, after the
/// initializer.
final class ClientLog: ClientObserver, TimerTarget, @unchecked Sendable {
    let interests: ClientEvent.Kinds = [.failures, .links, .limits, .pushes, .endpoints]
    let delivery = EventDelivery.onEventLoop

    private let loop: any EventLoop
    let queue: EventQueue<LogRecord>
    private var rules: LogRules
    private var timer: LoopTimer?
    /// The versions of the TLS files in the latest line about them.
    private var seenVersions: [FileVersion?] = []
    /// The client, for what is known about its requests when a limit is reached.
    weak var client: Client?

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

    // MARK: Facts

    func observe(_ events: [ClientEvent]) {
        for event in events { rules.note(event) }
        flush()
    }

    /// Notes that a link is about to be ready.
    func willBeReady(_ ready: LinkLog.Ready) { rules.note(ready) }

    /// Notes the endpoint of the attempt that follows the wait that is about to be told.
    func willTry(_ endpoint: Endpoint?) { rules.noteNextEndpoint(endpoint) }

    /// Notes the versions of the files of `options.tls`, which differ from those of the present link.
    func saw(_ versions: [FileVersion?]) {
        guard versions != seenVersions else { return }
        seenVersions = versions
        rules.noteChangedFiles(at: loop.now)
        deliver()
    }

    /// Notes an error response. Its line is written in the next turn, with others.
    func rejected(type: UInt32, status: UInt32) {
        rules.noteRejected(type: type, status: status)
        arm()
    }

    /// Writes the last line of a client that was closed.
    func close(_ metrics: Client.Metrics) {
        rules.close(metrics, at: loop.now)
        end()
    }

    /// Writes the last line of a client that was deallocated, with `pending` requests that had not ended.
    func deallocate(pending: Int) {
        rules.deallocate(pending: pending, at: loop.now)
        end()
    }

    // MARK: Writing

    func timerFired() { flush() }

    private func flush() {
        let now = loop.now
        rules.flush(at: now, rules.needsLoad(at: now) ? client?.load(at: now) : nil)
        deliver()
        arm()
    }

    private func end() {
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
        if !records.isEmpty { queue.add(records) }
    }
}
