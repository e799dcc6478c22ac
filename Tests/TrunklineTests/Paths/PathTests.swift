import Testing
import Trunkline

@testable import TrunklineLoopback
@testable import TrunklineTesting

/// How a client reacts to changes of the host's network.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct PathTests {}

extension PathTests {
    /// Options with a back-off that only a network change shortens, and with a long timeout.
    private func patient(_ change: (inout ClientOptions) -> Void = { _ in }) -> ClientOptions {
        ClientOptions {
            $0.reconnecting.policy = Backoff(minimum: .seconds(300), cap: .seconds(300))
            $0.requests.timeout = .seconds(3600)
            change(&$0)
        }
    }

    private func state(of client: Client) async -> ConnectionState? {
        for await state in client.states { return state }
        return nil
    }

    /// Collects the reports of `client` from now on.
    private func reports(of client: Client, in network: SimulatedNetwork) -> Task<[DisconnectReport], Never> {
        let reports = client.disconnects
        return Task(executorPreference: network.executor) {
            var all: [DisconnectReport] = []
            for await report in reports { all.append(report) }
            return all
        }
    }

    // MARK: No route

    @Test(arguments: 1...20 as ClosedRange<UInt64>)
    func withoutARouteAttemptsPauseUntilOneAppears(seed: UInt64) throws {
        try simulate(seed: seed, options: patient()) { service, client in
            let network = service.network
            let reports = reports(of: client, in: network)
            try await expectEcho("before", by: client)
            network.setInterface("eth0", isUp: false)
            try await service.pass(.milliseconds(50))
            #expect(await state(of: client) == .noNetwork(cause: .unreachable))
            #expect(await client.diagnostics.path == .noRoute)
            let waiting = client.start(ask("waiting"))
            let hasty = await failure { () throws(ClientError) in
                try await client.send(ask("hasty"), options: CallOptions(waitsForReady: false))
            }
            #expect(hasty?.code == .unavailable && hasty?.fate == .notSent)
            let attempts = await client.metrics.connection.attempts
            try await service.pass(.seconds(600))
            #expect(await client.metrics.connection.attempts == attempts)
            let began = service.now
            network.setInterface("eth0", isUp: true)
            try await expectBody("waiting", of: waiting)
            // The change is reported within 5 ms, an attempt begins within 80 ms, and it needs a few round trips
            // of at most 4 ms.
            let took = service.now - began
            #expect(took < .milliseconds(200), "\(took)")
            await client.closeNow()
            let all = await reports.value
            let lost = try #require(all.first { $0.cause == .pathLost })
            #expect(lost.pathBefore.description == "eth0 from 10.255.0.1")
            #expect(lost.pathAfter == .noRoute && lost.isNetworkChange && lost.endedBy == .network)
        }
    }

    @Test func withoutARouteCallersWaitUntilTheirDeadlines() throws {
        try simulate(options: patient()) { service, client in
            service.network.setInterface("eth0", isUp: false)
            let error = await failure { () throws(ClientError) in
                try await client.send(ask("a"), timeout: .seconds(7))
            }
            #expect(error?.code == .timedOut && error?.fate == .notSent)
            #expect(service.now == .seconds(7))
            #expect(await client.metrics.connection.attempts == 1)
        }
    }

    /// On a host with a loopback interface only, local names can be looked up and local servers reached. One look-up
    /// without an answer in time says nothing about the network.
    @Test func aSlowLookUpOnAHostWithLoopbackOnlyDoesNotStopAttempts() throws {
        try simulate { service, _ in
            let network = service.network
            network.setInterface("eth0", isUp: false)
            let local = try await service.startServer(at: "127.0.0.1:7000", speaking: .standard)
            network.setName("local", hosts: ["127.0.0.1"])
            network.setResolution(of: "local", ipv6: .after(.seconds(5)), ipv4: .after(.seconds(5)))
            let client = service.client(of: ["local:7000"])
            let handle = client.start(ask("a"), timeout: .seconds(120))
            try await service.pass(.seconds(3))
            network.setResolution(of: "local")
            try await expectBody("a", of: handle)
            #expect(service.now < .seconds(4))
            await client.closeNow()
            await local.stop()
        }
    }

