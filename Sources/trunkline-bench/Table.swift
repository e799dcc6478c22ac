struct Table {
    var cells: [Matrix.Cell]
    var results: [Matrix.Cell: [Row: [Measurement]]]
    var rounds: Int
    var milliseconds: Int

    private static let columns = [
        "in flight", "body", "row", "requests/s", "CPU µs/req", "p50 µs", "p99 µs", "alloc/req", "× socket",
    ]
    private static let widths = [9, 7, 9, 11, 11, 9, 9, 10, 9]

    var text: String {
        let rounds = rounds == 1 ? "1 round" : "medians of \(rounds) rounds"
        let duration = decimal(Double(milliseconds) / 1000, places: 1)
        var lines = [
            machineDescription(), "one connection, echo server in another process; \(rounds) of \(duration) s", "",
        ]
        lines.append(Self.line(Self.columns))
        for cell in cells {
            for row in Row.allCases { lines.append(line(cell, row)) }
            lines.append("")
        }
        return lines.joined(separator: "\n")
    }

    private func line(_ cell: Matrix.Cell, _ row: Row) -> String {
        let all = results[cell]?[row] ?? []
        let limits = results[cell]?[.socket] ?? []
        // The ratio within each round, in which both ran one after the other.
        let ratios = zip(all, limits).map { $0.requestsPerSecond / $1.requestsPerSecond }
        let allocations = all.compactMap(\.allocationsPerRequest)
        return Self.line([
            "\(cell.concurrency)",
            Self.size(cell.payload),
            row.rawValue,
            decimal(median(all.map(\.requestsPerSecond)), places: 0),
            decimal(median(all.map(\.processorTimePerRequest)), places: 2),
            decimal(median(all.map { Double($0.p50) / 1000 }), places: 1),
            decimal(median(all.map { Double($0.p99) / 1000 }), places: 1),
            allocations.isEmpty ? "n/a" : decimal(median(allocations), places: 2),
            decimal(median(ratios), places: 2),
        ])
    }

    private static func line(_ entries: [String]) -> String { aligned(entries, widths) }

    static func size(_ bytes: Int) -> String { bytes < 1024 ? "\(bytes) B" : "\(bytes / 1024) KiB" }
}

func aligned(_ entries: [String], _ widths: [Int]) -> String {
    zip(entries, widths).map { entry, width in
        String(repeating: " ", count: max(1, width - entry.count)) + entry
    }.joined()
}

/// The mean of the two middle values for an even number; 0 for none.
func median(_ values: [Double]) -> Double {
    guard !values.isEmpty else { return 0 }
    let sorted = values.sorted()
    return (sorted[(sorted.count - 1) / 2] + sorted[sorted.count / 2]) / 2
}

func decimal(_ value: Double, places: Int) -> String {
    var scale = 1
    for _ in 0..<places { scale *= 10 }
    let scaled = Int((value * Double(scale)).rounded())
    guard places > 0 else { return "\(scaled)" }
    let fraction = "\(abs(scaled) % scale)"
    let sign = scaled < 0 ? "-" : ""
    return sign + "\(abs(scaled) / scale)." + String(repeating: "0", count: places - fraction.count) + fraction
}
