/// Only one probe runs at a time: its result also applies to attempts and links that end meanwhile. Unchecked Sendable:
/// its fields are accessed only on the connection's loop.
final class NetworkProbe: TimerTarget, @unchecked Sendable {
    private var reports: [DisconnectReport] = []
    private weak let owner: LinkReports?
    private let loop: any EventLoop
    private let probe: @Sendable (DisconnectReport) async -> Bool
    private let timeout: Duration
    private lazy var timer = LoopTimer(target: self)
    private var task: Task<Void, Never>?

    init(
        _ owner: LinkReports,
        _ probe: @escaping @Sendable (DisconnectReport) async -> Bool,
        timeout: Duration,
        on loop: any EventLoop
    ) {
        (self.owner, self.loop) = (owner, loop)
        (self.probe, self.timeout) = (probe, timeout)
    }

    /// The first report starts the probe. Beyond 64 the oldest are discarded, as for slow readers.
    func add(_ report: DisconnectReport) {
        reports.append(report)
        if reports.count > 64 { reports.removeFirst() }
        guard task == nil else { return }
        loop.arm(timer, at: loop.now.advanced(by: timeout))
        // Unstructured: no caller waits for the probe. It is cancelled at its timeout and keeps only this object alive.
        task = Task(executorPreference: loop.callbackExecutor) { [loop, probe] in
            let isUp = await probe(report)
            loop.schedule(LoopClosure { self.finish(isUp) })
        }
    }

    func stop() -> [DisconnectReport] { takeReports(nil) ?? [] }

    func timerFired() { finish(nil) }

    private func finish(_ isUp: Bool?) {
        guard let reports = takeReports(isUp) else { return }
        owner?.probeEnded(reports)
    }

    private func takeReports(_ isUp: Bool?) -> [DisconnectReport]? {
        guard let task else { return nil }
        task.cancel()
        self.task = nil
        loop.arm(timer, at: nil)
        return exchange(&reports, with: []).map { report in
            var report = report
            if report.cause.isAbnormal { report.isNetworkUp = isUp }
            return report
        }
    }
}
