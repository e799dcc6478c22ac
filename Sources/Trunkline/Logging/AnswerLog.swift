/// The lines about what the server answered: error responses, responses that no request was waiting for, and responses
/// that their callers could not decode, and datagrams that were none. The first at once, summaries of what follows.
struct AnswerLog: Sendable {
    /// What is counted apart.
    private enum Kind: Hashable, Sendable {
        case rejected(Request, status: UInt32, reason: String?)
        case invalid(Request, ClientError.Code)
        case unknown(type: UInt32)
        case undecodable(ClientError.Code)
        case dropped(FrameError.Code)
        /// All others, once there are many kinds.
        case others

        /// The name of a request, or its type.
        struct Request: Hashable, Sendable {
            let type: UInt32
            let name: String?

            var text: String { name ?? "type 0x\(String(type, radix: 16))" }
        }

        var text: String {
            switch self {
            case .rejected(let request, let status, nil): "of \(request.text) with status \(status)"
            case .rejected(let request, let status, let reason?):
                "of \(request.text) with \(status == 0 ? "" : "status \(status), ")\(reason)"
            case .invalid(let request, .overloaded): "to \(request.text), beyond a limit"
            case .invalid(let request, _): "to \(request.text), malformed"
            case .unknown(let type): "of type 0x\(String(type, radix: 16))"
            case .undecodable(let code): "\(code)"
            case .dropped(let code): "\(code)"
            case .others: "others"
            }
        }
    }

    /// A kind of line: what was counted since the latest one.
    private struct Topic: Sendable {
        var pace: LogPace
        /// By kind, at most `maximumKinds` of them.
        var kinds: [Kind: Int] = [:]
        var count = 0
        var places = LogPlaces()
        /// When the latest line was written, and the number of responses at that time.
        var written: (at: Instant?, responses: Int) = (nil, 0)

        init(every interval: Duration) { pace = LogPace(from: interval) }

        mutating func note(_ kind: Kind, _ number: Int = 1, at endpoint: Endpoint?) {
            count += number
            kinds[kinds[kind] != nil || kinds.count < AnswerLog.maximumKinds ? kind : .others, default: 0] += number
            places.note(endpoint)
        }

        func isDue(at now: Instant) -> Bool { count > 0 && pace.isDue(at: now) }

        /// When the next line is due; `nil` if there is nothing to say.
        var next: Instant? { count > 0 ? pace.next : nil }

        /// ` in 30 s`: the time since the line before.
        func span(_ now: Instant) -> String { written.at.map { " in \(LogText.time(now.since($0)))" } ?? "" }

        var list: String { LogText.list(Dictionary(kinds.map { ($0.key.text, $0.value) }) { $0 + $1 }) }

        mutating func wrote(at now: Instant, responses: Int?) {
            (kinds, count, places) = ([:], 0, LogPlaces())
            pace.wrote(at: now)
            written = (now, responses ?? written.responses)
        }
    }

    private var rejected: Topic
    private var invalid: Topic
    private var unknown: Topic
    private var undecodable: Topic
    private var dropped: Topic
    /// The latest response of each topic, as an example.
    private var latestReason: ServerReason?
    private var latestInvalid: ClientError?
    private var latestUnknown: (serial: SerialNumber, session: SessionID)?
    private var latestUndecodable: ClientError?
    private var latestDropped: FrameError?

    /// The number of kinds that are counted apart.
    private static let maximumKinds = 16
    /// The share of all answers from which on a few of them are a warning, and the number from which on that holds.
    private static let (unusualShare, fewest) = (0.01, 5)

    init(every interval: Duration) {
        (rejected, unknown) = (Topic(every: interval), Topic(every: interval))
        (undecodable, dropped) = (Topic(every: interval), Topic(every: interval))
        invalid = Topic(every: interval)
    }

    // MARK: Noting

    mutating func rejected(
        type: UInt32,
        _ name: String?,
        status: UInt32,
        _ reason: ServerReason?,
        at endpoint: Endpoint?
    ) {
        let request = Kind.Request(type: type, name: name)
        rejected.note(.rejected(request, status: status, reason: reason?.label), at: endpoint)
        latestReason = reason
    }

    mutating func invalid(type: UInt32, _ error: ClientError, at endpoint: Endpoint?) {
        invalid.note(.invalid(Kind.Request(type: type, name: error.requestName), error.code), at: endpoint)
        latestInvalid = error.unnamed
    }

    mutating func unknown(_ serial: SerialNumber, type: UInt32, _ session: SessionID, at endpoint: Endpoint?) {
        unknown.note(.unknown(type: type), at: endpoint)
        latestUnknown = (serial, session)
    }

