import TrunklineCore

/// The lines about links and attempts.
///
/// The first loss, failure of each kind, and recovery are written at once. They begin an episode, in which further ones
/// are summarised at intervals from 10 s to 10 min, until a link has lasted for a minute.
struct LinkLog: Sendable {
    typealias Ready = ClientEvent.ReadyLink

    private enum Note: Sendable {
        case ready(Ready)
        case trouble(Trouble)
    }

    fileprivate enum Trouble: Sendable {
        case ended(DisconnectReport)
        case drains(Endpoint, session: SessionID, DisconnectCause, reason: String?)
    }

    private struct Episode: Sendable {
        var pace = LogPace(from: .seconds(10))
        var kinds: Set<String> = []
        var unwritten = Counts()
        var writtenAt: Instant
        var recoveryWrittenAt: Instant?
    }

    fileprivate struct Counts: Sendable {
        var (failedAttempts, losses, drains, requestsLost, bytesUnsent) = (0, 0, 0, 0, 0)
        var causes: [String: Int] = [:]
        var latest: Trouble?
        var latestAt: Instant?
        var level = LogRecord.Level.info
        /// Outages that ended without a line, and their total duration.
        var (outages, outage) = (0, Duration.zero)

        var hasRecovered: Bool { outages > 0 }
        var isEmpty: Bool { latest == nil && !hasRecovered }
    }

    /// The planned changes that have no line yet.
    private struct Replacements: Sendable {
        var pace = LogPace(from: .seconds(10))
        var causes: [String: Int] = [:]
        var count = 0
        /// The line of the latest change, in case it is the only one.
        var latest: (text: String, fields: LogSheet.Fields, at: Instant)?
        var writtenAt = Instant.distantPast

        /// A shorter average lifetime is a problem of the server.
        static let unusualLifetime = Duration.seconds(60)
        static let fewestUnusual = 5
    }

    var upcoming: Ready?
    var nextEndpoint: Endpoint?
    /// `began` is the start of the first of the failed attempts.
    private var notes: [(note: Note, at: Instant, began: Instant?)] = []
    private var state = ConnectionState.idle
    private var stateAt = Instant.distantPast
    private var current: Ready?
    private var hadLink = false
    private var episode: Episode?
    private var replacements = Replacements()
    /// `nil` while there is a link, and before the first failure.
    private var withoutLinkSince: Instant?
    private var attemptingSince: Instant?
    private var failedAttempts = 0
    /// Lines that child processes wrote to standard error in this episode and that are not in the log.
    var omittedLines = 0

    private static let maximumKinds = 8
    private static let calm = Duration.seconds(60)

    mutating func changed(to state: ConnectionState, at now: Instant) {
        if case .ready(let endpoint, let session) = state {
            let plain = Ready(
                endpoint: endpoint,
                address: nil,
                session: session,
                attempt: 1,
                duration: .zero,
                tlsVersion: nil
            )
            let ready = upcoming?.session == session ? upcoming : nil
            notes.append((.ready(ready ?? plain), now, nil))
            upcoming = nil
        }
        if case .waiting = state {} else { nextEndpoint = nil }
        switch state {
        case .resolving, .connecting, .securing, .handshaking: attemptingSince = attemptingSince ?? now
        case .waiting, .noNetwork: break
        case .ready, .idle, .suspended, .draining, .closed: attemptingSince = nil
        }
        (self.state, stateAt) = (state, now)
    }

    mutating func drains(
        _ endpoint: Endpoint,
        _ session: SessionID,
        _ cause: DisconnectCause,
        _ reason: String?,
        at now: Instant
    ) {
        notes.append((.trouble(.drains(endpoint, session: session, cause, reason: reason)), now, nil))
    }

    mutating func ended(_ report: DisconnectReport, at now: Instant) {
        notes.append((.trouble(.ended(report)), now, report.isOfAttempt ? attemptingSince : nil))
    }

    func isInTrouble(at now: Instant) -> Bool {
        guard episode != nil else { return false }
        return !state.isReady || now.since(stateAt) < Self.calm
    }

    var nextFlush: Instant? {
        [nextSummary, replacements.count > 0 ? replacements.pace.next : nil].compactMap { $0 }.min()
    }

