import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts

/// Several addresses, and the options of sockets, with real sockets.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct AddressLoopbackTests {}

extension AddressLoopbackTests {
    private static let six = SocketAddress.ipv6([UInt8](repeating: 0, count: 15) + [1], port: 0, scope: 0)

    /// Event loops on which the name "many" has these addresses.
    private func loops(_ addresses: [SocketAddress], _ mechanism: EventLoops.Mechanism = .systemDefault) -> EventLoops {
        EventLoops(
            mechanism: mechanism,
            resolvingBy: Resolver(maximumThreads: 2, maximumQueued: 8) { name, family in
                guard name == "many" else { return .failure(TransportError(.nameResolutionFailed, name)) }
                return .success(addresses.filter { $0.family == family })
            }
        )
    }

    private func port(of server: LoopbackServer) throws -> UInt16 {
        try #require(UInt16(server.endpoint.description.split(separator: ":").last ?? ""))
    }

    @Test(arguments: [EventLoops.Mechanism.epoll, .poll])
    func ipv4IsUsedIfIPv6Fails(_ mechanism: EventLoops.Mechanism) async throws {
        do {
            let probe = try await Wire.startServer(at: Self.six, speaking: .standard)
            await probe.stop()
        } catch {
            print("ipv4IsUsedIfIPv6Fails is skipped: this machine has no IPv6: \(error)")
            return
        }
        try await withServer(speaking: .standard) { server in
            let endpoint = Wire.endpoint(.host("many", port: try port(of: server)))
            let loops = loops([Self.six, .loopback(port: 0)], mechanism)
            try await withClient(to: endpoint, speaking: .standard, options: quickOptions(), on: loops) { client in
                try await expectEcho("a", by: client)
            }
        }
    }

    /// A listener with a full backlog drops SYNs, as an unreachable host does.
    @Test(arguments: [EventLoops.Mechanism.epoll, .poll])
    func anAddressThatDropsConnectionsDoesNotDelayTheNextOne(_ mechanism: EventLoops.Mechanism) async throws {
        try await withServer(speaking: .standard) { server in
            let port = try port(of: server)
            let deaf = try RawListener(host: [127, 0, 0, 3], port: port, backlog: 0)
            deaf.fill([127, 0, 0, 3])
            let loops = loops([.ipv4([127, 0, 0, 3], port: 0), .loopback(port: 0)], mechanism)
            // Enough time for a busy machine. Trying one address after the other would take all of it.
            let options = quickOptions { $0.connecting.timeout = .seconds(30) }
            let many = Wire.endpoint(.host("many", port: port))
            try await withClient(to: many, speaking: .standard, options: options, on: loops) { client in
                try await expectEcho("a", by: client)
            }
            withExtendedLifetime(deaf) {}
        }
    }

    @Test func aFullBacklogTimesOut() async throws {
        let deaf = try RawListener(backlog: 0)
        deaf.fill()
        let options = quickOptions {
            $0.connecting.timeout = .milliseconds(200)
            $0.reconnecting.maximumAttempts = 1
        }
        try await withClient(to: .host("127.0.0.1", port: deaf.port), speaking: .standard, options: options) { client in
            let error = await failure { () throws(ClientError) in try await client.connect() }
            #expect((error?.cause as? TransportError)?.code == .timedOut)
        }
        withExtendedLifetime(deaf) {}
    }

    @Test func theServerSeesTheSourceAddress() async throws {
        #if os(Linux)
            let listener = try RawListener()
            let options = quickOptions { $0.connecting.sourceAddress = "127.0.0.2" }
            let endpoint = Endpoint.host("127.0.0.1", port: listener.port)
            try await withClient(to: endpoint, speaking: .standard, options: options) { client in
                try await client.connect()
                #expect(listener.accept() == [127, 0, 0, 2])
            }
        #else
            print("theServerSeesTheSourceAddress is skipped: only 127.0.0.1 is a loopback address here")
        #endif
    }

