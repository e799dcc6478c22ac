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
        func write(
            _ topic: inout Topic,
            _ event: String,
            _ line: (Topic, _ all: Int) -> (level: LogRecord.Level, text: String),
            counting extra: Int = 0
        ) {
            guard topic.isDue(at: now) || isLast && topic.count > 0 else { return }
            let all = max(responses - topic.written.responses + extra, topic.count)
            let (level, text) = line(topic, all)
            let fields: LogSheet.Fields = [
                ("count", .integer(Int64(topic.count))), ("responses", .integer(Int64(all))),
            ]
            sheet.addOfLink(level, event, at: now, text, fields)
            topic.wrote(at: now, responses: responses)
        }
        write(&rejected, "requests.rejected") { topic, all in
            // Some error responses are part of the work. If there is nothing else, the service does not work.
            let level: LogRecord.Level = topic.count >= Self.fewest && topic.count * 2 >= all ? .warning : .info
            let share = topic.count == all ? (all == 1 ? "" : "all ") : "\(LogText.grouped(topic.count)) of "
            let requests = LogText.count(all, "request")
            let kinds = LogText.list(topic.kinds)
            return (level, "the server answered \(share)\(requests) with an error\(topic.span(now)): \(kinds)")
        }
        // Unknown responses are not among the responses to requests.
        write(
            &unknown,
            "responses.unknown",
            { topic, all in
                let isUnusual = topic.count >= Self.fewest && Double(topic.count) >= Self.unusualShare * Double(all)
                let count = LogText.count(topic.count, "response")
                let text =
                    "\(count) came\(topic.span(now)) that no request was waiting for (\(LogText.list(topic.kinds)));"
                    + " the latest: \(topic.latest). The server answers twice, or with a wrong serial number"
                return (isUnusual ? .warning : .info, text)
            },
            counting: unknown.count
        )
        write(&undecodable, "responses.undecodable") { topic, _ in
            let (count, kinds) = (LogText.count(topic.count, "response"), LogText.list(topic.kinds))
            let text =
                "\(count) could not be decoded by the caller\(topic.span(now)): \(kinds); the latest: \(topic.latest)"
            return (.warning, text)
        }
    }
}
