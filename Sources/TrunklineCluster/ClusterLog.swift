import TrunklineCore
import TrunklineLogging

/// Decides what a cluster logs. Of lines with the same event of its clients, one is written, and the others are counted
/// until the next summary. So are repeated failures of the cluster, and short outages: proxies that close idle links
/// close all of them at the same time.
struct ClusterLogRules: Sendable {
    /// What makes lines alike: the event, its cause or code, and the level.
    private struct Kind: Hashable, Sendable {
        let event: String
        let cause: String
        let level: LogRecord.Level

        init(_ record: LogRecord) {
            (event, level) = (record.event, record.level)
            cause = record.fields.first { $0.name == "cause" || $0.name == "code" }.map { "\($0.value)" } ?? ""
        }
    }

    private struct Repeated: Sendable {
        var pace: LogPace
        let writtenAt: Instant
        var counts: [Endpoint?: Int] = [:]
        /// How many things the lines count, such as requests; 0 if they count nothing.
        var sum: Int64 = 0
        var latest: LogRecord?
    }

    private var sheet: LogSheet
    private let interval: Duration
    private let isVerbose: Bool
    private let createdAt: Instant
    private var repeated: [Kind: Repeated] = [:]
    private var calls: RequestLog
    private var answers: AnswerLog
    /// Late event loops, each once: they concern the process, and no server.
    private var loop: LoopLog
    private var delays = DistinctDelays()
    /// By event, outages that have begun and have no line, because another one had a line lately.
    private var unwritten: [String: (outage: ClusterChange, begin: Instant)] = [:]

    /// How long an outage lasts that has lines of its own, however many there are.
    private static let longOutage = Duration.seconds(1)
    /// Between two lines about trouble of the cluster that goes on.
    private static let longestInterval = Duration.seconds(600)
    /// How long the discovery fails before its recovery has a line, whatever was written before.
    private static let calm = Duration.seconds(60)

    /// Lines of a healthy client, and those about requests: the cluster has its own about its calls.
    private static let usual: Set<String> = [
        "client.created", "client.ready", "client.closed", "client.deallocated", "link.replaced", "requests.failed",
    ]

    init(_ logging: ClientLogging, _ discovery: String, at now: Instant) {
        sheet = LogSheet(logging.level, client: logging.name)
        interval = max(.seconds(1), logging.summaryInterval)
        isVerbose = logging.level == .debug
        createdAt = now
        calls = RequestLog(every: logging.summaryInterval)
        answers = AnswerLog(every: logging.summaryInterval)
        loop = LoopLog(every: logging.summaryInterval)
        sheet.add(.info, "cluster.created", at: now, "created for \(discovery)", [("discovery", .text(discovery))])
    }

    mutating func note(_ record: LogRecord, of endpoint: Endpoint, at now: Instant) {
        if let delay = record.loopDelay {
            if delays.note(delay) { loop.late(delay) }
            return
        }
        let record = record.naming(endpoint)
        if isVerbose { return sheet.add(record) }
        if Self.usual.contains(record.event) { return }
        add(record, endpoint, at: now)
    }

    /// Adds a line if it is the first of its kind since the latest summary, or counts it. The intervals between
    /// summaries double up to `longest`: zero for the lines of clients, whose own logs have such intervals.
    @discardableResult
    private mutating func add(
        _ record: LogRecord,
        _ endpoint: Endpoint?,
        upTo longest: Duration = .zero,
        at now: Instant
    ) -> Bool {
        let kind = Kind(record)
        guard var lines = repeated[kind] else {
            var pace = LogPace(from: interval, to: longest)
            pace.wrote(at: now)
            repeated[kind] = Repeated(pace: pace, writtenAt: now)
            sheet.add(record)
            return true
        }
        lines.counts[endpoint, default: 0] += 1
        if case .integer(let count)? = record.fields.first(where: { $0.name == "count" })?.value { lines.sum += count }
        lines.latest = record
        repeated[kind] = lines
        return false
    }

    mutating func responseUndecodable(_ error: ClientError, at now: Instant) {
        answers.undecodable(error, at: nil, now)
    }
    mutating func callFailed(_ error: ClientError, at now: Instant) { calls.failed(nil, error, at: nil, now) }

    mutating func note(_ change: ClusterChange, at now: Instant) {
        let (level, text) = Self.line(of: change)
        let record = sheet.record(level, change.name, at: now, text, change.fields)
        let isWritten =
            switch change {
            case .discoveryFailed, .unavailable, .panicBegan:
                isVerbose ? nil : add(record, nil, upTo: Self.longestInterval, at: now)
            case .subscriptionFailed(let endpoint, _):
                isVerbose ? nil : add(record, endpoint, upTo: Self.longestInterval, at: now)
            case .discoveryRecovered(let outage): noteRecovery(record, after: outage, at: now)
            case .available: unwritten.removeValue(forKey: ClusterChange.unavailable.name) == nil ? nil : false
            case .panicEnded:
                unwritten.removeValue(forKey: ClusterChange.panicName) == nil ? nil : false
            default: nil as Bool?
            }
        guard let isWritten else { return sheet.add(record) }
        if isWritten { return }
        switch change {
        case .unavailable, .panicBegan: unwritten[change.name] = (change, now)
        default: break
        }
    }

    /// Returns `nil` if the line should be added. The end of a long outage has a line, and so has the next beginning.
    private mutating func noteRecovery(_ record: LogRecord, after outage: Duration, at now: Instant) -> Bool? {
        if isVerbose { return nil }
        guard outage >= Self.calm else { return add(record, nil, upTo: Self.longestInterval, at: now) }
        let event = ClusterChange.discoveryFailed(EmptyDiscovery()).name
        for (kind, lines) in repeated where kind.event == event {
            if let latest = lines.latest { writeSummary(of: lines, kind, latest, at: now) }
            repeated[kind] = nil
        }
        return nil
    }

