package import TrunklineCore

/// The lines about failed and refused requests, dropped pushes, and requests of the server that were not served.
package struct RequestLog: Sendable {
    private struct Counts: Sendable {
        var failed: [ClientMetrics.Failure: Int] = [:]
        var refused: [ClientError.Code: Int] = [:]
        var latest: (id: RequestID?, error: ClientError, at: Instant)?
        var places = LogPlaces()

        var number: Int { failed.values.reduce(0, +) + refused.values.reduce(0, +) }
    }

    private var counts = Counts()
    private var dropped: [String: Int] = [:]
    private var placesOfDrops = LogPlaces()
    private var unserved: [String: Int] = [:]
    private var placesOfUnserved = LogPlaces()
    private var failurePace: LogPace
    private var dropPace: LogPace
    private var unservedPace: LogPace
    private var (failuresWritten, dropsWritten): (Instant?, Instant?) = (nil, nil)
    private var unservedWritten: Instant?

    package init(every interval: Duration) {
        (failurePace, dropPace) = (LogPace(from: interval), LogPace(from: interval))
        unservedPace = LogPace(from: interval)
    }

    /// Cancellation by the caller is no failure.
    package mutating func failed(_ id: RequestID?, _ error: ClientError, at endpoint: Endpoint?, _ now: Instant) {
        guard error.code != .cancelled else { return }
        counts.failed[ClientMetrics.Failure(error.code, error.fate), default: 0] += 1
        counts.latest = (id, error, now)
        counts.places.note(endpoint)
    }

    mutating func refused(_ error: ClientError, at endpoint: Endpoint?, _ now: Instant) {
        counts.refused[error.code, default: 0] += 1
        counts.latest = (nil, error, now)
        counts.places.note(endpoint)
    }

    mutating func dropped(_ count: Int, by stream: String, at endpoint: Endpoint?) {
        dropped[stream, default: 0].addClamped(count)
        placesOfDrops.note(endpoint)
    }

    mutating func unserved(_ count: Int, _ reason: String, at endpoint: Endpoint?) {
        unserved[reason, default: 0].addClamped(count)
        placesOfUnserved.note(endpoint)
    }

    package var nextFlush: Instant? {
        var due: [Instant] = []
        if counts.latest != nil { due.append(failurePace.next) }
        if !dropped.isEmpty { due.append(dropPace.next) }
        if !unserved.isEmpty { due.append(unservedPace.next) }
        return due.min()
    }

    package mutating func flush(at now: Instant, isLast: Bool = false, into sheet: inout LogSheet) {
        if let latest = counts.latest, failurePace.isDue(at: now) || isLast {
            let fields = failureFields(latest.error)
            // The text of the latest error may name its endpoint.
            let places = latest.error.endpoint == nil ? counts.places : LogPlaces()
            // One that was held back has the time at which it failed.
            let time = counts.number == 1 ? latest.at : now
            sheet.add(.warning, "requests.failed", at: time, places, failureText(latest, at: now), fields)
            counts = Counts()
            failurePace.wrote(at: now)
            failuresWritten = now
        }
        if !dropped.isEmpty, dropPace.isDue(at: now) || isLast {
            let count = dropped.values.reduce(0) { $0.addingClamped($1) }
            let text =
                "\(Quantity.count(count, "push was", "pushes were")) dropped\(Self.span(dropsWritten, now)): the buffer of"
                + " a push stream was full, because its reader is slower than the pushes come; by what the stream"
                + " receives: \(LogText.list(dropped))"
            let streams = dropped.keys.sorted().joined(separator: ", ")
            let fields: LogSheet.Fields = [("count", .integer(Int64(count))), ("streams", .text(streams))]
            sheet.add(.warning, "pushes.dropped", at: now, placesOfDrops, text, fields)
            (dropped, placesOfDrops) = ([:], LogPlaces())
            dropPace.wrote(at: now)
            dropsWritten = now
        }
        if !unserved.isEmpty, unservedPace.isDue(at: now) || isLast {
            let count = unserved.values.reduce(0) { $0.addingClamped($1) }
            let text =
                "\(Quantity.count(count, "request")) of the server not served\(Self.span(unservedWritten, now)):"
                + " \(LogText.list(unserved))"
            let fields: LogSheet.Fields = [
                ("count", .integer(Int64(count))),
                ("reasons", .text(unserved.keys.sorted().joined(separator: ", "))),
            ]
            sheet.add(.warning, "server_requests.unserved", at: now, placesOfUnserved, text, fields)
            (unserved, placesOfUnserved) = ([:], LogPlaces())
            unservedPace.wrote(at: now)
            unservedWritten = now
        }
    }

    private static func span(_ written: Instant?, _ now: Instant) -> String {
        written.map { " in \(Quantity.time(now.since($0)))" } ?? ""
    }

    private func failureText(_ latest: (id: RequestID?, error: ClientError, at: Instant), at now: Instant) -> String {
        let failed = counts.failed.values.reduce(0, +)
        let refused = counts.refused.values.reduce(0, +)
        let type = latest.error.timeline.map { " of type 0x\(String($0.type, radix: 16))" } ?? ""
        let name = latest.error.requestName.map { " (\($0))" }
        let request = latest.id.map { "request \($0)\(name ?? type)" } ?? "a request\(name ?? "")"
        let error = ErrorText.of(latest.error.unnamed)
        if counts.number == 1 {
            return "\(request) \(failed == 1 ? "failed" : "was not accepted"): \(error)"
        }
        var parts: [String] = []
        let span = Self.span(failuresWritten, now)
        if failed > 0 {
            parts.append("\(Quantity.count(failed, "request")) failed\(span): \(LogText.list(counts.failed.texts))")
        }
        if refused > 0 {
            let list = LogText.list(counts.refused.texts)
            parts.append("\(Quantity.count(refused, "request was", "requests were")) not accepted\(span): \(list)")
        }
        parts.append("\(LogText.latest(latest.at, at: now)): \(request): \(error)")
        return parts.joined(separator: "; ")
    }

    private func failureFields(_ latest: ClientError) -> LogSheet.Fields {
        [
            ("failed", .integer(Int64(counts.failed.values.reduce(0, +)))),
            ("refused", .integer(Int64(counts.refused.values.reduce(0, +)))),
            ("code", .text("\(latest.code)")), ("fate", .text("\(latest.fate)")),
        ] + (latest.endpoint.map { [("endpoint", .text("\($0)"))] } ?? [])
            + (latest.requestName.map { [("name", .text($0))] } ?? [])
    }
}

extension [ClientMetrics.Failure: Int] {
    package var texts: [String: Int] { Dictionary<String, Int>(map { ("\($0.key)", $0.value) }) { $0 + $1 } }
}

extension [ClientError.Code: Int] {
    fileprivate var texts: [String: Int] { Dictionary<String, Int>(map { ("\($0.key)", $0.value) }) { $0 + $1 } }
}
