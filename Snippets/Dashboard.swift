// A live view of a client under load: the state of its links, rates, percentiles, what its requests wait for, failures,
// the slowest requests and its events. Keys switch faults of the server. If the output is not a terminal, a script of
// faults runs instead, and the program ends by itself.

import Foundation
import Synchronization
import Trunkline
import TrunklineTesting

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

// MARK: - The server and its faults

/// The faults that are switched on, read by the server for each request.
final class Faults: Sendable {
    struct State {
        var (isSlow, hasErrors, isSilent, isRefusing, isFlooding) = (false, false, false, false, false)
        var load = 200  // requests per second
    }
    private let state = Mutex(State())

    var now: State { state.withLock { $0 } }
    func change(_ change: (inout State) -> Void) { state.withLock { change(&$0) } }

    /// The reaction to a request: a few milliseconds of work, or a fault.
    func reaction(_ request: Frame) -> Reaction {
        let now = now
        if now.hasErrors, Int.random(in: 0..<5) == 0 { return .status(500, "failed") }
        return .after(now.isSlow ? .milliseconds(700) : .milliseconds(Int.random(in: 1...5)), .echo)
    }
}

/// Responses have a status, so that the server can answer with an error.
let layout = FrameLayout {
    Field.type(UInt32.self)
    Field.serial(UInt32.self)
    Field.status(UInt32.self)
    Field.length(UInt32.self, counting: .body)
    Field.body
}
.roles {
    $0.ping = 0x1
    $0.push = .types(0x2...0x400)
    $0.cancel = 0x401
    $0.serials = 1...400
}

/// What the keys stand for.
let names: [Character: String] = [
    "d": "drop the link", "h": "half-open link", "s": "slow server", "r": "refuse connections",
    "e": "error responses", "p": "flood of pushes", "+": "more load", "=": "more load", "-": "less load",
]

/// Performs what a key stands for. Returns false for the key that quits.
func press(_ key: Character, _ faults: Faults, _ server: LoopbackServer, _ board: Board) async -> Bool {
    let before = faults.now
    switch key {
    case "d": await server.disconnectAll(reset: true)
    case "h":
        faults.change { $0.isSilent.toggle() }
        if before.isSilent { await server.resumeReading() } else { await server.pauseReading() }
    case "s": faults.change { $0.isSlow.toggle() }
    case "r":
        faults.change { $0.isRefusing.toggle() }
        if before.isRefusing { try? await server.resumeAccepting() } else { await server.kill() }
    case "e": faults.change { $0.hasErrors.toggle() }
    case "p": faults.change { $0.isFlooding.toggle() }
    case "+", "=": faults.change { $0.load = min(20_000, $0.load * 2) }
    case "-": faults.change { $0.load = max(25, $0.load / 2) }
    case "q", "\u{3}": return false  // in a raw terminal, Ctrl-C is a key
    default: return true
    }
    let switches: [Character: KeyPath<Faults.State, Bool>] = [
        "h": \.isSilent, "s": \.isSlow, "r": \.isRefusing, "e": \.hasErrors, "p": \.isFlooding,
    ]
    let position = switches[key].map { faults.now[keyPath: $0] ? ": on" : ": off" } ?? ""
    board.note("key \(key): \(names[key] ?? "")\(position)")
    return true
}

/// Sends requests at the rate of `faults`, and pushes if they are to flood, until the task is cancelled.
func load(_ client: Client, _ server: LoopbackServer, _ faults: Faults) async {
    await withDiscardingTaskGroup { group in
        var (due, latest) = (0.0, ContinuousClock.now)
        while !Task.isCancelled {
            let now = ContinuousClock.now
            due += Double(faults.now.load) * latest.duration(to: now).seconds
            latest = now
            for _ in 0..<Int(due) {
                group.addTask { _ = try? await client.send(Request(type: 0x410, body: "0123456789abcdef")) }
            }
            due -= due.rounded(.down)
            if faults.now.isFlooding {
                for number in 0..<100 { _ = try? await server.push(Frame(.push, type: 2, body: Bytes("\(number)"))) }
            }
            try? await Task.sleep(for: .milliseconds(20))
        }
    }
}

