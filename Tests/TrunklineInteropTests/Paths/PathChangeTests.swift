@testable import TrunklineIO

#if os(Linux)
    import Testing
    import Trunkline

    /// The path monitor of a host in a network namespace, while the host's network changes.
    @Suite(
        .tags(.realThreads),
        .timeLimit(.minutes(5)),
        .enabled(if: NetworkNamespace.isAvailable, "no network namespaces")
    )
    struct PathChangeTests {
        /// The monitored host and its router.
        private final class World: PathObserver {
            let host: TestHost
            let router: TestHost
            let loop: any EventLoop
            var monitor: SystemPathMonitor { host.monitor }
            private let changes = Lock<[NetworkChange]>([])

            /// Creates a host with `eth0` (198.18.1.1 and 2001:2::1), and the default route through 198.18.1.2.
            init(_ mechanism: EventLoops.Mechanism = .systemDefault) async throws {
                (host, router) = (try TestHost(), try TestHost())
                try host.connect("eth0", "198.18.1.1/24", to: router, "eth0", "198.18.1.2/24")
                try host.ip("addr add 2001:2::1/64 dev eth0 nodad")
                try host.ip("route add default via 198.18.1.2")
                loop = host.loops(mechanism).next()
                let isAdded = await onLoop { world in world.monitor.add(world, on: world.loop) }
                try #require(isAdded)
            }

            func networkChanged(_ change: NetworkChange) { changes.withLock { $0.append(change) } }

            var changeCount: Int { changes.withLock { $0.count } }

            func remove() {
                host.remove()
                router.remove()
            }

            /// Returns the result of `ask`, called on the event loop in the host's namespace.
            func onLoop<Value: Sendable>(_ ask: @escaping @Sendable (World) -> Value) async -> Value {
                await withCheckedContinuation { continuation in
                    loop.schedule(LoopClosure { continuation.resume(returning: ask(self)) })
                }
            }

            func path(to host: String = "203.0.113.1", from source: String? = nil) async -> NetworkPath {
                let (target, source) = (literalAddress(host, port: 443), source.flatMap { literalAddress($0, port: 0) })
                guard let target else { return .unknown }
                return await onLoop { $0.monitor.path(to: target, from: source) }
            }

            func isUsable(_ host: String) async -> Bool {
                guard let address = literalAddress(host, port: 0) else { return false }
                return await onLoop { $0.monitor.isUsable(address) }
            }

            var hasNetwork: Bool { get async { await onLoop { $0.monitor.hasNetwork } } }

            /// Changes the network with `ip`, and waits until the observer was notified and `isSeen` returns true.
            func change(_ command: String, until isSeen: (World) async -> Bool) async throws {
                let before = changeCount
                try host.ip(command)
                try await wait(past: before, until: isSeen)
            }

            func wait(past before: Int, until isSeen: (World) async -> Bool) async throws {
                while changeCount == before { try await Task.sleep(for: .milliseconds(1)) }
                while !(await isSeen(self)) { try await Task.sleep(for: .milliseconds(1)) }
            }
        }

        private func withWorld(
            _ mechanism: EventLoops.Mechanism = .systemDefault,
            _ body: (World) async throws -> Void
        ) async throws {
            let world = try await World(mechanism)
            defer { world.remove() }
            try await body(world)
        }

        private func route(
            _ interface: String,
            from source: String,
            via gateway: String? = nil,
            isTunnel: Bool = false
        ) -> NetworkPath {
            .route(
                NetworkRoute(
                    interface: interface,
                    source: literalAddress(source, port: 0),
                    gateway: gateway,
                    isTunnel: isTunnel
                )
            )
        }

        @Test func theMonitorReturnsThePathsOfAHost() async throws {
            try await withWorld { world in
                #expect(await world.path() == route("eth0", from: "198.18.1.1", via: "198.18.1.2"))
                #expect(await world.path(to: "198.18.1.2") == route("eth0", from: "198.18.1.1"))
                #expect(await world.path(to: "2001:2::2") == route("eth0", from: "2001:2::1"))
                #expect(await world.path(to: "2001:db8::1") == .noRoute)
                #expect(await world.path(to: "::ffff:203.0.113.1") == world.path())
                // The host's own address is not a loopback address.
                #expect(await world.path(to: "198.18.1.1") == route("lo", from: "198.18.1.1"))
                #expect(await world.path(to: "127.0.0.1") == .local)
                for own in ["198.18.1.1", "2001:2::1"] { #expect(await world.isUsable(own)) }
                for other in ["198.18.1.2", "2001:2::2"] { #expect(await !world.isUsable(other)) }
                #expect(await world.hasNetwork)
            }
        }

        @Test func unusableRoutesAreNoPaths() async throws {
            try await withWorld { world in
                for (number, kind) in ["unreachable", "blackhole", "prohibit", "throw"].enumerated() {
                    try world.host.ip("route add \(kind) 192.0.2.\(number)")
                    try world.host.ip("route add \(kind) 2001:2:0:\(number + 1)::/64")
                }
                try await world.change("route del default") { await $0.path() == .noRoute }
                for number in 0..<4 {
                    #expect(await world.path(to: "192.0.2.\(number)") == .noRoute)
                    #expect(await world.path(to: "2001:2:0:\(number + 1)::1") == .noRoute)
                }
            }
        }

        @Test(arguments: [EventLoops.Mechanism.epoll, .poll])
        func anAddressIsUsableFromAdditionToRemoval(_ mechanism: EventLoops.Mechanism) async throws {
            try await withWorld(mechanism) { world in
                for address in ["198.18.1.7/24", "2001:2::7/64"] {
                    let plain = String(address.prefix { $0 != "/" })
                    let target = plain.contains(":") ? "2001:2::2" : "198.18.1.2"
                    #expect(await !world.isUsable(plain))
                    #expect(await world.path(to: target, from: plain) == .noRoute)
                    let options = plain.contains(":") ? "nodad" : ""
                    try await world.change("addr add \(address) dev eth0 \(options)") { await $0.isUsable(plain) }
                    #expect(await world.path(to: target, from: plain) == route("eth0", from: plain))
                    try await world.change("addr del \(address) dev eth0") { await !$0.isUsable(plain) }
                    #expect(await world.path(to: target, from: plain) == .noRoute)
                }
            }
        }

        @Test func thePathIsLostAndRestoredWithItsInterface() async throws {
            try await withWorld { world in
                try await world.change("link set eth0 down") { await !$0.isUsable("198.18.1.1") }
                #expect(await world.path() == .noRoute)
                #expect(await world.path(to: "198.18.1.2") == .noRoute)
                #expect(await !world.hasNetwork)
                try await world.change("link set eth0 up") { await $0.isUsable("198.18.1.1") }
                #expect(await world.path() == .noRoute)
                try await world.change("route add default via 198.18.1.2") { await $0.path() != .noRoute }
                #expect(await world.path() == route("eth0", from: "198.18.1.1", via: "198.18.1.2"))
                #expect(await world.hasNetwork)
            }
        }

        /// The addresses stay usable: the carrier may return before TCP notices.
        @Test func thePathIsLostAndRestoredWithTheCarrier() async throws {
            try await withWorld { world in
                let before = world.changeCount
                try world.router.ip("link set eth0 down")
                try await world.wait(past: before) { await $0.path() == .noRoute }
                #expect(await world.isUsable("198.18.1.1"))
                #expect(await !world.hasNetwork)
                // Packets to the host itself need no cable.
                #expect(await world.path(to: "198.18.1.1") == route("lo", from: "198.18.1.1"))
                let later = world.changeCount
                try world.router.ip("link set eth0 up")
                try await world.wait(past: later) { await $0.path() != .noRoute }
                #expect(await world.path() == route("eth0", from: "198.18.1.1", via: "198.18.1.2"))
            }
        }

        @Test func thePathMovesToABetterInterface() async throws {
            try await withWorld { world in
                try world.host.connect("eth1", "198.18.2.1/24", to: world.router, "eth1", "198.18.2.2/24")
                try world.host.ip("route replace default via 198.18.1.2 metric 50")
                try world.host.ip("route del default via 198.18.1.2 metric 0")
                #expect(await world.path() == route("eth0", from: "198.18.1.1", via: "198.18.1.2"))
                try await world.change("route add default via 198.18.2.2 metric 10") {
                    await $0.path() == route("eth1", from: "198.18.2.1", via: "198.18.2.2")
                }
                // A bound socket uses the same route, but packets to it may not come back.
                #expect(
                    await world.path(from: "198.18.1.1") == route("eth1", from: "198.18.1.1", via: "198.18.2.2")
                )
                try await world.change("route del default via 198.18.2.2 metric 10") {
                    await $0.path() == route("eth0", from: "198.18.1.1", via: "198.18.1.2")
                }
            }
        }

        @Test func aRuleMovesThePath() async throws {
            try await withWorld { world in
                try world.host.connect("eth1", "198.18.2.1/24", to: world.router, "eth1", "198.18.2.2/24")
                try world.host.ip("route add default via 198.18.2.2 table 77")
                try await world.change("rule add ipproto tcp dport 443 table 77") {
                    await $0.path() == route("eth1", from: "198.18.2.1", via: "198.18.2.2")
                }
                try await world.change("rule del ipproto tcp dport 443 table 77") {
                    await $0.path() == route("eth0", from: "198.18.1.1", via: "198.18.1.2")
                }
            }
        }

        /// The kinds of interfaces that most kernels have. `NetlinkTests` has the others.
        @Test func onlyTunnelsAreReportedAsTunnels() async throws {
            try await withWorld { world in
                try world.host.ip("link add ifb7 type ifb")
                try world.host.ip("addr add 198.18.5.1/24 dev ifb7")
                // Like a dummy interface, it is in the state UNKNOWN, and can be used.
                try await world.change("link set ifb7 up") {
                    await $0.path(to: "198.18.5.9") == route("ifb7", from: "198.18.5.1")
                }
                try world.host.ip("tuntap add dev tun0 mode tun")
                try world.host.ip("addr add 198.18.6.1/24 dev tun0")
                try world.host.ip("link set tun0 up")
                // No program serves it, so it has no carrier.
                try await world.change("route add 198.18.7.0/24 dev tun0") {
                    await $0.path(to: "198.18.7.1") == .noRoute
                }
                try world.host.ip("link add vxlan7 type vxlan id 7 remote 198.18.1.2 dstport 4789")
                try world.host.ip("addr add 198.18.8.1/24 dev vxlan7")
                try await world.change("link set vxlan7 up") {
                    await $0.path(to: "198.18.8.9") == route("vxlan7", from: "198.18.8.1", isTunnel: true)
                }
            }
        }

        /// Every address of a local network may belong to this host, although no interface has it.
        @Test func everyAddressOfALocalNetworkIsUsable() async throws {
            try await withWorld { world in
                try await world.change("route add local 198.18.9.0/24 dev lo") { await $0.isUsable("198.18.9.44") }
                #expect(await world.path(from: "198.18.9.44") == route("eth0", from: "198.18.9.44", via: "198.18.1.2"))
                try await world.change("route del local 198.18.9.0/24 dev lo") { await !$0.isUsable("198.18.9.44") }
            }
        }

        /// The kernel discards notifications when the socket's buffer is full. The monitor sees the last state
        /// nevertheless.
        @Test func aBurstOfChangesIsReportedAsAFewChanges() async throws {
            try await withWorld { world in
                let routes = (0..<10_000).map { "10.\(100 + $0 / 2500).\($0 / 10 % 250).\(1 + $0 % 10)/32" }
                let before = world.changeCount
                let clock = ContinuousClock()
                let began = clock.now
                // The event loop is busy, as with thousands of links, so the socket's buffer fills up.
                let gate = Lock(false)
                world.loop.schedule(LoopClosure { while !gate.withLock({ $0 }) {} })
                try world.host.ip(lines: routes.map { "route add \($0) dev eth0" } + ["route del default"])
                gate.withLock { $0 = true }
                try await world.wait(past: before) { await $0.path() == .noRoute }
                let others = world.changeCount
                try world.host.ip(lines: routes.map { "route del \($0) dev eth0" })
                try await world.change("route add default via 198.18.1.2") { await $0.path() != .noRoute }
                let elapsed = clock.now - began
                // At most one change every 50 ms.
                #expect(Double(world.changeCount - before) <= elapsed / .milliseconds(50) + 3)
                #expect(world.changeCount > others)
                #expect(await world.path() == route("eth0", from: "198.18.1.1", via: "198.18.1.2"))
            }
        }

        /// Prints the cost of the monitor, for the documentation.
        @Test func theCostOfTheMonitorIsPrinted() async throws {
            try await withWorld { world in
                let target = try #require(literalAddress("203.0.113.1", port: 443))
                let (uncached, cached) = await world.onLoop { world in
                    let clock = ContinuousClock()
                    let uncached = (0..<200).map { number in
                        clock.measure { _ = world.monitor.path(to: target.with(port: UInt16(1 + number)), from: nil) }
                    }
                    let cached = clock.measure { for _ in 0..<10_000 { _ = world.monitor.path(to: target, from: nil) } }
                    return (uncached.sorted()[100], cached / 10_000)
                }
                var delays: [Duration] = []
                let clock = ContinuousClock()
                for _ in 0..<10 {
                    try await world.change("addr add 198.18.1.7/24 dev eth0") { await $0.isUsable("198.18.1.7") }
                    try await Task.sleep(for: .milliseconds(60))
                    let before = world.changeCount
                    let began = clock.now
                    try world.host.ip("addr del 198.18.1.7/24 dev eth0")
                    while world.changeCount == before { try await Task.sleep(for: .microseconds(200)) }
                    delays.append(clock.now - began)
                    try await Task.sleep(for: .milliseconds(60))
                }
                delays.sort()
                print("A path that is looked up takes \(uncached), one that is known \(cached).")
                print("From the start of `ip addr del` to the observer: \(delays[0]), \(delays[5]), \(delays[9]).")
            }
        }
    }
#endif
