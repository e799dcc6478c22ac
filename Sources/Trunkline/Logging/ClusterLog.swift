/// Decides what a cluster logs: its own changes, and what its clients log. A pure value; the time is a parameter.
///
/// A hundred clients do not log a hundred times: of the lines of the clients with the same event, one is written, and the
/// others are counted until the next summary. So are failures of the cluster that repeat themselves, and short outages:
/// proxies that close idle links close all of them at the same time. The lines of a healthy client are left out.
struct ClusterLogRules: Sendable {
    /// Lines with the same event that were not written.
    private struct Repeated: Sendable {
        var level: LogRecord.Level
        /// When the next line may be written.
        var nextLine: Instant
        /// By server, if the event belongs to one.
        var counts: [Endpoint?: Int] = [:]
    }

    private var sheet: LogSheet
    private let interval: Duration
    private let isVerbose: Bool
    private var repeated: [String: Repeated] = [:]
    /// By event, outages that have begun and have no line, because another one had a line lately.
    private var unwritten: [String: (outage: ClusterChange, begin: Instant)] = [:]

    /// How long an outage lasts that has lines of its own, however many there are.
    private static let longOutage = Duration.seconds(1)

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
        if isFirst(record.event, record.level, endpoint, at: now) { sheet.add(record) }
    }

    /// Whether a line is the first one with its event since the latest summary. Counts it otherwise.
    private mutating func isFirst(
        _ event: String,
        _ level: LogRecord.Level,
        _ endpoint: Endpoint?,
        at now: Instant
    ) -> Bool {
        guard var lines = repeated[event] else {
            repeated[event] = Repeated(level: level, nextLine: now.advanced(by: interval))
            return true
        }
        lines.level = max(lines.level, level)
        lines.counts[endpoint, default: 0] += 1
        repeated[event] = lines
        return false
    }

    /// Notes a change of the cluster.
    mutating func note(_ change: ClusterChange, at now: Instant) {
        let (level, text) = Self.line(of: change)
        let isWritten =
            switch change {
            case .discoveryFailed: isVerbose || isFirst(change.name, level, nil, at: now)
            case .subscriptionFailed(let endpoint, _): isVerbose || isFirst(change.name, level, endpoint, at: now)
            case .unavailable, .panicBegan: isVerbose || isFirst(change.name, level, nil, at: now)
            case .available: unwritten.removeValue(forKey: ClusterChange.unavailable.name) == nil
            case .panicEnded: unwritten.removeValue(forKey: ClusterChange.panicBegan(bad: 0, of: 0).name) == nil
            default: true
            }
        if isWritten { return sheet.add(level, change.name, at: now, text, change.fields) }
        switch change {
        case .unavailable, .panicBegan: unwritten[change.name] = (change, now)
        default: break
        }
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
        case .subscriptionFailed(let endpoint, let error):
            return (.warning, "\(endpoint) did not accept a subscription, which is tried again: \(LogText.of(error))")
        case .unavailable: return (.warning, "no server takes requests")
        case .available(let endpoint, let outage):
            let gap = outage.map { "; there was none for \(LogText.time($0))" } ?? ""
            return (.info, "\(endpoint) takes requests\(gap)")
        }
    }

    /// Writes the lines of outages that last, which are not counted then.
    private mutating func writeLongOutages(at now: Instant, isLast: Bool) {
        for (event, (outage, begin)) in unwritten.sorted(by: { $0.key < $1.key })
        where isLast || begin.advanced(by: Self.longOutage) <= now {
            unwritten[event] = nil
            if let count = repeated[event]?.counts[nil] { repeated[event]?.counts[nil] = count > 1 ? count - 1 : nil }
            let (level, text) = Self.line(of: outage)
            sheet.add(level, event, at: now, text, outage.fields)
        }
    }

    /// Writes the lines and summaries that are due.
    mutating func flush(at now: Instant, isLast: Bool = false) {
        writeLongOutages(at: now, isLast: isLast)
        for (event, lines) in repeated.sorted(by: { $0.key < $1.key }) where isLast || lines.nextLine <= now {
            repeated[event] = nil
            if lines.counts.isEmpty { continue }
            let sum = lines.counts.values.reduce(0, +)
            let counts = lines.counts.compactMap { endpoint, count in endpoint.map { ("\($0)", count) } }.sorted {
                ($1.1, $0.0) < ($0.1, $1.0)
            }
            var text = LogText.count(sum, "more line")
            var fields: LogSheet.Fields = [("count", .integer(Int64(sum)))]
            if !counts.isEmpty {
                let first = counts.prefix(8).map { $1 == 1 ? $0 : "\($0) (\($1))" }.joined(separator: ", ")
                text += " of \(LogText.count(counts.count, "server")): \(first)\(counts.count > 8 ? ", …" : "")"
                fields.append(("servers", .integer(Int64(counts.count))))
            }
            sheet.add(lines.level, event, at: now, text, fields)
            repeated[event] = Repeated(level: lines.level, nextLine: now.advanced(by: interval))
        }
    }

    /// When to call `flush` next; `nil` if there is nothing left to say.
    var nextFlush: Instant? {
        let outages = unwritten.values.map { $0.begin.advanced(by: Self.longOutage) }
        return (repeated.values.map(\.nextLine) + outages).min()
    }

    mutating func close(_ metrics: Cluster.Metrics, at now: Instant) {
        flush(at: now, isLast: true)
        let text =
            "closed; \(LogText.count(metrics.requests, "request")): \(LogText.grouped(metrics.responses)) answered, \(LogText.grouped(metrics.failed)) failed"
        sheet.add(.info, "cluster.closed", at: now, text, [("requests", .integer(Int64(metrics.requests)))])
    }

    /// Removes and returns the records.
    mutating func takeRecords() -> [LogRecord] { sheet.takeAll() }
}
