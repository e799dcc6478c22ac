import Testing
import Trunkline

@testable import TrunklineLoopback
@testable import TrunklineTesting

/// Interfaces, addresses and routes of the clients' host, and links that survive their changes.
@Suite(.simulated) struct SimulationInterfaceTests {}

extension SimulationInterfaceTests {
    /// A network with an echo server at "db" and a peer connected to it.
    private func connected(
        seed: UInt64 = 1,
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

    /// Writes to the echo server and expects no answer for a minute.
    private func expectSilence(_ peer: TestPeer, on network: SimulatedNetwork) async throws {
        await peer.write(pattern(500))
        try await network.clock.sleep(for: .seconds(60))
        let (received, events) = await (peer.received, peer.events)
        #expect(received.isEmpty)
        #expect(events == ["connected"])
    }

    /// Expects an echo of `count` bytes in all.
    private func expectEcho(_ peer: TestPeer, of count: Int = 500) async {
        let echoed = await peer.received(atLeast: count)
        #expect(echoed == pattern(count))
    }

    private func error(of peer: TestPeer, to address: SocketAddress, from source: String? = nil) async
        -> TransportError?
    {
        do {
            try await peer.connect(to: address, from: source)
            return nil
        } catch { return error as? TransportError }
    }

    /// The host of the local address of a new link.
    private func source(
        _ network: SimulatedNetwork,
        to address: SocketAddress,
        from source: String? = nil
    ) async throws -> String? {
        let peer = TestPeer(on: network.loop)
        try await peer.connect(to: address, from: source)
        let local = await peer.localAddress
        await peer.close()
        return local?.host
    }

    // MARK: Links

    @Test func aNewLinkHasTheAddressOfTheDefaultRoute() throws {
        try connected { network, server, peer in
            let address = await peer.localAddress
            #expect(address == .ipv4([10, 255, 0, 1], port: 32_769))
            let accepted = await server.peers[0].localAddress
            #expect(accepted == network.address("db"))
            network.addInterface("eth1", address: "10.1.0.2", metric: 50)
            let next = try await source(network, to: network.address("db"))
            #expect(next == "10.1.0.2")
            await self.expectSurvival(of: peer)  // a better route does not affect existing links
            network.setInterface("eth1", isUp: false)
            let last = try await source(network, to: network.address("db"))
            #expect(last == "10.255.0.1")
        }
    }

    private func expectSurvival(of peer: TestPeer) async {
        await peer.write(pattern(500))
        await expectEcho(peer)
        let events = await peer.events
        #expect(!events.contains("failed"))
    }

    @Test func withoutARouteConnectingFailsAtOnce() throws {
        try connected { network, _, _ in
            network.setInterface("eth0", isUp: false)
            let began = network.clock.now
            let error = await error(of: TestPeer(on: network.loop), to: network.address("db"))
            let took = began.duration(to: network.clock.now)
            #expect(error?.code == .unreachable)
            #expect(error?.errno == 101)
            #expect(error?.message == "connecting to 10.0.0.1:7000: network is unreachable")
            #expect(took > .zero && took <= .microseconds(50))
            network.setInterface("eth0", isUp: true)
            try await TestPeer(on: network.loop).connect(to: network.address("db"))
        }
    }

    @Test func aClientThatClosesBeforeItsAttemptFailsLeavesNothingBehind() throws {
        let network = SimulatedNetwork(seed: 2)
        try network.runBlocking {
            network.setInterface("eth0", isUp: false)
            let peer = TestPeer(on: network.loop)
            async let connecting: Void = peer.connect(to: network.address("db"))
            try await network.clock.sleep(for: .nanoseconds(1))
            await peer.close()
            await peer.stopWaiting()
            try await connecting
        }
        #expect(network.openLinks == 0)
    }

    @Test func aLinkSurvivesAnInterfaceThatGoesDown() async throws {
        for seed in seeds(20) {
            await Task.yield()
            try connected(seed: seed) { network, _, peer in
                network.setInterface("eth0", isUp: false)
                try await expectSilence(peer, on: network)
                network.setInterface("eth0", isUp: true)
                await expectEcho(peer)
            }
        }
    }

    @Test func aLinkSurvivesTheLossOfItsAddress() async throws {
        for seed in seeds(20) {
            await Task.yield()
            try connected(seed: seed) { network, _, peer in
                network.addAddress("10.255.0.2", to: "eth0")
                network.removeAddress("10.255.0.1", from: "eth0")
                try await expectSilence(peer, on: network)
                network.addAddress("10.255.0.1", to: "eth0")
                await expectEcho(peer)
            }
        }
    }

    @Test func aLinkContinuesWhenItsAddressMovesToAnotherInterface() throws {
        try connected { network, _, peer in
            network.addInterface("eth1", address: "10.1.0.2", metric: 200)
            network.removeAddress("10.255.0.1", from: "eth0")
            try await expectSilence(peer, on: network)
            network.addAddress("10.255.0.1", to: "eth1")
            await expectEcho(peer)
            network.setInterface("eth0", isUp: false)
            await peer.write(pattern(500))
            let all = await peer.received(atLeast: 1000)
            #expect(all == pattern(500) + pattern(500))
        }
    }

    @Test func aPartitionedInterfaceHoldsPacketsAndKeepsItsRoutes() throws {
        try connected { network, _, peer in
            network.addInterface("eth1", address: "10.1.0.2", metric: 200)
            let before = network.loop.pathMonitor.path(to: network.address("db"), from: nil)
            network.partition(interface: "eth0")
            #expect(network.loop.pathMonitor.path(to: network.address("db"), from: nil) == before)
            try await expectSilence(peer, on: network)
            let other = try await source(network, to: network.address("db"), from: "10.1.0.2")
            #expect(other == "10.1.0.2")
            let late = TestPeer(on: network.loop)
            async let connecting: Void = late.connect(to: network.address("db"))
            try await network.clock.sleep(for: .seconds(10))
            let (events, local) = await (late.events, late.localAddress)
            #expect(events.isEmpty)
            #expect(local == nil)
            network.heal(interface: "eth0")
            await expectEcho(peer)
            try await connecting
        }
    }

    @Test(arguments: [true, false])
    func packetsWaitUntilHostAndInterfaceAreBothBack(hostFirst: Bool) throws {
        try connected { network, _, peer in
            network.partition("db")
            network.setInterface("eth0", isUp: false)
            try await expectSilence(peer, on: network)
            if hostFirst { network.heal() } else { network.setInterface("eth0", isUp: true) }
            try await network.clock.sleep(for: .seconds(60))
            let received = await peer.received
            #expect(received.isEmpty)
            if hostFirst { network.setInterface("eth0", isUp: true) } else { network.heal() }
            await expectEcho(peer)
        }
    }

    @Test func aMissingRouteAffectsOnlyTheLinksToItsHost() throws {
        try connected { network, server, peer in
            let other = TestServer(on: network.loop)
            try await other.listen(on: network.address("other"))
            network.setRoute(to: "db", through: nil)
            try await expectSilence(peer, on: network)
            let error = await error(of: TestPeer(on: network.loop), to: network.address("db"))
            #expect(error?.code == .unreachable)
            try await TestPeer(on: network.loop).connect(to: network.address("other"))
            network.removeRoute(to: "db")
            await expectEcho(peer)
        }
    }

    @Test func loopbackAndPathsNeedNoInterface() throws {
        let network = SimulatedNetwork(seed: 3)
        let addresses: [SocketAddress] = [
            .loopback(port: 7000), .unix(path: "/run/db.sock"),
            .ipv6([UInt8](repeating: 0, count: 15) + [1], port: 7000, scope: 0),
        ]
        try network.runBlocking {
            for (address, local) in zip(addresses, ["127.0.0.1", nil, "::1"]) {
                network.setInterface("eth0", isUp: true)
                let server = TestServer(on: network.loop)
                try await server.listen(on: address)
                let early = TestPeer(on: network.loop)
                try await early.connect(to: address)
                network.setInterface("eth0", isUp: false)
                network.partition(interface: "eth0")
                network.setRoute(to: "127.0.0.1", through: nil)
                await early.write(pattern(500))
                await expectEcho(early)
                let source = try await source(network, to: address)
                #expect(source == local)
                #expect(network.loop.pathMonitor.path(to: address, from: nil) == .local)
                #expect(network.loop.pathMonitor.isUsable(address))
            }
            #expect(!network.loop.pathMonitor.hasNetwork)
        }
    }

    @Test func aDeadlockReportNamesALinkWithoutAPath() {
        #expect {
            try connected { network, _, peer in
                network.setInterface("eth0", isUp: false)
                await peer.write([1])
                _ = await peer.received(atLeast: 1)
            }
        } throws: { error in
            guard case SimulationError.deadlock(let text)? = error as? SimulationError else { return false }
            return text.contains("without a path from 10.255.0.1")
        }
    }

