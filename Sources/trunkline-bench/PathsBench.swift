/// Measures code paths without a socket: time, allocations and instructions for each request.
struct PathsBench {
    private let rounds: Int
    private let requests: Int

    private static let widths = [12, 12, 12, 12]

    init(isQuick: Bool) {
        rounds = isQuick ? 3 : 9
        requests = isQuick ? 6_400 : 64_000
    }

    func run() throws -> String {
        var lines = [
            machineDescription(),
            "code paths without a socket, one thread, \(CodePath.batchSize) requests of \(CodePath.payload) bytes in flight; "
                + "medians of \(rounds) rounds;",
            "instructions are counted by valgrind, if it is installed; codec: encoding and decoding; client: a client, a server",
            "and a simulated network together, to be compared only with itself", "",
            aligned(["path", "ns/req", "alloc/req", "instr/req"], Self.widths),
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
            let counted = try Instructions.perRequest(1280) { ["path", path.rawValue, "\($0)"] }
            let instructions = counted.map { decimal($0, places: 0) } ?? "n/a"
            lines.append(
                aligned([path.rawValue, decimal(median(times), places: 0), allocated, instructions], Self.widths)
            )
        }
        return lines.joined(separator: "\n")
    }
}
