#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

struct Matrix {
    struct Cell: Hashable {
        var concurrency: Int
        var payload: Int
    }

    private let rounds: Int
    /// Milliseconds for each row of each cell in each round.
    private let warmUp: Int
    private let measured: Int
    private let cells: [Cell]
    private var results: [Cell: [Row: [Measurement]]] = [:]

    init(isQuick: Bool) {
        rounds = isQuick ? 1 : 3
        warmUp = isQuick ? 50 : 250
        measured = isQuick ? 100 : 1400
        cells = [64, 4096, 65536].flatMap { payload in
            [1, 16, 256, 4096].map { Cell(concurrency: $0, payload: payload) }
        }
    }

    mutating func run() throws {
        let server = try ChildProcess(["serve"])
        do {
            guard let port = UInt16(server.readLine()) else { throw BenchError("the echo server did not start") }
            try measure(port)
        } catch {
            server.finish(killing: true)
            throw error
        }
        server.finish(killing: true)
        print(Table(cells: cells, results: results, rounds: rounds, milliseconds: measured).text)
    }

    private mutating func measure(_ port: UInt16) throws {
        var progress = Progress(steps: rounds * cells.count * Row.allCases.count, milliseconds: warmUp + measured)
        for round in 1...rounds {
            for cell in cells {
                for row in Row.allCases {
                    let what = "\(cell.concurrency) × \(Table.size(cell.payload)), \(row.rawValue)"
                    progress.step("round \(round) of \(rounds): \(what)")
                    let measurement = try measure(row, cell, port)
                    results[cell, default: [:]][row, default: []].append(measurement)
                }
            }
        }
        progress.end()
    }

    /// In a separate process, so that rows do not share threads and memory.
    private func measure(_ row: Row, _ cell: Cell, _ port: UInt16) throws -> Measurement {
        let child = try ChildProcess([
            "cell", "--row", row.rawValue, "--port", "\(port)", "--concurrency", "\(cell.concurrency)",
            "--payload", "\(cell.payload)", "--warmup-ms", "\(warmUp)", "--measure-ms", "\(measured)",
        ])
        let line = child.readLine()
        let code = child.finish()
        guard code == 0 else {
            throw BenchError("the measurement of \(row.rawValue) at \(cell) failed with exit code \(code)")
        }
        return try Measurement(line: line)
    }
}

private struct Progress {
    let steps: Int
    let milliseconds: Int
    private var done = 0
    private let start = monotonicNow()
    private let isTerminal = isatty(STDERR_FILENO) == 1

    init(steps: Int, milliseconds: Int) {
        self.steps = steps
        self.milliseconds = milliseconds
    }

    mutating func step(_ what: String) {
        let elapsed = Int((monotonicNow() - start) / 1_000_000)
        // Each step also starts a process and waits for the last responses.
        let estimate = done < 8 ? steps * (milliseconds + 100) : elapsed * steps / done
        done += 1
        let line = "[\(done)/\(steps)] \(elapsed / 1000) s of about \(estimate / 1000) s; \(what)"
        complain(isTerminal ? "\r\(line)\u{1b}[K" : "\(line)\n")
    }

    func end() {
        if isTerminal { complain("\r\u{1b}[K") }
    }
}