// MARK: - What the observer collects

/// Observes the client: keeps its latest events, and the links that are open.
final class Board: ClientObserver {
    let interests: ClientEvent.Kinds = [.links, .limits, .pushes]
    struct Content {
        var lines: [(time: Duration, text: String)] = []
        var links: [SessionID: (state: String, since: Duration)] = [:]
        var state = ConnectionState.idle
        var dropped = 0
    }
    private let content = Mutex(Content())
    private let start = ContinuousClock.now

    var now: Duration { start.duration(to: .now) }
    var all: Content { content.withLock { $0 } }

    func note(_ text: String) {
        let line = (now, text)
        if !Terminal.isInteractive { print("\(fixed(line.0.seconds, 2)) s  \(text)") }
        content.withLock { content in
            content.lines.append(line)
            if content.lines.count > 500 { content.lines.removeFirst(250) }
        }
    }

    func observe(_ events: [ClientEvent]) {
        for event in events {
            let wasWaiting = if case .waiting = all.state { true } else { false }
            take(event)
            // Each attempt changes the state several times: the interesting ones are enough.
            switch event.content {
            case .stateChanged(.connecting), .pushesDropped: break
            case .stateChanged(.waiting) where wasWaiting: break
            // There is only one server: its address takes too much room.
            default: note("\(event)".split(separator: " ").filter { !$0.hasPrefix("endpoint=") }.joined(separator: " "))
            }
        }
    }

    func missed(_ count: Int) { note("\(count) events are missing here") }

    private func take(_ event: ClientEvent) {
        let now = now
        content.withLock { content in
            switch event.content {
            case .stateChanged(let state):
                content.state = state
                if case .ready(_, let session) = state { content.links[session] = ("ready", now) }
            case .linkDraining(_, let session, let cause, _):
                content.links[session]?.state = "draining (\(cause.rawValue))"
            case .linkEnded(let report): content.links[report.session] = nil
            case .pushesDropped(let count, _): content.dropped += count
            default: break
            }
        }
    }
}

// MARK: - Numbers

extension Duration {
    var seconds: Double { Double(components.seconds) + Double(components.attoseconds) / 1e18 }
}

func fixed(_ number: Double, _ digits: Int) -> String { String(format: "%.\(digits)f", number) }

/// A snapshot of the metrics, as text.
struct Sample {
    let metrics: Client.Metrics
    let time: Duration

    /// How much the counts grew in a second, since `earlier`.
    func rates(since earlier: Sample?) -> String {
        func rate(_ path: KeyPath<Client.Metrics, Int>) -> String {
            guard let earlier, time > earlier.time else { return "0" }
            let growth = metrics[keyPath: path] - earlier.metrics[keyPath: path]
            return fixed(Double(growth) / (time - earlier.time).seconds, 0)
        }
        return "answers/s \(rate(\.responses))  failures/s \(rate(\.failed))  pushes/s \(rate(\.pushes))"
            + "  bytes/s out \(rate(\.connection.bytesSent)) in \(rate(\.connection.bytesReceived))"
    }
    /// The percentiles of the calls that ended since `earlier`.
    func percentiles(since earlier: Sample?) -> String {
        var durations = metrics.callDurations
        if let earlier { durations.remove(earlier.metrics.callDurations) }
        let texts = [50, 90, 99, 99.9, 99.99].map { percent in
            let name = percent == percent.rounded() ? fixed(percent, 0) : "\(percent)"
            let milliseconds = (durations.percentile(percent)?.seconds ?? 0) * 1000
            return "p\(name) \(fixed(milliseconds, milliseconds < 10 ? 2 : 0))"
        }
        let period = fixed((time - (earlier?.time ?? .zero)).seconds, 0)
        return texts.joined(separator: "  ") + "  ms, last \(period) s"
    }
    var places: String {
        let waiting = metrics.waiting
        return "on a link \(metrics.pending - waiting.total)  waiting for link \(waiting.forLink)"
            + " turn \(waiting.forTurn) back-off \(waiting.forBackOff)  abandoned \(metrics.abandoned)"
    }
    var failures: [String] {
        let counts = metrics.failures.sorted { ($1.value, "\($0.key)") < ($0.value, "\($1.key)") }
        return counts.isEmpty ? ["none"] : counts.map { "\($0.key) \($0.value)" }
    }
}

