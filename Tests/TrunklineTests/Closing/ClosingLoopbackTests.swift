import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineLoopback

/// The life of a client from its creation to its end, for each way to end it.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct ClosingLoopbackTests {}

extension ClosingLoopbackTests {
    private struct Mine: Error {}

    // MARK: withClient

    @Test func withClientClosesTheClientHoweverItEnds() async throws {
        try await withServer(speaking: .standard, handler: { $0.body == "held" ? .noReply : .echo }) { server in
            var escaped: [Client] = []
            try await withClient(to: server.endpoint, speaking: .standard, options: quickOptions()) { client in
                try await expectEcho("a", by: client)
                escaped.append(client)
            }
            await #expect(throws: Mine.self) {
                try await withClient(to: server.endpoint, speaking: .standard, options: quickOptions()) { client in
                    try await client.connect()
                    escaped.append(client)
                    throw Mine()
                }
            }
            let endpoint = server.endpoint
            let cancelled = Task {
                try await withClient(to: endpoint, speaking: .standard, options: quickOptions()) { client in
                    _ = try await client.send(ask("held"))
                }
            }
            try await server.waitForRequests(2, within: patience)
            cancelled.cancel()
            await #expect(throws: ClientError.self) { try await cancelled.value }
            try await server.waitForConnections(0, within: patience)
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
            try await server.waitForRequests(100, within: patience)
            async let first: Void = client.close()
            async let second: Void = client.close()
            await server.releaseHeld()
            for (index, handle) in handles.enumerated() { try await expectBody(Bytes("\(index)"), of: handle) }
            await first
            await second
            await client.close()
            #expect(await failure { () throws(ClientError) in try await client.connect() }?.code == .closed)
            try await server.waitForConnections(0, within: patience)
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
            try await server.waitForRequests(2, within: patience)
            await client.closeNow()
            var fates: [ClientError.Fate?] = []
            for handle in handles {
                let error = await failure(of: handle)
                #expect(error?.code == .closed)
                fates.append(error?.fate)
            }
            #expect(fates == [.unknown, .unknown, .notSent, .notSent])
            try await server.waitForConnections(0, within: patience)
        }
    }

    @Test func anUnusedClientCanBeClosed() async throws {
        let client = Client(to: "127.0.0.1:1", speaking: .standard)
        await client.close()
        await client.closeNow()
        #expect(await failure { () throws(ClientError) in try await client.send(ask("a")) }?.code == .closed)
        #expect(await failure(of: client.start(ask("a")))?.fate == .notSent)
    }

    @Test(arguments: Mechanism.allCases)
    func everyCallEndsWhenCloseRacesWithSend(_ mechanism: Mechanism) async throws {
        let options = quickOptions {
            $0.requests.timeout = nil
            $0.requests.drainTimeout = .seconds(300)
        }
        try await withServer(speaking: .standard) { server in
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

    /// Regression: `closeNow` returned when the connection was closed, before the requests had failed.
    @Test(arguments: Mechanism.allCases)
    func closingAtOnceReturnsWhenEveryRequestHasEnded(_ mechanism: Mechanism) async throws {
        let options = quickOptions { $0.requests.timeout = nil }
        try await withServerAndClient(by: mechanism, clientOptions: options, handler: { _ in .noReply }) { _, client in
            try await client.connect()
            let handles = (0..<10_000).map { client.start(ask($0)) }
            await client.closeNow()
            #expect(handles.count { $0.state != .completed } == 0)
        }
    }

    // MARK: Deallocation

    @Test(arguments: Mechanism.allCases)
    func aDeallocatedClientFailsItsRequestsAndClosesItsSocket(_ mechanism: Mechanism) async throws {
        try await withServer(speaking: .standard, handler: { _ in .noReply }) { server in
            var client: Client? = Client(
                to: server.endpoint,
                speaking: .standard,
                options: quickOptions { $0.requests.maximumInFlight = 1 },
                on: mechanism.loops
            )
            let handle = try #require(client?.start(ask("a")))
            let waiting = try #require(client?.start(ask("waits its turn")))
            let stream = try #require(client?.pushes())
            let states = try #require(client?.states)
            try await server.waitForRequests(1, within: patience)
            weak let gone = client
            client = nil
            let error = await failure(of: handle)
            #expect(error?.code == .closed)
            #expect(error?.fate == .unknown)
            #expect(await failure(of: waiting)?.fate == .notSent)
            for await _ in stream { Issue.record("a push that the server did not send") }
            for await _ in states {}
            try await server.waitForConnections(0, within: patience)
            #expect(gone == nil)
        }
    }
}
