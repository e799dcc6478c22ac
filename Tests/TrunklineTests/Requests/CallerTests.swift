import Synchronization
import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLoopback

/// The tasks of the callers: on which executor they resume, and how their cancellation handlers are nested.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct CallerTests {}

extension CallerTests {
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

    /// Every handler of a cancelled task is called once, and requests of other tasks go on.
    @Test func cancellationHandlersAreNested() async throws {
        let count = 99
        let handler: LoopbackServer.Handler = { request in
            switch request.body {
            case "wait": .noReply
            case "before": .echo
            default: .outOfOrder(window: count + 1)  // held until the last request has come
            }
        }
        try await withServerAndClient(by: .epoll, handler: handler) { server, client in
            async let kept = withTaskGroup(of: Bool.self) { group in
                for number in 0..<count {
                    group.addTask { (try? await client.send(ask(number)).body) == ask(number).body }
                }
                return await group.reduce(true) { $0 && $1 }
            }
            let (outer, inner) = (Calls(), Calls())
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<count {
                    group.addTask {
                        try await withTaskCancellationHandler {
                            try await Local.$depth.withValue(1) {
                                try await expectEcho("before", by: client)
                                let error = await withTaskCancellationHandler {
                                    await Local.$depth.withValue(2) { await Self.wait(client, inForm: number % 3) }
                                } onCancel: {
                                    inner.count.wrappingAdd(1, ordering: .relaxed)
                                }
                                #expect(error?.code == .cancelled && Local.depth == 1)
                                let later = await failure { () throws(ClientError) in
                                    try await client.send(ask("later"))
                                }
                                #expect(later?.code == .cancelled && later?.fate == .notSent)
                            }
                        } onCancel: {
                            outer.count.wrappingAdd(1, ordering: .relaxed)
                        }
                    }
                }
                try await server.waitForRequests(3 * count, within: patience)
                group.cancelAll()
                try await group.waitForAll()
            }
            #expect(outer.count.load(ordering: .relaxed) == count && inner.count.load(ordering: .relaxed) == count)
            #expect(await server.received.allSatisfy { $0.body != "later" })
            try await expectEcho("last", by: client)
            #expect(await kept)
            #expect(await client.diagnostics.audit() == [])
        }
    }

    /// Waits for a response in one of three ways, and returns the error.
    private static func wait(_ client: Client, inForm form: Int) async -> ClientError? {
        await failure { () throws(ClientError) in
            switch form {
            case 0: _ = try await client.send(ask("wait"))
            case 1: _ = try await client.start(ask("wait")).value
            default:
                var parts = client.stream(ask("wait")).makeAsyncIterator()
                _ = try await parts.next(isolation: nil)
            }
        }
    }
}
