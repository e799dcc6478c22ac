import Testing
import Trunkline
import TrunklineTesting

/// Tests that take both processors for themselves, one at a time, so that the others do not starve.
@Suite(.tags(.realThreads), .serialized) enum HeavyTests {}

/// How many requests a storm is made of: `TRUNKLINE_STRESS_REQUESTS`, or 100,000. Other large numbers shrink with it.
let stormRequests = TestEnvironment.stressRequests ?? 100_000

/// How long to wait for a fact before giving up: the machine may have much else to do.
let patience = Duration.seconds(60)

/// Lets others work while a test waits for what nobody tells it.
func moment() async { try? await Task.sleep(for: .milliseconds(1)) }

/// How an event loop learns which sockets are ready: what matters is tested on each. Loops are never stopped, so there is
/// one per mechanism.
enum Mechanism: CaseIterable, Sendable {
    case epoll, poll

    private static let epollLoops = EventLoops(count: 1, mechanism: .epoll)
    private static let pollLoops = EventLoops(count: 1, mechanism: .poll)

    var loops: EventLoops { self == .epoll ? Self.epollLoops : Self.pollLoops }
}

/// Runs `body` with a server and a client whose loop works by `mechanism`.
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
    /// Waits until the link to `endpoint` takes the requests: until a planned change is complete.
    func becomesReady(at endpoint: Endpoint) async {
        for await state in states {
            if case .ready(endpoint, _) = state { return }
        }
    }
}

/// The error of a request that has failed; a success is an issue.
func failure(
    of handle: PendingRequest<Response>,
    sourceLocation: SourceLocation = #_sourceLocation
) async -> ClientError? {
    await failure(
        { () throws(ClientError) in try await handle.value },
        sourceLocation: sourceLocation
    )
}

/// Asks `client` for an echo of `body`.
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

/// Waits for the response to `handle`, which must carry `body`.
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

    /// A further server, on the wire of the first; whoever starts it stops it.
    func startServer(
        at endpoint: Endpoint,
        speaking codec: some FrameCodec,
        handler: @escaping LoopbackServer.Handler = { _ in .echo }
    ) async throws -> LoopbackServer {
        try await network.serve(at: endpoint, speaking: codec, overTLS: overTLS, handler: handler)
    }

    /// Of a server in this network, as its clients name it.
    func endpoint(_ endpoint: Endpoint) -> Endpoint { Wire.endpoint(endpoint, overTLS: overTLS) }

    /// Waits in virtual time: everything that can happen before then has happened.
    func pass(_ duration: Duration) async throws { try await network.clock.sleep(for: duration) }

    /// The virtual time since the beginning.
    var now: Duration { network.clock.now.offset }

    /// A further client; whoever makes it closes it.
    func client(
        of endpoints: [Endpoint] = ["db:7000"],
        speaking codec: some FrameCodec = FrameLayout.standard,
        options: ClientOptions = ClientOptions()
    ) -> Client {
        network.client(of: endpoints, speaking: codec, options: options, overTLS: overTLS)
    }

    /// A bare connection; whoever makes it closes it.
    func connection(to endpoints: [Endpoint], speaking codec: some FrameCodec) -> Connection {
        network.connection(to: endpoints, speaking: codec, overTLS: overTLS)
    }
}

/// Runs `body` in virtual time with a server at "db:7000" and a client of it; in the end no link may be left.
///
/// `overTLS` is false for what is about plaintext's very bytes or instants.
func simulate(
    seed: UInt64 = 1,
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
    try network.runBlocking {
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
        await client.closeNow()
        let statistics = await client.statistics
        #expect(statistics.pending == 0, sourceLocation: sourceLocation)
        #expect(statistics.heldSerials == 0, sourceLocation: sourceLocation)
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
    .roles(ping: 0x1, push: .types(0x2...0x400), cancel: 0x401, serials: serials)
}
