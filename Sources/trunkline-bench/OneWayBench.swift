import Trunkline

/// One caller sends one-way messages one after another to a sink in a separate process.
struct OneWayBench {
    private enum Way: String, CaseIterable {
        case post
        case postAll = "post(all:)"
        case enqueue, tryEnqueue
    }

    private static let batchSize = 64
    private static let widths = [12, 8, 14, 12, 12]

    private let rounds: Int
    /// In milliseconds.
    private let measured: Int

    init(isQuick: Bool) {
        rounds = isQuick ? 3 : 9
        measured = isQuick ? 300 : 1000
    }

    func run() async throws -> String {
        try await ChildProcess.withServer("serve-sink") { line in
            guard let port = UInt16(line) else { throw BenchError("the server did not start") }
            return try await table(port)
        }
    }

    private func table(_ port: UInt16) async throws -> String {
        var lines = [
            machineDescription(),
            "one-way messages, one caller; medians of \(rounds) alternating rounds of \(measured) ms",
            "", aligned(["way", "body", "messages/s", "µs each", "CPU µs"], Self.widths),
        ]
        for payload in [64, 4096] {
            var results: [Way: [Measurement]] = [:]
            for _ in 0..<rounds {
                for way in Way.allCases { results[way, default: []].append(try await measure(way, payload, port)) }
            }
            for way in Way.allCases {
                let rate = median(results[way, default: []].map(\.requestsPerSecond))
                let cost = median(results[way, default: []].map(\.processorTimePerRequest))
                let words = [
                    way.rawValue, Table.size(payload), "\(Int(rate))", decimal(1e6 / rate, places: 2),
                    decimal(cost, places: 2),
                ]
                lines.append(aligned(words, Self.widths))
            }
        }
        return lines.joined(separator: "\n")
    }

    private func measure(_ way: Way, _ payload: Int, _ port: UInt16) async throws -> Measurement {
        let client = Client(to: .host("127.0.0.1", port: port), speaking: .standard)
        try await client.connect()
        let bodies = Bodies(size: payload)
        let request = Request(type: Run.type, body: bodies[0])
        let batch = (0..<Self.batchSize).map { Request(type: Run.type, body: bodies[$0]) }
        let measurement = try await Measurement.take { _ in
            let end = monotonicNow() + UInt64(measured) * 1_000_000
            var count = 0
            while monotonicNow() < end {
                switch way {
                case .post: try await client.post(request)
                case .postAll:
                    for result in await client.post(all: batch) { try result.get() }
                    count += Self.batchSize - 1
                case .enqueue: try await client.enqueue(request)
                case .tryEnqueue:
                    do throws(ClientError) { try client.tryEnqueue(request) } catch {
                        guard error.code == .overloaded else { throw error }
                        try await client.enqueue(request)
                    }
                }
                count += 1
            }
            // The time includes writing all accepted messages.
            await client.close()
            return count
        }
        let failures = await client.metrics.failedMessages
        guard failures == 0 else { throw BenchError("\(failures) messages were lost") }
        return measurement
    }
}
