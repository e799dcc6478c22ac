import Testing

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// Clients and connections that are deallocated without `close()`.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct DroppedClientTests {}

extension DroppedClientTests {
    /// The weak references of a client that was used and released.
    private struct Remains {
        weak var client: Client?
        weak var connection: Connection?
    }

    private static let options = ClientOptions {
        $0.requests.timeout = .seconds(3600)
        $0.liveness.interval = .seconds(3600)
    }

    /// Uses a client, which arms its timers, and releases it.
    private func use(_ network: SimulatedNetwork, _ call: (Client) async throws -> Void) async rethrows -> Remains {
        let client = network.client(of: ["db:7000"], speaking: FrameLayout.standard, options: Self.options)
        try await call(client)
        return Remains(client: client, connection: client.connection)
    }

    /// Regression: the client's timer stayed in the loop until the deadline of its last request.
    @Test(arguments: 1...10 as ClosedRange<UInt64>)
    func aDroppedClientLeavesNothingBehind(_ seed: UInt64) throws {
        let network = SimulatedNetwork(seed: seed)
        try network.runBlocking {
            let server = try await network.serve(at: "db:7000", speaking: .standard)
            let armed = network.loop.timers.armedCount
            var all: [Remains] = []
            // An idle client, one whose request was cancelled, one that never connected, one that connects for ever,
            // and one whose name look-up hangs.
            all.append(try await use(network) { _ = try await $0.send(ask("a")) })
            all.append(
                await use(network) {
                    let handle = $0.start(ask("a"))
                    handle.cancel()
                    _ = try? await handle.value
                }
            )
            all.append(await use(network) { _ in })
            network.swallowConnections(to: "db")
            all.append(await use(network) { _ = try? await $0.send(ask("a"), timeout: .milliseconds(10)) })
            network.setResolution(of: "db", ipv6: .never, ipv4: .never)
            all.append(await use(network) { _ = try? await $0.send(ask("a"), timeout: .milliseconds(10)) })
            // Sockets whose peer has to close first stay for up to a second.
            try await network.clock.sleep(for: .milliseconds(1100))
            for remains in all { #expect(remains.client == nil && remains.connection == nil) }
            #expect(network.loop.timers.armedCount == armed)
            #expect(network.openLinks == 0)
            await server.stop()
        }
    }

    /// The same for a connection that is used alone.
    @Test func aDroppedConnectionLeavesNothingBehind() throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            let server = try await network.serve(at: "db:7000", speaking: .standard)
            let armed = network.loop.timers.armedCount
            func use() async throws -> Remains {
                let connection = network.connection(to: ["db:7000"], speaking: FrameLayout.standard)
                try await connection.write(Frame(.request, type: 0x410, body: "a"))
                return Remains(client: nil, connection: connection)
            }
            let remains = try await use()
            try await network.clock.sleep(for: .milliseconds(1100))
            #expect(remains.connection == nil)
            #expect(network.loop.timers.armedCount == armed)
            #expect(network.openLinks == 0)
            await server.stop()
        }
    }
}
