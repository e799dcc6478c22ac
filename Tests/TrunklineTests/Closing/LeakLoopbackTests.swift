import Foundation
import Testing
import Trunkline
import TrunklineTesting

extension HeavyTests {
    /// What very many clients leave behind: nothing.
    @Suite(.timeLimit(.minutes(5)))
    struct LeakLoopbackTests {
        /// Ten thousand clients come and go, most of them without a word. Other tests run at the same time and open files
        /// and take memory of their own, so the bounds are wide; a leak of one descriptor, or of 20 KB, per cycle breaks
        /// them.
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

        /// Makes, uses and lets go of `count` clients; returns how many of them are still there.
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
                            default: _ = client.start(ask("silence"))  // let go while it connects
                            }
                        }
                        // Whoever still holds one is a closure on a loop that has not had its turn yet.
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

/// What this process holds.
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
