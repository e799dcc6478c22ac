import Foundation
import Testing
import Trunkline

/// Runs tests on two separate threads. A simulation occupies its thread until it is over. On a thread of the pool it
/// would delay the tests that run in real time.
struct OwnThreads: SuiteTrait, TestTrait, TestScoping {
    let isRecursive = true

    func provideScope(
        for test: Test,
        testCase: Test.Case?,
        performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        try await withTaskExecutorPreference(TwoThreads.shared) { try await function() }
    }
}

extension Trait where Self == OwnThreads {
    /// For suites that use a simulation.
    static var simulated: Self { OwnThreads() }
}

private final class TwoThreads: TaskExecutor {
    static let shared = TwoThreads()

    private let jobs = Lock<[UnownedJob]>([])
    private let count = DispatchSemaphore(value: 0)

    private init() {
        for _ in 0..<2 { Thread.detachNewThread { [self] in run() } }
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        jobs.withLock { $0.append(job) }
        count.signal()
    }

    private func run() {
        while true {
            count.wait()
            let job = jobs.withLock { $0.removeFirst() }
            unsafe job.runSynchronously(on: asUnownedTaskExecutor())
        }
    }
}
