import Testing
import Trunkline

@testable import TrunklineLoopback
@testable import TrunklineTesting

/// Faults of a simulated network.
@Suite(.simulated) struct SimulationFaultTests {}

extension SimulationFaultTests {
    /// A network with an echo server at "db" and a peer connected to it.
    private func connected(
        seed: UInt64,
        _ body: @escaping @Sendable (SimulatedNetwork, TestServer, TestPeer) async throws -> Void
    ) throws {
        let network = SimulatedNetwork(seed: seed)
        let server = TestServer(on: network.loop)
        try network.runBlocking {
            try await server.listen(on: network.address("db"))
            let peer = TestPeer(on: network.loop)
            try await peer.connect(to: network.address("db"))
            try await body(network, server, peer)
        }
    }

    @Test func aPartitionHoldsBytesUntilItHeals() async throws {
        for seed in seeds(20) {
            await Task.yield()
            try connected(seed: seed) { network, _, peer in
                await peer.write(pattern(500))
                network.partition("db")
                await peer.write(pattern(500))
                try await network.clock.sleep(for: .seconds(60))
                let during = await peer.received
                #expect(during.isEmpty)
                network.heal("db")
                await peer.finish()
                await peer.ended()
                let after = await peer.received
                #expect(after == pattern(500) + pattern(500))
            }
        }
    }

    @Test func connectingDuringAPartitionHangsUntilItHeals() throws {
        try connected(seed: 1) { network, _, _ in
            network.partition()
            let began = network.clock.now
            async let connecting: Void = TestPeer(on: network.loop).connect(to: network.address("db"))
            try await network.clock.sleep(for: .seconds(30))
            network.heal()
            try await connecting
            #expect(began.duration(to: network.clock.now) > .seconds(30))
        }
    }

    @Test func aPartitionOfOneHostDoesNotAffectOthers() throws {
        try connected(seed: 2) { network, _, peer in
            network.partition("other")
            await peer.write([1])
            let echoed = await peer.received(atLeast: 1)
            #expect(echoed == [1])
        }
    }

    @Test func aHalfOpenLinkDropsBytesSilently() throws {
        try connected(seed: 3) { network, server, peer in
            network.halfOpen("db")
            await peer.write(pattern(500_000))
            try await network.clock.sleep(for: .seconds(600))
            let (written, events) = await (peer.writtenCount, peer.events)
            let arrived = await server.peers[0].received
            #expect(arrived.isEmpty)
            #expect(written == 131_072)  // the send buffer and the window
            #expect(events == ["connected"])
            let next = TestPeer(on: network.loop)
            try await next.connect(to: network.address("db"))
            await next.write([1])
            let echoed = await next.received(atLeast: 1)
            #expect(echoed == [1])
        }
    }

    /// A packet every 60 s keeps the link alive, whoever sends it.
    @Test(arguments: [false, true])
    func aMiddleboxForgetsIdleLinks(resets: Bool) throws {
        try connected(seed: 6) { network, server, peer in
            network.forgetIdleLinks(to: "db", after: .seconds(60), resets: resets)
            for count in 1...5 {
                try await network.clock.sleep(for: .seconds(59))
                await peer.write([1])
                #expect(await peer.received(atLeast: count).count == count)
            }
            try await network.clock.sleep(for: .seconds(61))
            await peer.write([1])
            try await network.clock.sleep(for: .seconds(600))
            #expect(await server.peers[0].received.count == 5)
            #expect(await peer.failure?.code == (resets ? .reset : nil))
            #expect(await server.peers[0].failure == nil)
            // The other side learns of it by what it sends.
            await server.peers[0].write([1])
            try await network.clock.sleep(for: .seconds(1))
            #expect(await server.peers[0].failure?.code == (resets ? .reset : nil))
            network.forgetIdleLinks(to: "db", after: nil)
            if !resets {
                await peer.write([1])
                try await network.clock.sleep(for: .seconds(10))
                #expect(await server.peers[0].received.count == 5, "a forgotten link stays forgotten")
            }
            let next = TestPeer(on: network.loop)
            try await next.connect(to: network.address("db"))
            try await network.clock.sleep(for: .seconds(600))
            await next.write([1])
            #expect(await next.received(atLeast: 1) == [1])
        }
    }