    private var nextSummary: Instant? {
        guard let episode, !episode.unwritten.isEmpty else { return nil }
        return episode.unwritten.hasRecovered && state.isReady
            ? min(episode.pace.next, stateAt.advanced(by: Self.calm)) : episode.pace.next
    }

    mutating func flush(at now: Instant, isLast: Bool = false, into sheet: inout LogSheet) {
        let notes = exchange(&notes, with: [])
        for (index, (note, time, began)) in notes.enumerated() {
            switch note {
            case .ready(let ready):
                var replaced: Trouble?
                if index > 0, case .trouble(let before) = notes[index - 1].note, before.isDrain { replaced = before }
                writeReady(ready, insteadOf: replaced, at: time, into: &sheet)
            case .trouble(let trouble):
                // In a planned change, the line about the next link is enough.
                if trouble.isDrain, index + 1 < notes.count, case .ready = notes[index + 1].note { continue }
                write(trouble, began: began ?? time, at: time, into: &sheet)
            }
        }
        if isLast || replacements.pace.isDue(at: now) { writeReplacements(at: now, into: &sheet) }
        guard let episode, !episode.unwritten.isEmpty, isLast || nextSummary.map({ $0 <= now }) == true else {
            return
        }
        writeSummary(of: episode, at: now, into: &sheet)
    }

    private mutating func writeReady(
        _ ready: Ready,
        insteadOf replaced: Trouble?,
        at now: Instant,
        into sheet: inout LogSheet
    ) {
        defer { (current, hadLink, withoutLinkSince, failedAttempts) = (ready, true, nil, 0) }
        if let replaced {
            let text = "\(Self.place(ready)) replaces \(replaced.shortText)\(failedAttemptsText)\(Self.notes(ready))"
            replacements.count += 1
            replacements.causes[replaced.cause.rawValue, default: 0] += 1
            replacements.latest = (text, readyFields(ready), now)
            if replacements.pace.isDue(at: now) { writeReplacements(at: now, into: &sheet) }
            return
        }
        guard var episode else {
            let event = hadLink ? "link.ready" : "client.ready"
            let text =
                "ready \(hadLink ? "again " : "")on \(Self.place(ready)) after \(ready.duration.text)\(Self.notes(ready))"
            return sheet.add(.info, event, at: now, text, readyFields(ready))
        }
        defer { self.episode = episode }
        if let written = episode.recoveryWrittenAt, now < max(episode.pace.next, written.advanced(by: .seconds(10))) {
            episode.unwritten.outages += 1
            episode.unwritten.outage += withoutLinkSince.map { now.since($0) } ?? .zero
            return
        }
        let gap = withoutLinkSince.map { "; there was no link for \(Quantity.time(now.since($0)))" } ?? ""
        addRecovery(ready, gap, withoutLinkSince.map { now.since($0) }, at: now, into: &sheet)
        // What was counted on the way is in this line.
        if episode.unwritten.losses + episode.unwritten.drains == 0 { episode.unwritten = Counts() }
        episode.recoveryWrittenAt = now
    }

    private mutating func writeReplacements(at now: Instant, into sheet: inout LogSheet) {
        guard replacements.count > 0, let latest = replacements.latest else { return }
        let (count, causes) = (replacements.count, replacements.causes)
        if count == 1 {
            sheet.add(.info, "link.replaced", at: latest.at, latest.text, latest.fields)
        } else {
            let time = now.since(replacements.writtenAt)
            let isUnusual =
                count >= Replacements.fewestUnusual && time < Replacements.unusualLifetime * Double(count)
                && causes[DisconnectCause.goAway.rawValue] ?? 0 > count / 2
            var text = "the link was replaced \(Quantity.count(count, "more time")) in \(Quantity.time(time))"
            text += " (\(LogText.list(causes))); \(LogText.latest(latest.at, at: now)): \(latest.text)"
            if isUnusual {
                text += "; to do: see why the server announces its shutdown again and again"
            }
            let level: LogRecord.Level = isUnusual ? .warning : .info
            let fields = [("count", .integer(Int64(count)))] + latest.fields
            sheet.add(level, "link.replaced", at: now, text, fields)
        }
        (replacements.count, replacements.causes, replacements.latest) = (0, [:], nil)
        replacements.writtenAt = now
        replacements.pace.wrote(at: now)
    }