    /// A name that the hosts file will have soon.
    @Test func aNameThatCannotBeResolvedWithoutANetworkIsLookedUpAgain() throws {
        try simulate(options: patient()) { service, _ in
            let network = service.network
            network.setInterface("eth0", isUp: false)
            let local = try await service.startServer(at: "127.0.0.1:7000", speaking: .standard)
            let client = service.client(of: ["local:7000"], options: patient())
            let handle = client.start(ask("a"))
            try await service.pass(.seconds(1))
            #expect(await state(of: client) == .noNetwork(cause: .nameResolution))
            network.setName("local", hosts: ["127.0.0.1"])
            try await expectBody("a", of: handle)
            #expect(service.now < .seconds(61))
            await client.closeNow()
            await local.stop()
        }
    }

    /// The route is removed while the client waits between two attempts.
    @Test func aBackoffWithoutARouteBecomesAPause() throws {
        try simulate(options: patient()) { service, client in
            let network = service.network
            network.refuseConnections(to: "db")
            let waiting = client.start(ask("a"))
            try await service.pass(.seconds(2))
            network.setInterface("eth0", isUp: false)
            try await service.pass(.seconds(2))
            #expect(await state(of: client) == .noNetwork(cause: .unreachable))
            network.acceptConnections(to: "db")
            network.setInterface("eth0", isUp: true)
            let began = service.now
            try await expectBody("a", of: waiting)
            #expect(service.now - began < .milliseconds(200))
        }
    }

    /// The route is removed, an attempt fails because of this, and the route is back before any change is reported. The
    /// client then learns of a network that is as it was.
    @Test(arguments: 1...30 as ClosedRange<UInt64>)
    func anOutageThatIsOverBeforeItIsReportedEndsThePause(seed: UInt64) throws {
        try simulate(seed: seed, options: patient()) { service, client in
            let network = service.network
            network.longestNewsDelay = .milliseconds(60)
            try await expectEcho("a", by: client)
            network.reset("db")
            network.setInterface("eth0", isUp: false)
            await client.reconnectNow()
            let waiting = client.start(ask("b"))
            try await service.pass(.milliseconds(Int(seed)))
            network.setInterface("eth0", isUp: true)
            let began = service.now
            try await expectBody("b", of: waiting)
            #expect(service.now - began < .milliseconds(400))
        }
    }

    /// The name has another address by now, which no change of this host's network shows.
    @Test func aNameIsResolvedAgainWhileItsAddressHasNoRoute() throws {
        try simulate(options: patient()) { service, client in
            let network = service.network
            let other = try await service.startServer(at: "other:7000", speaking: .standard)
            network.setRoute(to: "db", through: nil)
            let waiting = client.start(ask("a"))
            try await service.pass(.seconds(10))
            #expect(await state(of: client) == .noNetwork(cause: .unreachable))
            network.setName("db", hosts: ["other"])
            try await expectBody("a", of: waiting)
            #expect(service.now <= .seconds(61))
            await client.closeNow()
            await other.stop()
        }
    }

    /// Addresses that are unrelated to the server appear, as on a host with many containers.
    @Test func unrelatedChangesDoNotDisturbAnAttempt() throws {
        try simulate(options: patient { $0.connecting.timeout = .seconds(30) }) { service, client in
            let network = service.network
            network.setResolution(of: "db", ipv6: .after(.seconds(9)), ipv4: .after(.seconds(9)))
            let waiting = client.start(ask("a"))
            for number in 0..<200 {
                network.addAddress("10.99.0.\(number)", to: "eth0")
                try await service.pass(.milliseconds(40))
            }
            try await expectBody("a", of: waiting)
            #expect(await client.metrics.connection.attempts == 1)
        }
    }

    /// A limit on attempts does not limit the time without a network.
    @Test func pausedAttemptsAreNotCounted() throws {
        try simulate(options: patient { $0.reconnecting.maximumAttempts = 1 }) { service, client in
            service.network.setInterface("eth0", isUp: false)
            let waiting = client.start(ask("a"))
            try await service.pass(.seconds(60))
            service.network.setInterface("eth0", isUp: true)
            try await expectBody("a", of: waiting)
        }
    }

    /// If the system does not let a process see its network, clients work as without a monitor.
    @Test func withoutPermissionClientsWorkAsWithoutAMonitor() throws {
        try simulate(options: patient()) { service, client in
            service.network.hidesPaths = true
            try await expectEcho("a", by: client)
            service.network.setInterface("eth0", isUp: false)
            try await service.pass(.seconds(5))
            #expect(await client.diagnostics.path == .unknown)
            #expect(await state(of: client)?.isReady == true)
        }
    }

