// A live view of a client under load: the state of its links, rates, percentiles, what its requests wait for, failures,
// the slowest requests and its events. Keys switch faults of the server. If the output is not a terminal, a script of
// faults runs instead, and the program ends by itself. It is laid out for 80 columns and 24 rows; larger terminals show
// more events.

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

/// The number of serials of a link, and so of requests that it can carry at a time.
let serialsOfLink = 400

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
    $0.serials = 1...UInt64(serialsOfLink)
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
    let interests: ClientEvent.Kinds = [.links, .limits]
    /// Events of one kind that came in quick succession: the latest one, and how many there were.
    struct Line {
        var time: Duration
        var text: String
        var count = 1
    }
    struct Content {
        var lines: [Line] = []
        var links: [SessionID: (state: String, since: Duration)] = [:]
        var state = ConnectionState.idle
        /// Whether the client has waited, and no link was ready since.
        var isRetrying = false
    }
    private let content = Mutex(Content())
    private let start = ContinuousClock.now

    var now: Duration { start.duration(to: .now) }
    var all: Content { content.withLock { $0 } }

    func note(_ text: String) {
        let line = Line(time: now, text: text)
        if !Terminal.isInteractive { print("\(fixed(line.time.seconds, 2)) s  \(text)") }
        content.withLock { content in
            var line = line
            // Kinds also take turns: a limit is reached and cleared. The very last line may be older.
            let last = content.lines.count - 1
            let same = content.lines.indices.suffix(3).last { index in
                let other = content.lines[index]
                return (index == last || line.time - other.time < .seconds(1)) && kind(other.text) == kind(text)
            }
            if let same { line.count += content.lines.remove(at: same).count }
            content.lines.append(line)
            if content.lines.count > 500 { content.lines.removeFirst(250) }
        }
    }

    func observe(_ events: [ClientEvent]) {
        for event in events {
            let wasRetrying = all.isRetrying
            take(event)
            // Each attempt changes the state several times: its failure is enough.
            switch event.content {
            case .stateChanged(.connecting), .attemptPlanned: break
            case .stateChanged(.waiting) where wasRetrying: break
            default: note(brief("\(event)"))
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
                switch state {
                case .ready(_, let session):
                    content.links[session] = ("ready", now)
                    content.isRetrying = false
                case .waiting: content.isRetrying = true
                default: break
                }
            case .linkDraining(_, let session, let cause, _):
                content.links[session]?.state = "draining (\(cause.rawValue))"
            case .linkEnded(let report): content.links[report.session] = nil
            default: break
            }
        }
    }

    /// The text of an event without the address, which is always that of the only server, and without the values that
    /// say that nothing special happened.
    private func brief(_ event: String) -> String {
        let usual: Set<Substring> = ["lifetime=0.0", "requests_lost=0", "bytes_unsent=0", "network_change=false"]
        let words = event.split(separator: " ").filter { word in
            !usual.contains(word) && !word.hasPrefix("endpoint=") && !word.hasPrefix("address=")
        }
        return words.joined(separator: " ")
    }
}

// MARK: - Text

/// Texts of the same kind differ only in their numbers and units.
func kind(_ text: String) -> String {
    let words = text.split(separator: " ").filter { word in
        let isUnit = ["s", "ms", "µs"].contains(word.trimmingCharacters(in: .punctuationCharacters))
        return !isUnit && !word.contains(where: \.isNumber)
    }
    return words.joined(separator: " ")
}

/// One line for each kind of timeline: the slowest, and how many there are.
func merged(_ timelines: [Timeline]) -> [String] {
    var groups: [(kind: String, slowest: String, count: Int)] = []
    for text in timelines.map(\.description) {
        if let group = groups.firstIndex(where: { $0.kind == kind(text) }) {
            groups[group].count += 1
        } else {
            groups.append((kind(text), text, 1))
        }
    }
    return groups.map { $0.count == 1 ? $0.slowest : "\($0.count) alike, the slowest \($0.slowest)" }
}

/// Breaks a text between its parts, into lines of at most `width` characters. Ends with "…" what does not fit.
func wrapped(_ text: String, at separator: String, width: Int, limit: Int) -> [String] {
    var lines: [String] = []
    for part in text.components(separatedBy: separator) {
        if let last = lines.last, last.count + separator.count + part.count <= width {
            lines[lines.count - 1] = last + separator + part
        } else {
            lines.append(part)
        }
    }
    if lines.count > limit { lines = lines.prefix(limit - 1) + [lines[limit - 1] + " …"] }
    return lines.map { $0.count <= width ? $0 : $0.prefix(max(0, width - 1)) + "…" }
}

