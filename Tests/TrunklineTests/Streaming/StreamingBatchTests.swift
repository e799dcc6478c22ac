import Synchronization
import Testing
import TrunklineTesting

@testable import Trunkline

/// Runs tasks on `base`, and notes something about each time a task continues.
private final class NotingExecutor: TaskExecutor {
    private let base: any TaskExecutor
    private let note: @Sendable () -> Int
    private let notes = Mutex<[Int]>([])

    init(on base: any TaskExecutor, noting note: @escaping @Sendable () -> Int) {
        (self.base, self.note) = (base, note)
    }

    var all: [Int] { notes.withLock { $0 } }

    func enqueue(_ job: consuming ExecutorJob) {
        let value = note()
        notes.withLock { $0.append(value) }
        base.enqueue(job)
    }
}

/// How often a reader of parts is resumed.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct StreamingBatchTests {
    /// Regression: the reader was resumed with the first part of a batch, while the others were still to come. On
    /// another thread it took that part and waited for the next one, thousands of times in a long reply.
    @Test(arguments: PartsCodec.bothMatchings)
    func aWaitingReaderIsResumedOnceForTheBatch(_ codec: PartsCodec) throws {
        try simulate(conditions: .wide, speaking: codec, handler: StreamingTests.count()) { service, client in
            let executor = NotingExecutor(on: service.network.executor) {
                client.assumeIsolated { $0.ledger.counters.parts }
            }
            let reader = Task(executorPreference: executor) { await words(of: client.stream(ask(100))) }
            #expect(await reader.value.count == 101)
            // Where it began, where it waited, and after the last part.
            #expect(executor.all.allSatisfy { $0 == 0 || $0 == 100 }, "\(executor.all)")
            #expect(executor.all.contains(100))
        }
    }
}
