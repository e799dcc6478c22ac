/// The command line, read.
struct Arguments {
    /// What is to be done.
    enum Command {
        case help
        case matrix(isQuick: Bool)
        /// The codecs alone.
        case codecs(isQuick: Bool)
        /// Plaintext against TLS.
        case tls(isQuick: Bool)
        /// HTTP over the link against HTTP by itself.
        case http(isQuick: Bool)
        /// One-way messages.
        case oneWay(isQuick: Bool)
        /// One client beside another that is flooded.
        case flood(isQuick: Bool)
        /// An external server is driven, and one JSON line printed.
        case drive(Run)
        /// One cell of the matrix, in a process of its own; the line it prints is for `Matrix`.
        case cell(Run)
        /// The echo server of the matrix.
        case serve
        /// The server that one-way messages go to.
        case serveSink
        /// The test servers of the comparison with TLS.
        case serveSecured
        /// The gateway and the origin of the comparison with HTTP by itself.
        case serveGateway
        /// The servers that flood.
        case serveFloods
    }

    static let usage = """
        USAGE: trunkline-bench [--quick] [--codecs | --tls | --http | --one-way | --flood]
               trunkline-bench --port P --concurrency C --payload BYTES --requests N [--warmup M] [--pinned]

        Without a port: measures a matrix of requests in flight × body size against an echo server in a process of its
        own, and prints a table. Rows:
          ordinary  as many tasks as requests in flight, each sends and awaits in turn
          pinned    the same, their tasks on client.executor
          batch     batches of 64 with send(all:)
          by hand   no Trunkline: tasks as in the row ordinary, which call what one writes by hand: an actor with a
                    dictionary of continuations, a write for each request, a thread that reads into an AsyncStream
          socket    no client: one thread keeps the same number of the same frames in flight on a bare socket and
                    writes them in batches; the limit
        Every figure is the median over rounds in which all rows take turns.

        Then it measures the codecs alone, without a socket: each format at three sizes of the body, the declared standard
        layout against the same format written by hand, and every checksum.

        With a port: drives an echo server at 127.0.0.1:P, which returns every frame (twelve-byte header: type, serial
        and body length, 4 bytes each, big-endian) as it came, over one connection, and prints one line of JSON.

          --quick            one short round, about 40 s (without it about 5 min)
          --codecs           the codecs alone, about 6 s
          --tls              plaintext against TLS, and OpenSSL alone, about 90 s
          --http             GETs over the link against GETs by a URLSession, over a long way, about 90 s
          --one-way          post, post(all:), enqueue and tryEnqueue, about 90 s
          --flood            latency of a client beside another on its event loop that a server floods, about 40 s
          --port P           the echo server's port
          --concurrency C    requests in flight
          --payload BYTES    size of each body
          --requests N       how many requests are measured
          --warmup M         how many go before them (default: a tenth of N)
          --pinned           the callers' tasks run on client.executor
          --help             this text
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
        case "cell":
            words.removeFirst()
            var options = try Options(words, flags: [])
            let row = Row(rawValue: try options.text("--row")) ?? .ordinary
            let warmUp = try options.number("--warmup-ms", 0...)
            let measured = try options.number("--measure-ms", 1...)
            command = .cell(
                try options.run(row, warmUp: .milliseconds(warmUp), measured: .milliseconds(measured))
            )
        default:
            var options = try Options(
                words,
                flags: ["--quick", "--codecs", "--tls", "--http", "--one-way", "--flood", "--pinned"]
            )
            if options.has("--port") {
                let row: Row = options.takeFlag("--pinned") ? .pinned : .ordinary
                let count = try options.number("--requests", 1...)
                let warmUp = options.has("--warmup") ? try options.number("--warmup", 0...) : count / 10
                command = .drive(try options.run(row, warmUp: .requests(warmUp), measured: .requests(count)))
            } else {
                let isQuick = options.takeFlag("--quick")
                command =
                    options.takeFlag("--codecs")
                    ? .codecs(isQuick: isQuick)
                    : options.takeFlag("--tls")
                        ? .tls(isQuick: isQuick)
                        : options.takeFlag("--http")
                            ? .http(isQuick: isQuick)
                            : options.takeFlag("--one-way")
                                ? .oneWay(isQuick: isQuick)
                                : options.takeFlag("--flood")
                                    ? .flood(isQuick: isQuick) : .matrix(isQuick: isQuick)
                try options.refuseRest()
            }
        }
    }
}

/// The command line asks for what there is not.
struct UsageError: Error {
    let message: String
}

/// Options not yet looked at.
private struct Options {
    private var values: [String: String] = [:]
    private var flags: Set<String> = []

    init(_ words: [String], flags known: Set<String>) throws {
        var rest = words[...]
        while let word = rest.popFirst() {
            guard word.hasPrefix("--") else { throw UsageError(message: "\(word) is no option") }
            if known.contains(word) {
                flags.insert(word)
            } else {
                guard let value = rest.popFirst() else {
                    throw UsageError(message: "\(word) is unknown or lacks a value")
                }
                guard values.updateValue(value, forKey: word) == nil else {
                    throw UsageError(message: "\(word) is given twice")
                }
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
        guard let number = Int(text), range.contains(number) else {
            let limits = range.upperBound == .max ? "from \(range.lowerBound)" : "within \(range)"
            throw UsageError(message: "\(name) \(text): a whole number \(limits) is expected")
        }
        return number
    }

    /// The run that the remaining options describe.
    mutating func run(_ row: Row, warmUp: Quota, measured: Quota) throws -> Run {
        let run = Run(
            row: row,
            port: UInt16(try number("--port", 1...65535)),
            concurrency: try number("--concurrency", 1...60_000),
            payload: try number("--payload", 0...16_000_000),
            warmUp: warmUp,
            measured: measured
        )
        try refuseRest()
        return run
    }

    func refuseRest() throws {
        if let name = values.keys.min() ?? flags.min() { throw UsageError(message: "\(name) has no place here") }
    }
}
