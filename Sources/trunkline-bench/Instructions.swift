/// Counts the instructions of this program with valgrind.
enum Instructions {
    /// `nil` if valgrind is not installed. `file` is what it writes.
    static func count(
        _ arguments: [String],
        _ further: [String] = [],
        writingTo file: String = "/dev/null"
    ) throws -> Int? {
        let options = ["--tool=callgrind", "--callgrind-out-file=\(file)", "--log-fd=1"] + further
        let command = options + [ChildProcess.thisProgram] + arguments
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

    static func perRequest(_ requests: Int, _ arguments: (Int) -> [String]) throws -> Double? {
        guard let single = try count(arguments(requests)), let double = try count(arguments(2 * requests)) else {
            return nil
        }
        // The difference of the two runs has no instructions of their start.
        return Double(double - single) / Double(requests)
    }
}
