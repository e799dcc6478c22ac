import Synchronization
import Testing
import TrunklineTesting

@testable import TrunklineCore

/// Runs each piece of a task at once, where it is resumed, and counts them.
private final class InlineExecutor: TaskExecutor {
    private let pieces = Atomic<Int>(0)

    var count: Int { pieces.load(ordering: .relaxed) }

    func enqueue(_ job: consuming ExecutorJob) {
        pieces.wrappingAdd(1, ordering: .relaxed)
        unsafe UnownedJob(job).runSynchronously(on: asUnownedTaskExecutor())
    }
}

/// How often a reader of parts is resumed.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct StreamingBatchTests {}

extension StreamingBatchTests {
    /// Regression: the reader was resumed with the first part of a batch, while the others were still to come. On
    /// another thread it took that part and waited for the next one, thousands of times in a long reply.
    @Test(arguments: PartsCodec.bothMatchings)
    func aWaitingReaderIsResumedOnceForTheBatch(_ codec: PartsCodec) throws {
        try simulate(conditions: .wide, speaking: codec, handler: StreamingTests.count()) { service, client in
            let executor = InlineExecutor()
            let reader = Task(executorPreference: executor) { await words(of: client.stream(ask(100))) }
            #expect(await reader.value.count == 101)
            // Where it began, where it waited, and perhaps after the last part.
            #expect((2...3).contains(executor.count), "\(executor.count) pieces")
        }
    }
}
