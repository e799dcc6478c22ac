import Trunkline

/// The same load with each observer, the log and the flight recorder in turns.
struct ObservationBench {
    private static let rows: [Row] = [.ordinary, .pinned, .batch]
    private static let widths = [10, 11, 12, 12, 12, 12]

    private let rounds: Int
    /// In milliseconds.
    private let measured: Int

    init(isQuick: Bool) {
        rounds = isQuick ? 3 : 9
        measured = isQuick ? 150 : 700
    }

    func run() async throws -> String {
        try await ChildProcess.withServer("serve") { line in
            guard let port = UInt16(line) else { throw BenchError("the echo server did not start") }
            return try await table(port)
        }
    }

    private func table(_ port: UInt16) async throws -> String {
        var lines = [
            machineDescription(),
            "256 requests in flight, 64 B; medians of \(rounds) alternating rounds of \(measured) ms; instructions by valgrind,",
            "if it is installed; failures, observer, queued: observers that count events; bodies: a recorder that keeps them",
            "",
            aligned(["callers", "watched by", "requests/s", "CPU µs/req", "instr/req", "alloc/req"], Self.widths),
        ]
        for row in Self.rows {
            var results: [Watcher: [Measurement]] = [:]
            for _ in 0..<rounds {
                for watcher in Watcher.allCases {
                    results[watcher, default: []].append(try await measure(row, watcher, port))
                }
            }
            for watcher in Watcher.allCases {
                lines.append(try line(row, watcher, results[watcher] ?? [], port))
            }
            lines.append("")
        }
        return lines.joined(separator: "\n")
    }

    private func line(_ row: Row, _ watcher: Watcher, _ all: [Measurement], _ port: UInt16) throws -> String {
        let allocations = all.compactMap(\.allocationsPerRequest)
        let instructions = try Instructions.perRequest(10_000) { requests in
            let load = "--port \(port) --concurrency 256 --payload 64 --warmup 10000 --requests \(requests)"
            let kind = row == .batch ? ["--batch", "64"] : row == .pinned ? ["--pinned"] : []
            return load.split(separator: " ").map(String.init) + kind + ["--watched", watcher.rawValue]
        }
        return aligned(
            [
                row.rawValue, watcher.rawValue, decimal(median(all.map(\.requestsPerSecond)), places: 0),
                decimal(median(all.map(\.processorTimePerRequest)), places: 2),
                instructions.map { decimal($0, places: 0) } ?? "n/a",
                allocations.isEmpty ? "n/a" : decimal(median(allocations), places: 2),
            ],
            Self.widths
        )
    }

    private func measure(_ row: Row, _ watcher: Watcher, _ port: UInt16) async throws -> Measurement {
        var run = Run(
            row: row,
            batchSize: row == .batch ? 64 : 1,
            port: port,
            concurrency: 256,
            payload: 64,
            warmUp: .milliseconds(measured / 4),
            measured: .milliseconds(measured)
        )
        run.watcher = watcher
        return try await run.measured()
    }
}
