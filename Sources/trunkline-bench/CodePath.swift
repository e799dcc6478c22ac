import Trunkline
import TrunklineTesting

/// Code that a request passes through, without a socket and on one thread: each run executes the same instructions.
enum CodePath: String, CaseIterable {
    case codec
    /// The whole path except system calls and threads, in a simulated network.
    case client
    case cluster

    static let payload = 64
    static let batchSize = 64

    func run(_ requests: Int) throws {
        let batches = (requests + Self.batchSize - 1) / Self.batchSize
        switch self {
        case .codec: try Self.runCodec(batches)
        case .client: try Self.runClient(batches)
        case .cluster: try Self.runCluster(batches)
        }
    }

    private static let body = Bytes((0..<payload).map { UInt8($0) })

    private static func runCodec(_ batches: Int) throws {
        var codec: any FrameCodec = .standard
        let frames = (0..<batchSize).map { Frame(.request, type: Run.type, serial: UInt64(50 + $0), body: body) }
        var output = SendBuffer()
        for frame in frames { try codec.encode(frame, into: &output) }
        let received = ReceiveBuffer(output.bytes)
        var decoded: [Frame] = []
        decoded.reserveCapacity(batchSize)
        for _ in 0..<batches {
            output.reset()
            for frame in frames { try codec.encode(frame, into: &output) }
            var input = received
            decoded.removeAll(keepingCapacity: true)
            try codec.decodeAll(&input, into: &decoded)
            guard decoded.count == batchSize, input.isEmpty else { throw BenchError("\(decoded.count) frames decoded") }
        }
    }

    private static func runClient(_ batches: Int) throws {
        let bodies = Bodies(size: payload)
        try simulate { network in
            let endpoint = Endpoint.host("10.0.0.1", port: 7000)
            let server = try await network.startServer(at: endpoint, speaking: .standard)
            let client = Client(to: server.endpoint, speaking: .standard, on: network.loops)
            try await withThrowingDiscardingTaskGroup { group in
                for caller in 0..<batchSize {
                    group.addTask {
                        for _ in 0..<batches {
                            let reply = try await client.send(Request(type: Run.type, body: bodies[caller]))
                            try bodies.check(reply, caller)
                        }
                    }
                }
            }
            await client.close()
            await server.stop()
        }
    }

    private static func runCluster(_ batches: Int) throws {
        let bodies = Bodies(size: payload)
        try simulate { network in
            var servers: [LoopbackServer] = []
            for number in 1...2 {
                let endpoint = Endpoint.host("10.0.0.\(number)", port: 7000)
                servers.append(try await network.startServer(at: endpoint, speaking: .standard))
            }
            let cluster = Cluster(
                discovering: .static(servers.map { ClusterEndpoint($0.endpoint) }),
                speaking: .standard,
                on: network.loops
            )
            try await cluster.connect()
            // Not only the first link.
            try await network.clock.sleep(for: .seconds(1))
            try await withThrowingDiscardingTaskGroup { group in
                for caller in 0..<batchSize {
                    group.addTask {
                        for _ in 0..<batches {
                            let reply = try await cluster.send(Request(type: Run.type, body: bodies[caller]))
                            try bodies.check(reply, caller)
                        }
                    }
                }
            }
            await cluster.close()
            for server in servers { await server.stop() }
        }
    }

    private static func simulate(_ body: @escaping @Sendable (SimulatedNetwork) async throws -> Void) throws {
        let network = SimulatedNetwork(seed: 1)
        // The default is a limit for tests.
        var limits = SimulationLimits()
        limits.steps = .max
        try network.runBlocking(limits: limits) { try await body(network) }
    }
}
