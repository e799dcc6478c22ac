/// Reporting why attempts fail and links end.
extension ConnectionDriver {
    var metrics: ConnectionMetrics {
        var metrics = reports.counts
        let key = ObjectIdentifier(loop)
        var values = ConnectionMetrics.PresentValues(
            state: state,
            turnDurations: [key: loop.turnDurations],
            delays: [key: loop.delays.durations]
        )
        for link in links.all {
            values.bytesToWrite += link.state.machine.outbound.byteCount + (link.secured?.heldByteCount ?? 0)
        }
        if let ready {
            values.link = ready.state.described(at: loop.now, inFlight: 0, hasFailed: false)
            values.tcp = ready.transport.tcpInformation
            values.heartbeatInterval = liveness.heartbeatInterval
        }
        if dialMemory.loadedTLS != nil { values.certificates = certificates.present }
        metrics.add(values)
        return metrics
    }

    func audit() -> [String] {
        reports.audit(
            isAttemptUnderWay: attempt != nil || handshaking != nil,
            aliveLinks: links.all.count { $0.readySince != nil }
        )
    }

    func report(
        _ phase: DisconnectReport.Phase,
        _ cause: DisconnectCause,
        _ error: (any Error)?,
        _ subject: LinkReports.Subject
    ) {
        var subject = subject
        if subject.endpoint.isSecured { subject.certificateProblem = certificates.problemOfOwn }
        subject.outputOfChild = processes.lastOutput(of: subject.session)
        reports.report(phase, cause, error, subject)
    }

    func details(of link: Link, _ cause: DisconnectCause) -> DisconnectReport.Details {
        let hadHandshake = options.handshake.perform != nil || !memory.subscriptions.isEmpty
        return reports.details(of: link, cause, hadHandshake: hadHandshake)
    }

    func reportEndOfReady() {
        guard let ready else { return }
        reportEndByUs(readers.published == .draining ? .draining : .ready, ready)
    }

    private func reportEndByUs(_ phase: DisconnectReport.Phase, _ link: Link) {
        var subject = LinkReports.Subject(link, paths.pathsAtEnd(of: link), at: loop.now)
        subject.bytesUnsent = link.state.machine.outbound.unwrittenCount
        subject.details = details(of: link, .closedLocally)
        report(phase, .closedLocally, nil, subject)
    }

    func reportEndOfAttempt() {
        if let handshaking {
            reportEndByUs(.handshaking, handshaking)
        } else if let attempt {
            let phase = attempt.progress.phase ?? .connecting
            report(phase, .closedLocally, nil, LinkReports.Subject(attempt.decision, attempt.pathsAtEnd(paths)))
        }
    }

    var pathsOfAttempt: (before: NetworkPath, after: NetworkPath) {
        if let handshaking { return paths.pathsAtEnd(of: handshaking) }
        return attempt?.pathsAtEnd(paths) ?? (.unknown, .unknown)
    }
}
