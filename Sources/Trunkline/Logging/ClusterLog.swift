/// Decides what a cluster logs: its own changes, and what its clients log. A pure value; the time is a parameter.
///
/// A hundred clients do not log a hundred times: of the lines of the clients with the same event, one is written, and the
/// others are counted until the next summary. The lines of a healthy client are left out.
struct ClusterLogRules: Sendable {
    /// Lines of clients with the same event that were not written.
    private struct Repeated: Sendable {
        var level: LogRecord.Level
        /// When the next line may be written.
        var nextLine: Instant
        var counts: [Endpoint: Int] = [:]
    }

    private var sheet: LogSheet
    private let interval: Duration
    private let isVerbose: Bool
    private var repeated: [String: Repeated] = [:]

    /// Lines of a healthy client.
    private static let usual: Set<String> = [
        "client.created", "client.ready", "client.closed", "client.deallocated", "link.replaced",
    ]

    init(_ logging: ClientLogging, _ discovery: String, at now: Instant) {
        sheet = LogSheet(logging.level, client: logging.name)
        interval = max(.seconds(1), logging.summaryInterval)
        isVerbose = logging.level == .debug
        sheet.add(.info, "cluster.created", at: now, "created for \(discovery)", [("discovery", .text(discovery))])
    }

    /// Notes a line of the client of a server.
    mutating func note(_ record: LogRecord, of endpoint: Endpoint, at now: Instant) {
        if isVerbose { return sheet.add(record) }
        if Self.usual.contains(record.event) { return }
        guard var lines = repeated[record.event] else {
            repeated[record.event] = Repeated(level: record.level, nextLine: now.advanced(by: interval))
            return sheet.add(record)
        }
        lines.level = max(lines.level, record.level)
        lines.counts[endpoint, default: 0] += 1
        repeated[record.event] = lines
    }

    /// Notes a change of the cluster.
    mutating func note(_ change: ClusterChange, at now: Instant) {
        let (level, text) = Self.line(of: change)
        sheet.add(level, change.name, at: now, text, change.fields)
    }

    /// The level and the text of a change.
    static func line(of change: ClusterChange) -> (LogRecord.Level, String) {
        func list(_ verb: String, _ endpoints: [Endpoint]) -> String? {
            if endpoints.isEmpty { return nil }
            let first = endpoints.prefix(8).map(\.description).joined(separator: ", ")
            return "\(verb) \(first)\(endpoints.count > 8 ? ", … (\(endpoints.count))" : "")"
        }
        switch change {
        case .servers(let added, let removed, let count):
            let changes = [list("added", added), list("removed", removed)].compactMap { $0 }.joined(separator: "; ")
            return (.info, "\(changes); \(LogText.count(count, "server"))")
        case .ejected(let endpoint, let time, let reason):
            return (.warning, "\(endpoint) is left out for \(LogText.time(time)): \(reason)")
        case .returned(let endpoint): return (.info, "\(endpoint) is used again")
        case .panicBegan(let bad, let count):
            return (
                .warning,
                "\(bad) of \(LogText.count(count, "server")) are left out or not ready: all ready servers are used, and none is left out"
            )
        case .panicEnded: return (.info, "at most half of the servers are left out or not ready")
        case .discoveryFailed(let error):
            return (.warning, "the discovery failed, and the last list stays in use: \(LogText.of(error))")
        case .unavailable: return (.error, "no server takes requests")
        case .available(let endpoint, let outage):
            let gap = outage.map { "; there was none for \(LogText.time($0))" } ?? ""
            return (.info, "\(endpoint) takes requests\(gap)")
        }
    }

    /// Writes the summaries that are due.
    mutating func flush(at now: Instant, isLast: Bool = false) {
        for (event, lines) in repeated.sorted(by: { $0.key < $1.key }) where isLast || lines.nextLine <= now {
            repeated[event] = nil
            if lines.counts.isEmpty { continue }
            let counts = lines.counts.sorted { ($1.value, "\($0.key)") < ($0.value, "\($1.key)") }
            let first = counts.prefix(8).map { $0.value == 1 ? "\($0.key)" : "\($0.key) (\($0.value))" }
            let sum = counts.reduce(0) { $0 + $1.value }
            let text = "\(LogText.count(sum, "more line")) of \(LogText.count(counts.count, "server")): "
            sheet.add(
                lines.level,
                event,
                at: now,
                text + first.joined(separator: ", ") + (counts.count > 8 ? ", …" : ""),
                [("count", .integer(Int64(sum))), ("servers", .integer(Int64(counts.count)))]
            )
            repeated[event] = Repeated(level: lines.level, nextLine: now.advanced(by: interval))
        }
    }

    /// When to call `flush` next; `nil` if there is nothing left to say.
    var nextFlush: Instant? { repeated.values.lazy.map(\.nextLine).min() }

    mutating func close(_ metrics: Cluster.Metrics, at now: Instant) {
        flush(at: now, isLast: true)
        let text =
            "closed; \(LogText.count(metrics.requests, "request")): \(LogText.grouped(metrics.responses)) answered, \(LogText.grouped(metrics.failed)) failed"
        sheet.add(.info, "cluster.closed", at: now, text, [("requests", .integer(Int64(metrics.requests)))])
    }

    /// Removes and returns the records.
    mutating func takeRecords() -> [LogRecord] { sheet.takeAll() }
}
