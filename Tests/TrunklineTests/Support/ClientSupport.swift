import Testing
import Trunkline

@testable import TrunklineIO
@testable import TrunklineTesting

/// Tests that use both processors. They run one at a time, so that other tests get enough time.
@Suite(.tags(.realThreads), .serialized) enum HeavyTests {}

/// The number of requests in a storm: `TRUNKLINE_STRESS_REQUESTS`, or 100,000. Other large numbers are derived from it.
let stormRequests = TestEnvironment.stressRequests ?? 100_000

/// How long to wait for an event before a test fails. The machine may be busy.
let patience = Duration.seconds(60)

/// Suspends for a millisecond, while a test polls a condition.
func moment() async { try? await Task.sleep(for: .milliseconds(1)) }

/// How an event loop learns which sockets are ready. Important behaviour is tested with each mechanism. Event loops are
/// never stopped, so there is one per mechanism.
enum Mechanism: CaseIterable, Codable, Sendable {
    case epoll, poll

    private static let epollLoops = EventLoops(count: 1, mechanism: .epoll)
    private static let pollLoops = EventLoops(count: 1, mechanism: .poll)

    var loops: EventLoops { self == .epoll ? Self.epollLoops : Self.pollLoops }
}

/// Runs `body` with a server and a client whose event loop uses `mechanism`.
func withServerAndClient(
    by mechanism: Mechanism,
    speaking codec: some FrameCodec = FrameLayout.standard,
    options: LoopbackServer.Options = LoopbackServer.Options(),
    clientOptions: ClientOptions = quickOptions(),
    overTLS: Bool = Wire.isSecured,
    handler: @escaping LoopbackServer.Handler = { _ in .echo },
    _ body: nonisolated(nonsending) (LoopbackServer, Client) async throws -> Void
) async throws {
    let clientOptions = Wire.client(clientOptions, overTLS: overTLS)
    let options = Wire.server(options, overTLS: overTLS)
    try await withLoopbackServer(speaking: codec, options: options, handler: handler) { server in
        let endpoint = server.endpoint
        try await withClient(to: endpoint, speaking: codec, options: clientOptions, on: mechanism.loops) { client in
            try await body(server, client)
        }
    }
}

/// A request that carries `body`.
func ask(_ body: Bytes) -> Request { Request(type: 0x410, body: body) }

/// A request that carries `number`.
func ask(_ number: Int) -> Request { ask(Bytes("\(number)")) }

/// A body of `count` bytes, all of them `byte`.
func filled(_ count: Int, with byte: UInt8 = 7) -> Bytes { Bytes([UInt8](repeating: byte, count: count)) }

extension Client {
    /// Waits until requests go out on the link to `endpoint`: until a planned change is complete.
    func becomesReady(at endpoint: Endpoint) async {
        for await state in states {
            if case .ready(endpoint, _) = state { return }
        }
    }
}

/// The error of a request that has failed. A success records an issue.
func failure(
    of handle: PendingRequest<Response>,
    sourceLocation: SourceLocation = #_sourceLocation
) async -> ClientError? {
    await failure(
        { () throws(ClientError) in try await handle.value },
        sourceLocation: sourceLocation
    )
}

/// Sends `body` and expects its echo.
func expectEcho(
    _ body: Bytes,
    by client: Client,
    timeout: Timeout = .default,
    retry: RetryPolicy = .default,
    sourceLocation: SourceLocation = #_sourceLocation
) async throws {
    let reply = try await client.send(ask(body), timeout: timeout, options: CallOptions(retry: retry))
    #expect(reply.body == body, sourceLocation: sourceLocation)
}

/// Waits for the response to `handle` and expects `body`.
func expectBody(
    _ body: Bytes,
    of handle: PendingRequest<Response>,
    sourceLocation: SourceLocation = #_sourceLocation
) async throws {
    let reply = try await handle.value
    #expect(reply.body == body, sourceLocation: sourceLocation)
}

/// A simulated network with a server at "db:7000".
struct SimulatedService {
    let network: SimulatedNetwork
    let server: LoopbackServer
    private let overTLS: Bool

    init(_ network: SimulatedNetwork, _ server: LoopbackServer, overTLS: Bool) {
        (self.network, self.server, self.overTLS) = (network, server, overTLS)
    }