    @Test func aRouteToOneEndpointIsEnough() throws {
        try simulate(options: patient()) { service, client in
            let network = service.network
            let other = try await service.startServer(at: "other:7000", speaking: .standard)
            await client.replaceEndpoints([service.endpoint("db:7000"), service.endpoint("other:7000")])
            network.setRoute(to: "db", through: nil)
            try await expectEcho("a", by: client)
            #expect(await other.received.map(\.body) == ["a"])
            await client.closeNow()
            await other.stop()
        }
    }

    /// While there was no network, the name could not be resolved. Now it can, to another address.
    @Test func namesAreResolvedAgainInAnotherNetwork() throws {
        try simulate(options: patient()) { service, client in
            let network = service.network
            let other = try await service.startServer(at: "other:7000", speaking: .standard)
            let named = service.client(of: [service.endpoint("name:7000")], options: patient())
            network.setResolution(of: "name", ipv6: .failure(after: .zero), ipv4: .failure(after: .zero))
            network.setInterface("eth0", isUp: false)
            let waiting = named.start(ask("a"))
            try await service.pass(.seconds(60))
            #expect(await state(of: named) == .noNetwork(cause: .nameResolution))
            network.setName("name", hosts: ["other"])
            network.setResolution(of: "name")
            network.setInterface("eth0", isUp: true)
            try await expectBody("a", of: waiting)
            await named.closeNow()
            await other.stop()
        }
    }

    @Test func aBackoffEndsWhenTheNetworkChanges() throws {
        try simulate(options: patient()) { service, client in
            let network = service.network
            network.refuseConnections(to: "db")
            let waiting = client.start(ask("a"))
            try await service.pass(.seconds(1))
            network.acceptConnections(to: "db")
            let began = service.now
            network.addInterface("wlan0", address: "192.168.0.7", metric: 10)
            try await expectBody("a", of: waiting)
            #expect(service.now - began < .milliseconds(200))
        }
    }

    // MARK: Links

    /// With the monitor off, only liveness notices the loss.
    @Test(arguments: [true, false])
    func aLinkWhoseAddressWasRemovedIsReplacedAtOnce(isMonitored: Bool) throws {
        let options = patient { $0.network.isMonitored = isMonitored }
        try simulate(options: options) { service, client in
            let network = service.network
            network.addInterface("wlan0", address: "192.168.0.7", metric: 600)
            try await expectEcho("before", by: client)
            let began = service.now
            network.removeAddress("10.255.0.1", from: "eth0")
            if isMonitored { try await service.pass(.milliseconds(5)) }
            try await expectEcho("after", by: client, retry: .idempotent())
            let took = service.now - began
            #expect(isMonitored ? took < .milliseconds(50) : took > .seconds(5), "\(took)")
            let path = await client.diagnostics.path.description
            #expect(path == (isMonitored ? "wlan0 from 192.168.0.7" : "unknown path"))
        }
    }

    @Test func aLinkWhoseRouteWasRemovedIsProbed() throws {
        try simulate(options: patient()) { service, client in
            let network = service.network
            let reports = reports(of: client, in: network)
            try await expectEcho("before", by: client)
            network.setRoute(to: "db", through: nil)
            // Not after the heartbeat's interval of 30 s, but after its deadline of 10 s.
            try await service.pass(.seconds(11))
            let now = await state(of: client)
            #expect(now == .noNetwork(cause: .unreachable), "\(String(describing: now))")
            network.removeRoute(to: "db")
            try await expectEcho("after", by: client)
            await client.closeNow()
            let lost = try #require(await reports.value.first { $0.cause == .halfOpen })
            #expect(lost.pathBefore.description == "eth0 from 10.255.0.1")
            #expect(lost.pathAfter == .noRoute && lost.isNetworkChange)
        }
    }

    @Test func aLinkThatAnswersItsProbeIsKept() throws {
        try simulate(options: patient()) { service, client in
            let network = service.network
            try await expectEcho("before", by: client)
            network.setRoute(to: "db", through: nil)
            try await service.pass(.seconds(5))
            network.removeRoute(to: "db")
            try await service.pass(.seconds(30))
            try await expectEcho("after", by: client)
            #expect(await client.metrics.connection.links == 1)
            #expect(await client.metrics.connection.pings >= 1)
        }
    }