// MARK: - Numbers

extension Duration {
    var seconds: Double { Double(components.seconds) + Double(components.attoseconds) / 1e18 }
}

func fixed(_ number: Double, _ digits: Int) -> String { String(format: "%.\(digits)f", number) }

/// A number that is not negative, in at most six characters: `9999`, `12.3 k`, `6.26 M`.
func short(_ number: Double) -> String {
    // A number that would be rounded to 1000 gets the larger unit.
    let units = [(1e9, " G"), (1e6, " M"), (1e3, " k")]
    guard number >= 9999.5, let (size, unit) = units.first(where: { number >= $0.0 * 0.9995 }) else {
        return fixed(number, 0)
    }
    let value = number / size
    return fixed(value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0) + unit
}

func short(_ number: Int) -> String { short(Double(number)) }

/// A snapshot of the metrics, as text.
struct Sample {
    let metrics: ClientMetrics
    let time: Duration

    /// How much a count grew in a second, since `earlier`.
    private func rate(_ path: KeyPath<ClientMetrics, Int>, since earlier: Sample?) -> String {
        guard let earlier, time > earlier.time else { return "0" }
        let growth = metrics[keyPath: path] - earlier.metrics[keyPath: path]
        return short(Double(growth) / (time - earlier.time).seconds)
    }
    func rates(since earlier: Sample?) -> String {
        "answers/s \(rate(\.responses, since: earlier))  failures/s \(rate(\.failed, since: earlier))"
            + "  pushes/s \(rate(\.pushes, since: earlier))"
    }
    func byteRates(since earlier: Sample?) -> String {
        "sent/s \(rate(\.connection.bytesSent, since: earlier))"
            + "  received/s \(rate(\.connection.bytesReceived, since: earlier))"
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
        return "on links \(short(metrics.pending - waiting.total))  waiting: link \(short(waiting.forLink)),"
            + " turn \(short(waiting.forTurn)), back-off \(short(waiting.forBackOff))"
            + "  abandoned \(short(metrics.abandoned))"
    }
    /// The serials in use, of those of all links: a link that drains has its own.
    func serials(links: Int) -> String {
        // The events come a little later than the metrics, so a link may not be counted yet that has serials in use.
        let used = metrics.heldSerials
        let links = max(links, (used + serialsOfLink - 1) / serialsOfLink)
        return "\(used) of \(links * serialsOfLink) in use"
    }
    var failures: [String] {
        let counts = metrics.failures.sorted { ($1.value, "\($0.key)") < ($0.value, "\($1.key)") }
        return counts.isEmpty ? ["none"] : counts.map { "\($0.key) \($0.value)" }
    }
}

/// The samples of the last ten seconds.
struct Samples {
    typealias Texts = (rates: String, bytes: String, percentiles: String)
    private var samples: [Sample] = []

    /// Adds a sample. Returns its texts.
    mutating func add(_ sample: Sample) -> Texts {
        samples.removeAll { sample.time - $0.time > .seconds(10) }
        defer { samples.append(sample) }
        let latest = samples.last
        return (
            sample.rates(since: latest), sample.byteRates(since: latest), sample.percentiles(since: samples.first)
        )
    }
}

// MARK: - The terminal

