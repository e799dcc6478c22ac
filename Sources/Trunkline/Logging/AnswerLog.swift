/// The lines about what the server answered: error responses, responses that no request was waiting for, and responses
/// that their callers could not decode. The first at once, summaries of what follows.
struct AnswerLog: Sendable {
    /// A kind of line: what was counted since the latest one.
    private struct Topic: Sendable {
        var pace: LogPace
        /// By kind, at most `maximumKinds` of them.
        var kinds: [String: Int] = [:]
        var count = 0
        /// The latest one, as an example.
        var latest = ""
        /// When the latest line was written, and the number of responses at that time.
        var written: (at: Instant?, responses: Int) = (nil, 0)

        init(every interval: Duration) { pace = LogPace(from: interval) }

        mutating func note(_ kind: String, _ latest: @autoclosure () -> String = "") {
            count += 1
            kinds[kinds[kind] != nil || kinds.count < AnswerLog.maximumKinds ? kind : "others", default: 0] += 1
            self.latest = latest()
        }

        func isDue(at now: Instant) -> Bool { count > 0 && pace.isDue(at: now) }

        /// When the next line is due; `nil` if there is nothing to say.
        var next: Instant? { count > 0 ? pace.next : nil }

        /// ` in 30 s`: the time since the line before.
        func span(_ now: Instant) -> String { written.at.map { " in \(LogText.time(now.since($0)))" } ?? "" }

        mutating func wrote(at now: Instant, responses: Int) {
            (kinds, count, latest) = ([:], 0, "")
            pace.wrote(at: now)
            written = (now, responses)
        }
    }

    private var rejected: Topic
    private var unknown: Topic
    private var undecodable: Topic

    /// The number of kinds that are counted apart.
    private static let maximumKinds = 16
    /// The share of all answers from which on a few of them are a warning, and the number from which on that holds.
    private static let (unusualShare, fewest) = (0.01, 5)

    init(every interval: Duration) {
        (rejected, unknown) = (Topic(every: interval), Topic(every: interval))
        undecodable = Topic(every: interval)
    }

    // MARK: Noting

    mutating func rejected(type: UInt32, status: UInt32) {
        rejected.note("of type 0x\(String(type, radix: 16)) with status \(status)")
    }

    mutating func unknown(_ serial: SerialNumber, type: UInt32, _ session: SessionID) {
        unknown.note("of type 0x\(String(type, radix: 16))", "serial \(serial) on session \(session)")
    }

    mutating func undecodable(_ error: ClientError) {
        undecodable.note("\(error.code)", LogText.of(error))
    }

    // MARK: Writing

    /// Whether the next `flush` at `now` needs the number of responses.
    func isDue(at now: Instant) -> Bool {
        rejected.isDue(at: now) || unknown.isDue(at: now) || undecodable.isDue(at: now)
    }

    /// When to call `flush` next; `nil` if there is nothing left to say.
    var nextFlush: Instant? { [rejected.next, unknown.next, undecodable.next].compactMap { $0 }.min() }

    /// - Parameter responses: The number of responses to requests since the client was created, error responses included.
    mutating func flush(at now: Instant, responses: Int, isLast: Bool = false, into sheet: inout LogSheet) {
        if rejected.isDue(at: now) || isLast && rejected.count > 0 {
            let all = max(responses - rejected.written.responses, rejected.count)
            // Some error responses are part of the work. If there is nothing else, the service does not work.
            let level: LogRecord.Level = rejected.count >= Self.fewest && rejected.count * 2 >= all ? .warning : .info
            let share = rejected.count == all ? (all == 1 ? "" : "all ") : "\(LogText.grouped(rejected.count)) of "
            let text =
                "the server answered \(share)\(LogText.count(all, "request")) with an error\(rejected.span(now)):"
                + " \(LogText.list(rejected.kinds))"
            sheet.addOfLink(level, "requests.rejected", at: now, text, Self.fields(rejected, all))
            rejected.wrote(at: now, responses: responses)
        }
        if unknown.isDue(at: now) || isLast && unknown.count > 0 {
            let text =
                "\(LogText.count(unknown.count, "response")) came\(unknown.span(now)) that no request was waiting for"
                + " (\(LogText.list(unknown.kinds))); the latest: \(unknown.latest). The server answers twice, or with"
                + " a wrong serial number"
            let all = max(responses - unknown.written.responses, 0) + unknown.count
            let level = Self.level(unknown.count, of: all)
            sheet.addOfLink(level, "responses.unknown", at: now, text, Self.fields(unknown, all))
            unknown.wrote(at: now, responses: responses)
        }
        if undecodable.isDue(at: now) || isLast && undecodable.count > 0 {
            let text =
                "\(LogText.count(undecodable.count, "response")) could not be decoded by the caller\(undecodable.span(now)):"
                + " \(LogText.list(undecodable.kinds)); the latest: \(undecodable.latest)"
            let all = max(responses - undecodable.written.responses, undecodable.count)
            sheet.addOfLink(.warning, "responses.undecodable", at: now, text, Self.fields(undecodable, all))
            undecodable.wrote(at: now, responses: responses)
        }
    }

    private static func level(_ count: Int, of all: Int) -> LogRecord.Level {
        count >= fewest && Double(count) >= unusualShare * Double(all) ? .warning : .info
    }

    private static func fields(_ topic: Topic, _ all: Int) -> LogSheet.Fields {
        [("count", .integer(Int64(topic.count))), ("responses", .integer(Int64(all)))]
    }
}
