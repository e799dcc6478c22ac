import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineLoopback

/// Servers that work and close their links cleanly, as servers with an idle timeout or a maximum link age do.
/// Regression: each link shorter than `stableAfter` counted as a failed attempt. After eight links of 2 s the client
/// waited for 25 s, while requests timed out.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct OrderlyCloseTests {}

extension OrderlyCloseTests {
    /// The present state.
    private func state(of client: Client) async -> ConnectionState? {
        for await state in client.states { return state }
        return nil
    }

    @Test func aServerThatClosesEachLinkAfterTwoSecondsStaysAvailable() throws {
        try simulate { service, client in
            let closing = Task(executorPreference: service.network.executor) {
                for _ in 0..<60 {
                    try await service.pass(.seconds(2))
                    await service.server.disconnectAll()
                }
            }
            for number in 0..<300 {
                let began = service.now
                try await expectEcho("\(number)", by: client, retry: .idempotent())
                #expect(service.now - began < .milliseconds(300), "request \(number)")
                try await service.pass(.milliseconds(400))
            }
            closing.cancel()
            try? await closing.value
            #expect(await client.metrics.connection.links > 50)
        }
    }

    @Test func anIdleTimeoutShorterThanTheTimeBetweenRequestsCausesNoWait() throws {
        try simulate { service, client in
            for number in 1...20 {
                let began = service.now
                try await expectEcho("\(number)", by: client)
                #expect(service.now - began < .milliseconds(100), "request \(number)")
                try await service.pass(.seconds(2))
                await service.server.disconnectAll()
                try await service.pass(.seconds(3))
                #expect(await state(of: client) == .idle)
                #expect(await service.server.totalConnections == number)
            }
        }
    }

    /// The client connects because the request waits. Once the request is on the link, nothing waits for a link any more.
    @Test func aFirstRequestThatIsLostInACleanCloseDoesNotCauseAReconnect() throws {
        try simulate(handler: { _ in .close }) { service, client in
            // Not `start`: a handle is told that its request is on the link, and the client then looks again.
            let error = await failure { () throws(ClientError) in try await client.send(ask("a")) }
            #expect(error?.code == .connectionLost && error?.fate == .unknown)
            #expect(await state(of: client) == .idle)
            try await service.pass(.seconds(60))
            #expect(await state(of: client) == .idle)
            #expect(await service.server.totalConnections == 1)
            #expect(await client.metrics.connection.disconnects == [.closedByServer: 1])
        }
    }

    @Test func aLinkThatIsKeptWarmIsReplacedWithoutDemand() throws {
        let options = ClientOptions { $0.reconnecting.keepsLinkWarm = true }
        try simulate(options: options) { service, client in
            for number in 1...20 {
                try await expectEcho("\(number)", by: client)
                await service.server.disconnectAll()
                // The link has worked, so the back-off starts again, with at most 200 ms.
                try await service.pass(.milliseconds(300))
                #expect(await state(of: client)?.isReady == true)
                #expect(await service.server.totalConnections == number + 1)
            }
        }
    }

    @Test func aSubscriberReconnectsWithTheShortestBackoffAfterEachHandshake() throws {
        let options = ClientOptions { $0.handshake.perform = { _ = try await $0.send(ask("login")) } }
        try simulate(options: options) { service, client in
            let pushes = client.pushes()
            for number in 1...20 {
                // A wait of at most 200 ms, and a link of more than a second.
                try await service.pass(.milliseconds(1300))
                #expect(await state(of: client)?.isReady == true)
                #expect(await service.server.totalConnections == number)
                await service.server.disconnectAll()
            }
            withExtendedLifetime(pushes) {}
        }
    }