/// The samples of the last ten seconds.
struct Samples {
    private var samples: [Sample] = []

    /// Adds a sample. Returns its texts.
    mutating func add(_ sample: Sample) -> (rates: String, percentiles: String) {
        samples.removeAll { sample.time - $0.time > .seconds(10) }
        defer { samples.append(sample) }
        return (sample.rates(since: samples.last), sample.percentiles(since: samples.first))
    }
}

// MARK: - The terminal

/// The terminal in raw mode with its alternate screen, until `restore`, which runs at every end of the program.
enum Terminal {
    static let isInteractive = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1
    /// Safe: written once before the handlers that read it are installed.
    nonisolated(unsafe) private static var saved = termios()
    /// Shows the cursor and leaves the alternate screen.
    private static let leave: StaticString = "\u{1b}[?25h\u{1b}[?1049l"

    static func enter() {
        tcgetattr(STDIN_FILENO, &saved)
        atexit { Terminal.restore() }
        for number in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
            signal(number) { number in
                Terminal.restore()
                _exit(128 + number)
            }
        }
        var raw = saved
        cfmakeraw(&raw)
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw)
        write("\u{1b}[?1049h\u{1b}[?25l")
    }

    /// Calls only functions that a signal handler may call.
    private static func restore() {
        tcsetattr(STDIN_FILENO, TCSANOW, &saved)
        #if canImport(Glibc)
            _ = Glibc.write(STDOUT_FILENO, leave.utf8Start, leave.utf8CodeUnitCount)
        #else
            _ = Darwin.write(STDOUT_FILENO, leave.utf8Start, leave.utf8CodeUnitCount)
        #endif
    }

    static func write(_ text: String) { FileHandle.standardOutput.write(Data(text.utf8)) }

    /// The number of columns and rows; 80 and 24 if the terminal does not say.
    static var size: (columns: Int, rows: Int) {
        var size = winsize()
        let isKnown = ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0 && size.ws_col > 0 && size.ws_row > 0
        return isKnown ? (Int(size.ws_col), Int(size.ws_row)) : (80, 24)
    }

    /// The keys that are pressed. A thread of its own waits for them.
    static var keys: AsyncStream<Character> {
        let (keys, continuation) = AsyncStream.makeStream(of: Character.self)
        Thread.detachNewThread {
            var byte: UInt8 = 0
            while read(STDIN_FILENO, &byte, 1) == 1 { continuation.yield(Character(Unicode.Scalar(byte))) }
            continuation.finish()
        }
        return keys
    }
}

// MARK: - Views

/// The lines of the screen, each with its title, except the last one.
func screen(
    _ sample: Sample,
    _ texts: (rates: String, percentiles: String),
    _ slowest: [Timeline],
    _ faults: Faults.State,
    _ board: Board,
    rows: Int
) -> [(title: String, text: String)] {
    let content = board.all
    let switched = [
        (faults.isSlow, "slow"), (faults.hasErrors, "errors"), (faults.isSilent, "silent"),
        (faults.isRefusing, "refusing"), (faults.isFlooding, "pushes"),
    ]
    let on = switched.filter(\.0).map(\.1).joined(separator: " ")
    var lines = [
        ("CLIENT", "\(content.state)"), ("LOAD", "\(faults.load) requests/s   faults: \(on.isEmpty ? "none" : on)"),
    ]
    for (session, link) in content.links.sorted(by: { $0.key < $1.key }).suffix(3) {
        lines.append(("LINK", "session \(session): \(link.state), for \(fixed((board.now - link.since).seconds, 0)) s"))
    }
    lines += [
        ("RATES", texts.rates), ("LATENCY", texts.percentiles), ("REQUESTS", sample.places),
        ("SERIALS", "\(sample.metrics.heldSerials) of 400 in use   pushes dropped: \(content.dropped)"),
    ]
    // Two to a line: both fit into 80 columns.
    let failures = sample.failures
    for start in stride(from: 0, to: min(6, failures.count), by: 2) {
        lines.append(("FAILED", failures[start...].prefix(2).joined(separator: "   ")))
    }
    for timeline in slowest.prefix(rows > 30 ? 6 : 3) { lines.append(("SLOW", "\(timeline)")) }
    let room = max(1, rows - lines.count - 1)
    for (time, text) in content.lines.suffix(room) { lines.append(("+\(fixed(time.seconds, 1)) s", text)) }
    return lines + Array(repeating: ("", ""), count: max(0, rows - 1 - lines.count))
}