    // MARK: The source address

    @Test func aSourceAddressChoosesTheInterface() throws {
        try connected { network, _, _ in
            network.addInterface("eth1", address: "10.1.0.2", metric: 200)
            network.addAddress("10.1.0.3", to: "eth1")
            for (source, expected) in [("10.1.0.3", "10.1.0.3"), ("0.0.0.0", "10.255.0.1")] {
                let local = try await self.source(network, to: network.address("db"), from: source)
                #expect(local == expected)
            }
            let local = try await self.source(network, to: network.address("db"))
            #expect(local == "10.255.0.1")
            let bound = network.loop.pathMonitor.path(to: network.address("db"), from: .ipv4([10, 1, 0, 3], port: 9))
            #expect(bound.description == "eth1 from 10.1.0.3")
        }
    }

    @Test func aSourceAddressThatThisHostLacksIsInvalid() throws {
        try connected { network, _, _ in
            network.addInterface("eth1", address: "10.1.0.2")
            network.setInterface("eth1", isUp: false)
            let expected: [(String, TransportError.Code, Int32)] = [
                ("10.9.9.9", .invalidAddress, 99), ("fd00::1", .invalidAddress, 97),
                ("127.0.0.1", .invalidAddress, 22), ("10.1.0.2", .unreachable, 101),
            ]
            for (source, code, errno) in expected {
                let error = await error(of: TestPeer(on: network.loop), to: network.address("db"), from: source)
                #expect(error?.code == code, "\(source)")
                #expect(error?.errno == errno, "\(source)")
            }
            let missing = network.loop.pathMonitor.path(to: network.address("db"), from: .ipv4([10, 9, 9, 9], port: 0))
            #expect(missing == .noRoute)
        }
    }