    @Test func aRequestDoesNotWaitForTheBackoffAfterAnOrderlyEnd() throws {
        let options = ClientOptions { $0.reconnecting.policy = Backoff(minimum: .seconds(30), cap: .seconds(30)) }
        try simulate(options: options) { service, client in
            let pushes = client.pushes()
            try await expectEcho("first", by: client)
            await service.server.disconnectAll()
            try await service.pass(.seconds(1))
            guard case .waiting? = await state(of: client) else {
                Issue.record("the subscriber should wait for the next attempt")
                return
            }
            let began = service.now
            try await expectEcho("second", by: client)
            #expect(service.now - began < .milliseconds(100))
            withExtendedLifetime(pushes) {}
        }
    }

    /// The request is written while the server closes. It is lost with the link, and its retry connects promptly.
    @Test func aRequestThatCrossesTheCloseConnectsPromptlyToo() throws {
        let options = ClientOptions { $0.reconnecting.policy = Backoff(minimum: .seconds(30), cap: .seconds(30)) }
        try simulate(options: options) { service, client in
            try await expectEcho("first", by: client)
            await service.server.disconnectAll()
            let began = service.now
            try await expectEcho("second", by: client, retry: .idempotent())
            #expect(service.now - began < .milliseconds(200))
        }
    }

    /// The server accepts logins, answers nothing else, and closes. Such a link does not count as one that worked.
    @Test func aServerThatAnswersOnlyTheHandshakeAndClosesCausesABackoff() throws {
        let options = ClientOptions {
            $0.handshake.perform = { _ = try await $0.send(ask("login")) }
            $0.requests.timeout = .milliseconds(100)
            $0.failover.errorRate = nil
            $0.liveness.maximumStalls = nil
        }
        try simulate(options: options, handler: { $0.body == "login" ? .echo : .noReply }) { service, client in
            let pushes = client.pushes()
            var attempts: [Int] = []
            for round in 1...6 {
                let error = await failure { () throws(ClientError) in _ = try await client.send(ask("a")) }
                #expect(error?.code == .timedOut)
                await service.server.disconnectAll()
                for await state in client.states {
                    if case .waiting(_, let attempt, _) = state { attempts.append(attempt) }
                    if state.isReady, attempts.count == round { break }
                }
            }
            #expect(attempts == Array(2...7))
            withExtendedLifetime(pushes) {}
        }
    }

    /// Regression: the client connected eight to ten times a second, for ever.
    @Test func aServerThatCompletesTheHandshakeAndClosesCleanlyIsPaced() throws {
        let options = ClientOptions { $0.handshake.perform = { _ = try await $0.send(ask("login")) } }
        try simulate(options: options, handler: { _ in .sequence([.echo, .close]) }) { service, client in
            let pushes = client.pushes()
            try await service.pass(.seconds(600))
            #expect(await service.server.totalConnections < 80)
            // Not a failed handshake: each link was ready.
            #expect(await client.metrics.connection.links > 10)
            withExtendedLifetime(pushes) {}
        }
    }

    /// A link that carries only a "too many connections" message does not count as one that worked either.
    @Test(arguments: [
        Reaction.close, .sequence([.push(Frame(.push, type: 0x2, body: "too many connections")), .close]),
    ])
    func aServerThatAcceptsAndClosesCausesABackoffAndTheStateCountsTheAttempts(_ reaction: Reaction) throws {
        let serverOptions = LoopbackServer.Options { $0.onConnect = reaction }
        let network = SimulatedNetwork(seed: 3)
        try network.runBlocking {
            let server = try await network.serve(at: "db:7000", speaking: .standard, options: serverOptions) { _ in
                .echo
            }
            let client = network.client(of: ["db:7000"], speaking: .standard)
            let states = client.states
            let pushes = client.pushes()
            var attempts: [Int] = []
            for await case .waiting(_, let attempt, let cause) in states {
                #expect(cause == .closedByServer)
                attempts.append(attempt)
                if attempts.count == 8 { break }
            }
            #expect(attempts == Array(2...9))
            try await network.clock.sleep(for: .seconds(600))
            // Each back-off is 15 s on average, half of 30 s.
            #expect(await server.totalConnections < 80)
            withExtendedLifetime(pushes) {}
            await client.closeNow()
            await server.stop()
        }
    }
}
