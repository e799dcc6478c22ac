import Trunkline

/// Measures what observers, the log and the flight recorder cost: the same load with each of them, in turns.
struct ObservationBench {
    /// What watches the client.
    private enum Watcher: String, CaseIterable {
        case nothing
        case log
        case failures = "observer, failures"
        case observer = "observer, all"
        case queued = "… queued"
        case recorder
        case bodies = "… with bodies"
        case all = "log, observer, recorder"

        func apply(to run: inout Run) {
            run.isLogged = self == .log || self == .all
            run.isRecorded = self == .recorder || self == .bodies || self == .all
            run.recordsBodies = self == .bodies
            switch self {
            case .observer, .all: run.observer = CountingObserver()
            case .queued: run.observer = CountingObserver(delivery: .queued())
            case .failures: run.observer = CountingObserver(.failures)
            default: break
            }
        }
    }

    private static let rows: [Row] = [.ordinary, .pinned, .batch]
    private static let widths = [10, 25, 12, 12, 13, 12]

    private let rounds: Int
    /// Milliseconds.
    private let measured: Int

    init(isQuick: Bool) {
        rounds = isQuick ? 3 : 9
        measured = isQuick ? 150 : 700
    }

    /// Measures everything and returns the table.
    func run() async throws -> String {
        try await ChildProcess.withServer("serve") { line in
            guard let port = UInt16(line) else { throw BenchError("the echo server did not start") }
            return try await table(port)
        }
    }

    private func table(_ port: UInt16) async throws -> String {
        var lines = [
            machineDescription(),
            "256 requests in flight, 64 B; medians of \(rounds) alternating rounds of \(measured) ms; the observers count",
            "events, and the recorder keeps 1 MiB", "",
            aligned(["callers", "watched by", "requests/s", "CPU µs/req", "added ns/req", "alloc/req"], Self.widths),
        ]
        for row in Self.rows {
            var results: [Watcher: [Measurement]] = [:]
            for _ in 0..<rounds {
                for watcher in Watcher.allCases {
                    results[watcher, default: []].append(try await measure(row, watcher, port))
                }
            }
            let plain = results[.nothing] ?? []
            for watcher in Watcher.allCases { lines.append(Self.line(row, watcher, results[watcher] ?? [], plain)) }
            lines.append("")
        }
        return lines.joined(separator: "\n")
    }

    private static func line(_ row: Row, _ watcher: Watcher, _ all: [Measurement], _ plain: [Measurement]) -> String {
        let allocations = all.compactMap(\.allocationsPerRequest)
        // Within each round, in which one ran after the other.
        let added = zip(all, plain).map { 1000 * ($0.processorTimePerRequest - $1.processorTimePerRequest) }
        return aligned(
            [
                row.rawValue, watcher.rawValue, decimal(median(all.map(\.requestsPerSecond)), places: 0),
                decimal(median(all.map(\.processorTimePerRequest)), places: 2),
                watcher == .nothing ? "" : decimal(median(added), places: 0),
                allocations.isEmpty ? "n/a" : decimal(median(allocations), places: 2),
            ],
            widths
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
        watcher.apply(to: &run)
        return try await run.measured()
    }
}
