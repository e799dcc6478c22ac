import Testing
import Trunkline
import TrunklineTesting

/// Where a client connects to, and which errors it reports when it cannot connect.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct ConnectingLoopbackTests {}

extension ConnectingLoopbackTests {
    private func port(of endpoint: Endpoint) throws -> UInt16 {
        try #require(UInt16(endpoint.description.split(separator: ":").last ?? ""))
    }

    /// An endpoint at which no server listens: a server had it and has stopped. No other test uses its address.
    private func deadEndpoint() async throws -> Endpoint {
        let server = try await Wire.startServer(at: loopback(60), speaking: .standard)
        await server.stop()
        return server.endpoint
    }

    @Test func withoutEndpointsCallsFailAtOnce() async throws {
        try await withClient(to: [], speaking: .standard, options: quickOptions()) { client in
            for _ in 0..<2 {
                let error = await failure { () throws(ClientError) in try await client.send(ask("a")) }
                #expect(error?.code == .unavailable)
                #expect(error?.fate == .notSent)
                #expect(error?.attempts.isEmpty == true)
            }
            for result in await client.send(all: [ask("a"), ask("b")]) {
                #expect(await failure { () throws(ClientError) in try result.get() }?.code == .unavailable)
            }
            #expect(await failure { () throws(ClientError) in try await client.connect() }?.code == .unavailable)
            #expect(await failure { () throws(ClientError) in try await client.post(ask("a")) }?.fate == .notSent)
        }
    }

    @Test(arguments: Mechanism.allCases)
    func theLimitOnAttemptsFailsEveryWaitingCall(_ mechanism: Mechanism) async throws {
        let options = quickOptions { $0.reconnecting.maximumAttempts = 3 }
        let dead = try await deadEndpoint()
        try await withClient(to: dead, speaking: .standard, options: options, on: mechanism.loops) { client in
            // In one batch: on a busy machine the three attempts might be over before all requests are made one by one.
            for result in await client.send(all: (0..<5).map { ask($0) }) {
                let error = await failure { () throws(ClientError) in try result.get() }
                #expect(error?.code == .unavailable)
                #expect(error?.fate == .notSent)
                #expect(error?.attempts.count == 3)
                #expect(error?.attempts.allSatisfy { $0.endpoint == dead } == true)
                #expect((error?.cause as? TransportError)?.code == .refused)
            }
            #expect(await client.metrics.pending == 0)
        }
    }

    @Test(arguments: Mechanism.allCases)
    func theNextEndpointIsTriedIfOneRefuses(_ mechanism: Mechanism) async throws {
        try await withServer(speaking: .standard) { server in
            let endpoints = [try await deadEndpoint(), server.endpoint]
            try await withClient(to: endpoints, speaking: .standard, options: quickOptions(), on: mechanism.loops) {
                try await expectEcho("a", by: $0)
            }
        }
    }

    @Test func aNameIsResolved() async throws {
        try await withServer(speaking: .standard) { server in
            let endpoint = Wire.endpoint(.host("localhost", port: try port(of: server.endpoint)))
            try await withClient(to: endpoint, speaking: .standard, options: quickOptions()) { client in
                try await expectEcho("a", by: client)
            }
        }
    }

    @Test(arguments: Mechanism.allCases)
    func aServerMayListenOnIPv6(_ mechanism: Mechanism) async throws {
        let address = SocketAddress.ipv6([UInt8](repeating: 0, count: 15) + [1], port: 0, scope: 0)
        let server: LoopbackServer
        do {
            server = try await Wire.startServer(at: address, speaking: .standard)
        } catch {
            print("aServerMayListenOnIPv6 is skipped: \(error)")
            return
        }
        let endpoint = Endpoint.host("::1", port: try port(of: server.endpoint))
        #expect(endpoint.description.hasPrefix("[::1]:"))
        let options = quickOptions()
        try await withClient(to: Wire.endpoint(endpoint), speaking: .standard, options: options, on: mechanism.loops) {
            try await expectEcho("six", by: $0)
        }
        await server.stop()
    }

    @Test(arguments: Mechanism.allCases)
    func aServerMayListenOnAUnixSocket(_ mechanism: Mechanism) async throws {
        let path = "/tmp/trunkline-\(UInt64.random(in: 0 ... .max)).sock"
        let options = LoopbackServer.Options { $0.unixPath = path }
        try await withServerAndClient(by: mechanism, options: options) { server, client in
            try await expectEcho("local", by: client)
            await server.disconnectAll(reset: true)
            try await expectEcho("again", by: client)
            let large = try await client.send(ask(filled(8 << 20)))
            #expect(large.body.count == 8 << 20)
        }
        try await withClient(
            to: .unix(path: path),
            speaking: .standard,
            options: quickOptions {
                $0.reconnecting.maximumAttempts = 1
            }
        ) { client in
            let error = await failure { () throws(ClientError) in try await client.connect() }
            #expect((error?.cause as? TransportError)?.code == .refused)
        }
    }

    @Test func anUnusableAddressIsAnErrorNotATrap() async throws {
        let options = quickOptions { $0.reconnecting.maximumAttempts = 1 }
        let long = Endpoint.unix(path: "/tmp/" + String(repeating: "x", count: 200))
        try await withClient(to: long, speaking: .standard, options: options) { client in
            let error = await failure { () throws(ClientError) in try await client.connect() }
            #expect(error?.code == .unavailable)
            #expect((error?.cause as? TransportError)?.code == .invalidAddress)
        }
    }

    @Test func aClientReconnectsWithoutARequest() async throws {
        for mechanism in Mechanism.allCases {
            let options = quickOptions { $0.reconnecting.keepsLinkWarm = true }
            try await withServerAndClient(by: mechanism, clientOptions: options) { server, client in
                try await expectEcho("first", by: client)
                for round in 2...5 {
                    await server.disconnectAll(reset: round % 2 == 0)
                    // No request waits for a link.
                    try await server.wait(within: patience) { $0.totalConnections >= round && $0.connectionCount == 1 }
                    try await expectEcho("back", by: client)
                }
                #expect(await client.metrics.connection.links == 5)
            }
        }
    }
}
