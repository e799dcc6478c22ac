import Synchronization
import Testing
import TrunklineTesting

@testable import Trunkline

/// The tasks of the callers: on which executor they resume, and how their cancellation handlers are nested.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct CallerTests {
    private struct NoInterceptor: ClientInterceptor {
        func intercept(_ call: inout ClientCall) throws(ClientError) -> Completion? { nil }
    }

    /// Makes calls of every form that suspends, and checks after each one that it is still on its executor.
    private actor Caller {
        func calls(_ client: Client) async throws {
            #expect(try await client.send(ask("a")).body == "a")
            preconditionIsolated()
            let recorder = TimelineRecorder()
            #expect(try await client.send(ask("b"), options: CallOptions(recorder: recorder)).body == "b")
            preconditionIsolated()
            #expect(recorder.timelines.count == 1)
            try await client.post(ask("c"))
            preconditionIsolated()
            #expect(await client.send(all: [ask("d"), ask("e")]).compactMap { try? $0.get().body } == ["d", "e"])
            preconditionIsolated()
            #expect(try await client.start(ask("f")).value.body == "f")
            preconditionIsolated()
            for try await part in client.stream(ask("g")) {
                #expect(part.body == "g")
                preconditionIsolated()
            }
        }
    }

    @Test(arguments: [false, true])
    func aCallResumesOnTheExecutorOfItsCaller(isIntercepted: Bool) async throws {
        var options = ClientOptions()
        if isIntercepted { options.interceptors = [NoInterceptor()] }
        try await withServerAndClient(by: .epoll, clientOptions: options) { _, client in
            try await Caller().calls(client)
            try await Task { @MainActor in
                try await expectEcho("m", by: client)
                MainActor.preconditionIsolated()
                #expect(await client.send(all: [ask("n")]).count == 1)
                MainActor.preconditionIsolated()
            }.value
            try await Task(executorPreference: client.executor) { try await Caller().calls(client) }.value
        }
    }

    private final class Calls: Sendable { let count = Atomic(0) }

    private enum Local { @TaskLocal static var depth = 0 }

    /// Every handler of a task is called once, with the requests of other tasks, and of later calls, left alone.
    @Test func cancellationHandlersAreNested() async throws {
        try await withServerAndClient(by: .epoll, handler: { $0.body == "wait" ? .noReply : .echo }) { server, client in
            let (outer, inner) = (Calls(), Calls())
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<100 {
                    group.addTask {
                        try await withTaskCancellationHandler {
                            try await Local.$depth.withValue(1) {
                                try await expectEcho("before", by: client)
                                let error = await withTaskCancellationHandler {
                                    await Local.$depth.withValue(2) {
                                        await #expect(throws: ClientError.self) { try await client.send(ask("wait")) }
                                    }
                                } onCancel: {
                                    inner.count.wrappingAdd(1, ordering: .relaxed)
                                }
                                #expect(error?.code == .cancelled && Local.depth == 1)
                                // A task that is cancelled sends nothing more.
                                let later = await #expect(throws: ClientError.self) {
                                    try await client.send(ask("later"))
                                }
                                #expect(later?.code == .cancelled && later?.fate == .notSent)
                            }
                        } onCancel: {
                            outer.count.wrappingAdd(1, ordering: .relaxed)
                        }
                    }
                }
                while await server.received.count(where: { $0.body == "wait" }) < 100 { await moment() }
                group.cancelAll()
                try await group.waitForAll()
            }
            #expect(outer.count.load(ordering: .relaxed) == 100 && inner.count.load(ordering: .relaxed) == 100)
            #expect(await server.received.allSatisfy { $0.body != "later" })
            #expect(try await client.send(ask("after")).body == "after")
            #expect(await client.diagnostics.audit() == [])
        }
    }
}