    static func line(of change: ClusterChange) -> (LogRecord.Level, String) {
        switch change {
        case .ejected, .panicBegan, .discoveryFailed, .subscriptionFailed, .unavailable: (.warning, change.description)
        default: (.info, change.description)
        }
    }

    private mutating func writeLongOutages(at now: Instant, isLast: Bool) {
        for (event, (outage, begin)) in unwritten.sorted(by: { $0.key < $1.key })
        where isLast || begin.advanced(by: Self.longOutage) <= now {
            unwritten[event] = nil
            let (level, text) = Self.line(of: outage)
            let record = sheet.record(level, event, at: begin, text, outage.fields)
            let kind = Kind(record)
            if let count = repeated[kind]?.counts[nil] { repeated[kind]?.counts[nil] = count > 1 ? count - 1 : nil }
            sheet.add(record)
        }
    }

    mutating func flush(at now: Instant, isLast: Bool = false) {
        loop.flush(at: now, isLast: isLast, into: &sheet)
        writeLongOutages(at: now, isLast: isLast)
        // An outage that goes on is not among those that were short.
        for kind in repeated.keys {
            guard let begin = unwritten[kind.event]?.begin else { continue }
            repeated[kind]?.pace.delay(until: begin.advanced(by: Self.longOutage))
        }
        let due = repeated.filter { isLast || $0.value.pace.isDue(at: now) }
        for (kind, lines) in due.sorted(by: { ($0.key.event, $0.key.cause) < ($1.key.event, $1.key.cause) }) {
            repeated[kind] = nil
            guard let latest = lines.latest, !lines.counts.isEmpty else { continue }
            writeSummary(of: lines, kind, latest, at: now)
            var pace = lines.pace
            pace.wrote(at: now)
            repeated[kind] = Repeated(pace: pace, writtenAt: now)
        }
        calls.flush(at: now, isLast: isLast, into: &sheet)
        answers.flush(at: now, responses: nil, isLast: isLast, into: &sheet)
    }

    /// Writes how many lines were left out, and the latest. If it is one, writes that, with its time.
    private mutating func writeSummary(of lines: Repeated, _ kind: Kind, _ latest: LogRecord, at now: Instant) {
        let count = lines.counts.values.reduce(0, +)
        let isOutage = kind.event == ClusterChange.unavailable.name || kind.event == ClusterChange.panicName
        let latestAt = Instant(nanoseconds: latest.time.clampedNanoseconds)
        if count == 1 {
            let text = latest.message + (isOutage ? "; for less than \(Self.longOutage.text)" : "")
            return sheet.add(sheet.record(kind.level, kind.event, at: latestAt, text, latest.fields))
        }
        let servers = lines.counts.compactMap { endpoint, count in endpoint.map { ("\($0)", count) } }.sorted {
            ($1.1, $0.0) < ($0.1, $1.0)
        }
        var fields = latest.fields.filter { $0.name != "count" && $0.name != "server" }
        fields.insert(("count", .integer(lines.sum > 0 ? lines.sum : Int64(count))), at: 0)
        var text = "\(Quantity.count(count, "more line")) in \(Quantity.time(now.since(lines.writtenAt)))"
        if lines.sum > 0 { text += " about \(Quantity.grouped(Int(lines.sum)))" }
        if !servers.isEmpty {
            let first = servers.prefix(8).map { $1 == 1 ? $0 : "\($0) (\($1))" }.joined(separator: ", ")
            text += " of \(Quantity.count(servers.count, "server")): \(first)\(servers.count > 8 ? ", …" : "")"
            fields.append(("servers", .integer(Int64(servers.count))))
        }
        if isOutage { text += ", each for less than \(Self.longOutage.text)" }
        text += "; \(LogText.latest(latestAt, at: now)): \(latest.message)"
        sheet.add(sheet.record(kind.level, kind.event, at: now, text, fields))
    }

    var nextFlush: Instant? {
        let outages = unwritten.values.map { $0.begin.advanced(by: Self.longOutage) }
        let counted = [loop.nextFlush, calls.nextFlush, answers.nextFlush].compactMap { $0 }
        return (repeated.values.map(\.pace.next) + outages + counted).min()
    }

    mutating func close(_ metrics: Cluster.Metrics, at now: Instant) {
        flush(at: now, isLast: true)
        let failed = metrics.failures.values.reduce(0, +)
        var text = "closed after \(Quantity.time(now.since(createdAt))); \(Quantity.count(metrics.calls, "call"))"
        text +=
            failed == 0
            ? ", none failed" : ", \(Quantity.grouped(failed)) failed: \(LogText.list(metrics.failures.texts))"
        text += "; \(Quantity.count(metrics.requests, "try", "tries")): \(Quantity.grouped(metrics.responses)) answered"
        let fields: LogSheet.Fields = [
            ("lifetime", .seconds(now.since(createdAt).inSeconds)), ("calls", .integer(Int64(metrics.calls))),
            ("failed", .integer(Int64(failed))), ("requests", .integer(Int64(metrics.requests))),
        ]
        sheet.add(.info, "cluster.closed", at: now, text, fields)
    }

    mutating func deallocate(at now: Instant) {
        flush(at: now, isLast: true)
        let text = "the cluster was deallocated without close() after \(Quantity.time(now.since(createdAt)))"
        sheet.add(.warning, "cluster.deallocated", at: now, text)
    }

    mutating func takeRecords() -> [LogRecord] { sheet.takeAll() }
}

extension ClusterChange {
    fileprivate static var panicName: String { ClusterChange.panicBegan(bad: 0, of: 0).name }
}