    @Test func aMiddleboxOfEveryHostCoversNewLinks() throws {
        try connected(seed: 7) { network, server, peer in
            network.forgetIdleLinks(after: .seconds(10))
            let next = TestPeer(on: network.loop)
            try await next.connect(to: network.address("db"))
            try await network.clock.sleep(for: .seconds(11))
            await next.write([1])
            await peer.write([1])
            try await network.clock.sleep(for: .seconds(10))
            for peer in await server.peers { #expect(await peer.received.isEmpty) }
        }
    }

    @Test func aResetHostFailsBothEnds() throws {
        try connected(seed: 4) { network, server, peer in
            network.reset("db")
            await peer.ended()
            await server.peers[0].ended()
            let failures = await [peer.failure?.code, server.peers[0].failure?.code]
            #expect(failures == [.reset, .reset])
            await peer.close()
            await server.peers[0].close()
            #expect(network.openLinks == 0)
        }
    }

    @Test func refusedAndUnreachableHostsRecover() throws {
        try connected(seed: 5) { network, _, _ in
            for (fault, code) in [
                (network.refuseConnections, TransportError.Code.refused),
                (network.makeUnreachable, .unreachable),
            ] as [((String) -> Void, TransportError.Code)] {
                fault("db")
                let peer = TestPeer(on: network.loop)
                let error = await #expect(throws: TransportError.self) {
                    try await peer.connect(to: network.address("db"))
                }
                #expect(error?.code == code)
            }
            network.acceptConnections(to: "db")
            try await TestPeer(on: network.loop).connect(to: network.address("db"))
        }
    }

    @Test func newConditionsApplyToExistingLinks() throws {
        try connected(seed: 6) { network, _, peer in
            var conditions = NetworkConditions()
            conditions.latency = .seconds(1)...(.seconds(2))
            network.setConditions(conditions, for: "db")
            let began = network.clock.now
            await peer.write([1])
            _ = await peer.received(atLeast: 1)
            let took = began.duration(to: network.clock.now)
            #expect(took >= .seconds(2) && took <= .seconds(4))
        }
    }

    @Test func aClientThatCancelsConnectingLeavesNothingBehind() async throws {
        for seed in seeds(50) {
            await Task.yield()
            let network = SimulatedNetwork(seed: seed)
            let server = TestServer(on: network.loop)
            try network.runBlocking {
                try await server.listen(on: network.address("db"))
                let peer = TestPeer(on: network.loop)
                await withTaskGroup(of: Void.self) { group in
                    group.addTask { try? await peer.connect(to: network.address("db")) }
                    try? await network.clock.sleep(for: .microseconds(Int(seed) * 100))
                    await peer.close()
                    await server.stop()
                    await peer.stopWaiting()
                }
                for peer in await server.peers { await peer.close() }
            }
            try network.runBlocking { for peer in await server.peers { await peer.close() } }
            #expect(network.openLinks == 0, "seed \(seed)")
        }
    }

    /// Whatever the faults, the received bytes are the beginning of those that were sent, and no link is left over.
    @Test func faultsNeverChangeTheOrderOfBytes() async throws {
        for seed in seeds(300) {
            await Task.yield()
            let network = SimulatedNetwork(seed: seed)
            let server = TestServer(on: network.loop)
            try network.runBlocking {
                try await server.listen(on: network.address("db"))
                let peers = (0..<4).map { _ in TestPeer(on: network.loop) }
                await withTaskGroup(of: Void.self) { group in
                    for peer in peers {
                        group.addTask {
                            try? await peer.connect(to: network.address("db"))
                            for _ in 0..<10 {
                                await peer.write(pattern(256))
                                try? await network.clock.sleep(for: .milliseconds(1))
                            }
                        }
                    }
                    var random = SeededGenerator(seed: seed)
                    for _ in 0..<6 {
                        try? await network.clock.sleep(for: .microseconds(random.below(3000)))
                        switch random.below(6) {
                        case 0: network.reset("db")
                        case 1: network.halfOpen("db")
                        case 2: network.refuseConnections(to: "db")
                        case 3: await peers[random.below(4)].close()
                        case 4: for peer in await server.peers.prefix(1) { await peer.close() }
                        default: network.partition("db")
                        }
                        try? await network.clock.sleep(for: .microseconds(random.below(3000)))
                        network.heal()
                    }
                    for peer in peers where await peer.events.isEmpty { await peer.stopWaiting() }
                }
                let all = await peers + server.peers
                for peer in all {
                    let received = await peer.received
                    #expect(received == (0..<10).flatMap { _ in pattern(256) }.prefix(received.count).map { $0 })
                }
                await server.stop()
                for peer in all { await peer.releaseTransport() }
                try await network.clock.sleep(for: .seconds(1))
                for peer in await server.peers { await peer.releaseTransport() }
            }
            #expect(network.openLinks == 0, "seed \(seed)")
        }
    }
}
