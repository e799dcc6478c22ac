/// Measures code paths without a socket: time and allocations for each request.
struct PathsBench {
    private let rounds: Int
    private let requests: Int

    private static let widths = [12, 12, 12]

    init(isQuick: Bool) {
        rounds = isQuick ? 3 : 9
        requests = isQuick ? 6_400 : 64_000
    }

    /// Measures everything and returns the table.
    func run() throws -> String {
        var lines = [
            machineDescription(),
            "code paths without a socket, one thread, \(CodePath.batchSize) requests of \(CodePath.payload) bytes in flight; "
                + "medians of \(rounds) rounds", "",
            aligned(["path", "ns/req", "alloc/req"], Self.widths),
        ]
        for path in CodePath.allCases {
            var times: [Double] = []
            var allocations: [Double] = []
            for _ in 0..<rounds {
                let start = Usage.now
                try path.run(requests)
                let middle = Usage.now
                try path.run(2 * requests)
                let end = Usage.now
                // The difference of the two runs has no cost of their start.
                let double = (Int(end.time - middle.time), end.allocations - middle.allocations)
                let single = (Int(middle.time - start.time), middle.allocations - start.allocations)
                times.append(Double(double.0 - single.0) / Double(requests))
                if end.allocations >= 0 { allocations.append(Double(double.1 - single.1) / Double(requests)) }
            }
            let allocated = allocations.isEmpty ? "n/a" : decimal(median(allocations), places: 2)
            lines.append(aligned([path.rawValue, decimal(median(times), places: 0), allocated], Self.widths))
        }
        return lines.joined(separator: "\n")
    }
}
