import Testing
import TrunklineTesting

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts

/// `connect(timeout:)` of clients and clusters. Without it, `connect()` was said to fail early, and waited for ever.
@Suite(.simulated) struct ConnectTimeoutTests {}

extension ConnectTimeoutTests {
    private static let endpoint: Endpoint = "10.1.0.1:7000"

    /// The error of `connect`, and how long it took in virtual time.
    private func outcome(
        on network: SimulatedNetwork,
        _ connect: () async throws(ClientError) -> Void
    ) async -> (error: ClientError?, time: Duration) {
        let begun = network.clock.now
        do throws(ClientError) {
            try await connect()
            return (nil, network.clock.now.offset - begun.offset)
        } catch {
            return (error, network.clock.now.offset - begun.offset)
        }
    }

    @Test func aClientWithoutAServerFailsInTimeAndGoesOn() throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            network.setName("orders", hosts: ["10.1.0.1"])
            let client = Client(to: "orders:7000", speaking: .standard, on: network.loops)
            let (error, time) = await outcome(on: network) { () async throws(ClientError) in
                try await client.connect(timeout: .seconds(5))
            }
            #expect(time == .seconds(5))
            #expect(error?.code == .timedOut && error?.fate == .notSent)
            #expect(error?.message == "no link was ready within 5 s")
            #expect(error?.attempts.isEmpty == false && (error?.cause as? TransportError)?.code == .refused)
            let server = try await network.startServer(at: Self.endpoint, speaking: .standard) { _ in .echo }
            try await network.clock.sleep(for: .seconds(30))
            #expect(await client.metrics.connection.state.isReady)
            let again = await outcome(on: network) { () async throws(ClientError) in
                try await client.connect(timeout: .seconds(1))
            }
            #expect(again.error == nil)
            await client.close()
            let late = await outcome(on: network) { () async throws(ClientError) in
                try await client.connect(timeout: .seconds(1))
            }
            #expect(late.error?.code == .closed && late.time == .zero)
            await server.stop()
        }
    }

    @Test func aClientThatIsSuspendedSaysSo() throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            let client = Client(to: Self.endpoint, speaking: .standard, on: network.loops)
            await client.suspend()
            let (error, _) = await outcome(on: network) { () async throws(ClientError) in
                try await client.connect(timeout: .seconds(1))
            }
            #expect(error?.message == "no link was ready within 1 s; the client is suspended")
            await client.close()
        }
    }

    @Test(arguments: [Duration.zero, .seconds(-1)])
    func aTimeoutMustBePositive(_ timeout: Duration) throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            let client = Client(to: Self.endpoint, speaking: .standard, on: network.loops)
            let (error, time) = await outcome(on: network) { () async throws(ClientError) in
                try await client.connect(timeout: timeout)
            }
            #expect(error?.code == .timedOut && error?.fate == .notSent && time == .zero)
            #expect(await client.metrics.connection.attempts == 0)
            await client.close()
        }
    }

    @Test func aCallerThatIsCancelledLearnsThat() throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            let client = Client(to: Self.endpoint, speaking: .standard, on: network.loops)
            let code = await withTaskGroup(of: ClientError.Code?.self) { group in
                group.addTask {
                    do throws(ClientError) {
                        try await client.connect(timeout: .seconds(60))
                        return nil
                    } catch {
                        return error.code
                    }
                }
                try? await network.clock.sleep(for: .seconds(1))
                group.cancelAll()
                return await group.next() ?? nil
            }
            #expect(code == .cancelled)
            await client.close()
        }
    }

    @Test func aClusterSaysWhyThereIsNoServer() throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            let unknown = Cluster(discovering: .dns("nobody:1"), speaking: .standard, on: network.loops)
            let (error, time) = await outcome(on: network) { () async throws(ClientError) in
                try await unknown.connect(timeout: .seconds(5))
            }
            #expect(time == .seconds(5) && error?.code == .timedOut && error?.fate == .notSent)
            let message = error?.message ?? ""
            #expect(message.hasPrefix("no server was ready within 5 s; no server was found: "), "\(message)")
            #expect(message.contains("no host is named nobody"), "\(message)")
            await unknown.close()

            let server = try await network.startServer(at: Self.endpoint, speaking: .standard) { _ in .echo }
            let cluster = Cluster(
                discovering: .static([ClusterEndpoint(Self.endpoint)]),
                speaking: .standard,
                on: network.loops
            )
            try await cluster.connect(timeout: .seconds(5))
            await cluster.close()
            await server.stop()
        }
    }
}
