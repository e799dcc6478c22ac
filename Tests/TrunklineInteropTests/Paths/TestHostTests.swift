@testable import TrunklineIO

#if os(Linux)
    import Testing
    import Trunkline
    import TrunklineTesting

    /// Two hosts with a cable between them, in one process.
    @Suite(
        .tags(.realThreads),
        .timeLimit(.minutes(2)),
        .enabled(if: NetworkNamespace.isAvailable, "no network namespaces")
    )
    struct TestHostTests {
        @Test(arguments: [EventLoops.Mechanism.epoll, .poll])
        func aClientOnOneHostReachesAServerOnTheOther(_ mechanism: EventLoops.Mechanism) async throws {
            let (near, far) = (try TestHost(), try TestHost())
            defer {
                near.remove()
                far.remove()
            }
            try near.connect("eth0", "198.18.1.1/24", to: far, "eth0", "198.18.1.2/24")
            let server = try await LoopbackServer.start(
                at: .ipv4([198, 18, 1, 2], port: 0),
                speaking: .standard,
                on: far.loops(mechanism)
            )
            let client = Client(to: server.endpoint, speaking: .standard, on: near.loops(mechanism))
            let reply = try await client.send(Request(type: 0x410, body: "hello"))
            #expect(reply.body == "hello")
            await client.close()
            await server.stop()
        }
    }
#endif