    /// `gap` says in words how long there was no link, `outage` as a duration in all.
    private func addRecovery(
        _ ready: Ready,
        _ gap: String,
        _ outage: Duration?,
        outages: Int = 1,
        at now: Instant,
        into sheet: inout LogSheet
    ) {
        let waited = ready.waiting == 0 ? "" : "; \(Quantity.count(ready.waiting, "request")) waited"
        let text =
            "ready \(hadLink ? "again " : "")on \(Self.place(ready))\(failedAttemptsText)\(gap)\(waited)\(Self.notes(ready))"
        var fields = readyFields(ready)
        if let outage { fields.append(("outage", .seconds(outage.inSeconds))) }
        if outages > 1 { fields.append(("outages", .integer(Int64(outages)))) }
        if ready.waiting > 0 { fields.append(("waiting", .integer(Int64(ready.waiting)))) }
        sheet.add(.info, hadLink ? "link.ready" : "client.ready", at: now, text, fields)
    }

    private var failedAttemptsText: String {
        failedAttempts == 0 ? "" : " after \(Quantity.count(failedAttempts, "failed attempt"))"
    }

    private static func place(_ ready: Ready) -> String {
        let address = ready.address.map { "\($0), " } ?? ""
        return "\(ready.endpoint) (\(address)session \(ready.session))"
    }

    private static func notes(_ ready: Ready) -> String {
        (ready.proxy.map { "; through \($0)" } ?? "") + (ready.tlsVersion.map { "; \($0)" } ?? "")
            + (ready.hasLostSession ? "; the server had lost the session" : "")
    }

    private func readyFields(_ ready: Ready) -> LogSheet.Fields {
        var fields: LogSheet.Fields = [("endpoint", .text("\(ready.endpoint)"))]
        if let address = ready.address { fields.append(("address", .text(address))) }
        fields += [
            ("session", .integer(Int64(clamping: ready.session.number))), ("attempt", .integer(Int64(ready.attempt))),
            ("duration", .seconds(ready.duration.inSeconds)), ("failed_attempts", .integer(Int64(failedAttempts))),
        ]
        if let proxy = ready.proxy { fields.append(("proxy", .text(proxy))) }
        if let version = ready.tlsVersion { fields.append(("tls", .text(version))) }
        if ready.hasLostSession { fields.append(("session_lost", .flag(true))) }
        return fields
    }

    private mutating func write(_ trouble: Trouble, began: Instant, at now: Instant, into sheet: inout LogSheet) {
        if case .ended(let report) = trouble {
            if report.isOrdinaryEnd || isClosing && report.lostText == DisconnectReport.nothingLost { return }
            if report.phase == .draining {
                let text =
                    "the draining link to \(report.endpoint) (session \(report.session)) ended with \(report.lostText):"
                    + " \(report.explanation)"
                return sheet.add(.warning, "link.lost", at: now, text, report.logFields(next: nil))
            }
            // A link that has lasted ends the episode before.
            if report.lifetime >= Self.calm, let episode {
                if !episode.unwritten.isEmpty { writeSummary(of: episode, at: now, into: &sheet) }
                (self.episode, omittedLines) = (nil, 0)
            }
            if report.isOfAttempt { failedAttempts += 1 }
        }
        if withoutLinkSince == nil, !state.isReady { withoutLinkSince = began }
        var episode = episode ?? Episode(writtenAt: now)
        defer { self.episode = episode }
        let level = trouble.level(hadLink: hadLink)
        guard !episode.kinds.contains(trouble.kind), episode.kinds.count < Self.maximumKinds else {
            return episode.unwritten.add(trouble, level, at: now)
        }
        if episode.kinds.isEmpty { episode.pace.wrote(at: now) } else { episode.pace.postpone(from: now) }
        episode.kinds.insert(trouble.kind)
        if episode.unwritten.isEmpty { episode.writtenAt = now }
        let address = current?.session == trouble.session ? current?.address : nil
        let text = "\(trouble.text(address, isFirst: true)); \(whatIsNext(at: now, after: trouble))\(trouble.todo)"
        sheet.add(level, trouble.event, at: now, text, trouble.logFields(next: nextAttempt))
    }

