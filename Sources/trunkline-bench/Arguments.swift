import Trunkline

struct Arguments {
    enum Command {
        case help
        case matrix(isQuick: Bool)
        case report(Report, isQuick: Bool)
        case path(CodePath, repetitions: Int)
        case counts
        case parserRuns
        case parsers
        case drive(Run)
        case cell(Run)
        case serve
        case serveSink
        case serveSecured
        case serveGateway
        case serveFloods
        case servePieces
    }

    static let usage = """
        USAGE: trunkline-bench [--quick] [--codecs | --tls | --http | --one-way | --flood | --pushes | --large | --idle
                               | --cluster | --shares | --observation | --paths | --parsers]
               trunkline-bench --port P --concurrency C --payload BYTES --requests N [--warmup M]
                              [--batch N] [--clients N] [--pinned] [--watched BY] [--clustered]

        Without --port: measures a matrix of requests in flight × body size against an echo server in a separate
        process, and prints a table. Rows:
          ordinary  one task per request in flight; each sends a request and awaits its response, again and again
          pinned    the same, with the tasks on client.executor
          batch     batches of 64 with send(all:)
          by hand   without Trunkline: tasks as in the row ordinary call a typical hand-written client: an actor with a
                    dictionary of continuations, one write per request, a thread that reads into an AsyncStream
          socket    no client: one thread keeps the same number of the same frames in flight on a bare socket and
                    writes them in batches; the upper limit
        Each value is the median over rounds in which all rows take turns.

        Then it measures the codecs alone, without a socket: each format with three body sizes, the declared standard
        layout compared with the same format written by hand, and every checksum. Last, it measures code paths without
        a socket, with their instructions if valgrind is installed.

        With --port: sends load over one connection to an echo server at 127.0.0.1:P and prints one line of JSON. The
        server must return every frame unchanged (12-byte header: type, serial and body length, 4 bytes each,
        big-endian).

          --quick            one short round: about 20 s instead of 5 min
          --codecs           the codecs alone, about 6 s
          --tls              plaintext and TLS, and OpenSSL alone, about 90 s
          --http             GET requests over the link and by URLSession, with a round trip of 50 ms, about 90 s
          --one-way          post, post(all:), enqueue and tryEnqueue, about 90 s
          --flood            the latency of a client while a server floods its event loop, about 40 s
          --pushes           pushes of 64 bytes to one consumer, about 80 s
          --large            the latency of small requests while 64 MiB travel on the same connection, about 150 s
          --idle             processor time and memory of 10,000 idle connections, about 100 s
          --cluster          a cluster of 1, 4 and 16 servers by policy, beside a client, about 2 min
          --shares           where requests go while servers fail and return: a cluster, and HAProxy if it is installed,
                             about 5 min
          --observation      what observers, the log and the flight recorder cost, about 4 min
          --paths            code paths without a socket, about 15 s
          --parsers          each parser with the contents that are most expensive for it, about 2 min
          --port P           the port of the echo server
          --concurrency C    the number of requests in flight
          --payload BYTES    the size of each body
          --requests N       the number of measured requests, of all clients together
          --warmup M         the number of requests before them (default: a tenth of N)
          --batch N          send batches of at most N with send(all:); more than C counts as C
          --clients N        the number of clients, each on its own event loop with C requests in flight: 1 to 64
                             (default: 1)
          --pinned           run the callers' tasks on client.executor
          --watched BY       let something watch the client: log; failures, observer or queued (observers that count
                             events); recorder (of 1 MiB), bodies (that keeps them, too); all (log, observer, recorder)
          --clustered        send through a cluster of this one server
          --help             show this text
        """

    let command: Command

    init(_ words: some Sequence<String>) throws {
        var words = Array(words)
        if words.contains("--help") || words.contains("-h") {
            command = .help
            return
        }
        switch words.first {
        case "serve":
            command = .serve
        case "serve-sink":
            command = .serveSink
        case "serve-secured":
            command = .serveSecured
        case "serve-gateway":
            command = .serveGateway
        case "serve-floods":
            command = .serveFloods
        case "serve-pieces":
            command = .servePieces
        case "path":
            guard words.count == 3, let path = CodePath(rawValue: words[1]), let count = Int(strict: words[2]),
                count > 0
            else {
                throw UsageError(message: "expected: path \(CodePath.allCases.map(\.rawValue)) REPETITIONS")
            }
            command = .path(path, repetitions: count)
        case "counts":
            command = .counts
        case "parser-runs":
            command = .parserRuns
        case "parsers":
            command = .parsers
        case "cell":
            words.removeFirst()
            var options = try Options(words, values: ["--row", "--warmup-ms", "--measure-ms"])
            let row = Row(rawValue: try options.text("--row")) ?? .ordinary
            let warmUp = try options.number("--warmup-ms", 0...)
            let measured = try options.number("--measure-ms", 1...)
            command = .cell(
                try options.run(
                    row,
                    batchSize: row == .batch ? 64 : 1,
                    warmUp: .milliseconds(warmUp),
                    measured: .milliseconds(measured)
                )
            )
        default:
            var options = try Options(
                words,
                values: ["--requests", "--warmup", "--batch", "--clients", "--watched"],
                flags: Report.allCases.map(\.option) + [
                    "--quick", "--pinned", "--clustered",
                ]
            )
            if options.has("--port") {
                let row: Row = options.takeFlag("--pinned") ? .pinned : .ordinary
                let count = try options.number("--requests", 1...)
                let warmUp = options.has("--warmup") ? try options.number("--warmup", 0...) : count / 10
                let batchSize = options.has("--batch") ? try options.number("--batch", 1...) : 1
                let clients = options.has("--clients") ? try options.number("--clients", 1...64) : 1
                let watcher = try options.has("--watched") ? options.text("--watched") : "nothing"
                guard let watcher = Watcher(rawValue: watcher) else {
                    throw UsageError(message: "--watched \(watcher): expected \(Watcher.allCases.map(\.rawValue))")
                }
                let isClustered = options.takeFlag("--clustered")
                var run = try options.run(
                    row,
                    batchSize: batchSize,
                    warmUp: .requests(warmUp),
                    measured: .requests(count)
                )
                run.clients = clients
                run.watcher = watcher
                run.isClustered = isClustered
                command = .drive(run)
            } else {
                let isQuick = options.takeFlag("--quick")
                let report = Report.allCases.first { options.takeFlag($0.option) }
                command = report.map { .report($0, isQuick: isQuick) } ?? .matrix(isQuick: isQuick)
                try options.refuseRest()
            }
        }
    }
}

