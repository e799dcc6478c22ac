import Synchronization
import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts

/// Tasks that wait: how they are resumed, one at a time and many at once.
///
/// One case at a time: two that block would take both threads of the pool.
@Suite(.tags(.realThreads), .serialized, .timeLimit(.minutes(5)))
struct ParkedTaskTests {}

extension ParkedTaskTests {
    /// Resumes continuations on a thread of its own, as soon as they are there.
    private final class Resumer: Sendable {
        private let waiting = Lock<[(Continuation<Int>, Int)]>([])
        private let isOver = Atomic(false)
        private let hasEnded = Atomic(false)

        init() {
            let code = startThread(named: "resumer") { self.run() }
            #expect(code == 0)
        }

        func resume(_ continuation: Continuation<Int>, returning value: Int) {
            waiting.withLock { $0.append((continuation, value)) }
        }

        func end() async {
            isOver.store(true, ordering: .releasing)
            while !hasEnded.load(ordering: .acquiring) { await Task.yield() }
        }

        private func run() {
            while !isOver.load(ordering: .acquiring) {
                for (continuation, value) in waiting.withLock({ exchange(&$0, with: []) }) {
                    continuation.resume(returning: value)
                }
                yieldProcessor()
            }
            hasEnded.store(true, ordering: .releasing)
        }
    }

    /// A resumption may come before, while and after the task parks.
    @Test func aResumptionIsNeverLost() async {
        let resumer = Resumer()
        await withTaskGroup(of: Void.self) { group in
            for task in 0..<4 {
                group.addTask {
                    for number in 0..<1_000 {
                        let value = await withContinuation { (continuation: Continuation<Int>) in
                            switch number % 8 {
                            case 0: continuation.resume(returning: number)
                            default: resumer.resume(continuation, returning: number)
                            }
                            for _ in 0..<(number % 5 + task) { yieldProcessor() }
                        }
                        if value != number { Issue.record("\(value) instead of \(number)") }
                    }
                }
            }
        }
        await resumer.end()
    }

    /// A task executor of the user: one thread.
    private final class OwnThread: TaskExecutor {
        private let jobs = Lock<[UnownedJob]>([])
        private let thread = Atomic<UInt>(0)
        private let isOver = Atomic(false)

        var isCurrent: Bool { thread.load(ordering: .relaxed) == currentThread() }

        init() {
            let code = startThread(named: "own thread") { self.run() }
            #expect(code == 0)
        }

        func enqueue(_ job: consuming ExecutorJob) {
            let job = UnownedJob(job)
            jobs.withLock { $0.append(job) }
        }

        func end() { isOver.store(true, ordering: .relaxed) }

        private func run() {
            thread.store(currentThread(), ordering: .relaxed)
            while !isOver.load(ordering: .relaxed) {
                for job in jobs.withLock({ exchange(&$0, with: []) }) {
                    unsafe job.runSynchronously(on: asUnownedTaskExecutor())
                }
                yieldProcessor()
            }
        }
    }

    @MainActor private static func callOnMainActor(_ call: @Sendable () async throws -> Void) async throws {
        try await call()
        MainActor.preconditionIsolated()
    }

    private final class Counter: Sendable { let value = Atomic(0) }

    /// Tasks with every kind of executor and priority, whose requests are answered together.
    @Test(arguments: Mechanism.allCases)
    func eachTaskResumesOnItsExecutor(mechanism: Mechanism) async throws {
        let count = 300
        let handler: LoopbackServer.Handler = { _ in .outOfOrder(window: count) }
        try await withServerAndClient(by: mechanism, handler: handler) { _, client in
            let own = OwnThread()
            defer { own.end() }
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<count {
                    let call: @Sendable () async throws -> Void = {
                        let body = try await client.send(ask(number)).body
                        #expect(body == ask(number).body)
                    }
                    switch number % 6 {
                    case 0: group.addTask { try await call() }
                    case 1: group.addTask(priority: .background) { try await call() }
                    case 2:
                        group.addTask(executorPreference: client.executor) {
                            try await call()
                            #expect(client.loop.isCurrent)
                        }
                    case 3:
                        group.addTask(executorPreference: own) {
                            #expect(own.isCurrent)
                            try await call()
                            #expect(own.isCurrent)
                        }
                    case 4: group.addTask { try await Self.callOnMainActor(call) }
                    default:
                        group.addTask {
                            try await call()
                            #expect(!client.loop.isCurrent && !own.isCurrent)
                        }
                    }
                }
                try await group.waitForAll()
            }
        }
    }

    /// The first of many callers that are resumed together blocks its thread until all others have continued.
    /// Another test that blocks a thread of the pool meanwhile could make both wait forever.
    @Test(
        .enabled(if: TestEnvironment.isAlone, "blocks a thread of the pool; needs TRUNKLINE_ALONE=1"),
        .enabled(if: processorCount() > 1, "needs two processors"),
        arguments: [2, 5, 100, 1000]
    )
    func aCallerThatBlocksHoldsUpNoOther(count: Int) async throws {
        let handler: LoopbackServer.Handler = { _ in .outOfOrder(window: count) }
        try await withServerAndClient(by: .epoll, handler: handler) { _, client in
            let resumed = Counter()
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<count {
                    group.addTask {
                        _ = try await client.send(ask(number))
                        if resumed.value.wrappingAdd(1, ordering: .relaxed).oldValue > 0 { return }
                        while resumed.value.load(ordering: .relaxed) < count { yieldProcessor() }
                    }
                }
                try await group.waitForAll()
            }
        }
    }

    /// What is resumed at the end of a turn is handed over before the loop sleeps: here nothing else would wake it.
    @Test(arguments: [1, 70]) func aWriteResumesItsCallerAtOnce(count: Int) async throws {
        try await withLoopbackServer(speaking: .standard, handler: { _ in .noReply }) { server in
            let options = ClientOptions {
                $0.liveness.interval = .seconds(3600)
                $0.requests.timeout = nil
            }
            let client = Client(
                to: server.endpoint,
                speaking: .standard,
                options: options,
                on: EventLoops(count: 1)
            )
            for number in 0..<20 {
                try await withThrowingDiscardingTaskGroup { group in
                    for _ in 0..<count { group.addTask { try await client.post(ask(number)) } }
                }
            }
            await client.close()
        }
    }

    /// Each caller waits, after its response, for the caller before it, whose response comes later.
    @Test func aCallerMayWaitForOneThatIsResumedLater() async throws {
        let count = 1000
        let handler: LoopbackServer.Handler = { _ in .outOfOrder(window: count) }
        try await withServerAndClient(by: .epoll, handler: handler) { _, client in
            var calls: [Task<Bytes, any Error>] = []
            for number in 0..<count {
                let previous = calls.last
                // Unstructured tasks, so that each can await another.
                calls.append(
                    Task {
                        let body = try await client.send(ask(number)).body
                        _ = try await previous?.value
                        return body
                    }
                )
            }
            for (number, call) in calls.enumerated() {
                let body = try await call.value
                #expect(body == ask(number).body)
            }
            #expect(await client.diagnostics.audit() == [])
        }
    }
}
