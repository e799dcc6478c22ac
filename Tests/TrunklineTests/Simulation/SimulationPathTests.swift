import Testing
import Trunkline

@testable import TrunklineIO
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// The paths of a simulated network, and how observers learn of changes.
@Suite(.simulated) struct SimulationPathTests {
    private let db = SocketAddress.ipv4([10, 0, 0, 1], port: 7000)
    private let six = SocketAddress.ipv6([0xfd, 1] + [UInt8](repeating: 0, count: 13) + [7], port: 7000, scope: 0)

    private func path(_ network: SimulatedNetwork, to address: SocketAddress? = nil) -> String {
        network.loop.pathMonitor.path(to: address ?? db, from: nil).description
    }

    // MARK: Paths

    @Test func aPlainHostHasOneInterface() {
        let network = SimulatedNetwork(seed: 1)
        let monitor = network.loop.pathMonitor
        #expect(path(network) == "eth0 from 10.255.0.1")
        #expect(path(network, to: six) == "eth0 from fd00::1")
        #expect(monitor.hasNetwork)
        #expect(monitor.isUsable(.ipv4([10, 255, 0, 1], port: 5)))
        #expect(!monitor.isUsable(.ipv4([10, 255, 0, 2], port: 5)))
        guard case .route(let route) = monitor.path(to: db, from: nil) else {
            Issue.record("there is no route")
            return
        }
        #expect(route.source == .ipv4([10, 255, 0, 1], port: 0))
        #expect(route.gateway == nil && !route.isTunnel)
    }

    @Test func theUsableInterfaceWithTheLowestMetricHasTheDefaultRoute() {
        let network = SimulatedNetwork(seed: 1)
        network.addInterface("wlan0", address: "192.168.0.7", metric: 600)
        #expect(path(network) == "eth0 from 10.255.0.1")
        network.setMetric(50, of: "wlan0")
        #expect(path(network) == "wlan0 from 192.168.0.7")
        #expect(path(network, to: six) == "eth0 from fd00::1")  // wlan0 has no address of the family
        network.addAddress("fd02::7", to: "wlan0")
        #expect(path(network, to: six) == "wlan0 from fd02::7")
        network.setMetric(100, of: "wlan0")
        #expect(path(network) == "eth0 from 10.255.0.1")  // with equal metrics, the older one
        network.removeAddress("10.255.0.1", from: "eth0")
        #expect(path(network) == "wlan0 from 192.168.0.7")
        network.setInterface("wlan0", isUp: false)
        #expect(path(network) == "no route")
        #expect(path(network, to: six) == "eth0 from fd00::1")
        #expect(!network.loop.pathMonitor.isUsable(.ipv4([192, 168, 0, 7], port: 0)))
        network.removeAddress("fd00::1", from: "eth0")
        #expect(!network.loop.pathMonitor.hasNetwork)
        network.setInterface("wlan0", isUp: true)
        #expect(path(network) == "wlan0 from 192.168.0.7")
    }

    @Test func aTunnelIsReported() {
        let network = SimulatedNetwork(seed: 1)
        network.addInterface("tun0", address: "10.8.0.2", metric: 10, isTunnel: true)
        #expect(path(network) == "tun0 (tunnel) from 10.8.0.2")
    }

    @Test func aRouteToOneHostAppliesOnlyToThatHost() {
        let network = SimulatedNetwork(seed: 1)
        network.host("db")
        network.addInterface("eth1", address: "10.1.0.2", metric: 500)
        network.setRoute(to: "db", through: "eth1")
        #expect(path(network) == "eth1 from 10.1.0.2")
        #expect(path(network, to: network.address("other")) == "eth0 from 10.255.0.1")
        network.setInterface("eth1", isUp: false)
        #expect(path(network) == "eth0 from 10.255.0.1")
        network.setInterface("eth1", isUp: true)
        #expect(path(network) == "eth1 from 10.1.0.2")
        network.setRoute(to: "10.0.0.1", through: nil)
        #expect(path(network) == "no route")
        #expect(path(network, to: network.address("other")) == "eth0 from 10.255.0.1")
        #expect(network.loop.pathMonitor.hasNetwork)
        network.removeRoute(to: "db")
        #expect(path(network) == "eth0 from 10.255.0.1")
    }

    // MARK: Observers

    @Test func simultaneousChangesAreReportedOnceAndSoon() async throws {
        for seed in seeds(20) {
            await Task.yield()
            let network = SimulatedNetwork(seed: seed)
            try network.runBlocking {
                let watcher = PathWatcher()
                watcher.watch(network)
                network.addInterface("eth1", address: "10.1.0.2")
                network.setInterface("eth0", isUp: false)
                network.setInterface("eth0", isUp: true)
                #expect(watcher.heard.isEmpty)
                try await network.clock.sleep(for: .milliseconds(5))
                #expect(watcher.heard == ["paths"])
                network.setMetric(1, of: "eth1")
                try await network.clock.sleep(for: .milliseconds(5))
                #expect(watcher.heard == ["paths", "paths"])
            }
        }
    }

