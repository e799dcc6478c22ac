package import TrunklineCore

/// The lines about error responses and about responses and datagrams that no request could use.
package struct AnswerLog: Sendable {
    private enum Kind: Hashable, Sendable {
        case rejected(Request, status: UInt32, reason: String?)
        case invalid(Request, ClientError.Code)
        case unknown(type: UInt32)
        case stray(reason: String)
        case undecodable(ClientError.Code)
        case dropped(FrameError.Code)
        /// All others, once there are `maximumKinds`.
        case others

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
            case .stray(let reason): reason
            case .undecodable(let code): "\(code)"
            case .dropped(let code): "\(code)"
            case .others: "others"
            }
        }

        var isMismatch: Bool { [.dropped(.responseMismatch), .dropped(.unrelatedResponse)].contains(self) }
    }

    /// A kind of line: what was counted since the latest one.
    private struct Topic: Sendable {
        var pace: LogPace
        var kinds: [Kind: Int] = [:]
        var count = 0
        var places = LogPlaces()
        var latestAt: Instant?
        var written: (at: Instant?, responses: Int) = (nil, 0)

        init(every interval: Duration) { pace = LogPace(from: interval) }

        mutating func note(_ kind: Kind, _ number: Int = 1, at endpoint: Endpoint?, _ now: Instant) {
            latestAt = now
            count += number
            kinds[kinds[kind] != nil || kinds.count < AnswerLog.maximumKinds ? kind : .others, default: 0] += number
            places.note(endpoint)
        }

        func isDue(at now: Instant) -> Bool { count > 0 && pace.isDue(at: now) }

        var next: Instant? { count > 0 ? pace.next : nil }

        /// ` in 30 s`, since the line before.
        func span(_ now: Instant) -> String { written.at.map { " in \(Quantity.time(now.since($0)))" } ?? "" }

        func latest(_ now: Instant) -> String { LogText.latest(latestAt, at: now) }

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
    private var strays: Topic
    private var undecodable: Topic
    private var dropped: Topic
    private var latestReason: ServerReason?
    private var latestInvalid: ClientError?
    private var latestUnknown: (serial: SerialNumber, session: SessionID, reason: ServerReason?)?
    private var latestStray: ServerReason?
    private var latestUndecodable: ClientError?
    private var latestDropped: FrameError?

    private static let maximumKinds = 16
    /// A few unexpected responses are a warning from this share of all answers and this number on.
    private static let (unusualShare, fewest) = (0.01, 5)

    package init(every interval: Duration) {
        (rejected, unknown, strays) = (Topic(every: interval), Topic(every: interval), Topic(every: interval))
        (undecodable, dropped) = (Topic(every: interval), Topic(every: interval))
        invalid = Topic(every: interval)
    }

    mutating func rejected(
        type: UInt32,
        _ name: String?,
        status: UInt32,
        _ reason: ServerReason?,
        at endpoint: Endpoint?,
        _ now: Instant
    ) {
        let request = Kind.Request(type: type, name: name)
        rejected.note(.rejected(request, status: status, reason: reason?.label), at: endpoint, now)
        latestReason = reason
    }

    mutating func invalid(type: UInt32, _ error: ClientError, at endpoint: Endpoint?, _ now: Instant) {
        invalid.note(.invalid(Kind.Request(type: type, name: error.requestName), error.code), at: endpoint, now)
        latestInvalid = error.unnamed
    }

    mutating func unknown(
        _ serial: SerialNumber,
        type: UInt32,
        _ session: SessionID,
        _ reason: ServerReason?,
        namesNoRequest: Bool,
        at endpoint: Endpoint?,
        _ now: Instant
    ) {
        if namesNoRequest, let reason {
            strays.note(.stray(reason: reason.label), at: endpoint, now)
            latestStray = reason
        } else {
            unknown.note(.unknown(type: type), at: endpoint, now)
            latestUnknown = (serial, session, reason)
        }
    }

    package mutating func undecodable(_ error: ClientError, at endpoint: Endpoint?, _ now: Instant) {
        undecodable.note(.undecodable(error.code), at: endpoint, now)
        latestUndecodable = error
    }

    mutating func dropped(_ count: Int, _ reason: FrameError, at endpoint: Endpoint?, _ now: Instant) {
        dropped.note(.dropped(reason.code), count, at: endpoint, now)
        latestDropped = reason
    }

    func isDue(at now: Instant) -> Bool {
        rejected.isDue(at: now) || invalid.isDue(at: now) || unknown.isDue(at: now) || strays.isDue(at: now)
            || undecodable.isDue(at: now) || dropped.isDue(at: now)
    }

    package var nextFlush: Instant? {
        [rejected, invalid, unknown, strays, undecodable, dropped].compactMap(\.next).min()
    }

    /// `responses` counts responses since the client was created, error responses included; `nil` if unknown.
    package mutating func flush(at now: Instant, responses: Int?, isLast: Bool = false, into sheet: inout LogSheet) {
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
        let latestReason = latestReason
        write(&rejected, "requests.rejected") { topic, all in
            let latest = latestReason.map { $0.text.isEmpty ? "" : "; \(topic.latest(now)): \($0)" } ?? ""
            guard let all else {
                let requests = Quantity.count(topic.count, "request")
                return (.info, "the server answered \(requests) with an error: \(topic.list)\(latest)")
            }
            // Some error responses are part of the work. If there is nothing else, the service does not work.
            let level: LogRecord.Level = topic.count >= Self.fewest && topic.count * 2 >= all ? .warning : .info
            let share = topic.count == all ? (all == 1 ? "" : "all ") : "\(Quantity.grouped(topic.count)) of "
            let requests = Quantity.count(all, "request")
            return (
                level, "the server answered \(share)\(requests) with an error\(topic.span(now)): \(topic.list)\(latest)"
            )
        }
        let (latestInvalid, latestUnknown, latestUndecodable) = (latestInvalid, latestUnknown, latestUndecodable)
        write(&invalid, "responses.invalid") { topic, _ in
            let count = Quantity.count(topic.count, "response")
            let latest = latestInvalid.map { ErrorText.of($0) } ?? ""
            let text =
                "\(count) could not be handed to the caller\(topic.span(now)): \(topic.list);"
                + " \(topic.latest(now)): \(latest)"
            return (.warning, text)
        }
        // Unknown responses are not among the responses to requests.
        write(
            &unknown,
            "responses.unknown",
            { topic, all in
                let isUnusual = Self.isUnusual(topic.count, among: all)
                let latest =
                    latestUnknown.map { latest in
                        "serial \(latest.serial) on session \(latest.session)"
                            + (latest.reason.map { ", \($0)" } ?? "")
                    } ?? ""
                let count = Quantity.count(topic.count, "response")
                let text =
                    "\(count) came\(topic.span(now)) that no request was waiting for (\(topic.list));"
                    + " \(topic.latest(now)): \(latest). The server answers twice, or with a wrong serial number"
                return (isUnusual ? .warning : .info, text)
            },
            counting: unknown.count
        )
        let latestStray = latestStray.map { "\($0)" } ?? ""
        write(&strays, "responses.unknown") { topic, _ in
            let count = Quantity.count(topic.count, "error")
            let text =
                "the server reported \(count)\(topic.span(now)) that no request was waiting for (\(topic.list));"
                + " \(topic.latest(now)): \(latestStray). It may not have been able to read a request, which then gets no response"
            return (.warning, text)
        }
        write(&undecodable, "responses.undecodable") { topic, _ in
            let count = Quantity.count(topic.count, "response")
            let latest = latestUndecodable.map { ErrorText.of($0) } ?? ""
            let text =
                "\(count) could not be decoded by the caller\(topic.span(now)): \(topic.list); \(topic.latest(now)):"
                + " \(latest)"
            return (.warning, text)
        }
        let latestDropped = latestDropped.map { "\($0)" } ?? ""
        write(
            &dropped,
            "datagrams.dropped",
            { topic, all in
                let count = Quantity.count(
                    topic.count,
                    "datagram from the server was",
                    "datagrams from the server were"
                )
                let text = "\(count) dropped\(topic.span(now)): \(topic.list); \(topic.latest(now)): \(latestDropped)."
                guard topic.kinds.keys.allSatisfy(\.isMismatch) else {
                    let advice = " The server speaks another protocol, or sends several frames or a part of one"
                    return (.warning, text + advice)
                }
                let advice =
                    " They are no responses to the requests with their serials, which go on waiting: copies, late"
                    + " responses, or forgeries"
                return (Self.isUnusual(topic.count, among: all) ? .warning : .info, text + advice)
            },
            counting: dropped.count
        )
    }

    private static func isUnusual(_ count: Int, among all: Int?) -> Bool {
        count >= fewest && all.map { Double(count) >= unusualShare * Double($0) } ?? false
    }
}
