#if os(Linux)
    import Foundation
    import Testing
    import Trunkline
    import TrunklineTesting

    /// A host that reaches its server only through a proxy.
    @Suite(
        .tags(.realThreads),
        .timeLimit(.minutes(5)),
        .enabled(if: NetworkNamespace.isAvailable, "no network namespaces"),
        .enabled(if: ServerProcess.isAvailable("microsocks"), "microsocks is not installed")
    )
    struct ProxyPathTests {
        /// What matters is the route to the proxy: there is none to the server.
        @Test func theRouteToTheProxyMatters() async throws {
            let (near, far) = (try TestHost(), try TestHost())
            defer {
                near.remove()
                far.remove()
            }
            try near.connect("eth0", "198.18.1.1/24", to: far, "eth0", "198.18.1.2/24")
            try far.ip("addr add 203.0.113.1/32 dev lo")
            let server = try await LoopbackServer.start(
                at: .ipv4([203, 0, 113, 1], port: 0),
                speaking: .standard,
                on: far.loops()
            )
            let microsocks = try #require(ServerProcess.find("microsocks"))
            let proxy = try await NetworkNamespace.start(microsocks, ["-p", "1080"], port: 1080, in: far.name)
            defer { kill(proxy.processIdentifier, SIGKILL) }
            let options = ClientOptions { options in
                options.connecting.proxy = .socks5("198.18.1.2")
                options.requests.timeout = .seconds(60)
            }
            let client = Client(to: server.endpoint, speaking: .standard, options: options, on: near.loops())
            func call() async throws {
                let reply = try await client.send(Request(type: 0x410, body: "hello"))
                #expect(reply.body == "hello")
            }
            try await call()
            let expected = NetworkRoute(interface: "eth0", source: literalAddress("198.18.1.1", port: 0), gateway: nil)
            #expect(await client.diagnostics.path == .route(expected))
            try near.ip("link set eth0 down")
            for await state in client.states { if case .noNetwork = state { break } }
            try near.ip("link set eth0 up")
            try await call()
            await client.close()
            await server.stop()
        }
    }
#endif
