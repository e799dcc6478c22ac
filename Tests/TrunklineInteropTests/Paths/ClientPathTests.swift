@testable import TrunklineIO

#if os(Linux)
    import Testing
    import Trunkline
    import TrunklineTesting

    /// Clients on a host with two interfaces that both lead to the server, while the host's network changes.
    ///
    /// Each scenario prints the time from the start of `ip` to the next response, and that of a client without the
    /// monitor on the same host.
    @Suite(
        .tags(.realThreads),
        .serialized,
        .timeLimit(.minutes(2)),
        .enabled(if: NetworkNamespace.isAvailable, "no network namespaces")
    )
    struct ClientPathTests {
        /// A host with `eth0` (198.18.1.1) and `eth1` (198.18.2.1), and another host with the server (203.0.113.1).
        private struct World {
            let near, far: TestHost
            let loops: EventLoops
            let server: LoopbackServer

            static let first = route("eth0", "198.18.1")
            static let second = route("eth1", "198.18.2")

            private static func route(_ interface: String, _ network: String) -> NetworkPath {
                let source = literalAddress("\(network).1", port: 0)
                return .route(NetworkRoute(interface: interface, source: source, gateway: "\(network).2"))
            }

            /// - Parameter routes: The routes to the server, in the syntax of `ip route add`.
            init(_ routes: [String]) async throws {
                (near, far) = (try TestHost(), try TestHost())
                try near.connect("eth0", "198.18.1.1/24", to: far, "eth0", "198.18.1.2/24")
                try near.connect("eth1", "198.18.2.1/24", to: far, "eth1", "198.18.2.2/24")
                try far.ip("addr add 203.0.113.1/32 dev lo")
                for route in routes { try near.ip("route add \(route)") }
                loops = near.loops()
                server = try await LoopbackServer.start(
                    at: .ipv4([203, 0, 113, 1], port: 0),
                    speaking: .standard,
                    on: far.loops()
                )
            }

            func client(on loops: EventLoops? = nil, _ change: (inout ClientOptions) -> Void = { _ in }) -> Client {
                Client(
                    to: server.endpoint,
                    speaking: .standard,
                    options: ClientOptions(change),
                    on: loops ?? self.loops
                )
            }

            /// A client without the monitor. With the default options it would take up to forty seconds to notice a
            /// change.
            func unmonitored() -> Client {
                client(on: near.loops()) {
                    $0.network.isMonitored = false
                    $0.liveness.interval = .seconds(2)
                    $0.liveness.deadline = .seconds(5)  // leaves time for a busy machine
                }
            }

            /// The time that connecting takes now: the median of five.
            func connectTime() async throws -> Duration {
                var times: [Duration] = []
                for _ in 0..<5 {
                    let client = client()
                    times.append(try await ContinuousClock().measure { try await client.connect() })
                    await client.close()
                }
                return times.sorted()[2]
            }

            func remove() {
                near.remove()
                far.remove()
            }
        }

        private static let twoRoutes = [
            "203.0.113.1 via 198.18.1.2 metric 50", "203.0.113.1 via 198.18.2.2 metric 100",
        ]

        private func withWorld(_ routes: [String], _ body: (World) async throws -> Void) async throws {
            let world = try await World(routes)
            defer { world.remove() }
            try await body(world)
            await world.server.stop()
        }

        private func caller(of client: Client) -> Witness { Witness(client, retry: .idempotent()) }

        /// Prints the times, and the states of clients that took long.
        private func printTimes(
            _ scenario: String,
            _ times: [(String, Witness)],
            since change: ContinuousClock.Instant,
            _ world: World,
            _ note: String
        ) async throws {
            let connectTime = try await world.connectTime()
            let all = times.map { name, witness in
                "\(name) \(milliseconds(witness.timeToNextAnswer(after: change)))"
            }
            print(
                "\(scenario): time from the change to the next answer: \(all.joined(separator: ", "))",
                "(connect time \(milliseconds(connectTime)); \(note))"
            )
            for (name, witness) in times where name != "off" {
                let time = witness.timeToNextAnswer(after: change)
                guard time > connectTime + .milliseconds(200) else { continue }
                print("  \(name) took long:\n    \(witness.trace(since: change))")
            }
        }

        // MARK: A link loses its path

        @Test(arguments: [("Address removed", "addr del 198.18.1.1/24 dev eth0"), ("Link down", "link set eth0 down")])
        func aLinkThatLostItsPathIsReplacedOnTheOtherPath(_ scenario: String, _ command: String) async throws {
            try await withWorld(Self.twoRoutes) { world in
                let (on, off) = (caller(of: world.client()), caller(of: world.unmonitored()))
                var began = ContinuousClock.now
                try await Witness.observe([on, off]) {
                    #expect(await on.client.diagnostics.path == World.first)
                    #expect(await off.client.diagnostics.path == .unknown)
                    let before = (await on.links, await off.links)
                    began = .now
                    try world.near.ip(command)
                    for (witness, links) in [(on, before.0), (off, before.1)] {
                        try await witness.waitForLinks(links + 1)
                        try await witness.waitForAnswers(20)
                    }
                    #expect(await on.client.diagnostics.path == World.second)
                    #expect(await on.links == before.0 + 1)
                    #expect(await off.links == before.1 + 1)
                }
                try await printTimes(
                    scenario,
                    [("on", on), ("off", off)],
                    since: began,
                    world,
                    "off: pings after 2 s, deadline 5 s"
                )
                for witness in [on, off] { #expect(witness.seen.failures.isEmpty) }
                let lost = try #require(on.seen.reports.first)
                #expect(lost.cause == .pathLost && lost.phase == .ready && lost.endedBy == .network)
                #expect(lost.pathBefore == World.first && lost.pathAfter == World.second && lost.isNetworkChange)
                let unseen = try #require(off.seen.reports.first)
                #expect(unseen.cause == .halfOpen && unseen.pathBefore == .unknown && !unseen.isNetworkChange)
            }
        }

        // MARK: A better path

        @Test func onABetterRouteTheNextLinkIsReadyBeforeTheOldOneDrains() async throws {
            try await withWorld(Self.twoRoutes) { world in
                let on = Witness(world.client { $0.network.onRouteChange = .move }, callers: 10)
                let off = Witness(world.unmonitored(), callers: 10)
                var (began, ended) = (ContinuousClock.now, ContinuousClock.now)
                var moved = ended
                try await Witness.observe([on, off]) {
                    #expect(await on.client.diagnostics.path == World.first)
                    try await on.waitForAnswers(100)
                    let before = (await on.links, await off.links)
                    began = .now
                    try world.near.ip("route add 203.0.113.1 via 198.18.2.2 metric 10")
                    try await on.waitForLinks(before.0 + 1)
                    moved = .now
                    try await on.wait { !$0.seen.reports.isEmpty }
                    ended = .now
                    for witness in [on, off] { try await witness.waitForAnswers(20) }
                    #expect(await on.client.diagnostics.path == World.second)
                    #expect(await on.links == before.0 + 1)
                    #expect(await off.links == before.1)
                }
                let connectTime = milliseconds(try await world.connectTime())
                let quiet = on.durations(from: began - .seconds(60), to: began)
                print("Route moved: \(milliseconds(moved - began)) until the next link (connect time \(connectTime))")
                print("Route moved: before \(percentiles(quiet))")
                print("Route moved: during, on \(percentiles(on.durations(from: began, to: ended)))")
                print("Route moved: during, off \(percentiles(off.durations(from: began, to: ended)))")
                for witness in [on, off] {
                    #expect(witness.seen.failures.isEmpty)
                    // A link is ready at all times.
                    let states = witness.seen.states.map(\.state)
                    let ready = states.drop { !$0.isReady }.prefix { $0 != .draining && $0 != .closed }
                    #expect(ready.allSatisfy { $0.isReady } && !ready.isEmpty, "\(states)")
                }
                let left = try #require(on.seen.reports.first)
                #expect(left.phase == .draining && left.cause == .closedLocally && left.requestsLost == 0)
                // The last path of its packets: still from its own address, through either interface.
                guard case .route(let route) = left.pathBefore else {
                    Issue.record("\(left)")
                    return
                }
                #expect(route.sourceAddress == "198.18.1.1")
            }
        }

        // MARK: No path

        @Test func theDefaultRouteIsLostAndRestored() async throws {
            try await withWorld(["default via 198.18.1.2"]) { world in
                // Detects within a second of the loss that nothing arrives.
                let on = caller(of: world.client { $0.liveness.deadline = .seconds(1) })
                // Its deadline is 10 s, so the link outlives the loss.
                let patient = caller(of: world.client())
                // With an interval of 2 s, it would ping exactly when the route comes back.
                let off = caller(of: world.client(on: world.near.loops()) { $0.network.isMonitored = false })
                var began = ContinuousClock.now
                try await Witness.observe([on, patient, off]) {
                    let lost = ContinuousClock.now
                    try world.near.ip("route del default")
                    try await on.wait { $0.seen.states.last?.state == .noNetwork(cause: .unreachable) }
                    let attempts = await on.client.metrics.connection.attempts
                    #expect(await on.client.diagnostics.path == .noRoute)
                    try await Task.sleep(until: lost + .seconds(2))
                    #expect(await on.client.metrics.connection.attempts == attempts)
                    #expect(on.seen.states.last?.state == .noNetwork(cause: .unreachable))
                    began = .now
                    try world.near.ip("route add default via 198.18.1.2")
                    for witness in [on, patient, off] { try await witness.waitForAnswers(20) }
                    for witness in [on, patient] { #expect(await witness.client.diagnostics.path == World.first) }
                    #expect(await on.client.metrics.connection.links == 2)
                }
                let all = [("on with a deadline of 1 s", on), ("on with the defaults", patient), ("off", off)]
                try await printTimes("Default route lost for 2 s", all, since: began, world, "off: the defaults")
                for witness in [on, patient, off] { #expect(witness.seen.failures.isEmpty) }
                #expect(off.seen.states.allSatisfy { $0.state != .noNetwork(cause: .unreachable) })
                let lost = try #require(on.seen.reports.first)
                #expect(lost.cause == .halfOpen && lost.isNetworkChange)
                #expect(lost.pathBefore == World.first && lost.pathAfter == .noRoute)
            }
        }

        /// A client that starts without a network.
        @Test func aClientWithoutARouteConnectsWhenThereIsOne() async throws {
            try await withWorld([]) { world in
                let clients = [world.client(), world.unmonitored()]
                let waiting = clients.map {
                    $0.start(Request(type: 0x410, body: "hello"), timeout: .after(.seconds(60)))
                }
                for await state in clients[0].states where state == .noNetwork(cause: .unreachable) { break }
                let attempts = await clients[0].metrics.connection.attempts
                try await Task.sleep(for: .seconds(2))
                #expect(await clients[0].metrics.connection.attempts == attempts)
                #expect(attempts == 1)
                let began = ContinuousClock.now
                try world.near.ip("route add default via 198.18.1.2")
                async let late = waiting[1].value
                #expect(try await waiting[0].value.body == "hello")
                let on = ContinuousClock.now - began
                #expect(try await late.body == "hello")
                let off = ContinuousClock.now - began
                let tried = await clients[1].metrics.connection.attempts
                print(
                    "No route for the first 2 s: time from the change to the answer: on \(milliseconds(on)),",
                    "off \(milliseconds(off)) (connect time \(milliseconds(try await world.connectTime()));",
                    "attempts: on \(attempts + 1), off \(tried))"
                )
                for client in clients { await client.close() }
            }
        }

        // MARK: No monitor

        @Test func withoutPermissionForNetlinkClientsWorkAsBefore() async throws {
            try await withWorld(Self.twoRoutes) { world in
                let lines = Lock<[String]>([])
                let monitor = SystemPathMonitor(
                    opening: { _ in -1 },  // EPERM
                    reporting: { line in lines.withLock { $0.append(line) } }
                )
                let loops = world.near.loops(monitoredBy: monitor)
                let witnesses = (0..<2).map { _ in
                    caller(
                        of: world.client(on: loops) {
                            $0.liveness.interval = .seconds(1)
                            $0.liveness.deadline = .seconds(1)
                        }
                    )
                }
                try await Witness.observe(witnesses) {
                    for witness in witnesses { #expect(await witness.client.diagnostics.path == .unknown) }
                    try world.near.ip("addr del 198.18.1.1/24 dev eth0")
                    for witness in witnesses {
                        try await witness.waitForLinks(2)
                        try await witness.waitForAnswers(20)
                        #expect(await witness.client.diagnostics.path == .unknown)
                    }
                }
                for witness in witnesses {
                    #expect(witness.seen.failures.isEmpty)
                    let report = try #require(witness.seen.reports.first)
                    #expect(report.cause == .halfOpen && report.pathBefore == .unknown && report.pathAfter == .unknown)
                }
                let said = lines.withLock { $0 }
                #expect(said.count == 1)
                #expect(said.first?.contains("Operation not permitted (EPERM)") == true)
            }
        }
    }
#endif
