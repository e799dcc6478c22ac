import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineLoopback

extension HeavyTests {
    /// Very many clients leave nothing behind.
    @Suite(.timeLimit(.minutes(5)))
    struct LeakLoopbackTests {
        /// Ten thousand clients are created and deallocated, most of them without being closed.
        @Test func tenThousandClientsLeaveNothingBehind() async throws {
            await aside { await #expect(processExitsWith: .success) { try await Self.expectNoLeak() } }
        }

        private static func expectNoLeak() async throws {
            let cycles = stormRequests / 10
            try await withServer(
                speaking: .standard,
                options: LoopbackServer.Options { $0.recordedFrames = 0 },
                handler: { $0.body == "silence" ? .noReply : .echo }
            ) { server in
                try await cycle(max(32, cycles / 10), server)
                try await server.waitForConnections(0, within: patience)
                let before = Usage()
                let left = try await cycle(cycles, server)
                try await server.waitForConnections(0, within: patience)
                #expect(left == 0)
                await before.expectNoLeak(ofKilobytes: 32_000)
            }
        }

        /// Creates, uses and releases `count` clients. Returns how many of them still exist.
        @discardableResult
        private static func cycle(_ count: Int, _ server: LoopbackServer) async throws -> Int {
            let endpoint = server.endpoint
            return try await withThrowingTaskGroup(of: Int.self) { group in
                for worker in 0..<8 {
                    group.addTask {
                        var weakClients: [Weak<Client>] = []
                        for number in 0..<count / 8 {
                            let loops = Mechanism.allCases[number % 2].loops
                            let client = Client(to: endpoint, speaking: .standard, options: quickOptions(), on: loops)
                            weakClients.append(Weak(client))
                            let stream = client.pushes()
                            switch number % 4 {
                            case 0:
                                try await expectEcho("a", by: client)
                                await client.close()
                            case 1: try await expectEcho("a", by: client)
                            case 2:
                                try await client.connect()
                                let handle = client.start(ask("silence"))
                                let waiting = Task { await failure(of: handle) }
                                if worker % 2 == 0 { waiting.cancel() }
                                _ = stream
                            default: _ = client.start(ask("silence"))  // deallocated while it connects
                            }
                        }
                        // A client may still be held by a closure on an event loop that has not run yet.
                        let limit = ContinuousClock.now.advanced(by: patience)
                        while weakClients.contains(where: { $0.object != nil }), ContinuousClock.now < limit {
                            await moment()
                        }
                        return weakClients.count { $0.object != nil }
                    }
                }
                return try await group.reduce(0, +)
            }
        }
    }
}

struct Weak<Object: AnyObject & Sendable>: Sendable {
    weak let object: Object?
    init(_ object: Object) { self.object = object }
}
