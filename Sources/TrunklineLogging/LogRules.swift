import TrunklineCore

/// Turns the events of a client into records. A pure value; the time is a parameter.
///
/// Call `note` for each event, and `flush` after those of one step of the event loop, so that one line can say what an
/// event has led to. Then take the records, and call `flush` again at `nextFlush`.
struct LogRules: Sendable {
    private var sheet: LogSheet
    private var links: LinkLog
    private var output = OutputLog()
    private var limits: LimitLog
    private var requests: RequestLog
    private var answers: AnswerLog
    private var loop: LoopLog
    private var certificates: CertificateLog
    private let isOfCluster: Bool
    private let createdAt: Instant
    /// Of the latest link; before the first one the only endpoint, or `nil`.
    private var endpoint: Endpoint?
    private var endpoints: [(session: SessionID, endpoint: Endpoint)] = []
    private var isClosed = false

    init(_ logging: ClientLogging, of endpoints: [Endpoint], at now: Instant) {
        sheet = LogSheet(logging.level, client: logging.name)
        links = LinkLog()
        limits = LimitLog(every: logging.summaryInterval)
        requests = RequestLog(every: logging.summaryInterval)
        answers = AnswerLog(every: logging.summaryInterval)
        loop = LoopLog(every: logging.summaryInterval)
        certificates = CertificateLog(logging)
        isOfCluster = logging.isOfCluster
        createdAt = now
        endpoint = endpoints.count == 1 ? endpoints.first : nil
        let list = Self.list(endpoints)
        sheet.add(.info, "client.created", at: now, "created for \(list)", [("endpoints", .text(list))])
    }

    private static func list(_ endpoints: [Endpoint]) -> String {
        let first = endpoints.prefix(8).map(\.description).joined(separator: ", ")
        return endpoints.isEmpty ? "no endpoint" : first + (endpoints.count > 8 ? ", … (\(endpoints.count))" : "")
    }

    func needsLoad(at now: Instant) -> Bool { limits.isDue(at: now) || answers.isDue(at: now) }

    mutating func note(_ event: ClientEvent) {
        // What a process says while it ends comes after everything else.
        if case .processOutput(let endpoint, _, let line, let omitted) = event.content {
            guard output.isNew(line, isInTrouble: links.isInTrouble(at: event.instant)) || sheet.level == .debug else {
                links.omittedLines = links.omittedLines.addingClamped(omitted).addingClamped(1)
                return
            }
            let before = omitted == 0 ? "" : "\(Quantity.count(omitted, "line")) left out; "
            let text = "\(endpoint) wrote to standard error: \(before)\(line)"
            return sheet.add(.info, event.name, at: event.instant, text, event.fields)
        }
        if isClosed { return }
        if sheet.level == .debug { noteSingle(event) }
        switch event.content {
        case .requestFailed(let id, let error, _): requests.failed(id, error, at: endpoint, event.instant)
        case .requestRefused(let error): requests.refused(error, at: endpoint, event.instant)
        case .requestRejected(_, let type, let status, let reason, let name):
            answers.rejected(type: type, name, status: status, reason, at: endpoint, event.instant)
        case .responseInvalid(_, let type, let error): answers.invalid(type: type, error, at: endpoint, event.instant)
        case .unknownResponse(let serial, let type, let session, let reason, let namesNoRequest):
            answers.unknown(
                serial,
                type: type,
                session,
                reason,
                namesNoRequest: namesNoRequest,
                at: endpoints.last { $0.session == session }?.endpoint ?? endpoint,
                event.instant
            )
        case .responseUndecodable(let error): answers.undecodable(error, at: endpoint, event.instant)
        case .datagramsDropped(let count, let endpoint, let reason):
            answers.dropped(count, reason, at: endpoint, event.instant)
        case .attemptPlanned(let endpoint): links.nextEndpoint = endpoint
        case .linkReady(let link):
            links.upcoming = link
            endpoint = link.endpoint
            if endpoints.count == 4 { endpoints.removeFirst() }
            endpoints.append((link.session, link.endpoint))
        case .loopLate(let delay) where isOfCluster:
            var record = sheet.record(.warning, event.name, at: event.instant, "\(delay)", event.fields)
            record.loopDelay = delay
            sheet.add(record)
        case .loopLate(let delay): loop.late(delay)
        case .certificateSeen(let endpoint, let certificate, let left):
            certificates.seen(certificate, of: endpoint, timeLeft: left, at: event.instant)
        case .addressFailed(let endpoint, let address, let error, let other):
            // An address that is refused or not routed is often one of the family that is not in use.
            let level: LogRecord.Level
            switch error.code {
            case .refused, .unreachable, .invalidAddress, .proxy(.unreachable): level = .info
            default: level = .warning
            }
            let text =
                "\(endpoint): the address \(address) cannot be used (\(ErrorText.of(error))); \(other) is used, and"
                + " \(address) is tried last for \(Quantity.time(DialMemory.longestSilence))"
            sheet.add(level, event.name, at: event.instant, text, event.fields)
        case .heartbeatIntervalChanged(let learned):
            let level: LogRecord.Level = learned.change == .lostAtMinimum ? .warning : .info
            sheet.add(level, event.name, at: event.instant, learned.logText, event.fields)
        case .tlsFilesChanged:
            let text = "a certificate or key file of options.tls has changed: the next link is established with it"
            sheet.add(.info, "tls.files_changed", at: event.instant, LogPlaces(endpoint), text)
        case .clientClosed(let metrics): close(metrics, at: event.instant)
        case .clientDeallocated(let pending): deallocate(pending: pending, at: event.instant)
        case .stateChanged(let state): links.changed(to: state, at: event.instant)
        case .linkDraining(let endpoint, let session, let cause, let reason):
            links.drains(endpoint, session, cause, reason, at: event.instant)
        case .linkEnded(let report): links.ended(report, at: event.instant)
        case .limitReached(let limit): limits.reached(limit, at: event.instant, endpoint)
        case .limitCleared(let limit): limits.cleared(limit, at: event.instant)
        case .pushesDropped(let count, let stream): requests.dropped(count, by: stream, at: endpoint)
        case .serverRequestsRefused(let count, let reason): requests.unserved(count, reason.rawValue, at: endpoint)
        case .serverRequestsDropped(let count): requests.unserved(count, "dropped", at: endpoint)
        case .endpointsChanged(let endpoints):
            let list = Self.list(endpoints)
            let message = "the list of endpoints is now \(list)"
            sheet.add(.info, "endpoints.changed", at: event.instant, message, [("endpoints", .text(list))])
        case .requestsAccepted, .requestWaiting, .requestAdmitted, .requestsWritten, .requestFirstPart,
            .requestsAnswered, .messageWritten, .requestRetrying, .lateResponse, .clusterChanged, .processOutput:
            break
        }
    }

