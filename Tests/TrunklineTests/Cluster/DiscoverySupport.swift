import TrunklineTesting

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO

/// A discovery that runs, and what it reports.
final class RunningDiscovery: Sendable {
    enum Report: Sendable {
        case found([ClusterEndpoint])
        case failed(any Error)
        case answersRotate(Int, of: Int)
    }

    let alarm: Alarm
    private let loop: any EventLoop
    private let state = Lock((reports: [(time: Duration, report: Report)](), isOver: false))
    private let task: Lock<Task<Void, Never>?> = Lock(nil)

    init(_ discovery: Discovery, on loop: any EventLoop) {
        (self.loop, alarm) = (loop, Alarm(on: loop))
        let receiver = DiscoveryReceiver(loop: loop, alarm: alarm) { [weak self] in
            self?.add(.found($0))
        } failed: { [weak self] in
            self?.add(.failed($0))
        } answersRotate: { [weak self] in
            self?.add(.answersRotate($0, of: $1))
        }
        let task = Task(executorPreference: loop.taskExecutor) { [weak self] in
            do { try await discovery.run(receiver) } catch { self?.add(.failed(error)) }
            self?.state.withLock { $0.isOver = true }
        }
        self.task.withLock { $0 = task }
    }

    private func add(_ report: Report) {
        let time = Duration.nanoseconds(loop.now.nanoseconds)
        state.withLock { $0.reports.append((time, report)) }
    }

    var isOver: Bool { state.withLock { $0.isOver } }
    /// When each report came.
    var times: [Duration] { state.withLock { $0.reports.map(\.time) } }
    var count: Int { times.count }

    var lists: [[ClusterEndpoint]] {
        state.withLock { $0.reports.compactMap { if case .found(let list) = $0.report { list } else { nil } } }
    }

    var errors: [any Error] {
        state.withLock { $0.reports.compactMap { if case .failed(let error) = $0.report { error } else { nil } } }
    }

    /// The number of servers in the answer with which the answers began to rotate, and of those that were known, each
    /// time.
    var rotations: [[Int]] {
        state.withLock {
            $0.reports.compactMap {
                if case .answersRotate(let count, let known) = $0.report { [count, known] } else { nil }
            }
        }
    }

    /// The endpoints of the latest list.
    var latest: [String] { lists.last.map { $0.map { "\($0.endpoint)" } } ?? [] }

    func cancel() { task.withLock { $0?.cancel() } }
}

extension ClosedRange<Duration> {
    /// The range of an interval with its random part of 20 %.
    static func about(_ seconds: Int) -> ClosedRange<Duration> {
        .milliseconds(800 * seconds)...(.milliseconds(1200 * seconds))
    }
}