    private mutating func writeSummary(of episode: Episode, at now: Instant, into sheet: inout LogSheet) {
        var episode = episode
        let counts = episode.unwritten
        var parts: [String] = []
        if counts.losses > 0 { parts.append("lost the link \(Quantity.count(counts.losses, "more time"))") }
        if counts.drains > 0 { parts.append("left the link \(Quantity.count(counts.drains, "more time"))") }
        if counts.failedAttempts > 0 { parts.append("\(Quantity.count(counts.failedAttempts, "more attempt")) failed") }
        if let latest = counts.latest {
            var text = parts.joined(separator: ", ")
            text += " in \(Quantity.time(now.since(episode.writtenAt))) (\(LogText.list(counts.causes)))"
            if counts.requestsLost > 0 { text += "; \(Quantity.count(counts.requestsLost, "request")) lost" }
            let omittedLines = exchange(&omittedLines, with: 0)
            if omittedLines > 0 { text += "; \(Quantity.count(omittedLines, "line")) of standard error left out" }
            if counts.bytesUnsent > 0 { text += "; \(Quantity.count(counts.bytesUnsent, "byte")) unsent" }
            text += "; \(LogText.latest(counts.latestAt, at: now)): \(latest.text(nil, isFirst: false)); "
            if let withoutLinkSince { text += "no link for \(Quantity.time(now.since(withoutLinkSince))); " }
            text += "\(whatIsNext(at: now, after: latest))\(latest.todo)"
            sheet.add(counts.level, "links.unstable", at: now, text, summaryFields(counts, now))
        }
        if state.isReady { episode.recoveryWrittenAt = now }
        if counts.hasRecovered, state.isReady, let current {
            // Every outage ends with such a line.
            failedAttempts = counts.failedAttempts
            writeRecovery(current, counts, since: episode.writtenAt, at: now, into: &sheet)
            failedAttempts = 0
        }
        (episode.unwritten, episode.writtenAt) = (Counts(), now)
        episode.pace.wrote(at: now)
        self.episode = episode
    }

    private func writeRecovery(
        _ ready: Ready,
        _ counts: Counts,
        since: Instant,
        at now: Instant,
        into sheet: inout LogSheet
    ) {
        if counts.outages == 1 {
            let gap = "; there was no link for \(Quantity.time(counts.outage))"
            return addRecovery(ready, gap, counts.outage, at: stateAt, into: &sheet)
        }
        let gap =
            ", for \(Quantity.time(now.since(stateAt))); \(Quantity.count(counts.outages, "outage")) in"
            + " \(Quantity.time(now.since(since))): there was no link for \(Quantity.time(counts.outage)) in all"
        addRecovery(ready, gap, counts.outage, outages: counts.outages, at: now, into: &sheet)
    }

    private func summaryFields(_ counts: Counts, _ now: Instant) -> LogSheet.Fields {
        var fields: LogSheet.Fields = [
            ("failed_attempts", .integer(Int64(counts.failedAttempts))), ("losses", .integer(Int64(counts.losses))),
            ("requests_lost", .integer(Int64(counts.requestsLost))),
            ("bytes_unsent", .integer(Int64(counts.bytesUnsent))),
        ]
        if let withoutLinkSince { fields.append(("outage", .seconds(now.since(withoutLinkSince).inSeconds))) }
        return fields + (counts.latest?.logFields(next: nextAttempt) ?? [])
    }

    private var isClosing: Bool {
        switch state {
        case .draining, .closed: true
        default: false
        }
    }

    private var nextAttempt: (delay: Duration, endpoint: Endpoint?)? {
        guard case .waiting(let delay, _, _) = state else { return nil }
        return (delay, nextEndpoint)
    }

    private func whatIsNext(at now: Instant, after trouble: Trouble) -> String {
        switch state {
        case .waiting(let delay, _, _):
            let left = max(.zero, delay - now.since(stateAt))
            let time = left > .zero ? "in \(left.text)" : "now"
            return "next attempt \(time)" + (nextEndpoint.map { " at \($0)" } ?? "")
        case .resolving(let endpoint, _), .connecting(let endpoint, _), .securing(let endpoint, _),
            .handshaking(let endpoint, _):
            return "next attempt now at \(endpoint)"
        case .ready(let endpoint, let session):
            return "the link to \(endpoint) (session \(session)) is in use, for \(Quantity.time(now.since(stateAt)))"
        case .idle:
            let next = "no further attempt until a request needs a link"
            return next
                + (trouble.refusing.map { "; \($0) is not tried before options.reconnecting.refusalPause ends" } ?? "")
        case .noNetwork: return "no route leads to any endpoint; the next attempt begins when there is one"
        case .suspended: return "the client is suspended"
        case .draining, .closed: return "the client is being closed"
        }
    }
}