/// Draws over the whole terminal. Each line ends where the terminal does.
func draw(_ lines: [(title: String, text: String)], columns: Int, rows: Int) {
    let drawn = lines.prefix(rows - 1).map { title, text in
        let title = title.padding(toLength: 10, withPad: " ", startingAt: 0)
        return "\u{1b}[1m\(title)\u{1b}[m\(text.prefix(max(0, columns - 10)))\u{1b}[K\r\n"
    }
    let help = " d drop  h half-open  s slow  r refuse  e errors  p pushes  + - load  q quit "
    Terminal.write("\u{1b}[H\(drawn.joined())\u{1b}[7m\(help.prefix(columns))\u{1b}[m\u{1b}[K")
}

/// Redraws the screen four times a second, until a key quits.
func runInteractively(_ client: Client, _ server: LoopbackServer, _ faults: Faults, _ board: Board) async {
    Terminal.enter()
    let drawing = Task {
        var samples = Samples()
        while !Task.isCancelled {
            let next = await Sample(metrics: client.metrics, time: board.now)
            let (columns, rows) = Terminal.size
            let (texts, slowest) = (samples.add(next), await client.diagnostics.slowestRequests)
            draw(screen(next, texts, slowest, faults.now, board, rows: rows), columns: columns, rows: rows)
            try? await Task.sleep(for: .milliseconds(250))
        }
    }
    for await key in Terminal.keys where await !press(key, faults, server, board) { break }
    drawing.cancel()
    await drawing.value
}

/// Presses keys at fixed times, and prints a line every half second.
func runScript(_ client: Client, _ server: LoopbackServer, _ faults: Faults, _ board: Board) async {
    let script: [Int: String] = [
        2: "s", 5: "s", 6: "e", 7: "e", 8: "d", 9: "h", 13: "h", 14: "r", 15: "r", 16: "p", 17: "p",
    ]
    var samples = Samples()
    for step in 0..<18 {
        for key in script[step] ?? "" { _ = await press(key, faults, server, board) }
        try? await Task.sleep(for: .milliseconds(500))
        let next = await Sample(metrics: client.metrics, time: board.now)
        let (rates, percentiles) = samples.add(next)
        print("\(fixed(next.time.seconds, 2)) s  \(rates)  \(next.places)  \(percentiles)")
    }
    let last = await Sample(metrics: client.metrics, time: board.now)
    print("failures: \(last.failures.joined(separator: ", "))")
    for timeline in await client.diagnostics.slowestRequests.prefix(3) { print("slow: \(timeline)") }
}

let faults = Faults()
let board = Board()
let server = try await LoopbackServer.start(speaking: layout) { faults.reaction($0) }
let options = ClientOptions { options in
    options.observers = [board]
    options.requests.timeout = .seconds(2)
    options.liveness.probeAfter = .milliseconds(500)
    options.liveness.deadline = .seconds(1)
    options.reconnecting.policy = Backoff(base: .milliseconds(100), cap: .seconds(1))
    options.failover.errorRate = nil
}
let client = Client(to: server.endpoint, speaking: layout, options: options)
// A reader of pushes that is too slow for the flood, so that some are dropped.
let reader = Task {
    for await _ in client.pushes(buffering: PushBuffering(maximumCount: 100, overflow: .dropOldest)) {
        try? await Task.sleep(for: .milliseconds(1))
    }
}
let loading = Task { await load(client, server, faults) }
if Terminal.isInteractive {
    await runInteractively(client, server, faults, board)
} else {
    await runScript(client, server, faults, board)
}
loading.cancel()
reader.cancel()
await client.closeNow()
await server.stop()
print("Dashboard: done")