    private mutating func noteSingle(_ event: ClientEvent) {
        switch event.content {
        // Each is a record of its own.
        case .tlsFilesChanged, .heartbeatIntervalChanged, .clientClosed, .clientDeallocated: return
        default: break
        }
        var fields = event.fields.filter { $0.name != "cause" || event.kind != .requests }
        fields.removeAll { $0.name == "error" }
        switch event.content {
        case .requestFailed(_, let error, _), .requestRefused(let error):
            fields.append(("error", .text(ErrorText.of(error))))
        case .linkEnded(let report):
            if let error = report.error { fields.append(("error", .text(ErrorText.of(error)))) }
        default: break
        }
        let message = fields.map { "\($0.name)=\($0.value)" }.joined(separator: " ")
        sheet.add(.debug, event.name, at: event.instant, message.isEmpty ? event.name : message, fields)
    }

    mutating func flush(at now: Instant, _ load: ClientLoad? = nil) {
        if isClosed { return }
        // First, because it may be why the others have something to say.
        loop.flush(at: now, into: &sheet)
        links.flush(at: now, into: &sheet)
        limits.flush(at: now, load, into: &sheet)
        requests.flush(at: now, into: &sheet)
        answers.flush(at: now, responses: load?.responses, into: &sheet)
        certificates.flush(at: now, into: &sheet)
    }

    var nextFlush: Instant? {
        if isClosed { return nil }
        let all = [
            loop.nextFlush, links.nextFlush, limits.nextFlush, requests.nextFlush, answers.nextFlush,
            certificates.nextFlush,
        ]
        return all.compactMap { $0 }.min()
    }

    mutating func takeRecords() -> [LogRecord] { sheet.takeAll() }

    private mutating func close(_ metrics: ClientMetrics, at now: Instant) {
        finish(at: now, responses: metrics.responses)
        let life = now.since(createdAt)
        sheet.add(.info, "client.closed", at: now, Self.summary(of: metrics, life), Self.fields(of: metrics, life))
    }

    private mutating func deallocate(pending: Int, at now: Instant) {
        finish(at: now, responses: nil)
        let lost = pending == 0 ? "" : "; \(Quantity.count(pending, "request")) had not ended"
        let message = "the client was deallocated without close() after \(Quantity.time(now.since(createdAt)))\(lost)"
        sheet.add(.warning, "client.deallocated", at: now, message, [("pending", .integer(Int64(pending)))])
    }

