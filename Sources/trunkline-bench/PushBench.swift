import Trunkline

/// A server in a separate process sends pushes of 64 bytes as fast as the client reads, to one consumer.
struct PushBench {
    private enum Way: String, CaseIterable {
        case suspending = "suspendReading"
        case pinned = "… pinned"
        case messages = "… .messages"
        case large = "… of 16,384"
        case dropping = "dropOldest"

        var buffering: PushBuffering {
            PushBuffering(
                maximumCount: self == .large ? 16_384 : 1024,
                overflow: self == .dropping ? .dropOldest : .suspendReading
            )
        }
    }

    private struct Result {
        var measurement: Measurement
        var dropped: Int
    }

    private static let widths = [18, 12, 13, 12, 12]

    private let rounds: Int
    /// In milliseconds.
    private let measured: Int

    init(isQuick: Bool) {
        rounds = isQuick ? 3 : 7
        measured = isQuick ? 300 : 1000
    }

    func run() async throws -> String {
        try await ChildProcess.withServer("serve-floods") { try await table(FloodServers.Addresses(line: $0)) }
    }

    private func table(_ servers: FloodServers.Addresses) async throws -> String {
        var lines = [
            machineDescription(),
            "pushes of 64 B, one consumer; medians of \(rounds) alternating rounds of \(measured) ms;",
            "CPU is that of the event loop and the consumer, for each push that the consumer received",
            "", aligned(["stream", "pushes/s", "CPU µs/push", "alloc/push", "dropped"], Self.widths),
        ]
        var results: [Way: [Result]] = [:]
        for _ in 0..<rounds {
            for way in Way.allCases {
                results[way, default: []].append(try await measure(way, servers.port(of: .smallPushes)))
            }
        }
        for way in Way.allCases { lines.append(Self.line(way, results[way] ?? [])) }
        return lines.joined(separator: "\n")
    }

    private static func line(_ way: Way, _ results: [Result]) -> String {
        let all = results.map(\.measurement)
        let allocations = all.compactMap(\.allocationsPerRequest)
        let dropped = results.map { Double($0.dropped) / Double($0.dropped + $0.measurement.requests) }
        return aligned(
            [
                way.rawValue, decimal(median(all.map(\.requestsPerSecond)), places: 0),
                decimal(median(all.map(\.processorTimePerRequest)), places: 3),
                allocations.isEmpty ? "n/a" : decimal(median(allocations), places: 2),
                decimal(100 * median(dropped), places: 1) + " %",
            ],
            widths
        )
    }

    private func measure(_ way: Way, _ port: UInt16) async throws -> Result {
        let client = Client(to: .host("127.0.0.1", port: port), speaking: .standard)
        let stream = client.pushes(buffering: way.buffering)
        try await client.connect()
        var dropped = 0
        // The first pushes warm up.
        _ = try await consume(stream, way, on: client, milliseconds: measured / 10)
        let measurement = try await Measurement.take { _ in
            let counts = try await consume(stream, way, on: client, milliseconds: measured)
            dropped = counts.dropped
            return counts.received
        }
        await client.closeNow()
        // A closed client discards what the server still sends, for at most one second.
        try await Task.sleep(for: .milliseconds(1100))
        return Result(measurement: measurement, dropped: dropped)
    }

    private typealias Counts = (received: Int, dropped: Int)

    private func consume(
        _ stream: PushStream,
        _ way: Way,
        on client: Client,
        milliseconds: Int
    ) async throws -> Counts {
        let deadline = monotonicNow() + UInt64(milliseconds) * 1_000_000
        let work: @concurrent @Sendable () async -> Counts = {
            if way == .messages {
                var received = 0
                for await message in stream.messages {
                    received += message.body.count == 64 ? 1 : 0
                    if received % 256 == 0, monotonicNow() >= deadline { break }
                }
                return (received, 0)
            }
            var counts = (received: 0, dropped: 0)
            for await push in stream {
                switch push {
                case .message(let message): counts.received += message.body.count == 64 ? 1 : 0
                case .dropped(let count): counts.dropped += count
                default: break
                }
                if counts.received % 256 == 0, monotonicNow() >= deadline { break }
            }
            return counts
        }
        // Even a preference of `nil` makes the runtime look it up.
        guard way == .pinned else { return await work() }
        return await Task(executorPreference: client.executor, operation: work).value
    }
}
