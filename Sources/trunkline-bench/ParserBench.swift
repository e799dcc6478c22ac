import CTrunklineBench
import Trunkline

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Measures what each parser costs with its most expensive contents: at once, and in pieces of a kibibyte.
struct ParserBench {
    struct Cost {
        let parser: ParserCase
        let bytes: (atOnce: Int, inPieces: Int)
        /// In small messages, the cost of one matters more than the cost of a byte.
        let isSmall: Bool
        let frames: Int
        /// Nanoseconds of processor time, at once.
        let time: Double
        /// `nil` if valgrind is not installed, and for what does not arrive in pieces.
        var instructions: (atOnce: Int?, inPieces: Int?) = (nil, nil)
    }

    /// In bytes. A parser may have a lower limit.
    private static let (sizeAtOnce, sizeInPieces) = (1 << 18, 1 << 20)
    /// In bytes. More small messages would cost as much each.
    private static let sizeOfSmall = 1 << 14
    private static let warmUpSize = 4096

    private let rounds: Int

    init(isQuick: Bool) { rounds = isQuick ? 3 : 9 }

    func run() throws -> ParserCosts {
        var costs = try ParserCase.all.map { try measure($0) }
        if let counts = try Self.count(Self.runs.count) {
            guard counts.count == Self.runs.count else { throw BenchError("valgrind counted \(counts.count) runs") }
            var rest = counts[...]
            for index in costs.indices {
                costs[index].instructions.atOnce = rest.popFirst()
                if costs[index].parser.hasPieces { costs[index].instructions.inPieces = rest.popFirst() }
            }
        }
        return ParserCosts(all: costs, rounds: rounds)
    }

    private static func content(of parser: ParserCase, inPieces: Bool = false) -> ParserCase.Content {
        let small = parser.make(sizeOfSmall)
        return small.isSmall ? small : parser.make(inPieces ? sizeInPieces : sizeAtOnce)
    }

    private func measure(_ parser: ParserCase) throws -> Cost {
        let content = Self.content(of: parser)
        var (times, frames) = ([Double](), 0)
        for _ in 0..<rounds {
            let run = try parser.prepared(content, inPieces: false)
            let start = processorNow()
            frames = try run()
            times.append(Double(processorNow() - start))
        }
        return Cost(
            parser: parser,
            bytes: (content.bytes.count, Self.content(of: parser, inPieces: true).bytes.count),
            isSmall: content.isSmall,
            frames: frames,
            time: median(times)
        )
    }

    private static var runs: [(parser: ParserCase, inPieces: Bool)] {
        ParserCase.all.flatMap { parser in
            (parser.hasPieces ? [false, true] : [false]).map { (parser, $0) }
        }
    }

    /// Runs each case in a call of `trunkline_bench_measured`, after a warm-up outside of it.
    static func runAll() throws {
        for (parser, inPieces) in runs {
            let warmUp = try parser.prepared(parser.make(warmUpSize), inPieces: inPieces)
            _ = try warmUp()
            let run = Run(try parser.prepared(content(of: parser, inPieces: inPieces), inPieces: inPieces))
            // Safe: `run` lives until the call returns.
            unsafe trunkline_bench_measured(
                { unsafe Unmanaged<Run>.fromOpaque($0.unsafelyUnwrapped).takeUnretainedValue().perform() },
                Unmanaged.passUnretained(run).toOpaque()
            )
            guard try run.outcome.get() > 0 else { throw BenchError("\(parser.name): no frames") }
        }
    }

    private final class Run {
        private let body: () throws -> Int
        private(set) var outcome: Result<Int, any Error> = .success(0)

        init(_ body: @escaping () throws -> Int) { self.body = body }

        func perform() { outcome = Result { try body() } }
    }

    private static func count(_ number: Int) throws -> [Int]? {
        var template = Array("/tmp/trunkline-bench.XXXXXX".utf8CString)
        guard unsafe mkdtemp(&template) != nil else { throw BenchError("mkdtemp", errno: errno) }
        let directory = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        let file = directory + "/out"
        defer {
            for name in [file] + (1...number + 1).map({ "\(file).\($0)" }) { unsafe unlink(name) }
            unsafe rmdir(directory)
        }
        // So that each run executes the same instructions: fixed hash seeds, and memory is copied 32 bytes at a time
        // instead of by an instruction that valgrind counts for each byte.
        unsafe setenv("SWIFT_DETERMINISTIC_HASHING", "1", 1)
        let never = "=1073741824"
        unsafe setenv(
            "GLIBC_TUNABLES",
            "glibc.cpu.x86_rep_movsb_threshold\(never):glibc.cpu.x86_rep_stosb_threshold\(never)",
            1
        )
        let function = "trunkline_bench_measured"
        let options = ["--zero-before=\(function)", "--dump-after=\(function)", "--dump-line=no"]
        guard try Instructions.count(["parser-runs"], options, writingTo: file) != nil else { return nil }
        return (1...number).compactMap { summary(of: "\(file).\($0)") }
    }

    private static func summary(of path: String) -> Int? {
        for line in contents(of: path).split(separator: "\n") where line.hasPrefix("summary:") {
            return Int(line.dropFirst(9))
        }
        return nil
    }
}

struct ParserCosts {
    let all: [ParserBench.Cost]
    let rounds: Int

    private static let widths = [10, 9, 10, 9, 12, 12]

    var table: String {
        let width = all.map { $0.parser.name.count }.max() ?? 0
        func line(_ name: String, _ entries: [String]) -> String {
            name + String(repeating: " ", count: width - name.count) + aligned(entries, Self.widths)
        }
        var lines = [
            machineDescription(),
            "parsers alone, one thread, with the contents that are most expensive for them; medians of \(rounds) rounds;",
            "instructions are counted by valgrind, if it is installed; pieces: instructions per byte in pieces of a kibibyte",
            "",
            line("", ["bytes", "ns/byte", "instr/byte", "frames", "instr/frame", "in pieces"]),
        ]
        for cost in all {
            func ratio(_ value: Int?, _ count: Int, places: Int) -> String {
                value.map { decimal(Double($0) / Double(count), places: places) } ?? "n/a"
            }
            lines.append(
                line(
                    cost.parser.name,
                    [
                        "\(cost.bytes.atOnce)",
                        decimal(cost.time / Double(cost.bytes.atOnce), places: 1),
                        ratio(cost.instructions.atOnce, cost.bytes.atOnce, places: 1),
                        "\(cost.frames)",
                        ratio(cost.instructions.atOnce, cost.frames, places: 0),
                        cost.parser.hasPieces ? ratio(cost.instructions.inPieces, cost.bytes.inPieces, places: 1) : "",
                    ]
                )
            )
        }
        return lines.joined(separator: "\n")
    }

    var json: String {
        let lines = all.map { cost in
            func number(_ value: Int?) -> String { value.map { "\($0)" } ?? "null" }
            let members = [
                "\"bytes\": [\(cost.bytes.atOnce), \(cost.bytes.inPieces)]", "\"frames\": \(cost.frames)",
                "\"small\": \(cost.isSmall)", "\"limit\": \"\(cost.parser.limit)\"",
                "\"ns\": \(decimal(cost.time, places: 0))",
                "\"instructions\": [\(number(cost.instructions.atOnce)), \(number(cost.instructions.inPieces))]",
            ]
            return "\"\(cost.parser.name)\": {\(members.joined(separator: ", "))}"
        }
        return "{\n\(lines.joined(separator: ",\n"))\n}"
    }
}
