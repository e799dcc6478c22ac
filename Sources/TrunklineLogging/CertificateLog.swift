import TrunklineCore

/// The lines about certificates that expire soon: once at each level, then once a day.
struct CertificateLog: Sendable {
    private struct Entry: Sendable {
        let endpoint: Endpoint
        let certificate: CertificateExpiry
        let expiresAt: Instant
        var level: LogRecord.Level?
        var nextLine = Instant.distantPast
        /// Of replaced ones, only the levels count: a link may change between servers with different certificates.
        var isCurrent = true
    }

    private static let maximumCount = 8

    private let (warning, error): (Duration, Duration)
    private var entries: [Entry] = []

    init(_ logging: ClientLogging) {
        let longest = Duration.century
        error = min(max(.zero, logging.certificateError), longest)
        warning = min(max(error, logging.certificateWarning), longest)
    }

    mutating func seen(_ certificate: CertificateExpiry, of endpoint: Endpoint, timeLeft: Duration, at now: Instant) {
        for index in entries.indices where entries[index].certificate.owner == certificate.owner {
            entries[index].isCurrent = false
        }
        var entry = Entry(endpoint: endpoint, certificate: certificate, expiresAt: now.advanced(by: timeLeft))
        if let known = entries.firstIndex(where: { $0.certificate == certificate }) {
            let known = entries.remove(at: known)
            (entry.level, entry.nextLine) = (known.level, known.nextLine)
        } else if entries.count == Self.maximumCount {
            entries.removeFirst()
        }
        entries.append(entry)
    }

    var nextFlush: Instant? { entries.filter(\.isCurrent).map { next($0) }.min() }

    private func next(_ entry: Entry) -> Instant {
        switch entry.level {
        case nil: entry.expiresAt.advanced(by: .zero - warning)
        case .error?: entry.nextLine
        default: min(entry.nextLine, entry.expiresAt.advanced(by: .zero - error))
        }
    }

    mutating func flush(at now: Instant, into sheet: inout LogSheet) {
        let due = entries.indices.filter { entries[$0].isCurrent && next(entries[$0]) <= now }
        for index in due.sorted(by: { entries[$0].certificate.owner.rawValue < entries[$1].certificate.owner.rawValue })
        {
            let entry = entries[index]
            let owner = entry.certificate.owner
            let left = entry.expiresAt.since(now)
            let level: LogRecord.Level = left <= error ? .error : .warning
            let certificate = entry.certificate
            let name = owner == .client ? "of this client" : "of \(entry.endpoint)"
            let time = left < .zero ? "expired \(Quantity.time(.zero - left)) ago" : "expires in \(Quantity.time(left))"
            let todo = owner == .client ? "renew it (options.tls.identity)" : "renew the certificate of the server"
            let fields: LogSheet.Fields = [
                ("endpoint", .text("\(entry.endpoint)")), ("owner", .text(owner.rawValue)),
                ("subject", .text(certificate.subject)), ("not_after", .integer(certificate.notAfter)),
                ("time_left", .seconds(left.inSeconds)),
            ]
            let text = "the certificate \(name) (\(certificate.subject)) \(time); to do: \(todo)"
            sheet.add(level, "certificate.expires", at: now, text, fields)
            entries[index].level = level
            entries[index].nextLine = now.advanced(by: .seconds(86_400))
        }
    }
}