    private mutating func finish(at now: Instant, responses: Int?) {
        loop.flush(at: now, isLast: true, into: &sheet)
        links.flush(at: now, isLast: true, into: &sheet)
        limits.flush(at: now, nil, isLast: true, into: &sheet)
        requests.flush(at: now, isLast: true, into: &sheet)
        answers.flush(at: now, responses: responses, isLast: true, into: &sheet)
        isClosed = true
    }

    private static func summary(of metrics: ClientMetrics, _ life: Duration) -> String {
        var ends = ["\(Quantity.grouped(metrics.responses)) answered"]
        if metrics.written > 0 { ends.append("\(Quantity.grouped(metrics.written)) one-way messages written") }
        if metrics.failed > 0 { ends.append("\(Quantity.grouped(metrics.failed)) failed") }
        var parts = ["\(Quantity.count(metrics.requests, "request")): \(ends.joined(separator: ", "))"]
        if !metrics.failures.isEmpty {
            parts.append("errors: " + LogText.list(metrics.failures.texts))
        }
        let refused = metrics.refusals.values.reduce(0, +)
        if refused > 0 { parts.append("\(Quantity.count(refused, "request")) not accepted") }
        if let median = metrics.callDurations.percentile(50), let slow = metrics.callDurations.percentile(99) {
            parts.append("p50 \(median.text), p99 \(slow.text)")
        }
        parts.append(Quantity.count(metrics.connection.links, "link"))
        let failedAttempts = metrics.connection.failedAttempts
        if failedAttempts > 0 { parts.append(Quantity.count(failedAttempts, "failed attempt")) }
        if metrics.pushesDropped > 0 {
            parts.append(Quantity.count(metrics.pushesDropped, "dropped push", "dropped pushes"))
        }
        if metrics.serving.received > 0 {
            let served = "\(Quantity.grouped(metrics.serving.answered)) answered"
            parts.append("\(Quantity.count(metrics.serving.received, "request")) of the server: \(served)")
        }
        let disconnects = metrics.connection.disconnects.filter { $0.key != .closedLocally }
        if !disconnects.isEmpty {
            let causes = Dictionary<String, Int>(disconnects.map { ($0.key.rawValue, $0.value) }) { $0 + $1 }
            parts.append("ends of links and attempts: \(LogText.list(causes))")
        }
        return "closed after \(Quantity.time(life)); \(parts.joined(separator: "; "))"
    }

    private static func fields(of metrics: ClientMetrics, _ life: Duration) -> LogSheet.Fields {
        func number(_ value: Int) -> ClientEvent.Value { .integer(Int64(value)) }
        return [
            ("lifetime", .seconds(life.inSeconds)), ("requests", number(metrics.requests)),
            ("responses", number(metrics.responses)), ("written", number(metrics.written)),
            ("failed", number(metrics.failed)), ("refused", number(metrics.refusals.values.reduce(0, +))),
            ("retries", number(metrics.retries)), ("links", number(metrics.connection.links)),
            ("failed_attempts", number(metrics.connection.failedAttempts)), ("pushes", number(metrics.pushes)),
            ("pushes_dropped", number(metrics.pushesDropped)), ("served", number(metrics.serving.answered)),
        ]
    }
}

extension LearnedInterval {
    fileprivate var logText: String {
        let place = path == .unknown ? "\(endpoint)" : "\(endpoint) (\(path))"
        let now = "the interval of heartbeats to \(place) is now \(interval.text)"
        let cause =
            "a device on the path, such as a NAT gateway, a firewall or a load balancer, has probably forgotten it"
        switch change {
        case .started: return now
        case .grown: return "\(now): links have survived \((longestSurvived ?? interval).text) without traffic"
        case .shortened:
            guard let shortestLost else {
                return "\(now): a link was lost in silence that had not carried traffic for an interval that others"
                    + " have survived; if that happens again, \(cause)"
            }
            return "\(now): a link was lost in silence after at most \(shortestLost.text) without traffic; \(cause)."
                + " Such an interval is tried again in \(Quantity.time(AdaptiveInterval.memory))"
        case .lostAtMinimum:
            return
                "a link to \(place) was lost in silence after \(interval.text) without traffic, which is the shortest"
                + " allowed interval of heartbeats; \(cause); to do: lower the lower bound of"
                + " options.liveness.adaptiveInterval, or let that device keep idle connections for longer"
        case .relearning:
            return
                "\(now), and grows again: the latest link that was lost in silence, of an interval that was too long,"
                + " was \(Quantity.time(AdaptiveInterval.memory)) ago"
        }
    }
}
