import Testing

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineTesting

/// Runs `body` in virtual time with a server that receives datagrams at "udp://db:7000", and a client of it. At the end
/// nothing may be left over.
func simulateDatagrams(
    seed: UInt64 = 1,
    conditions: NetworkConditions = NetworkConditions(),
    speaking codec: some FrameCodec = FrameLayout.standard,
    server serverOptions: LoopbackServer.Options = LoopbackServer.Options(),
    endpoints: [Endpoint] = ["udp://db:7000"],
    options: ClientOptions = ClientOptions(),
    handler: @escaping LoopbackServer.Handler = { _ in .echo },
    sourceLocation: SourceLocation = #_sourceLocation,
    _ body: @escaping @Sendable (SimulatedNetwork, LoopbackServer, Client) async throws -> Void
) throws {
    let network = SimulatedNetwork(seed: seed, conditions: conditions)
    try network.runBlocking {
        let server = try await network.startServer(
            at: "udp://db:7000",
            speaking: codec,
            options: serverOptions,
            handler: handler
        )
        let client = network.client(of: endpoints, speaking: codec, options: options, overTLS: false)
        do {
            try await body(network, server, client)
        } catch {
            await client.closeNow()
            await server.stop()
            throw error
        }
        #expect(await client.diagnostics.audit() == [], "seed \(seed)", sourceLocation: sourceLocation)
        await client.closeNow()
        let metrics = await client.metrics
        #expect(
            metrics.pending == 0 && metrics.requests == metrics.responses + metrics.written + metrics.failed,
            "seed \(seed)",
            sourceLocation: sourceLocation
        )
        // The last datagrams arrive.
        try await network.clock.sleep(for: .seconds(1))
        await server.stop()
    }
    #expect(network.openLinks == 0, "seed \(seed)", sourceLocation: sourceLocation)
}

/// A network that loses and duplicates datagrams, in which they overtake each other.
func lossy(_ loss: Double = 0.2, duplication: Double = 0.1) -> NetworkConditions {
    var conditions = NetworkConditions()
    conditions.latency = .milliseconds(1)...(.milliseconds(40))
    (conditions.datagramLoss, conditions.datagramDuplication) = (loss, duplication)
    return conditions
}

/// Options of a client whose requests may all be sent again.
func repeating(tries: Int = 20, _ change: (inout ClientOptions) -> Void = { _ in }) -> ClientOptions {
    ClientOptions { options in
        options.requests.retry = .idempotent(tries: tries)
        options.requests.retryBudget = nil
        options.requests.timeout = .seconds(120)
        change(&options)
    }
}
