/// The lines about certificates that expire soon: once at each level, and then once a day.
struct CertificateLog: Sendable {
    private struct Entry: Sendable {
        let endpoint: Endpoint
        let certificate: CertificateExpiry
        let expiresAt: Instant
        /// The level of the latest line; `nil` if there was none.
        var level: LogRecord.Level?
        var nextLine = Instant.distantPast
    }

    private let (warning, error): (Duration, Duration)
    private var entries: [CertificateExpiry.Owner: Entry] = [:]

    init(_ logging: ClientLogging) {
        let longest = Duration.century
        error = min(max(.zero, logging.certificateError), longest)
        warning = min(max(error, logging.certificateWarning), longest)
    }

    mutating func seen(_ certificate: CertificateExpiry, of endpoint: Endpoint, timeLeft: Duration, at now: Instant) {
        let known = entries[certificate.owner]
        guard known?.certificate != certificate else { return }
        entries[certificate.owner] = Entry(
            endpoint: endpoint,
            certificate: certificate,
            expiresAt: now.advanced(by: timeLeft)
        )
    }

    /// When to call `flush` next; `nil` if there is nothing to say.
    var nextFlush: Instant? { entries.values.map { next($0) }.min() }

    private func next(_ entry: Entry) -> Instant {
        switch entry.level {
        case nil: entry.expiresAt.advanced(by: .zero - warning)
        case .error?: entry.nextLine
        default: min(entry.nextLine, entry.expiresAt.advanced(by: .zero - error))
        }
    }

    mutating func flush(at now: Instant, into sheet: inout LogSheet) {
        for (owner, entry) in entries.sorted(by: { $0.key.rawValue < $1.key.rawValue }) where next(entry) <= now {
            let left = entry.expiresAt.since(now)
            let level: LogRecord.Level = left <= error ? .error : .warning
            let certificate = entry.certificate
            let name = owner == .client ? "of this client" : "of \(entry.endpoint)"
            let time = left < .zero ? "expired \(LogText.time(.zero - left)) ago" : "expires in \(LogText.time(left))"
            let todo = owner == .client ? "renew it (options.tls.identity)" : "renew the certificate of the server"
            let fields: LogSheet.Fields = [
                ("endpoint", .text("\(entry.endpoint)")), ("owner", .text(owner.rawValue)),
                ("subject", .text(certificate.subject)), ("not_after", .integer(certificate.notAfter)),
                ("time_left", .seconds(left.inSeconds)),
            ]
            let text = "the certificate \(name) (\(certificate.subject)) \(time); to do: \(todo)"
            sheet.add(level, "certificate.expires", at: now, text, fields)
            entries[owner]?.level = level
            entries[owner]?.nextLine = now.advanced(by: .seconds(86_400))
        }
    }
}
