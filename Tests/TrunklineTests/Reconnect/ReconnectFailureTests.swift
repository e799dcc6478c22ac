import Testing
import Trunkline

@testable import TrunklineLoopback
@testable import TrunklineTesting

/// Reconnecting that ends, for a while or permanently, and requests on draining links meanwhile.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct ReconnectFailureTests {
    private typealias PoliteCodec = DrainingTests.PoliteCodec

    /// Runs `body` with a server at "db:7000" that answers "slow" after a second, and a client that does not reconnect
    /// automatically. Its link drains at once after a goAway.
    private func simulate(
        speaking codec: some FrameCodec = PoliteCodec(),
        _ change: @escaping @Sendable (inout ClientOptions) -> Void = { $0.reconnecting.policy = nil },
        sendsAfterGoAway: Bool = false,
        _ body: @escaping @Sendable (SimulatedService, Client) async throws -> Void
    ) throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            let server = try await network.serve(at: "db:7000", speaking: codec) {
                $0.body == "slow" ? .after(.seconds(1), .echo) : .echo
            }
            let options = ClientOptions {
                $0.failover.sendsAfterGoAway = sendsAfterGoAway
                change(&$0)
            }
            let client = network.client(of: ["db:7000"], speaking: codec, options: options)
            try await body(SimulatedService(network, server, overTLS: Wire.isSecured), client)
            await client.closeNow()
            #expect(await client.metrics.pending == 0)
            #expect(await client.metrics.heldSerials == 0)
            await server.stop()
        }
        #expect(network.openLinks == 0)
    }

    private let goAwayFrame = Frame(.push, type: 2, body: "!")

    // MARK: Draining links

    /// Regression: the only server sends goAway, and the policy ends reconnecting. All calls failed with `unavailable`,
    /// even the request that the server was still working on.
    @Test func endingReconnectingDoesNotFailRequestsOnADrainingLink() throws {
        try simulate { service, client in
            let slow = client.start(ask("slow"))
            try await service.server.waitForRequest { $0.body == "slow" }
            try await service.server.push(goAwayFrame)
            try await service.pass(.milliseconds(100))
            #expect(await client.metrics.pending == 1)
            try await expectBody("slow", of: slow)
            try await service.pass(.seconds(2))
            #expect(await service.server.connectionCount == 0)
            // The next request connects again.
            try await expectEcho("next", by: client)
            #expect(await service.server.totalConnections == 2)
        }
    }

    @Test func queuedRequestsFailWhenReconnectingEnds() throws {
        try simulate {
            $0.reconnecting.policy = nil
            $0.requests.maximumInFlight = 1
        } _: { service, client in
            let slow = client.start(ask("slow"))
            let queued = client.start(ask("queued"))
            try await service.server.waitForRequest { $0.body == "slow" }
            try await service.server.push(goAwayFrame)
            let error = await failure(of: queued)
            #expect(error?.code == .unavailable && error?.fate == .notSent)
            try await expectBody("slow", of: slow)
            #expect(await service.server.received.map(\.body) == ["slow"])
            // The place of the finished request is free again, and no other.
            try await expectEcho("next", by: client)
        }
    }

    @Test func aRequestOnADrainingLinkTimesOutAlsoWhenReconnectingHasEnded() throws {
        try simulate { service, client in
            let slow = client.start(ask("slow"), timeout: .milliseconds(500))
            try await service.server.waitForRequest { $0.body == "slow" }
            try await service.server.push(goAwayFrame)
            let error = await failure(of: slow)
            #expect(error?.code == .timedOut && error?.fate == .unknown)
            try await service.server.waitForCancel()
            try await service.pass(.seconds(2))
            #expect(await service.server.connectionCount == 0)
        }
    }

    /// The only server sends goAway, and the policy allows no other link. The present link is used until the
    /// server closes it.
    @Test func aLinkIsUsedAfterAGoAwayIfThereIsNoOther() throws {
        try simulate(sendsAfterGoAway: true) { service, client in
            let slow = client.start(ask("slow"))
            try await service.server.waitForRequest { $0.body == "slow" }
            try await service.server.push(goAwayFrame)
            try await expectBody("slow", of: slow)
            try await expectEcho("next", by: client)
            #expect(await service.server.totalConnections == 1)
            await service.server.disconnectAll()
            try await service.pass(.seconds(1))
            #expect(await firstState(of: client) == .idle)
            try await expectEcho("last", by: client)
            #expect(await service.server.totalConnections == 2)
        }
    }

    /// The switch goes to a server that cannot be reached. The first server cannot be reached any more either, and
    /// `maximumAttempts` ends the change.
    @Test func aSwitchThatFailsKeepsTheLink() throws {
        try simulate {
            $0.reconnecting.maximumAttempts = 2
        } _: { service, client in
            let slow = client.start(ask("slow"))
            try await service.server.waitForRequest { $0.body == "slow" }
            service.network.refuseConnections(to: "db")
            let away = service.endpoint("away:1")
            await client.replaceEndpoints([away, service.server.endpoint])
            try await client.switchEndpoint(to: away)
            try await expectBody("slow", of: slow)
            try await service.pass(.seconds(60))
            #expect(await client.metrics.connection.failedAttempts == 2)
            try await client.connect()
            try await expectEcho("next", by: client)
            #expect(await firstState(of: client) == .ready(service.server.endpoint, session: 1))
            #expect(await service.server.received.map(\.body) == ["slow", "next"])
        }
    }

    @Test func matchedInOrderADrainingLinkKeepsItsOrder() throws {
        try simulate(speaking: PoliteCodec(layout: inOrderPushLayout)) {
            $0.reconnecting.policy = nil
        } _: { service, client in
            let handles = ["slow", "slow", "slow"].map { client.start(Request(type: 0x410, body: $0)) }
            try await service.server.waitForRequests(3)
            handles[0].cancel()
            try await service.server.push(goAwayFrame)
            _ = await failure(of: handles[0])
            try await expectBody("slow", of: handles[1])
            try await expectBody("slow", of: handles[2])
            let reply = try await client.send(Request(type: 0x410, body: "next"))
            #expect(reply.body == "next")
        }
    }

    @Test func closingWaitsForRequestsOnADrainingLinkAlsoWhenReconnectingHasEnded() throws {
        try simulate { service, client in
            let slow = client.start(ask("slow"))
            try await service.server.waitForRequest { $0.body == "slow" }
            let began = service.now
            try await service.server.push(goAwayFrame)
            try await service.pass(.milliseconds(100))
            await client.close()
            #expect(service.now - began >= .milliseconds(900) && service.now - began <= .milliseconds(1100))
            try await expectBody("slow", of: slow)
        }
    }

    // MARK: Permanent failures

    /// Regression: every attempt failed in the same way, without end, and callers waited until their deadlines.
    @Test(arguments: ["no address", "fd00::9", ""])
    func anInvalidSourceAddressFailsCallsAtOnce(_ source: String) throws {
        try simulate {
            $0.connecting.sourceAddress = source
        } _: { service, client in
            let began = service.now
            let error = await failure { () throws(ClientError) in try await client.send(ask("a")) }
            #expect(error?.code == .unavailable && error?.fate == .notSent)
            #expect((error?.cause as? TransportError)?.code == .invalidAddress)
            #expect(service.now - began < .milliseconds(100))
            #expect(await client.metrics.connection.attempts == 1)
        }
    }

    @Test func anInvalidSourceAddressIsRetriedIfTheOptionsSaySo() throws {
        try simulate {
            $0.connecting.sourceAddress = "no address"
            $0.reconnecting.retriesPermanentCauses = true
        } _: { service, client in
            let error = await failure { () throws(ClientError) in try await client.send(ask("a")) }
            #expect(error?.code == .timedOut && error?.fate == .notSent)
            #expect(await client.metrics.connection.attempts > 2)
        }
    }

    // MARK: Servers that refuse the handshake

    @Test func aTemporaryRefusalIsRetriedAfterItsDelay() throws {
        try simulate {
            $0.handshake.perform = { handshaker in
                if handshaker.session == 1 {
                    throw HandshakeRefusal("busy", isPermanent: false, retryAfter: .seconds(20))
                }
            }
        } _: { service, client in
            let began = service.now
            let handle = client.start(ask("a"), timeout: .seconds(60))
            try await service.pass(.seconds(1))
            let state = await firstState(of: client)
            if case .waiting(let delay, 2, .handshakeRefused) = state {
                #expect(delay > .seconds(18) && delay <= .seconds(21))
            } else {
                Issue.record("\(state?.description ?? "no state")")
            }
            try await expectBody("a", of: handle)
            // Up to a tenth later, so that refused clients do not all return at once.
            #expect(service.now - began >= .seconds(20) && service.now - began < .seconds(23))
            #expect(await client.metrics.connection.disconnects == [.handshakeRefused: 1])
        }
    }

    @Test func aPermanentRefusalIsRetriedByTheNextRequestAfterItsDelay() throws {
        try simulate {
            $0.handshake.perform = { handshaker in
                if handshaker.session == 1 { throw HandshakeRefusal("wrong password", retryAfter: .seconds(20)) }
            }
        } _: { service, client in
            let began = service.now
            let error = await failure { () throws(ClientError) in try await client.send(ask("a")) }
            #expect(error?.code == .unavailable)
            #expect((error?.cause as? HandshakeRefusal)?.reason == "wrong password")
            #expect(service.now - began < .milliseconds(100))
            try await service.pass(.seconds(5))
            #expect(await firstState(of: client) == .idle)
            try await expectEcho("b", by: client, timeout: .seconds(60))
            #expect(service.now - began >= .seconds(20) && service.now - began < .seconds(23))
        }
    }

    // MARK: Absurd delays

    /// Regression: the client was unavailable for an hour.
    @Test(arguments: [true, false])
    func oneGoAwayDoesNotKeepAClientFromItsOnlyServer(sendsAfterGoAway: Bool) throws {
        try simulate({ $0.requests.timeout = .seconds(70) }, sendsAfterGoAway: sendsAfterGoAway) { service, client in
            let pushes = client.pushes()
            try await expectBody("a", of: client.start(ask("a")))
            try await service.server.push(Frame(.push, type: 2, body: "!86400"))
            try await service.pass(.milliseconds(10))
            await service.server.disconnectAll()
            try await service.pass(.milliseconds(50))
            let began = service.now
            try await expectEcho("b", by: client)
            #expect(service.now - began > .seconds(59) && service.now - began < .seconds(67))
            withExtendedLifetime(pushes) {}
        }
    }

    @Test func aRefusalDoesNotKeepAClientFromItsOnlyServer() throws {
        try simulate {
            $0.reconnecting.maximumRetryAfter = .seconds(5)
            $0.handshake.perform = { handshaker in
                guard handshaker.session == 1 else { return }
                throw HandshakeRefusal("busy", isPermanent: false, retryAfter: .seconds(Int64.max))
            }
        } _: { service, client in
            try await expectEcho("a", by: client)
            #expect(service.now >= .seconds(5) && service.now < .seconds(6))
        }
    }

    private func firstState(of client: Client) async -> ConnectionState? {
        var states = client.states.makeAsyncIterator()
        return await states.next()
    }
}

/// A type, a length and a body. Responses are matched in order, and there are pushes.
private let inOrderPushLayout = FrameLayout {
    Field.type(UInt32.self)
    Field.length(UInt32.self, counting: .body)
    Field.body
}
.roles { $0.push = 2 }
