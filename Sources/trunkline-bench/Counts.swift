import CTrunklineBench
import Trunkline

/// Counts that barely depend on the speed and the load of the machine, over real sockets. The project's check compares
/// them with ceilings.
struct Counts {
    private var values: [(name: String, value: Double)] = []

    var json: String {
        "{" + values.map { "\"\($0.name)\": \(decimal($0.value, places: 3))" }.joined(separator: ", ") + "}"
    }

    private static let requests = 40_000
    private static let rounds = 5
    private static let callers = 4096
    /// Below 1,024, the usual limit of open files.
    private static let connections = 500

    static func measure() async throws -> Counts {
        guard trunkline_bench_allocations() >= 0, trunkline_bench_bytes_in_use() >= 0 else {
            throw BenchError("allocations are not counted on this system")
        }
        var counts = Counts()
        counts.values = try await withPort("serve") { port in
            var values: [(String, Double)] = []
            for (name, row, batchSize) in [
                ("ordinary", Row.ordinary, 1), ("pinned", .pinned, 1), ("batch", .batch, 64),
            ] {
                let run = Run(
                    row: row,
                    batchSize: batchSize,
                    port: port,
                    concurrency: 64,
                    payload: 64,
                    warmUp: .requests(requests / 4),
                    measured: .requests(requests)
                )
                var allocations: [Double] = []
                for _ in 0..<rounds { allocations.append(try await run.measured().allocationsPerRequest ?? 0) }
                values.append(("allocations per request, \(name)", median(allocations)))
            }
            var bytes: [Double] = []
            for _ in 0..<3 { bytes.append(try await bytesPerConnection(port)) }
            values.append(("bytes per idle connection", median(bytes)))
            return values
        }
        counts.values += try await ChildProcess.withServer("serve-secured") { line in
            let servers = try SecuredServers(line)
            let bytes = try await bytesPerConnection(servers.secured, root: servers.root)
            return [("bytes per idle connection, TLS", bytes)]
        }
        counts.values += try await withPort("serve-sink") { port in
            [
                ("allocations per message, one-way", try await allocationsPerMessage(port)),
                ("bytes per request in flight, ordinary", try await bytesPerRequest(port, isPinned: false)),
                ("bytes per request in flight, pinned", try await bytesPerRequest(port, isPinned: true)),
            ]
        }
        return counts
    }

    private static func withPort(
        _ server: String,
        _ body: (UInt16) async throws -> [(String, Double)]
    ) async throws -> [(name: String, value: Double)] {
        try await ChildProcess.withServer(server) { line in
            guard let port = UInt16(line) else { throw BenchError("the server did not start") }
            return try await body(port)
        }
    }

    private static func allocationsPerMessage(_ port: UInt16) async throws -> Double {
        let client = Client(to: .host("127.0.0.1", port: port), speaking: .standard)
        let request = Request(type: Run.type, body: Bodies(size: 64)[0])
        for _ in 0..<requests / 4 { try await client.post(request) }
        let start = Usage.now.allocations
        for _ in 0..<requests { try await client.post(request) }
        let count = Usage.now.allocations - start
        await client.close()
        return Double(count) / Double(requests)
    }

    /// Of a request that is written and has no response yet, with the task of its caller.
    private static func bytesPerRequest(_ port: UInt16, isPinned: Bool) async throws -> Double {
        let client = Client(to: .host("127.0.0.1", port: port), speaking: .standard)
        let request = Request(type: Run.type, body: Bodies(size: 64)[0])
        try await client.post(request)
        let start = trunkline_bench_bytes_in_use()
        let executor = isPinned ? client.executor : nil
        return try await withThrowingDiscardingTaskGroup { group in
            for _ in 0..<callers {
                // The server never answers: the calls end when the client is closed.
                let call: @concurrent @Sendable () async -> Void = {
                    _ = try? await client.send(request, timeout: .never)
                }
                if let executor {
                    group.addTask(executorPreference: executor, operation: call)
                } else {
                    group.addTask(operation: call)
                }
            }
            try await withTimeout(.seconds(60)) {
                while await client.metrics.heldSerials < callers { try await Task.sleep(for: .milliseconds(1)) }
                while await client.metrics.connection.bytesToWrite > 0 { try await Task.sleep(for: .milliseconds(1)) }
            }
            let end = trunkline_bench_bytes_in_use()
            await client.closeNow()
            return Double(end - start) / Double(callers)
        }
    }

    /// Of a client whose connection has answered a request. Memory of the kernel is not counted.
    private static func bytesPerConnection(_ port: UInt16, root: PEM? = nil) async throws -> Double {
        // The first clients also start the event loops and fill caches of the runtime.
        let first = try await idleClients(50, port, root)
        let start = trunkline_bench_bytes_in_use()
        let clients = try await idleClients(connections, port, root)
        let end = trunkline_bench_bytes_in_use()
        for client in first + clients { await client.close() }
        return Double(end - start) / Double(connections)
    }

    private static func idleClients(_ count: Int, _ port: UInt16, _ root: PEM?) async throws -> [Client] {
        var clients: [Client] = []
        clients.reserveCapacity(count)
        var options = ClientOptions()
        var endpoint = Endpoint.host("127.0.0.1", port: port)
        if let root {
            options.tls.roots = .only(root)
            endpoint = endpoint.secured()
        }
        let request = Request(type: Run.type, body: Bodies(size: 64)[0])
        for _ in 0..<count {
            let client = Client(to: endpoint, speaking: .standard, options: options)
            _ = try await client.send(request)
            clients.append(client)
        }
        // What a request leaves behind is freed on the event loops.
        try await Task.sleep(for: .milliseconds(200))
        return clients
    }
}
