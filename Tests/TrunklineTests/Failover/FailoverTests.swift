import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineLoopback

/// Suspension, switches and replaced endpoints, with a second server.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct FailoverTests {}

extension FailoverTests {
    /// Like `simulate`, with a second server at "other:7000".
    private func simulateTwo(
        options: ClientOptions = ClientOptions(),
        handler: @escaping LoopbackServer.Handler = { _ in .echo },
        _ body: @escaping @Sendable (SimulatedService, LoopbackServer, Client) async throws -> Void
    ) throws {
        try simulate(options: options, handler: handler) { service, client in
            let other = try await service.startServer(at: "other:7000", speaking: .standard)
            do {
                try await body(service, other, client)
            } catch {
                await client.closeNow()
                await other.stop()
                throw error
            }
            await client.closeNow()
            await other.stop()
        }
    }

    /// Options without randomness: a failed attempt is followed by a back-off of ten seconds.
    private func patient(_ change: (inout ClientOptions) -> Void = { _ in }) -> ClientOptions {
        ClientOptions {
            $0.reconnecting.policy = Backoff(minimum: .seconds(10), cap: .seconds(10))
            $0.requests.timeout = .seconds(60)
            change(&$0)
        }
    }

    /// The present state of the connection.
    private func state(of client: Client) async -> ConnectionState? {
        for await state in client.states { return state }
        return nil
    }

    // MARK: Suspension

    @Test func aSuspendedClientHasNoLinkUntilItIsResumed() throws {
        try simulate(options: patient(), handler: { $0.body == "silence" ? .noReply : .echo }) { service, client in
            try await client.connect()
            let written = client.start(ask("silence"))
            _ = try await service.server.waitForRequest { $0.body == "silence" }
            await client.suspend()
            let lost = await failure(of: written)
            #expect(lost?.code == .connectionLost)
            #expect(lost?.fate == .unknown)
            let queued = client.start(ask("queued"))
            try await service.pass(.seconds(30))
            #expect(await state(of: client) == .suspended)
            #expect(await service.server.totalConnections == 1)
            await client.resume()
            try await expectBody("queued", of: queued)
            #expect(await service.server.totalConnections == 2)
        }
    }

    @Test func aResumedClientWithoutRequestsStaysIdle() throws {
        try simulate(options: patient()) { service, client in
            await client.suspend()
            await client.resume()
            #expect(await state(of: client) == .idle)
            await client.suspend()
            let connecting = Task(executorPreference: service.network.executor) { try await client.connect() }
            try await service.pass(.seconds(5))
            #expect(await service.server.totalConnections == 0)
            await client.resume()
            try await connecting.value
        }
    }

    @Test func suspendEndsAnAttempt() throws {
        try simulate(options: patient()) { service, client in
            service.network.partition("db")
            let handle = client.start(ask("a"))
            try await service.pass(.seconds(1))
            await client.suspend()
            service.network.heal("db")
            try await service.pass(.seconds(30))
            #expect(await client.metrics.connection.links == 0)
            await client.resume()
            try await expectBody("a", of: handle)
        }
    }

    @Test func aSuspendedClientClosesAtOnce() throws {
        try simulate(options: patient()) { service, client in
            try await client.connect()
            await client.suspend()
            let began = service.now
            await client.close()
            let took = service.now - began
            #expect(took == .zero)
            await client.resume()
            await client.reconnectNow()
            await client.replaceEndpoints([service.endpoint("other:7000")])
            #expect(await state(of: client) == .closed)
            let error = await failure { () throws(ClientError) in
                try await client.switchEndpoint(to: service.endpoint("db:7000"))
            }
            #expect(error?.code == .closed)
        }
    }

    // MARK: Reconnecting

    @Test func reconnectNowEndsABackoff() throws {
        try simulate(options: patient()) { service, client in
            service.network.refuseConnections(to: "db")
            let handle = client.start(ask("a"))
            try await service.pass(.seconds(1))
            guard case .waiting(_, attempt: 2, cause: .refused) = await state(of: client) else {
                Issue.record("expected a back-off")
                return
            }
            service.network.acceptConnections(to: "db")
            let began = service.now
            await client.reconnectNow()
            try await expectBody("a", of: handle)
            let took = service.now - began
            #expect(took < .seconds(1))
        }
    }