    /// Starts another server, over TLS if the first one is. The caller must stop it.
    func startServer(
        at endpoint: Endpoint,
        speaking codec: some FrameCodec,
        handler: @escaping LoopbackServer.Handler = { _ in .echo }
    ) async throws -> LoopbackServer {
        try await network.serve(at: endpoint, speaking: codec, overTLS: overTLS, handler: handler)
    }

    /// The endpoint of a server in this network as its clients use it, over TLS if this test is.
    func endpoint(_ endpoint: Endpoint) -> Endpoint { Wire.endpoint(endpoint, overTLS: overTLS) }

    /// Waits in virtual time. Everything that can happen before the end of `duration` has happened then.
    func pass(_ duration: Duration) async throws { try await network.clock.sleep(for: duration) }

    /// The virtual time since the beginning of the simulation.
    var now: Duration { network.clock.now.offset }

    /// Creates another client. The caller must close it.
    func client(
        of endpoints: [Endpoint] = ["db:7000"],
        speaking codec: some FrameCodec = FrameLayout.standard,
        options: ClientOptions = ClientOptions()
    ) -> Client {
        network.client(of: endpoints, speaking: codec, options: options, overTLS: overTLS)
    }

    /// Creates a connection without a client. The caller must close it.
    func connection(to endpoints: [Endpoint], speaking codec: some FrameCodec) -> Connection {
        network.connection(to: endpoints, speaking: codec, overTLS: overTLS)
    }
}

/// Runs `body` in virtual time with a server at "db:7000" and a client of it. At the end no link may be open.
///
/// `overTLS` is false for tests of the exact bytes or instants of plaintext. `limit` is the longest virtual time.
func simulate(
    seed: UInt64 = 1,
    within limit: Duration = SimulationLimits().virtualTime,
    conditions: NetworkConditions = NetworkConditions(),
    speaking codec: some FrameCodec = FrameLayout.standard,
    server serverOptions: LoopbackServer.Options = LoopbackServer.Options(),
    options: ClientOptions = ClientOptions(),
    overTLS: Bool = Wire.isSecured,
    handler: @escaping LoopbackServer.Handler = { _ in .echo },
    sourceLocation: SourceLocation = #_sourceLocation,
    _ body: @escaping @Sendable (SimulatedService, Client) async throws -> Void
) throws {
    let network = SimulatedNetwork(seed: seed, conditions: conditions)
    var limits = SimulationLimits()
    limits.virtualTime = limit
    try network.runBlocking(limits: limits) {
        let server = try await network.serve(
            at: "db:7000",
            speaking: codec,
            options: serverOptions,
            overTLS: overTLS,
            handler: handler
        )
        let client = network.client(of: ["db:7000"], speaking: codec, options: options, overTLS: overTLS)
        do {
            try await body(SimulatedService(network, server, overTLS: overTLS), client)
        } catch {
            await client.closeNow()
            await server.stop()
            throw error
        }
        #expect(await client.diagnostics.audit() == [], sourceLocation: sourceLocation)
        await client.closeNow()
        #expect(await client.diagnostics.audit() == [], sourceLocation: sourceLocation)
        let metrics = await client.metrics
        #expect(metrics.pending == 0, sourceLocation: sourceLocation)
        #expect(metrics.heldSerials == 0, sourceLocation: sourceLocation)
        await server.stop()
    }
    #expect(network.openLinks == 0, sourceLocation: sourceLocation)
}

/// The standard layout with very few serials.
func standardLayout(serials: ClosedRange<UInt64>) -> FrameLayout {
    FrameLayout {
        Field.type(UInt32.self)
        Field.serial(UInt32.self)
        Field.length(UInt32.self, counting: .body)
        Field.body
    }
    .roles {
        $0.ping = 0x1
        $0.push = .types(0x2...0x400)
        $0.cancel = 0x401
        $0.serials = serials
    }
}

/// The standard layout with a status.
let statusLayout = FrameLayout {
    Field.type(UInt32.self)
    Field.serial(UInt32.self)
    Field.status(UInt32.self)
    Field.length(UInt32.self, counting: .body)
    Field.body
}
.roles {
    $0.ping = 0x1
    $0.push = .types(0x2...0x400)
    $0.cancel = 0x401
    $0.serials = 50...
}
