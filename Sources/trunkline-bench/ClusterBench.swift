import Trunkline

/// Measures a cluster of echo servers, each in a process of its own, beside a single client.
struct ClusterBench {
    private enum Policy: String, CaseIterable {
        case leastLoaded = "least loaded"
        case roundRobin = "round robin"
        case byKey = "by key"
    }

    private struct Row: Hashable {
        /// `nil` for a client.
        var policy: Policy?
        var servers = 1
        var loops = 1
    }

    private static let concurrency = 256
    private static let payload = 64
    private static let widths = [14, 8, 6, 12, 8, 8, 8, 10]
    private static let rows =
        [Row(), Row(policy: .leastLoaded)]
        + [4, 16].flatMap { servers in
            Policy.allCases.flatMap { policy in
                [1, 2].map { Row(policy: policy, servers: servers, loops: $0) }
            }
        }

    private let rounds: Int
    /// In milliseconds.
    private let (warmUp, measured): (Int, Int)

    init(isQuick: Bool) {
        rounds = isQuick ? 1 : 5
        (warmUp, measured) = isQuick ? (100, 300) : (250, 1400)
    }

    func run() async throws -> String { try await run([]) }

    private func run(_ ports: [UInt16]) async throws -> String {
        guard ports.count < 16 else { return try await table(ports) }
        return try await ChildProcess.withServer("serve") { line in
            guard let port = UInt16(line) else { throw BenchError("an echo server did not start") }
            return try await run(ports + [port])
        }
    }

    private func table(_ ports: [UInt16]) async throws -> String {
        var lines = [
            machineDescription(),
            "\(Self.concurrency) requests of \(Self.payload) bytes in flight; medians of \(rounds) alternating rounds of "
                + "\(measured) ms; CPU: of this process",
            "",
            aligned(
                ["policy", "servers", "loops", "requests/s", "CPU µs", "p50 µs", "p99 µs", "alloc/req"],
                Self.widths
            ),
        ]
        var results: [Row: [Measurement]] = [:]
        for _ in 0..<rounds {
            for row in Self.rows { results[row, default: []].append(try await measure(row, ports)) }
        }
        for row in Self.rows {
            let measurements = results[row, default: []]
            func middle(_ value: (Measurement) -> Double) -> Double { median(measurements.map(value)) }
            lines.append(
                aligned(
                    [
                        row.policy?.rawValue ?? "client", "\(row.servers)", "\(row.loops)",
                        "\(Int(middle(\.requestsPerSecond)))", decimal(middle(\.processorTimePerRequest), places: 2),
                        decimal(middle { Double($0.p50) / 1e3 }, places: 0),
                        decimal(middle { Double($0.p99) / 1e3 }, places: 0),
                        decimal(middle { Double($0.allocations) / Double($0.requests) }, places: 2),
                    ],
                    Self.widths
                )
            )
        }
        return lines.joined(separator: "\n")
    }

    private func measure(_ row: Row, _ ports: [UInt16]) async throws -> Measurement {
        let endpoints = ports.prefix(row.servers).map { Endpoint.host("127.0.0.1", port: $0) }
        let loops = EventLoops(count: row.loops)
        guard let policy = row.policy else {
            let client = Client(to: endpoints[0], speaking: .standard, on: loops)
            return try await measure(.client(client)) { await client.close() }
        }
        let cluster = Cluster(
            discovering: .static(endpoints.map { ClusterEndpoint($0) }),
            speaking: .standard,
            on: loops
        ) { $0.balancing = policy == .roundRobin ? .roundRobin : .leastLoaded }
        // Not only the first link.
        while await cluster.metrics.servers.count(where: { $0.state == .serving }) < row.servers {
            try await cluster.connect()
            try await Task.sleep(for: .milliseconds(1))
        }
        return try await measure(policy == .byKey ? .clusterByKey(cluster) : .cluster(cluster)) {
            await cluster.close()
        }
    }

    private enum Sender {
        case client(Client)
        case cluster(Cluster)
        case clusterByKey(Cluster)
    }

    private func measure(_ sender: Sender, end: () async -> Void) async throws -> Measurement {
        _ = try await drive(.milliseconds(warmUp), Histogram(), sender)
        let measurement = try await Measurement.take { try await drive(.milliseconds(measured), $0, sender) }
        await end()
        return measurement
    }

    private func drive(_ quota: Quota, _ histogram: Histogram, _ sender: Sender) async throws -> Int {
        let calls = Calls(
            deadline: quota.deadline(from: monotonicNow()) ?? .max,
            stride: quota.latencyStride(concurrency: Self.concurrency),
            bodies: Bodies(size: Self.payload),
            histogram: histogram
        )
        return try await withThrowingTaskGroup { group in
            for caller in 0..<Self.concurrency {
                // One closure for each kind of caller, so that its task has a single small frame.
                let work: @concurrent @Sendable () async throws -> Int =
                    switch sender {
                    case .client(let client):
                        { try await calls.run(caller) { request async throws in try await client.send(request) } }
                    case .cluster(let cluster):
                        { try await calls.run(caller) { request async throws in try await cluster.send(request) } }
                    case .clusterByKey(let cluster):
                        {
                            try await calls.run(caller) { request async throws in
                                try await cluster.send(request, key: caller)
                            }
                        }
                    }
                group.addTask(operation: work)
            }
            return try await group.reduce(0, +)
        }
    }

    private struct Calls: Sendable {
        let deadline: UInt64
        let stride: Int
        let bodies: Bodies
        let histogram: Histogram

        @inline(__always)
        func run(_ caller: Int, _ send: (Request) async throws -> Response) async throws -> Int {
            var (count, unmeasured) = (0, caller % stride)
            while true {
                let isMeasured = unmeasured == 0
                let start = isMeasured ? monotonicNow() : 0
                if start >= deadline { return count }
                let response = try await send(Request(type: Run.type, body: bodies[caller &+ count]))
                try bodies.check(response, caller &+ count)
                if isMeasured { histogram.record(monotonicNow() - start, caller: caller) }
                unmeasured = (isMeasured ? stride : unmeasured) - 1
                count += 1
            }
        }
    }
}