enum Report: String, CaseIterable {
    case codecs
    case tls
    case http
    case oneWay = "one-way"
    case flood
    case pushes
    case large
    case idle
    case cluster
    case shares
    case observation
    case paths
    case parsers

    var option: String { "--" + rawValue }

    func minutes(isQuick: Bool) -> Int {
        switch self {
        case .shares: isQuick ? 2 : 5
        default: isQuick ? 1 : 3
        }
    }

    func run(isQuick: Bool) async throws -> String {
        switch self {
        case .codecs: try CodecBench(isQuick: isQuick).run()
        case .tls: try await TLSBench(isQuick: isQuick).run()
        case .http: try await TunnelBench(isQuick: isQuick).run()
        case .oneWay: try await OneWayBench(isQuick: isQuick).run()
        case .flood: try await FloodBench(isQuick: isQuick).run()
        case .pushes: try await PushBench(isQuick: isQuick).run()
        case .large: try await LargeBodyBench(isQuick: isQuick).run()
        case .idle: try await IdleBench(isQuick: isQuick).run()
        case .cluster: try await ClusterBench(isQuick: isQuick).run()
        case .shares: try await ShareBench(isQuick: isQuick).run()
        case .observation: try await ObservationBench(isQuick: isQuick).run()
        case .paths: try PathsBench(isQuick: isQuick).run()
        case .parsers: try ParserBench(isQuick: isQuick).run().table
        }
    }
}

struct UsageError: Error {
    let message: String
}

private struct Options {
    private var values: [String: String] = [:]
    private var flags: Set<String> = []

    init(_ words: [String], values valued: [String], flags known: [String] = []) throws {
        var rest = words[...]
        while let word = rest.popFirst() {
            if known.contains(word) {
                flags.insert(word)
            } else if (valued + ["--port", "--concurrency", "--payload"]).contains(word) {
                guard let value = rest.popFirst() else { throw UsageError(message: "\(word) requires a value") }
                guard values.updateValue(value, forKey: word) == nil else {
                    throw UsageError(message: "\(word) is given twice")
                }
            } else {
                throw UsageError(message: "unknown option \(word)")
            }
        }
    }

    func has(_ name: String) -> Bool { values[name] != nil }

    mutating func takeFlag(_ name: String) -> Bool { flags.remove(name) != nil }

    mutating func text(_ name: String) throws -> String {
        guard let value = values.removeValue(forKey: name) else { throw UsageError(message: "\(name) is missing") }
        return value
    }

    mutating func number(_ name: String, _ range: PartialRangeFrom<Int>) throws -> Int {
        try number(name, range.lowerBound...Int.max)
    }

    mutating func number(_ name: String, _ range: ClosedRange<Int>) throws -> Int {
        let text = try text(name)
        guard let number = Int(strict: text), range.contains(number) else {
            let limits = range.upperBound == .max ? "of at least \(range.lowerBound)" : "within \(range)"
            throw UsageError(message: "\(name) \(text): expected a whole number \(limits)")
        }
        return number
    }

    mutating func run(_ row: Row, batchSize: Int, warmUp: Quota, measured: Quota) throws -> Run {
        var run = Run(
            row: row,
            batchSize: batchSize,
            port: UInt16(try number("--port", 1...65535)),
            concurrency: try number("--concurrency", 1...65_536),
            payload: try number("--payload", 0...16_000_000),
            warmUp: warmUp,
            measured: measured
        )
        run.batchSize = min(batchSize, run.concurrency)
        try refuseRest()
        return run
    }

    func refuseRest() throws {
        if let name = values.keys.min() { throw UsageError(message: "\(name) requires --port") }
        if let name = flags.min() { throw UsageError(message: "\(name) cannot be combined with the other options") }
    }
}