    @Test(arguments: [RouteChangePolicy.ignore, .probe, .move])
    func aBetterPathIsUsedIfThePolicySaysSo(_ policy: RouteChangePolicy) throws {
        try simulate(options: patient { $0.network.onRouteChange = policy }) { service, client in
            let network = service.network
            try await expectEcho("before", by: client)
            let first = await state(of: client)
            network.addInterface("tun0", address: "10.8.0.2", metric: 1, isTunnel: true)
            for number in 0..<200 { try await expectEcho(Bytes("\(number)"), by: client) }
            let isMoved = policy == .move
            #expect((await state(of: client) == first) == !isMoved)
            let path = await client.diagnostics.path.description
            #expect(path == (isMoved ? "tun0 (tunnel) from 10.8.0.2" : "eth0 from 10.255.0.1"))
            #expect(await client.metrics.connection.links == (isMoved ? 2 : 1))
            // The link does not move again for a worse path.
            network.addInterface("wlan0", address: "192.168.0.7", metric: 600)
            try await service.pass(.seconds(5))
            #expect(await client.metrics.connection.links == (isMoved ? 2 : 1))
        }
    }

    @Test func aLinkIsProbedWhenTheMachineHasSlept() throws {
        try simulate(options: patient()) { service, client in
            try await expectEcho("before", by: client)
            service.network.halfOpen("db")
            service.network.putToSleep(for: .seconds(3600))
            try await service.pass(.seconds(11))
            #expect(await client.metrics.connection.disconnects[.halfOpen] == 1)
        }
    }

    @Test func linksWithinThisHostAreNotAffected() throws {
        try simulate(options: patient()) { service, client in
            let network = service.network
            for endpoint in ["127.0.0.1:7001", "unix:/run/db.sock"] as [Endpoint] {
                let server = try await service.startServer(at: endpoint, speaking: .standard)
                let near = service.client(of: [service.endpoint(endpoint)], options: patient())
                try await expectEcho("before", by: near)
                network.setInterface("eth0", isUp: false)
                network.putToSleep(for: .seconds(1))
                try await service.pass(.seconds(60))
                try await expectEcho("after", by: near)
                #expect(await near.diagnostics.path == .local)
                #expect(await near.metrics.connection.links == 1)
                network.setInterface("eth0", isUp: true)
                await near.closeNow()
                await server.stop()
            }
        }
    }

    // MARK: Reports

    /// If frames have arrived since the path changed, the new path is the path that worked.
    @Test(arguments: [true, false])
    func aReportComparesTheLastPathWithThePathThatWorked(worksOnTheNewPath: Bool) throws {
        try simulate(options: patient()) { service, client in
            let network = service.network
            let reports = reports(of: client, in: network)
            try await expectEcho("before", by: client)
            if !worksOnTheNewPath { network.halfOpen("db") }
            // The address moves, and the link with it.
            network.addInterface("wlan0", address: "192.168.0.7", metric: 600)
            network.removeAddress("10.255.0.1", from: "eth0")
            network.addAddress("10.255.0.1", to: "wlan0")
            try await service.pass(.seconds(5))
            if worksOnTheNewPath { try await expectEcho("after", by: client) }
            network.reset("db")
            try await service.pass(.seconds(1))
            await client.closeNow()
            let lost = try #require(await reports.value.first { $0.cause == .reset })
            #expect(lost.isNetworkChange == !worksOnTheNewPath, "\(lost)")
            #expect(lost.pathAfter.description == "wlan0 from 10.255.0.1")
        }
    }

    // MARK: Observing

    @Test func pathsCanBeFollowed() throws {
        try simulate(options: patient()) { service, client in
            let network = service.network
            let paths = client.diagnostics.paths
            let seen = Task(executorPreference: network.executor) {
                var seen: [String] = []
                for await path in paths { seen.append(path.description) }
                return seen
            }
            try await expectEcho("a", by: client)
            network.addInterface("wlan0", address: "192.168.0.7", metric: 600)
            network.removeAddress("10.255.0.1", from: "eth0")
            try await service.pass(.seconds(1))
            network.setInterface("wlan0", isUp: false)
            try await service.pass(.seconds(1))
            await client.closeNow()
            let all = await seen.value.filter { $0 != "unknown path" }
            #expect(all == ["eth0 from 10.255.0.1", "wlan0 from 192.168.0.7", "no route"])
        }
    }
}
