import Foundation
import Testing
import Trunkline
import TrunklineTesting

extension HeavyTests {
    /// Very many clients leave nothing behind.
    @Suite(.timeLimit(.minutes(5)))
    struct LeakLoopbackTests {
        /// Ten thousand clients are created and deallocated, most of them without being closed. Other tests run at the
        /// same time, open files and allocate memory, so the bounds are wide. A leak of one descriptor, or of 20 KB,
        /// per cycle exceeds them.
        @Test func tenThousandClientsLeaveNothingBehind() async throws {
            let cycles = stormRequests / 10
            try await withServer(
                speaking: .standard,
                options: LoopbackServer.Options { $0.recordedFrames = 0 },
                handler: { $0.body == "silence" ? .noReply : .echo }
            ) { server in
                try await self.cycle(cycles / 10, server)
                let before = Usage()
                let left = try await self.cycle(cycles, server)
                try await server.waitForConnections(0, within: patience)
                #expect(left == 0)
                let after = Usage()
                #expect(after.descriptors - before.descriptors < max(200, cycles / 5), "\(before) \(after)")
                #expect(after.residentKilobytes - before.residentKilobytes < 200_000, "\(before) \(after)")
            }
        }

        /// Creates, uses and releases `count` clients. Returns how many of them still exist.
        @discardableResult
        private func cycle(_ count: Int, _ server: LoopbackServer) async throws -> Int {
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
                        let limit = ContinuousClock.now.advanced(by: .seconds(30))
                        while weakClients.contains(where: { $0.object != nil }), ContinuousClock.now < limit {
                            await Task.yield()
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

/// The resources that this process holds.
struct Usage: CustomStringConvertible {
    var descriptors = 0
    var residentKilobytes = 0

    init() {
        descriptors = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count) ?? 0
        let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
        for line in status.split(separator: "\n") where line.hasPrefix("VmRSS:") {
            residentKilobytes = Int(line.filter(\.isNumber)) ?? 0
        }
    }

    var description: String { "\(descriptors) descriptors, \(residentKilobytes) KB" }
}