    /// 192.0.2.0/24 is reserved for documentation, so no host has it.
    @Test(arguments: ["192.0.2.213", "::1", "localhost"])
    func aSourceAddressThatCannotBeUsedIsAnError(_ source: String) async throws {
        let options = quickOptions {
            $0.connecting.sourceAddress = source
            $0.reconnecting.maximumAttempts = 1
        }
        try await withServer(speaking: .standard) { server in
            try await withClient(to: server.endpoint, speaking: .standard, options: options) { client in
                let error = await failure { () throws(ClientError) in try await client.connect() }
                let cause = try #require(error?.cause as? TransportError)
                #expect(cause.code == .invalidAddress)
                if source == "192.0.2.213" { #expect(cause.message.contains("this host does not have this address")) }
            }
        }
    }

    // MARK: Options

    /// The options that are set on the socket of a connection with `options`.
    private func applied(_ options: ClientOptions) async throws -> SocketOptions? {
        try await withServer(speaking: .standard) { server in
            let connection = Connection(to: server.endpoint, speaking: .standard, options: ConnectionOptions(options))
            try await connection.write(Frame(.request, type: 0x410, body: "a"))
            let applied = await connection.appliedOptions
            await connection.closeNow()
            return applied
        }
    }

    @Test func theDefaultsAreSetOnTheSocket() async throws {
        let applied = try #require(try await applied(quickOptions()))
        #expect(applied.noDelay)
        #expect(applied.unsentLimit == 256 * 1024)
        #expect(applied.keepAlive == KeepAliveOptions(idle: .seconds(60), interval: .seconds(10), count: 3))
        #if os(Linux)
            #expect(applied.userTimeout == .seconds(30))
        #endif
    }

    /// Such a probe would keep an idle link alive while the client learns how long it survives.
    @Test func theKernelProbesAfterTheLongestLearnedInterval() async throws {
        let options = quickOptions { $0.liveness.adaptiveInterval = .seconds(30)...(.seconds(600)) }
        let applied = try #require(try await applied(options))
        let idle = Duration.seconds(601).addingClamped(options.liveness.deadline)
        #expect(applied.keepAlive?.interval == .seconds(10) && applied.keepAlive?.count == 3)
        #expect((idle...(idle + .seconds(1))).contains(applied.keepAlive?.idle ?? .zero))
    }

    @Test func everyOptionCanBeTurnedOff() async throws {
        let options = quickOptions {
            $0.connecting.noDelay = false
            $0.connecting.keepAlive = nil
            $0.connecting.userTimeout = nil
        }
        let applied = try #require(try await applied(options))
        #expect(!applied.noDelay)
        #expect(applied.keepAlive == nil)
        #expect(applied.userTimeout == nil)
    }

    @Test func valuesOutOfRangeAreClamped() async throws {
        let least = quickOptions {
            $0.connecting.keepAlive = .init(idle: .seconds(-1), interval: .milliseconds(1500), count: 0)
            $0.connecting.userTimeout = .microseconds(99_999_500)
        }
        let low = try #require(try await applied(least))
        #expect(low.keepAlive == KeepAliveOptions(idle: .seconds(1), interval: .seconds(2), count: 1))
        let most = quickOptions {
            $0.connecting.keepAlive = .init(idle: .seconds(Int64.max), interval: .seconds(40_000), count: .max)
            $0.connecting.userTimeout = .seconds(Int64.max)
        }
        let high = try #require(try await applied(most))
        let limit = Duration.seconds(32_767)
        #expect(high.keepAlive == KeepAliveOptions(idle: limit, interval: limit, count: 127))
        #if os(Linux)
            #expect(low.userTimeout == .seconds(100))
            #expect(high.userTimeout == .milliseconds(Int32.max))
        #endif
    }
}

extension Connection {
    /// The options of the link's socket as the system reports them.
    fileprivate var appliedOptions: SocketOptions? {
        (driver.handshaking ?? driver.ready)?.transport.appliedOptions
    }
}
