import TrunklineCore

/// The lines about limits because of which requests wait. A limit reached for a moment is normal under load, so the
/// first line is written when requests have waited for a second in all within the interval of summaries.
struct LimitLog: Sendable {
    private struct Entry: Sendable {
        var pace: LogPace
        /// `nil` while the limit is not reached.
        var reachedAt: Instant?
        /// When the first wait that `waited` or `count` counts began.
        var firstAt = Instant.distantPast
        var clearedAt = Instant.distantPast
        /// Since the latest line, without the present wait.
        var waited = Duration.zero
        var total = Duration.zero
        var count = 0
        /// When a line said that the limit is reached; `nil` if the log does not say so.
        var writtenAt: Instant?
        var places = LogPlaces()

        func waited(at now: Instant) -> Duration { waited + (reachedAt.map { now.since($0) } ?? .zero) }
    }

    private var entries: [ClientEvent.Limit: Entry] = [:]
    private let interval: Duration

    private static let grace = Duration.seconds(1)
    private static let calm = Duration.seconds(5)

    init(every interval: Duration) { self.interval = interval }

    private var limits: [ClientEvent.Limit] { entries.keys.sorted { $0.rawValue < $1.rawValue } }

    mutating func reached(_ limit: ClientEvent.Limit, at now: Instant, _ endpoint: Endpoint?) {
        var entry = entries[limit] ?? Entry(pace: LogPace(from: interval))
        if entry.writtenAt == nil, entry.reachedAt == nil, limit != .retryBudget,
            now >= entry.firstAt.advanced(by: interval)
        {
            (entry.waited, entry.count, entry.firstAt) = (.zero, 0, now)
        }
        if limit == .retryBudget, entry.count == 0 { entry.firstAt = now }
        entry.count += 1
        entry.places.note(endpoint)
        // The retry budget is never cleared: only its times are counted.
        if limit != .retryBudget { entry.reachedAt = entry.reachedAt ?? now }
        entries[limit] = entry
    }

    mutating func cleared(_ limit: ClientEvent.Limit, at now: Instant) {
        guard var entry = entries[limit], let reachedAt = entry.reachedAt else { return }
        entry.waited += now.since(reachedAt)
        (entry.reachedAt, entry.clearedAt) = (nil, now)
        entries[limit] = entry
    }

    func isDue(at now: Instant) -> Bool { entries.contains { isDue($0.key, $0.value, at: now) } }

    private func isDue(_ limit: ClientEvent.Limit, _ entry: Entry, at now: Instant, isLast: Bool = false) -> Bool {
        let isWorthIt = limit == .retryBudget ? entry.count > 0 : entry.waited(at: now) >= Self.grace
        return isWorthIt && (isLast ? entry.writtenAt == nil : entry.pace.isDue(at: now))
    }

    var nextFlush: Instant? { entries.compactMap { Self.nextFlush($0.key, $0.value) }.min() }

    private static func nextFlush(_ limit: ClientEvent.Limit, _ entry: Entry) -> Instant? {
        if limit == .retryBudget { return entry.count > 0 ? entry.pace.next : nil }
        if let reachedAt = entry.reachedAt { return max(entry.pace.next, reachedAt.advanced(by: grace - entry.waited)) }
        let summary = entry.waited >= grace ? entry.pace.next : nil
        let end = entry.writtenAt == nil ? nil : entry.clearedAt.advanced(by: calm)
        return [summary, end].compactMap { $0 }.min()
    }