extension LinkLog.Counts {
    fileprivate mutating func add(_ trouble: LinkLog.Trouble, _ level: LogRecord.Level, at now: Instant) {
        switch trouble {
        case .drains: drains += 1
        case .ended(let report):
            if report.isOfAttempt { failedAttempts += 1 } else { losses += 1 }
            requestsLost += report.requestsLost
            bytesUnsent += report.bytesUnsent
        }
        causes[trouble.cause.rawValue, default: 0] += 1
        (latest, latestAt, self.level) = (trouble, now, max(self.level, level))
    }
}

extension LinkLog.Trouble {
    fileprivate var isDrain: Bool { if case .drains = self { true } else { false } }

    /// The endpoint that refused a login for good, so that attempts at it pause.
    fileprivate var refusing: Endpoint? {
        guard case .ended(let report) = self, report.isPermanent,
            report.cause == .handshakeRefused || report.cause == .proxy,
            (report.error as? HandshakeRefusal)?.retryAfter == nil
        else { return nil }
        return report.endpoint
    }

    fileprivate var cause: DisconnectCause {
        switch self {
        case .ended(let report): report.cause
        case .drains(_, _, let cause, _): cause
        }
    }

    fileprivate var session: SessionID {
        switch self {
        case .ended(let report): report.session
        case .drains(_, let session, _, _): session
        }
    }

    fileprivate var kind: String {
        switch self {
        case .drains(let endpoint, _, let cause, _): "\(endpoint) drains \(cause)"
        case .ended(let report):
            "\(report.endpoint) \(report.phase) \(report.cause) \((report.error as? TransportError)?.code as Any)"
        }
    }

    fileprivate var event: String {
        switch self {
        case .drains: "link.draining"
        case .ended(let report): report.isOfAttempt ? "attempt.failed" : report.isOrderly ? "link.ended" : "link.lost"
        }
    }

    fileprivate func level(hadLink: Bool) -> LogRecord.Level {
        switch self {
        case .drains(_, _, let cause, _): cause.isAbnormal ? .warning : .info
        case .ended(let report): report.level(hadLink: hadLink)
        }
    }

    /// `session 1 to a:1 (goAway: the server announced its shutdown)`
    fileprivate var shortText: String {
        guard case .drains(let endpoint, let session, let cause, let reason) = self else { return "" }
        return "session \(session) to \(endpoint) (\(cause.rawValue): \(reason ?? cause.meaning))"
    }

    fileprivate func text(_ address: String?, isFirst: Bool) -> String {
        switch self {
        case .ended(let report): return report.logText(address, isFirst: isFirst)
        case .drains(let endpoint, let session, let cause, let reason):
            // A reason of the client or the server explains these causes.
            let isExplained = reason != nil && (cause == .closedLocally || cause == .goAway)
            let meaning = isFirst && !isExplained ? [cause.meaning] : []
            let why = String.labelled(cause.rawValue, meaning + (reason.map { [$0] } ?? []))
            return "session \(session) to \(endpoint) takes no more requests: \(why)"
        }
    }

    fileprivate var todo: String {
        guard case .ended(let report) = self, let advice = report.advice else { return "" }
        return "; to do: \(advice)"
    }

    fileprivate func logFields(next: (delay: Duration, endpoint: Endpoint?)?) -> LogSheet.Fields {
        switch self {
        case .ended(let report): return report.logFields(next: next)
        case .drains(let endpoint, let session, let cause, let reason):
            return [
                ("endpoint", .text("\(endpoint)")), ("session", .integer(Int64(clamping: session.number))),
                ("cause", .text(cause.rawValue)),
            ] + (reason.map { [("reason", .text($0))] } ?? [])
        }
    }
}

extension DisconnectReport {
    fileprivate var isOfAttempt: Bool { phase != .ready && phase != .draining }

    private var hasLost: Bool { requestsLost > 0 || bytesUnsent > 0 }

    /// The client ended the link itself, or a draining link has finished: no line.
    fileprivate var isOrdinaryEnd: Bool {
        cause == .closedLocally && error == nil || phase == .draining && !hasLost
    }

