import Testing
import TrunklineTesting

@testable import TrunklineCache
@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLoopback

/// Cached responses and coalesced requests over real TCP, with callers on real threads.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct CacheLoopbackTests {}

extension CacheLoopbackTests {
    @Test(arguments: Mechanism.allCases)
    func concurrentCallersShareOneRequest(_ mechanism: Mechanism) async throws {
        let count = 500
        try await withServerAndClient(by: mechanism, handler: { _ in .outOfOrder(window: 1000) }) { server, client in
            let cached = CachingSender(client)
            let ends = try await withThrowingTaskGroup(of: String.self) { group in
                for _ in 0..<count {
                    group.addTask { await cached.text("a", .for(.seconds(3600)), timeout: .seconds(600)) }
                }
                while cached.metrics.shares < count - 1 { await moment() }
                try await server.waitForRequests(1, within: patience)
                await server.releaseHeld()
                return try await group.reduce(into: [:]) { $0[$1, default: 0] += 1 }
            }
            #expect(ends == ["a": count])
            #expect(await cached.text("a", .for(.seconds(3600))) == "a")
            #expect(await server.journal.requestCount == 1)
            #expect(cached.metrics.hits == 1)
        }
    }

    @Test(arguments: Mechanism.allCases)
    func theCancelFrameIsSentWhenTheLastCallerCancels(_ mechanism: Mechanism) async throws {
        try await withServerAndClient(by: mechanism, handler: { $0.body == "a" ? .noReply : .echo }) { server, client in
            let cached = CachingSender(client)
            let calls = (0..<10).map { _ in Task { await cached.text("a", .for(.seconds(60)), timeout: .seconds(600)) }
            }
            while cached.metrics.shares < calls.count - 1 { await moment() }
            try await server.waitForRequests(1, within: patience)
            for call in calls.dropLast() {
                call.cancel()
                #expect(await call.value == "cancelled unknown")
            }
            // Frames that were sent before this request have arrived before it.
            try await expectEcho("b", by: client)
            #expect(await server.journal.cancelCount == 0)
            calls.last?.cancel()
            #expect(await calls.last?.value == "cancelled unknown")
            try await server.waitForCancel(within: patience)
            try await expectEcho("b", by: client)
            #expect(await server.journal.cancelCount == 1)
        }
    }

    /// Clients are deallocated without being closed, with responses in their caches and with abandoned exchanges.
    @Test func aDeallocatedClientFreesItsCache() async throws {
        try await withLoopbackServer(speaking: .standard, handler: { $0.body == "silence" ? .noReply : .echo }) {
            server in
            var clients: [Weak<Client>] = []
            var caches: [Weak<CachingSender>] = []
            for number in 0..<20 {
                let loops = Mechanism.allCases[number % 2].loops
                let endpoint = server.endpoint
                let client = Client(to: endpoint, speaking: .standard, options: quickOptions(), on: loops)
                clients.append(Weak(client))
                let cached = CachingSender(client)
                caches.append(Weak(cached))
                #expect(await cached.text("a", .for(.seconds(60))) == "a")
                #expect(
                    await cached.text("silence", .for(.seconds(60)), timeout: .milliseconds(2)).hasPrefix("timedOut")
                )
                let call = Task { await cached.text("silence", .for(.seconds(60))) }
                call.cancel()
                #expect(await call.value.hasPrefix("cancelled"))
            }
            while clients.contains(where: { $0.object != nil }) { await moment() }
            while caches.contains(where: { $0.object != nil }) { await moment() }
            try await server.waitForConnections(0, within: patience)
        }
    }
}
