public import TrunklineCore
import TrunklineIO

/// Telling why attempts fail and links end.
extension Connection {
    /// How often links came and went.
    public struct Statistics: Sendable, Hashable {
        /// Attempts to connect that were begun.
        public var attempts = 0
        /// Attempts that failed.
        public var failedAttempts = 0
        /// Links that became ready.
        public var links = 0
        /// Links that became ready after another one.
        public var reconnects: Int { max(0, links - 1) }
        /// Pings sent.
        public var pings = 0
        /// How often each cause ended an attempt or a link.
        public var disconnects: [DisconnectCause: Int] = [:]

        /// The share of all ends that `cause` has, from 0 to 1.
        public func share(of cause: DisconnectCause) -> Double {
            let all = disconnects.values.reduce(0, +)
            return all == 0 ? 0 : Double(disconnects[cause] ?? 0) / Double(all)
        }
    }

    /// A report of every attempt that fails and every link that ends from now on, until the connection is closed. Each
    /// access is a stream of its own; a reader that falls more than 64 reports behind misses the oldest.
    public nonisolated var disconnects: AsyncStream<DisconnectReport> {
        stream(startingWith: { _ in nil }, { $1(&$0.disconnectReaders) })
    }

    /// Counts the end of an attempt or a link, and tells of it.
    func report(
        _ phase: DisconnectReport.Phase,
        _ cause: DisconnectCause,
        _ error: (any Error)?,
        _ server: (endpoint: Endpoint, session: UInt64, attempt: Int),
        lifetime: Duration = .zero,
        requestsLost: Int = 0,
        bytesUnsent: Int = 0
    ) {
        if phase != .ready && phase != .draining { statistics.failedAttempts += 1 }
        statistics.disconnects[cause, default: 0] += 1
        let report = DisconnectReport(
            endpoint: server.endpoint,
            phase: phase,
            endedBy: cause.party,
            cause: cause,
            error: error,
            session: server.session,
            attempt: server.attempt,
            lifetime: lifetime,
            requestsLost: requestsLost,
            bytesUnsent: bytesUnsent
        )
        guard cause.isAbnormal, let probe = options.diagnosis.probe else { return disconnectReaders.yield(report) }
        let networkProbe = NetworkProbe(report, of: self)
        networkProbes.append(networkProbe)
        networkProbe.begin(probe, timeout: options.diagnosis.probeTimeout, on: loop)
    }

    /// The connection is closed: there are no more reports. Those that wait for a probe come without its answer.
    func endReports() {
        for probe in networkProbes { probe.timerFired() }
        disconnectReaders.finish()
    }

    fileprivate func publish(_ report: DisconnectReport, of probe: NetworkProbe) {
        networkProbes.removeAll { $0 === probe }
        disconnectReaders.yield(report)
    }
}

/// A report that waits for the user's probe.
///
/// Sendable although it is not checked: `isDone`, `timer` and `task` are touched on the connection's loop only.
final class NetworkProbe: TimerTarget, @unchecked Sendable {
    private let report: DisconnectReport
    private weak let connection: Connection?
    private var isDone = false
    private var timer: LoopTimer?
    private var task: Task<Void, Never>?

    init(_ report: DisconnectReport, of connection: Connection) {
        self.report = report
        self.connection = connection
    }

    func begin(
        _ probe: @escaping @Sendable (DisconnectReport) async -> Bool,
        timeout: Duration,
        on loop: any EventLoop
    ) {
        let timer = LoopTimer(target: self)
        self.timer = timer
        loop.arm(timer, at: loop.now.advanced(by: timeout))
        let report = report
        // Not structured: nobody may wait for the user's probe. It is cancelled at its timeout and keeps nothing alive
        // but this object.
        task = Task(executorPreference: loop.callbackExecutor) {
            let isUp = await probe(report)
            loop.schedule(Completion { self.finish(isUp) })
        }
    }

    func timerFired() {
        task?.cancel()
        finish(nil)
    }

    private func finish(_ isUp: Bool?) {
        guard !isDone else { return }
        isDone = true
        task = nil
        if let timer { connection?.loop.arm(timer, at: nil) }
        timer = nil
        var report = report
        report.isNetworkUp = isUp
        connection?.assumeIsolated { $0.publish(report, of: self) }
    }
}