    @Test func withoutAPolicyALinkIsReplacedOnDemand() throws {
        let options = ClientOptions { $0.reconnecting.policy = nil }
        try simulate(options: options) { service, client in
            try await expectEcho("a", by: client)
            service.network.reset("db")
            try await service.pass(.seconds(60))
            #expect(await state(of: client) == .idle)
            #expect(await service.server.totalConnections == 1)
            try await expectEcho("b", by: client)
            #expect(await service.server.totalConnections == 2)
        }
    }

    // MARK: Other endpoints

    @Test func aSwitchLosesNoRequest() throws {
        try simulateTwo(options: patient(), handler: { $0.body == "slow" ? .after(.seconds(2), .echo) : .echo }) {
            service,
            other,
            client in
            await client.replaceEndpoints([service.endpoint("db:7000"), service.endpoint("other:7000")])
            try await client.connect()
            let slow = client.start(ask("slow"))
            _ = try await service.server.waitForRequest { $0.body == "slow" }
            try await client.switchEndpoint(to: service.endpoint("other:7000"))
            try await expectEcho("meanwhile", by: client)
            #expect(await service.server.received.map(\.body) == ["slow", "meanwhile"])
            await client.becomesReady(at: service.endpoint("other:7000"))
            try await expectEcho("next", by: client)
            #expect(await other.received.map(\.body) == ["next"])
            try await expectBody("slow", of: slow)
            try await service.pass(.seconds(5))
            #expect(await service.server.connectionCount == 0)
            #expect(await other.connectionCount == 1)
        }
    }

    @Test func aSwitchToAnUnknownEndpointFailsAndChangesNothing() throws {
        try simulateTwo(options: patient()) { service, other, client in
            try await client.connect()
            let error = await failure { () throws(ClientError) in
                try await client.switchEndpoint(to: service.endpoint("other:7000"))
            }
            #expect(error?.code == .invalidArgument)
            #expect(error?.endpoint == service.endpoint("other:7000"))
            try await expectEcho("a", by: client)
            #expect(await service.server.totalConnections == 1)
            #expect(await other.totalConnections == 0)
        }
    }

    /// While one endpoint drops packets, the switch ends the attempt there. Its late outcome is ignored.
    @Test func aSwitchEndsAnAttemptAtAnotherEndpoint() throws {
        try simulateTwo(options: patient()) { service, other, client in
            await client.replaceEndpoints([service.endpoint("db:7000"), service.endpoint("other:7000")])
            service.network.partition("db")
            let handle = client.start(ask("a"))
            try await service.pass(.seconds(1))
            let began = service.now
            try await client.switchEndpoint(to: service.endpoint("other:7000"))
            try await expectBody("a", of: handle)
            let took = service.now - began
            #expect(took < .seconds(1))
            service.network.heal("db")
            try await service.pass(.seconds(30))
            #expect(await client.metrics.connection.links == 1)
            #expect(await service.server.connectionCount == 0)
        }
    }

    @Test func aLinkToARemovedEndpointIsReplaced() throws {
        try simulateTwo(options: patient()) { service, other, client in
            try await expectEcho("a", by: client)
            await client.replaceEndpoints([service.endpoint("other:7000")])
            await client.becomesReady(at: service.endpoint("other:7000"))
            try await expectEcho("b", by: client)
            #expect(await other.received.map(\.body) == ["b"])
            await client.replaceEndpoints([])
            try await expectEcho("c", by: client)
            service.network.reset("other")
            let error = await failure { () throws(ClientError) in try await client.send(ask("d")) }
            #expect(error?.code == .unavailable)
            #expect(await failure { () throws(ClientError) in try await client.connect() }?.code == .unavailable)
            await client.replaceEndpoints([service.endpoint("db:7000")])
            try await expectEcho("e", by: client)
            #expect(await service.server.received.map(\.body) == ["a", "e"])
        }
    }

    @Test func theClientReturnsToThePreferredEndpoint() throws {
        let options = patient {
            $0.failover.returnsToPreferredAfter = .seconds(100)
            $0.liveness.heartbeat = .none
        }
        try simulateTwo(options: options) { service, other, client in
            await client.replaceEndpoints([service.endpoint("db:7000"), service.endpoint("other:7000")])
            service.network.refuseConnections(to: "db")
            try await expectEcho("a", by: client)
            service.network.acceptConnections(to: "db")
            try await service.pass(.seconds(99))
            #expect(await other.connectionCount == 1)
            try await service.pass(.seconds(2))
            #expect(await other.connectionCount == 0)
            try await expectEcho("b", by: client)
            #expect(await service.server.received.map(\.body) == ["b"])
        }
    }
}