    mutating func undecodable(_ error: ClientError, at endpoint: Endpoint?) {
        undecodable.note(.undecodable(error.code), at: endpoint)
        latestUndecodable = error
    }

    mutating func dropped(_ count: Int, _ reason: FrameError, at endpoint: Endpoint?) {
        dropped.note(.dropped(reason.code), count, at: endpoint)
        latestDropped = reason
    }

    // MARK: Writing

    /// Whether the next `flush` at `now` needs the number of responses.
    func isDue(at now: Instant) -> Bool {
        rejected.isDue(at: now) || invalid.isDue(at: now) || unknown.isDue(at: now) || undecodable.isDue(at: now)
            || dropped.isDue(at: now)
    }

    /// When to call `flush` next; `nil` if there is nothing left to say.
    var nextFlush: Instant? {
        [rejected.next, invalid.next, unknown.next, undecodable.next, dropped.next].compactMap { $0 }.min()
    }

    /// - Parameter responses: The number of responses to requests since the client was created, error responses included;
    ///   `nil` if it is not known.
    mutating func flush(at now: Instant, responses: Int?, isLast: Bool = false, into sheet: inout LogSheet) {
        func write(
            _ topic: inout Topic,
            _ event: String,
            _ line: (Topic, _ all: Int?) -> (level: LogRecord.Level, text: String),
            counting extra: Int = 0
        ) {
            guard topic.isDue(at: now) || isLast && topic.count > 0 else { return }
            let all = responses.map { max($0 - topic.written.responses + extra, topic.count) }
            let (level, text) = line(topic, all)
            let fields: LogSheet.Fields =
                [("count", .integer(Int64(topic.count)))] + (all.map { [("responses", .integer(Int64($0)))] } ?? [])
            sheet.add(level, event, at: now, topic.places, text, fields)
            topic.wrote(at: now, responses: responses)
        }
        let latest = latestReason.map { $0.text.isEmpty ? "" : "; the latest: \($0)" } ?? ""
        write(&rejected, "requests.rejected") { topic, all in
            guard let all else {
                let requests = LogText.count(topic.count, "request")
                return (.info, "the server answered \(requests) with an error: \(topic.list)\(latest)")
            }
            // Some error responses are part of the work. If there is nothing else, the service does not work.
            let level: LogRecord.Level = topic.count >= Self.fewest && topic.count * 2 >= all ? .warning : .info
            let share = topic.count == all ? (all == 1 ? "" : "all ") : "\(LogText.grouped(topic.count)) of "
            let requests = LogText.count(all, "request")
            return (
                level, "the server answered \(share)\(requests) with an error\(topic.span(now)): \(topic.list)\(latest)"
            )
        }
        let (latestInvalid, latestUnknown, latestUndecodable) = (latestInvalid, latestUnknown, latestUndecodable)
        write(&invalid, "responses.invalid") { topic, _ in
            let count = LogText.count(topic.count, "response")
            let latest = latestInvalid.map { LogText.of($0) } ?? ""
            let text =
                "\(count) could not be handed to the caller\(topic.span(now)): \(topic.list); the latest: \(latest)"
            return (.warning, text)
        }
        // Unknown responses are not among the responses to requests.
        write(
            &unknown,
            "responses.unknown",
            { topic, all in
                let isUnusual =
                    topic.count >= Self.fewest
                    && all.map { Double(topic.count) >= Self.unusualShare * Double($0) } ?? false
                let latest = latestUnknown.map { "serial \($0.serial) on session \($0.session)" } ?? ""
                let count = LogText.count(topic.count, "response")
                let text =
                    "\(count) came\(topic.span(now)) that no request was waiting for (\(topic.list));"
                    + " the latest: \(latest). The server answers twice, or with a wrong serial number"
                return (isUnusual ? .warning : .info, text)
            },
            counting: unknown.count
        )
        write(&undecodable, "responses.undecodable") { topic, _ in
            let count = LogText.count(topic.count, "response")
            let latest = latestUndecodable.map { LogText.of($0) } ?? ""
            let text =
                "\(count) could not be decoded by the caller\(topic.span(now)): \(topic.list); the latest: \(latest)"
            return (.warning, text)
        }
        let latestDropped = latestDropped.map { "\($0)" } ?? ""
        write(&dropped, "datagrams.dropped") { topic, _ in
            let count = LogText.count(topic.count, "datagram")
            let text =
                "\(count) from the server\(topic.span(now)) were no complete frames and were dropped; the latest:"
                + " \(latestDropped). The server speaks another protocol, or sends several frames or a part of one"
            return (.warning, text)
        }
    }
}
