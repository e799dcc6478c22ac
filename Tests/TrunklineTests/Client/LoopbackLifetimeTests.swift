import Foundation
import Testing
import Trunkline
import TrunklineTesting

/// From the making of a client to its end, whichever way it ends.
@Suite(.timeLimit(.minutes(5)))
struct LoopbackLifetimeTests {
    private struct Mine: Error {}

    // MARK: withClient

    @Test func withClientClosesOnEveryWayOut() async throws {
        try await withLoopbackServer(speaking: .standard, handler: { $0.body == "held" ? .noReply : .echo }) { server in
            var escaped: [Client] = []
            try await withClient(to: server.endpoint, speaking: .standard) { client in
                try await expectEcho("a", by: client)
                escaped.append(client)
            }
            await #expect(throws: Mine.self) {
                try await withClient(to: server.endpoint, speaking: .standard) { client in
                    try await client.connect()
                    escaped.append(client)
                    throw Mine()
                }
            }
            let endpoint = server.endpoint
            let cancelled = Task {
                try await withClient(to: endpoint, speaking: .standard) { client in
                    _ = try await client.send(ask("held"))
                }
            }
            try await server.waitForRequests(2)
            cancelled.cancel()
            await #expect(throws: ClientError.self) { try await cancelled.value }
            try await server.waitForConnections(0)
            for client in escaped {
                let error = await failure { () throws(ClientError) in try await client.send(ask("late")) }
                #expect(error?.code == .closed)
                #expect(error?.fate == .notSent)
            }
        }
    }

    // MARK: Closing

    @Test(arguments: Mechanism.allCases)
    func closeLetsEveryRequestInFlightFinish(_ mechanism: Mechanism) async throws {
        try await withServerAndClient(by: mechanism, handler: { _ in .outOfOrder(window: 1000) }) { server, client in
            let handles = (0..<100).map { client.start(ask($0)) }
            try await server.waitForRequests(100)
            async let first: Void = client.close()
            async let second: Void = client.close()
            await server.releaseHeld()
            for (index, handle) in handles.enumerated() { try await expectBody(Bytes("\(index)"), of: handle) }
            await first
            await second
            await client.close()
            #expect(await failure { () throws(ClientError) in try await client.connect() }?.code == .closed)
            try await server.waitForConnections(0)
        }
    }

    @Test(arguments: Mechanism.allCases)
    func closeNowEndsEverythingAtOnce(_ mechanism: Mechanism) async throws {
        try await withServerAndClient(
            by: mechanism,
            clientOptions: quickOptions { $0.requests.maximumInFlight = 2 },
            handler: { _ in .noReply }
        ) { server, client in
            let handles = (0..<4).map { client.start(ask($0)) }
            try await server.waitForRequests(2)
            await client.closeNow()
            var fates: [ClientError.Fate?] = []
            for handle in handles {
                let error = await failure(of: handle)
                #expect(error?.code == .closed)
                fates.append(error?.fate)
            }
            #expect(fates == [.unknown, .unknown, .notSent, .notSent])
            try await server.waitForConnections(0)
        }
    }

    @Test func closeBeforeItWasEverUsedReturns() async throws {
        let client = Client(to: "127.0.0.1:1", speaking: .standard)
        await client.close()
        await client.closeNow()
        #expect(await failure { () throws(ClientError) in try await client.send(ask("a")) }?.code == .closed)
        #expect(await failure(of: client.start(ask("a")))?.fate == .notSent)
    }

    @Test(arguments: Mechanism.allCases)
    func closeConcurrentlyWithSendLosesNobody(_ mechanism: Mechanism) async throws {
        let options = quickOptions {
            $0.requests.timeout = nil
            $0.requests.drainTimeout = .seconds(300)
        }
        try await withLoopbackServer(speaking: .standard) { server in
            for round in 0..<50 {
                let client = Client(to: server.endpoint, speaking: .standard, options: options, on: mechanism.loops)
                let outcomes = await withTaskGroup(of: String.self) { group in
                    for number in 0..<20 {
                        group.addTask {
                            do throws(ClientError) {
                                let reply = try await client.send(ask(number))
                                return reply.body == Bytes("\(number)") ? "success" : "crossed"
                            } catch { return "\(error.code) \(error.fate)" }
                        }
                        if number == round % 20 {
                            group.addTask {
                                await client.close()
                                return "success"
                            }
                        }
                    }
                    return await group.reduce(into: Set<String>()) { $0.insert($1) }
                }
                #expect(outcomes.isSubset(of: ["success", "closed notSent"]), "\(outcomes)")
            }
        }
    }

    // MARK: Letting go

    @Test(arguments: Mechanism.allCases)
    func aClientThatIsLetGoFailsItsRequestsAndClosesItsSocket(_ mechanism: Mechanism) async throws {
        try await withLoopbackServer(speaking: .standard, handler: { _ in .noReply }) { server in
            var client: Client? = Client(to: server.endpoint, speaking: .standard, on: mechanism.loops)
            let handle = try #require(client?.start(ask("a")))
            let stream = try #require(client?.pushes())
            let states = try #require(client?.states)
            try await server.waitForRequests(1)
            weak let gone = client
            client = nil
            let error = await failure(of: handle)
            #expect(error?.code == .closed)
            for await _ in stream { Issue.record("a push from nowhere") }
            for await _ in states {}
            try await server.waitForConnections(0)
            #expect(gone == nil)
        }
    }

    /// Ten thousand clients come and go, most of them without a word. Other tests run at the same time and open files
    /// and take memory of their own, so the bounds are wide; a leak of one descriptor, or of 20 KB, per cycle breaks
    /// them.
    @Test func tenThousandClientsLeaveNothingBehind() async throws {
        let cycles = stormRequests / 10
        try await withLoopbackServer(
            speaking: .standard,
            options: LoopbackServer.Options { $0.recordedFrames = 0 },
            handler: { $0.body == "silence" ? .noReply : .echo }
        ) { server in
            try await self.cycle(cycles / 10, server)
            let before = Usage()
            let left = try await self.cycle(cycles, server)
            try await server.waitForConnections(0)
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

private struct Weak<Object: AnyObject & Sendable>: Sendable {
    weak let object: Object?
    init(_ object: Object) { self.object = object }
}

/// What this process holds.
private struct Usage: CustomStringConvertible {
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

/// How many requests a storm is made of: `TRUNKLINE_STORM`, or 100,000.
let stormRequests = ProcessInfo.processInfo.environment["TRUNKLINE_STORM"].flatMap(Int.init) ?? 100_000
