import Testing
import Trunkline
import TrunklineDiagnostics
import TrunklineTesting

/// Uses a client with options that `change` has changed: see `useClient(_:)`.
func useClient(_ change: (inout ClientOptions) -> Void) async throws {
    var options = ClientOptions.withEverything
    change(&options)
    try await useClient(options)
}

/// Uses a client in every way that depends on its options, in virtual time: it connects, sends, receives parts and
/// pushes, waits, loses links in several ways, and closes. Every call ends, with a result or an error.
func useClient(_ options: ClientOptions, speaking codec: some FrameCodec = FrameLayout.standard) async throws {
    try await SimulatedNetwork(seed: 1).runWithServer(speaking: codec) { network in
        let endpoints: [Endpoint] = ["db:7000", "other:7000"]
        let client = Client(to: endpoints, speaking: codec, options: options, on: network.loops)
        await client.use(in: network)
        network.reset("db")
        try await network.clock.sleep(for: .milliseconds(50))
        network.halfOpen("db")
        await client.use(in: network)
        network.heal("db")
        await client.renewLink()
        try await network.clock.sleep(for: .milliseconds(300))
        _ = await client.metrics
        _ = await client.diagnostics.recording
        let start = network.clock.now
        await client.close()
        // `drainTimeout` may be endless, but all requests have ended.
        #expect(network.clock.now < start.advanced(by: .seconds(40)))
        let error = await ended { _ = try await client.send(Request(type: 0x410)) }
        #expect(error != nil)
    }
}

extension SimulatedNetwork {
    /// Runs `body` with two servers that echo. Before that they send a push, and requests with the body "parts" are
    /// answered in parts.
    func runWithServer(
        speaking codec: some FrameCodec = FrameLayout.standard,
        _ body: @escaping @Sendable (SimulatedNetwork) async throws -> Void
    ) async throws {
        try await run {
            let parts: [Bytes] = ["a", Bytes(repeating: 1, count: 3000), "c"]
            let handler: LoopbackServer.Handler = { request in
                if request.body == "parts" { return .parts(parts, every: .milliseconds(1)) }
                if request.body == "silence" { return .noReply }
                return .sequence([.push(Frame(.push, type: 2, body: "news")), .echo])
            }
            var servers: [LoopbackServer] = []
            for endpoint in ["db:7000", "other:7000"] as [Endpoint] {
                servers.append(try await self.startServer(at: endpoint, speaking: codec, handler: handler))
            }
            try await body(self)
            for server in servers { await server.stop() }
        }
    }
}

extension Client {
    /// Makes a call of each kind. Each has at most a second.
    fileprivate nonisolated(nonsending) func use(in network: SimulatedNetwork) async {
        let clock = network.clock
        let pushes = pushes(ofType: 2)
        await ended(by: clock) { _ = try await self.send(Request(type: 0x410, body: "hello")) }
        await ended(by: clock) { _ = try await self.send(Request(type: 0x410, body: "parts")) }
        await ended(by: clock) {
            _ = try await self.send(Request(type: 0x410, body: "silence"), timeout: .seconds(0.05))
        }
        await ended(by: clock) { for try await _ in self.stream(Request(type: 0x410, body: "parts")) {} }
        let cached = CachingSender(self)
        await ended(by: clock) { _ = try await cached.send(Request(type: 0x410, body: "c"), cache: .for(.seconds(1))) }
        await ended(by: clock) { try await self.post(Request(type: 0x410, body: "silence")) }
        await ended(by: clock) { try await self.enqueue(Request(type: 0x410, body: "silence")) }
        await ended(by: clock) {
            _ = await self.send(all: (0..<5).map { _ in Request(type: 0x410, body: Bytes(repeating: 1, count: 2000)) })
        }
        await ended(by: clock) { _ = await pushes.first { _ in true } }
        // The client holds what it receives, up to a limit, until the stream is finished.
        let full = self.pushes(ofType: 2, buffering: PushBuffering(maximumCount: 1, overflow: .suspendReading))
        for _ in 0..<3 {
            await ended {
                _ = try await withTimeout(.milliseconds(20), clock: clock) {
                    try await self.send(Request(type: 0x410, body: Bytes(repeating: 1, count: 500)))
                }
            }
        }
        full.finish()
    }
}

/// Calls `body`, which may fail, and returns its error.
@discardableResult
func ended(
    by clock: SimulatedClock? = nil,
    _ body: @escaping @Sendable () async throws -> Void
) async -> ClientError? {
    do {
        if let clock { try await withTimeout(.seconds(1), clock: clock, body) } else { try await body() }
        return nil
    } catch let error as ClientError {
        return error
    } catch {
        Issue.record("\(error) is not a ClientError")
        return nil
    }
}
