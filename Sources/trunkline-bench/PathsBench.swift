/// Measures code paths without a socket: time, allocations and instructions for each request.
struct PathsBench {
    private let rounds: Int
    private let requests: Int

    private static let widths = [12, 12, 12, 12]

    init(isQuick: Bool) {
        rounds = isQuick ? 3 : 9
        requests = isQuick ? 6_400 : 64_000
    }

    /// Measures everything and returns the table.
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
            let counted = try Self.instructions(path).map { decimal($0, places: 0) } ?? "n/a"
            lines.append(aligned([path.rawValue, decimal(median(times), places: 0), allocated, counted], Self.widths))
        }
        return lines.joined(separator: "\n")
    }

    /// Returns the instructions for each request; `nil` if valgrind is not installed.
    private static func instructions(_ path: CodePath) throws -> Double? {
        let requests = 1280
        guard let single = try instructions(path, requests), let double = try instructions(path, 2 * requests) else {
            return nil
        }
        // The difference of the two runs has no instructions of their start.
        return Double(double - single) / Double(requests)
    }

    private static func instructions(_ path: CodePath, _ requests: Int) throws -> Int? {
        let options = ["--tool=callgrind", "--callgrind-out-file=/dev/null", "--log-fd=1"]
        let command = options + [ChildProcess.thisProgram, "path", path.rawValue, "\(requests)"]
        guard let valgrind = try? ChildProcess(command, program: "valgrind") else { return nil }
        var collected: Int?
        while case let line = valgrind.readLine(), !line.isEmpty {
            // ==123== Collected : 456789
            if line.contains("Collected :") { collected = line.split(separator: " ").last.flatMap { Int($0) } }
        }
        let code = valgrind.finish()
        guard code == 0, let collected else { throw BenchError("valgrind failed with exit code \(code)") }
        return collected
    }
}
