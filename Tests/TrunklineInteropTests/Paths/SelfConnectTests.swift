@testable import TrunklineDiagnostics
@testable import TrunklineIO
@testable import TrunklineLoopback

#if os(Linux)
    import Foundation
    import Testing
    import Trunkline
    import TrunklineTesting

    @testable import TrunklineDiagnostics

    /// Hosts with very few ephemeral ports. A client that connects to one of them, on its own host, soon gets the same
    /// port for its own end, and is then connected to itself.
    @Suite(
        .tags(.realThreads),
        .serialized,
        .timeLimit(.minutes(2)),
        .enabled(if: NetworkNamespace.isAvailable, "no network namespaces")
    )
    struct SelfConnectTests {
        private func withHost(ports: String, _ body: (TestHost) async throws -> Void) async throws {
            let host = try TestHost()
            defer { host.remove() }
            // The kernel accepts a tab, and `run` splits at spaces.
            try host.run("sysctl -q -w net.ipv4.ip_local_port_range=\(ports)")
            try await body(host)
        }

        private static let loopbacks: [SocketAddress] = [
            .ipv4([127, 0, 0, 1], port: 40_000), .ipv6([UInt8](repeating: 0, count: 15) + [1], port: 40_000, scope: 0),
        ]

        private func endpoint(_ address: SocketAddress) -> Endpoint { .host(address.host, port: 40_000) }

        @Test(arguments: loopbacks, [EventLoops.Mechanism.epoll, .poll])
        func aConnectionToItselfIsARefusal(_ address: SocketAddress, _ mechanism: EventLoops.Mechanism) async throws {
            try await withHost(ports: "40000\t40007") { host in
                let loops = host.loops(mechanism)
                let options = ClientOptions {
                    $0.reconnecting.policy = Backoff(base: .milliseconds(1), cap: .milliseconds(1))
                    $0.reconnecting.maximumAttempts = 100
                }
                let client = Client(to: endpoint(address), speaking: .standard, options: options, on: loops)
                let reports = client.disconnects
                let error = await #expect(throws: ClientError.self) {
                    _ = try await client.send(Request(type: 0x410, body: "mine"), timeout: .seconds(90))
                }
                #expect(error?.code == .unavailable && error?.fate == .notSent)
                #expect((error?.cause as? TransportError)?.code == .refused)
                #expect(await client.metrics.connection.links == 0)
                #expect(await client.metrics.connection.attemptFailures == [.refused: 100])
                await client.close()
                var connections = 0
                for await report in reports {
                    let error = try #require(report.error as? TransportError)
                    #expect(error.code == .refused && report.phase == .connecting)
                    if error.message.contains("the client's own socket") { connections += 1 }
                }
                #expect(connections > 0)

                // Nothing keeps a server from the port.
                let server = try await LoopbackServer.start(at: address, speaking: .standard, on: loops)
                let next = Client(to: endpoint(address), speaking: .standard, on: loops)
                let reply = try await next.send(Request(type: 0x410, body: "hello"))
                #expect(reply.body == "hello")
                #expect(await server.connectionCount == 1)
                await next.close()
                await server.stop()
            }
        }

        /// TLS begins once the socket is connected. Before that the client notices that it is its own.
        @Test func overTLSAConnectionToItselfIsARefusalToo() async throws {
            try await withHost(ports: "40000\t40007") { host in
                let options = ClientOptions {
                    $0.reconnecting.policy = Backoff(base: .milliseconds(1), cap: .milliseconds(1))
                    $0.reconnecting.maximumAttempts = 100
                }
                let client = Client(
                    to: "tls://127.0.0.1:40000",
                    speaking: .standard,
                    options: options,
                    on: host.loops()
                )
                let error = await #expect(throws: ClientError.self) { try await client.connect() }
                #expect(error?.code == .unavailable)
                #expect(await client.metrics.connection.attemptFailures == [.refused: 100])
                await client.close()
            }
        }

        @Test func theProbeReportsAConnectionToItselfAsARefusal() async throws {
            try await withHost(ports: "40000\t40007") { host in
                let loops = host.loops()
                for _ in 0..<30 {
                    let report = try await Probe(of: "127.0.0.1:40000").run(on: loops)
                    #expect(report.addresses.map(\.result) == [.failed])
                    #expect(report.link == nil)
                }
            }
        }

        // MARK: No local port, no local address

        @Test func withoutAFreePortTheErrorSaysSo() async throws {
            try await withHost(ports: "40000\t40003") { host in
                let loops = host.loops()
                let server = try await LoopbackServer.start(
                    at: .ipv4([127, 0, 0, 1], port: 50_000),
                    speaking: .standard,
                    on: loops
                )
                let options = ClientOptions { $0.reconnecting.maximumAttempts = 1 }
                var clients: [Client] = []
                var failures: [ClientError] = []
                for _ in 0..<5 {
                    let client = Client(to: server.endpoint, speaking: .standard, options: options, on: loops)
                    clients.append(client)
                    do throws(ClientError) { try await client.connect() } catch { failures.append(error) }
                }
                #expect(failures.count == 1)
                let cause = try #require(failures.first?.cause as? TransportError)
                #expect(cause.code == .system && cause.errno == EADDRNOTAVAIL)
                #expect(cause.message.contains("no free local port"))
                for client in clients { await client.close() }
                await server.stop()
            }
        }

        @Test func withoutAnAddressOfTheFamilyTheErrorSaysSo() async throws {
            try await withHost(ports: "40000\t40007") { host in
                try host.run("sysctl -q -w net.ipv6.conf.all.disable_ipv6=1")
                let options = ClientOptions { $0.reconnecting.maximumAttempts = 1 }
                let client = Client(to: "[::1]:50000", speaking: .standard, options: options, on: host.loops())
                let error = await #expect(throws: ClientError.self) { try await client.connect() }
                let cause = try #require(error?.cause as? TransportError)
                #expect(cause.code == .unreachable && cause.errno == EADDRNOTAVAIL)
                #expect(cause.message.contains("this host has no IPv6 address from which it could be reached"))
                await client.close()
            }
        }
    }
#endif
