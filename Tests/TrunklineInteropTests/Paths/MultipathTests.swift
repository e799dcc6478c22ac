#if os(Linux)
    import Foundation
    import Testing
    import Trunkline

    /// Whether Multipath TCP can be tested on this machine. If not, the reason is printed.
    private let hasMultipath: Bool = {
        guard NetworkNamespace.isAvailable, ServerProcess.isAvailable("memcached") else { return false }
        let isInstalled = ServerProcess.isAvailable("mptcpize")
        let hasProtocol = (try? String(contentsOfFile: "/proc/sys/net/mptcp/enabled", encoding: .utf8)) != nil
        if !hasProtocol { print("Skipped: this kernel has no Multipath TCP.") }
        return isInstalled && hasProtocol
    }()

    /// Multipath TCP between two hosts with two cables.
    @Suite(
        .tags(.realThreads),
        .serialized,
        .timeLimit(.minutes(5)),
        .enabled(if: hasMultipath, "no network namespaces, Multipath TCP or memcached")
    )
    struct MultipathTests {
        /// Runs `body` with a client, and a server that has Multipath TCP if `serverHasIt`.
        private func withHosts(
            serverHasIt: Bool,
            _ change: (inout ClientOptions) -> Void = { _ in },
            _ body: (TestHost, TestHost, Client) async throws -> Void
        ) async throws {
            let (near, far) = (try TestHost(), try TestHost())
            defer {
                near.remove()
                far.remove()
            }
            for (interface, network) in [("eth0", "198.18.1"), ("eth1", "198.18.2")] {
                try near.connect(interface, "\(network).1/24", to: far, interface, "\(network).2/24")
            }
            try far.ip("addr add 203.0.113.1/32 dev lo")
            try near.ip("route add 203.0.113.1 via 198.18.1.2")
            // Packets from the second address take the second cable: the second path.
            try near.ip("rule add from 198.18.2.1 table 2")
            try near.ip("route add default via 198.18.2.2 table 2")
            for host in [near, far] { try host.ip("mptcp limits set subflow 4 add_addr_accepted 4") }
            try near.ip("mptcp endpoint add 198.18.2.1 dev eth1 subflow")
            let memcached = ["-u", "root", "-l", "203.0.113.1", "-p", "11211"]
            let program = try #require(ServerProcess.find(serverHasIt ? "mptcpize" : "memcached"))
            let server = try await NetworkNamespace.start(
                program,
                serverHasIt ? ["run", "memcached"] + memcached : memcached,
                port: 11211,
                in: far.name
            )
            defer { kill(server.processIdentifier, SIGKILL) }
            let options = ClientOptions { options in
                options.connecting.multipath = true
                options.liveness.deadline = .seconds(30)
                options.requests.timeout = .seconds(60)
                change(&options)
            }
            let client = Client(to: "203.0.113.1:11211", speaking: Memcached.layout, options: options, on: near.loops())
            do { try await body(near, far, client) } catch {
                await client.closeNow()
                throw error
            }
            await client.close()
        }

        private func expectCalls(_ count: Int, by client: Client, _ key: String) async throws {
            for index in 0..<count {
                let value = Array("\(key) \(index)".utf8)
                _ = try await client.send(Memcached.set(key, value))
                let answer = try await client.send(Memcached.get(key))
                #expect(Memcached.value(of: answer) == value)
            }
        }

        private func subflows(of client: Client) async -> Int? { await client.metrics.connection.tcp?.subflows }

        @Test(arguments: [true, false]) func aLinkOutlivesTheLossOfAPath(removesAddress: Bool) async throws {
            try await withHosts(serverHasIt: true) { near, far, client in
                try await expectCalls(10, by: client, "before")
                while await subflows(of: client) != 2 { try await Task.sleep(for: .milliseconds(10)) }
                let began = ContinuousClock.now
                if removesAddress {
                    try near.ip("addr del 198.18.1.1/24 dev eth0")
                } else {
                    try far.ip("link set eth0 down")
                }
                try await expectCalls(1, by: client, "during")
                print("Multipath TCP: a call took \(ContinuousClock.now - began) after the loss of a path")
                try await expectCalls(10, by: client, "after")
                #expect(await client.metrics.connection.links == 1)
            }
        }

        @Test func aServerWithoutItIsReachedByTCP() async throws {
            try await withHosts(serverHasIt: false) { _, _, client in
                try await expectCalls(10, by: client, "key")
                let metrics = await client.metrics
                #expect(metrics.connection.tcp != nil)
                #expect(await subflows(of: client) == nil)
            }
        }

        @Test func aKernelThatDisablesItUsesTCP() async throws {
            try await withHosts(serverHasIt: true) { near, _, client in
                try near.run("sysctl -q -w net.mptcp.enabled=0")
                try await expectCalls(10, by: client, "key")
                #expect(await subflows(of: client) == nil)
            }
        }
    }
#endif