/// The terminal in raw mode with its alternate screen, until `restore`, which runs at every end of the program.
enum Terminal {
    static let isInteractive = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1
    /// Safe: written once before the handlers that read it are installed.
    nonisolated(unsafe) private static var saved = termios()
    private static let isEntered = Atomic(false)
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
        isEntered.store(true, ordering: .sequentiallyConsistent)
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw)
        write("\u{1b}[?1049h\u{1b}[?25l")
    }

    /// Calls only functions that a signal handler may call. Does nothing the second time: to leave the alternate screen
    /// again would move the cursor back, over what was written since.
    static func restore() {
        guard isEntered.exchange(false, ordering: .sequentiallyConsistent) else { return }
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

/// The lines of the screen, each with its title: at most `rows`.
func screen(
    _ sample: Sample,
    _ texts: Samples.Texts,
    _ slowest: [Timeline],
    _ faults: Faults.State,
    _ board: Board,
    columns: Int,
    rows: Int
) -> [(title: String, text: String)] {
    let content = board.all
    let switched = [
        (faults.isSlow, "slow"), (faults.hasErrors, "errors"), (faults.isSilent, "silent"),
        (faults.isRefusing, "refusing"), (faults.isFlooding, "pushes"),
    ]
    let on = switched.filter(\.0).map(\.1).joined(separator: " ")
    var lines: [(title: String, text: String)] = []
    func add(_ title: String, _ text: String, at separator: String = "  ", limit: Int = 2) {
        // No line breaks between a number and its unit.
        let text = text.replacing(/([0-9]) (s|ms|µs)\b/) { "\($0.1)\u{a0}\($0.2)" }
        let texts = wrapped(text, at: separator, width: max(1, columns - titleWidth), limit: limit)
        for (index, text) in texts.enumerated() { lines.append((index == 0 ? title : "", text)) }
    }
    add("CLIENT", "\(content.state)", at: " ")
    add("LOAD", "\(faults.load) requests/s  faults: \(on.isEmpty ? "none" : on)")
    for (session, link) in content.links.sorted(by: { $0.key < $1.key }).suffix(3) {
        add("LINK", "session \(session): \(link.state), for \(fixed((board.now - link.since).seconds, 0)) s", at: " ")
    }
    add("RATES", texts.rates)
    add("BYTES", texts.bytes)
    add("LATENCY", texts.percentiles)
    add("REQUESTS", sample.places)
    let serials = sample.serials(links: content.links.count)
    add("SERIALS", "\(serials)  pushes dropped: \(sample.metrics.pushesDropped)")
    add("FAILED", sample.failures.joined(separator: "   "), at: "   ", limit: 3)
    for text in merged(slowest).prefix(rows > 30 ? 4 : 2) { add("SLOW", text, at: " ", limit: 3) }
    // The latest events that there is room for. If not even one line is left, none.
    let (head, room) = (lines, max(0, rows - lines.count))
    var events: [(title: String, text: String)] = []
    for event in content.lines.suffix(room).reversed() where events.count < room {
        lines = []
        let text = event.count == 1 ? event.text : "\(event.count) × \(event.text)"
        // In the column of titles there is room for eleven days.
        let seconds = event.time.seconds
        add("+\(fixed(seconds, seconds < 1000 ? 1 : 0)) s", text, at: " ", limit: min(4, room - events.count))
        events = lines + events
    }
    return Array((head + events).prefix(max(0, rows)))
}

/// The width of the column of titles.
let titleWidth = 10

extension String {
    var asTitle: String { padding(toLength: titleWidth, withPad: " ", startingAt: 0) }
}

/// Draws over the whole terminal, with the keys in the last row.
func draw(_ lines: [(title: String, text: String)], columns: Int, rows: Int) {
    let empty = Array(repeating: (title: "", text: ""), count: max(0, rows - 1 - lines.count))
    let drawn = (lines + empty).map { "\u{1b}[1m\($0.title.asTitle)\u{1b}[m\($0.text)\u{1b}[K\r\n" }
    let help = " d drop  h half-open  s slow  r refuse  e errors  p pushes  + - load  q quit "
    Terminal.write("\u{1b}[H\(drawn.joined())\u{1b}[7m\(help.prefix(columns))\u{1b}[m\u{1b}[K")
}

/// Redraws the screen four times a second, until a key quits. Then leaves the last lines on the ordinary screen.
func runInteractively(_ client: Client, _ server: LoopbackServer, _ faults: Faults, _ board: Board) async {
    Terminal.enter()
    let drawing = Task {
        var samples = Samples()
        func lines(columns: Int, rows: Int) async -> [(title: String, text: String)] {
            let next = await Sample(metrics: client.metrics, time: board.now)
            let (texts, slowest) = (samples.add(next), await client.diagnostics.slowestRequests)
            return screen(next, texts, slowest, faults.now, board, columns: columns, rows: rows)
        }
        while !Task.isCancelled {
            let (columns, rows) = Terminal.size
            draw(await lines(columns: columns, rows: rows - 1), columns: columns, rows: rows)
            try? await Task.sleep(for: .milliseconds(250))
        }
        // Two rows are for the line that ends the program, and for the prompt of the shell.
        let (columns, rows) = Terminal.size
        return await lines(columns: columns, rows: rows - 2)
    }
    for await key in Terminal.keys where await !press(key, faults, server, board) { break }
    drawing.cancel()
    let last = await drawing.value
    Terminal.restore()
    for (title, text) in last { print(title.asTitle + text) }
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
        let (rates, bytes, percentiles) = samples.add(next)
        let texts = [rates, bytes, next.places, percentiles].joined(separator: "  ")
        print("\(fixed(next.time.seconds, 2)) s  \(texts)")
    }
    let last = await Sample(metrics: client.metrics, time: board.now)
    print("failures: \(last.failures.joined(separator: ", "))")
    for text in merged(await client.diagnostics.slowestRequests).prefix(3) { print("slow: \(text)") }
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