    mutating func flush(at now: Instant, _ load: ClientLoad?, isLast: Bool = false, into sheet: inout LogSheet) {
        for limit in limits {
            guard var entry = entries[limit] else { continue }
            if isDue(limit, entry, at: now, isLast: isLast) {
                let text = Self.text(limit, entry, load, at: now)
                let fields = Self.fields(limit, entry, load, at: now)
                sheet.add(limit.level, "limit.reached", at: now, entry.places, text, fields)
                entry.total += entry.waited(at: now)
                (entry.waited, entry.count, entry.writtenAt) = (.zero, 0, now)
                if entry.reachedAt != nil { entry.reachedAt = now }
                entry.pace.wrote(at: now)
            }
            if limit == .retryBudget {
                entry.writtenAt = nil
            } else if entry.writtenAt != nil, entry.reachedAt == nil, now >= entry.clearedAt.advanced(by: Self.calm) {
                let text =
                    "requests no longer wait \(limit.reason); they waited for \(Quantity.time(entry.total + entry.waited))"
                    + " in all"
                sheet.add(
                    .info,
                    "limit.cleared",
                    at: entry.clearedAt,
                    entry.places,
                    text,
                    [("limit", .text(limit.rawValue))]
                )
                entry.places = LogPlaces()
                (entry.waited, entry.total, entry.count, entry.writtenAt) = (.zero, .zero, 0, nil)
            }
            entries[limit] = entry
        }
    }

    private static func text(
        _ limit: ClientEvent.Limit,
        _ entry: Entry,
        _ load: ClientLoad?,
        at now: Instant
    ) -> String {
        if limit == .retryBudget {
            let time = now.since(entry.firstAt)
            let span = time >= .seconds(1) ? " in \(Quantity.time(time))" : ""
            let requests = Quantity.count(entry.count, "failed request was", "failed requests were")
            return "\(requests) not sent again\(span): the retry budget (requests.retryBudget) is exhausted"
        }
        let waited = Quantity.time(entry.waited(at: now))
        let span = entry.writtenAt.map { "\(waited) of the last \(Quantity.time(now.since($0)))" } ?? waited
        let what = limit == .streamBuffer ? "the client has not read from its link" : "requests have waited"
        var text = "\(what) for \(span) \(limit.reason)"
        guard limit != .streamBuffer, let load else { return text }
        let oldest = load.oldest.map { ", the oldest for \($0.text)" } ?? ""
        text += "; \(Quantity.grouped(load.inFlight)) in flight\(oldest); \(Quantity.grouped(load.abandoned)) abandoned"
        text += " (timed out or cancelled, and not answered yet); \(Quantity.grouped(load.waiting)) waiting"
        guard let silence = load.silence else { return text }
        if silence < .seconds(2) {
            return text + "; the link works, its latest frame came \(silence.text) ago: the server answers more slowly"
                + " than requests are made"
        }
        return text
            + "; no frame has come on the link for \(silence.text): the server has stopped answering, or takes that"
            + " long for its answers"
    }

    private static func fields(
        _ limit: ClientEvent.Limit,
        _ entry: Entry,
        _ load: ClientLoad?,
        at now: Instant
    ) -> LogSheet.Fields {
        var fields: LogSheet.Fields = [("limit", .text(limit.rawValue)), ("times", .integer(Int64(entry.count)))]
        if limit != .retryBudget { fields.append(("waited", .seconds(entry.waited(at: now).inSeconds))) }
        guard let load, limit != .retryBudget, limit != .streamBuffer else { return fields }
        fields += [
            ("in_flight", .integer(Int64(load.inFlight))), ("abandoned", .integer(Int64(load.abandoned))),
            ("waiting", .integer(Int64(load.waiting))),
        ]
        if let oldest = load.oldest { fields.append(("oldest", .seconds(oldest.inSeconds))) }
        if let silence = load.silence { fields.append(("silence", .seconds(silence.inSeconds))) }
        return fields
    }
}

extension ClientEvent.Limit {
    fileprivate var level: LogRecord.Level {
        switch self {
        case .streamBuffer, .highWatermark, .datagramWindow: .info
        case .maximumInFlight, .serials, .retryBudget: .warning
        }
    }

    fileprivate var reason: String {
        switch self {
        case .maximumInFlight: "because requests.maximumInFlight is reached"
        case .datagramWindow: "because as many requests are unanswered as requests.datagramWindow allows now"
        case .serials: "because all serial numbers of the link are in use"
        case .highWatermark:
            "because outbound.highWatermark is reached: more is sent than the network or the server takes"
        case .streamBuffer: "because the buffer of a stream is full: its reader is slower than the server sends"
        case .retryBudget: "because the retry budget is exhausted"
        }
    }
}