    fileprivate func level(hadLink: Bool) -> LogRecord.Level {
        // While files are being replaced, one may not match the other for a moment.
        let isReplacement = hadLink && (error as? TransportError)?.code == .tls(.configuration)
        if advice != nil, !isReplacement { return .error }
        return isOrderly && !isOfAttempt ? .info : .warning
    }

    fileprivate var lostText: String {
        var parts: [String] = []
        if requestsLost > 0 { parts.append("\(Quantity.count(requestsLost, "request")) lost") }
        if bytesUnsent > 0 { parts.append("\(Quantity.count(bytesUnsent, "byte")) unsent") }
        return parts.isEmpty ? Self.nothingLost : parts.joined(separator: ", ")
    }

    fileprivate static let nothingLost = "nothing lost"

    fileprivate var isOrderly: Bool { (!cause.isAbnormal || exit == .status(0)) && !hasLost }

    var explanation: String { explanation(isFirst: true) }

    private func explanation(isFirst: Bool) -> String {
        var parts = (isFirst ? meaning.map { [$0] } ?? [] : []) + (departure.map { [$0] } ?? [])
        parts += (error.map { [ErrorText.of($0).unlabelled(cause.rawValue)] } ?? [])
        if cause != .closedLocally, let lastOutputText { parts.append(lastOutputText) }
        if let suspicion { parts.append(suspicion) }
        if let idleness { parts.append(idleness) }
        if let guess { parts.append(guess) }
        // Without a route before and after, the error says so.
        if isNetworkChange, pathBefore != pathAfter {
            parts.append("the network of this host changed: \(pathBefore), now \(pathAfter)")
        }
        if loopDelay > .zero { parts.append("meanwhile, this process did not run for \(loopDelay.text)") }
        if let isNetworkUp { parts.append(isNetworkUp ? "the network is up" : "the network is down") }
        return .labelled(cause.rawValue, parts)
    }

    fileprivate func logText(_ address: String?, isFirst: Bool) -> String {
        let reason = explanation(isFirst: isFirst)
        let places = [proxy.map { "through \($0)" }, self.address ?? address].compactMap { $0 }
        if isOfAttempt {
            let place = places.isEmpty ? "\(endpoint)" : "\(endpoint) (\(places.joined(separator: ", ")))"
            return "attempt \(attempt) to \(place) failed while \(phase.rawValue): \(reason)"
        }
        let place = "\(endpoint) (\((places + ["session \(session)"]).joined(separator: ", ")))"
        let what = isOrderly ? "the link to \(place) ended" : "lost the link to \(place)"
        return "\(what) after \(Quantity.time(lifetime)): \(reason); \(lostText)"
    }

    fileprivate func logFields(next: (delay: Duration, endpoint: Endpoint?)?) -> LogSheet.Fields {
        var fields: LogSheet.Fields = [
            ("endpoint", .text("\(endpoint)")), ("phase", .text(phase.rawValue)), ("cause", .text(cause.rawValue)),
            ("ended_by", .text(endedBy.rawValue)), ("session", .integer(Int64(clamping: session.number))),
            ("attempt", .integer(Int64(attempt))), ("lifetime", .seconds(lifetime.inSeconds)),
            ("requests_lost", .integer(Int64(requestsLost))), ("bytes_unsent", .integer(Int64(bytesUnsent))),
            ("network_change", .flag(isNetworkChange)),
        ]
        if let address { fields.append(("address", .text(address))) }
        if let proxy { fields.append(("proxy", .text("\(proxy)"))) }
        if let idleTime { fields.append(("idle", .seconds(idleTime.inSeconds))) }
        if let departure { fields.append(("reason", .text(departure))) }
        if let exit { fields.append(("exit", .text("\(exit)"))) }
        if let lastOutput { fields.append(("output", .text(lastOutput))) }
        if let error { fields.append(("error", .text(ErrorText.of(error)))) }
        if let refusal = error as? HandshakeRefusal { fields.append(("refused", .text("\(refusal.kind)"))) }
        if let reason { fields.append(("server_reason", .text(reason.label))) }
        if let advice { fields.append(("advice", .text(advice))) }
        if let next {
            fields.append(("next_delay", .seconds(next.delay.inSeconds)))
            if let endpoint = next.endpoint { fields.append(("next_endpoint", .text("\(endpoint)"))) }
        }
        return fields
    }
}