    @Test func changesThatClientsCannotSeeAreNotReported() throws {
        let network = SimulatedNetwork(seed: 2)
        try network.runBlocking {
            let watcher = PathWatcher()
            watcher.watch(network)
            network.setInterface("eth0", isUp: true)
            network.setMetric(100, of: "eth0")
            network.addAddress("fd00::1", to: "eth0")
            network.removeAddress("10.9.9.9", from: "eth0")
            network.removeRoute(to: "db")
            network.partition(interface: "eth0")
            network.heal(interface: "eth0")
            try await network.clock.sleep(for: .seconds(1))
            #expect(watcher.heard.isEmpty)
        }
    }

    @Test func wakingFromSleepIsReported() throws {
        let network = SimulatedNetwork(seed: 3)
        try network.runBlocking {
            let watcher = PathWatcher()
            watcher.watch(network)
            let began = network.clock.now
            network.putToSleep(for: .seconds(3600))
            #expect(began.duration(to: network.clock.now) == .seconds(3600))
            #expect(watcher.heard.isEmpty)
            try await network.clock.sleep(for: .milliseconds(5))
            #expect(watcher.heard == ["wake"])
        }
    }

    @Test func observersAreHeldWeakly() throws {
        let network = SimulatedNetwork(seed: 4)
        try network.runBlocking {
            let kept = PathWatcher()
            kept.watch(network)
            var other: PathWatcher? = PathWatcher()
            weak let gone = other
            other?.watch(network)
            network.setInterface("eth0", isUp: false)
            other = nil
            #expect(gone == nil)
            try await network.clock.sleep(for: .milliseconds(5))
            #expect(kept.heard == ["paths"])
        }
    }

    @Test func hiddenPathsAreUnknown() throws {
        let network = SimulatedNetwork(seed: 5)
        network.hidesPaths = true
        try network.runBlocking {
            let monitor = network.loop.pathMonitor
            let watcher = PathWatcher()
            #expect(!monitor.add(watcher, on: network.loop))
            network.setInterface("eth0", isUp: false)
            network.putToSleep(for: .seconds(1))
            try await network.clock.sleep(for: .seconds(1))
            #expect(watcher.heard.isEmpty)
            #expect(monitor.path(to: db, from: nil) == .unknown)
            #expect(monitor.path(to: .loopback(port: 1), from: nil) == .local)
            #expect(monitor.hasNetwork)
            #expect(monitor.isUsable(.ipv4([10, 255, 0, 1], port: 5)))
        }
    }

    // MARK: Runs

    /// Queries and observers use no random numbers, so a run without changes is the same with them.
    @Test func aMonitorWithNothingToReportDoesNotChangeTheRun() throws {
        func run(watching: Bool) throws -> UInt64 {
            let network = SimulatedNetwork(seed: 6)
            try network.runBlocking {
                let watcher = PathWatcher()
                if watching {
                    watcher.watch(network)
                    #expect(path(network) == "eth0 from 10.255.0.1")
                }
                let server = try await network.startServer(at: "db:7000", speaking: .standard)
                let client = Client(to: "db:7000", speaking: .standard, on: network.loops)
                for number in 0..<20 { _ = try await client.send(ask(number)) }
                await client.close()
                await server.stop()
                #expect(watcher.heard.isEmpty)
            }
            return network.fingerprint
        }
        let (plain, watched) = (try run(watching: false), try run(watching: true))
        #expect(plain == watched)
    }

    @Test func unobservedChangesUseNoRandomNumbers() {
        let network = SimulatedNetwork(seed: 6)
        network.setInterface("eth0", isUp: false)
        network.setInterface("eth0", isUp: true)
        network.putToSleep(for: .seconds(1))
        let same = SimulatedNetwork(seed: 6)
        #expect(network.loop.network.random.next() == same.loop.network.random.next())
    }

    @Test func changesAreInTheTrace() {
        let network = SimulatedNetwork(seed: 7)
        network.recordsTrace = true
        let before = network.fingerprint
        network.addInterface("eth1", address: "10.1.0.2")
        network.setRoute(to: "db", through: "eth1")
        network.setInterface("eth0", isUp: false)
        network.partition(interface: "eth1")
        let faults = network.trace.map { $0.split(separator: " ").dropFirst(4).joined(separator: " ") }
        #expect(
            faults == [
                "eth1 added with 10.1.0.2", "route to db: eth1", "eth0 is down", "eth1 partitioned",
            ]
        )
        #expect(network.fingerprint != before)
    }
}

/// Records the changes of a network. Sendable: confined to the event loop of its network.
final class PathWatcher: PathObserver, @unchecked Sendable {
    private(set) var heard: [String] = []

    /// Must be called on the event loop.
    func watch(_ network: SimulatedNetwork) {
        #expect(network.loop.pathMonitor.add(self, on: network.loop))
    }

    func networkChanged(_ change: NetworkChange) { heard.append("\(change)") }
}