    @Test func aClientConnectsFromItsSourceAddress() throws {
        let network = SimulatedNetwork(seed: 4)
        network.addInterface("eth1", address: "10.1.0.2", metric: 200)
        try network.runBlocking {
            let server = try await network.startServer(at: "db:7000", speaking: .standard)
            let client = Client(
                to: "db:7000",
                speaking: .standard,
                options: ClientOptions { $0.connecting.sourceAddress = "10.1.0.2" },
                on: network.loops
            )
            _ = try await client.send(ask("a"))
            network.partition(interface: "eth0")
            _ = try await client.send(ask("b"))
            await client.close()
            await server.stop()
        }
    }

    // MARK: Every seed

    /// Whatever happens to the interfaces, the received bytes are the beginning of those that were sent, no link is
    /// left over, and the same seed gives the same run.
    @Test func changesNeverAffectTheOrderOfBytes() async throws {
        for seed in seeds(200) {
            await Task.yield()
            let first = try eventfulRun(seed: seed)
            #expect(first.openLinks == 0, "seed \(seed)")
            guard seed % 10 == 0 else { continue }
            let second = try eventfulRun(seed: seed)
            #expect(first.fingerprint == second.fingerprint, "seed \(seed)")
            #expect(first.trace == second.trace, "seed \(seed)")
            #expect(first.trace.contains { $0.contains("networkChange") }, "seed \(seed)")
        }
    }

    private func eventfulRun(seed: UInt64) throws -> SimulatedNetwork {
        let network = SimulatedNetwork(seed: seed)
        network.recordsTrace = true
        network.addInterface("eth1", address: "10.1.0.2", metric: 200)
        let server = TestServer(on: network.loop)
        try network.runBlocking {
            let watchers = [PathWatcher(), PathWatcher()]
            for watcher in watchers { watcher.watch(network) }
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
                for _ in 0..<8 {
                    try? await network.clock.sleep(for: .microseconds(random.below(3000)))
                    change(network, using: &random)
                }
                network.heal(interface: "eth0")
                network.heal(interface: "eth1")
                network.removeAddress("10.255.0.1", from: "eth1")
                network.addAddress("10.255.0.1", to: "eth0")
                network.setInterface("eth0", isUp: true)
                network.setInterface("eth1", isUp: true)
                network.removeRoute(to: "db")
            }
            for peer in peers where await peer.failure == nil {
                let received = await peer.received(atLeast: 2560)
                #expect(received == (0..<10).flatMap { _ in pattern(256) }, "seed \(seed)")
            }
            await server.stop()
            for peer in peers { await peer.releaseTransport() }
            try await network.clock.sleep(for: .seconds(1))
            for peer in await server.peers { await peer.releaseTransport() }
            #expect(watchers[0].heard == watchers[1].heard)
        }
        return network
    }

    private func change(_ network: SimulatedNetwork, using random: inout SeededGenerator) {
        let interface = random.below(2) == 0 ? "eth0" : "eth1"
        switch random.below(8) {
        case 0: network.setInterface(interface, isUp: false)
        case 1: network.setInterface(interface, isUp: true)
        case 2: network.partition(interface: interface)
        case 3: network.heal(interface: interface)
        case 4: network.setMetric(random.below(300), of: interface)
        case 5: network.setRoute(to: "db", through: random.below(3) == 0 ? nil : interface)
        case 6: network.putToSleep(for: .milliseconds(random.below(3)))
        default:
            let other = interface == "eth0" ? "eth1" : "eth0"
            network.removeAddress("10.255.0.1", from: other)
            network.addAddress("10.255.0.1", to: interface)
        }
    }
}
