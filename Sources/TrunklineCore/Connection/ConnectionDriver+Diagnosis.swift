/// Reporting why attempts fail and links end.
extension ConnectionDriver {
    var metrics: Connection.Metrics {
        var metrics = counts
        let key = ObjectIdentifier(loop)
        var values = Connection.PresentValues(
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
            values.heartbeatInterval = heartbeatInterval
        }
        values.certificates = presentCertificates
        metrics.add(values)
        return metrics
    }

    var presentTLSSession: TLSSession? { ready?.secured?.session }

    func audit() -> [String] {
        let failures = counts.attemptFailures.values.reduce(0, +)
        let losses = counts.losses.values.reduce(0, +)
        let underWay = attempt != nil || handshaking != nil ? 1 : 0
        let alive = links.all.count { $0.readySince != nil }
        let attempts = [
            ("the number of attempt failures by cause", failures, "failedAttempts", counts.failedAttempts),
            (
                "attempts", counts.attempts, "links + failedAttempts + attempts under way",
                counts.links + counts.failedAttempts + underWay
            ),
            ("links", counts.links, "losses + links that are alive", losses + alive),
        ]
        return attempts.filter { $0.1 != $0.3 }.map { "\($0.0) is \($0.1), but \($0.2) is \($0.3)" }
    }

    func report(
        _ phase: DisconnectReport.Phase,
        _ cause: DisconnectCause,
        _ error: (any Error)?,
        _ server: (endpoint: Endpoint, session: SessionID, attempt: Int),
        _ paths: (before: NetworkPath, after: NetworkPath),
        lifetime: Duration = .zero,
        departure: String? = nil,
        requestsLost: Int = 0,
        bytesUnsent: Int = 0,
        wasSilent: Bool = false,
        hasSpoken: Bool = true,
        lateSince start: Instant? = nil,
        details: DisconnectReport.Details? = nil,
        isPermanent: Bool = false
    ) {
        if phase == .ready || phase == .draining {
            counts.losses[cause, default: 0] += 1
        } else {
            counts.failedAttempts += 1
            counts.attemptFailures[cause, default: 0] += 1
        }
        var report = DisconnectReport(
            endpoint: server.endpoint,
            phase: phase,
            endedBy: (error as? TransportError)?.party ?? cause.party,
            cause: cause,
            error: error,
            session: server.session,
            attempt: server.attempt,
            lifetime: lifetime,
            departure: departure,
            requestsLost: requestsLost,
            bytesUnsent: bytesUnsent,
            pathBefore: paths.before,
            pathAfter: paths.after,
            loopDelay: start.map { loop.delays.overlap(from: $0, to: loop.now) } ?? .zero,
            isPermanent: isPermanent,
            certificateProblem: server.endpoint.isSecured && phase != .resolving && phase != .connecting
                ? problemOfOwnCertificate : nil,
            wasSilent: wasSilent,
            hasSpoken: hasSpoken,
            outputOfChild: memory.lastOutput(of: server.session)
        )
        report.details = details
        if cause.isAbnormal, let probe = options.diagnosis.probe {
            let running = readers.probe ?? NetworkProbe(self, probe, timeout: options.diagnosis.probeTimeout)
            readers.probe = running
            running.add(report)
        } else if let probe = readers.probe {
            probe.add(report)  // after those that wait
        } else {
            publish(report)
        }
    }

    private func publish(_ report: DisconnectReport) {
        observation?.add(.links, .linkEnded(report))
        reportReaders.yield(report)
    }

    func details(of link: Link, _ cause: DisconnectCause) -> DisconnectReport.Details {
        let proxy = options.connecting.proxy(for: link.endpoint)
        guard link.readySince != nil else {
            return DisconnectReport.Details(link.path.remote, through: proxy, link.firstBytes)
        }
        let idleTime = link.state.machine.liveness.rules.idleTime(isReset: cause == .reset, at: loop.now)
        var isUsual = false
        if cause == .closedByServer || cause == .reset {
            isUsual = memory.idleTimeOfLatestEnd.map { idleTime.isAbout($0) } ?? false
            memory.idleTimeOfLatestEnd = idleTime
        }
        return DisconnectReport.Details(
            link.path.remote,
            through: proxy,
            idleTime: idleTime,
            sendsPings: link.state.machine.liveness.rules.heartbeatInterval != nil,
            isIdleTimeUsual: isUsual,
            // On a link that had a handshake, they are not the first.
            options.handshake.perform == nil && memory.subscriptions.isEmpty ? link.firstBytes : .none
        )
    }

    func reportEndOfReady() {
        guard let ready else { return }
        reportEndByUs(readers.published == .draining ? .draining : .ready, ready)
    }

    private func reportEndByUs(_ phase: DisconnectReport.Phase, _ link: Link) {
        report(
            phase,
            .closedLocally,
            nil,
            (link.endpoint, link.session, link.attempt),
            pathsAtEnd(of: link),
            lifetime: link.readySince.map { loop.now.since($0) } ?? .zero,
            bytesUnsent: link.state.machine.outbound.unwrittenCount,
            details: details(of: link, .closedLocally)
        )
    }

    func reportEndOfAttempt() {
        if let handshaking {
            reportEndByUs(.handshaking, handshaking)
        } else if let attempt {
            let phase = attempt.progress.phase ?? .connecting
            let server = (attempt.decision.endpoint, attempt.decision.id, attempt.decision.number)
            report(phase, .closedLocally, nil, server, pathsOfAttempt)
        }
    }

    var pathsOfAttempt: (before: NetworkPath, after: NetworkPath) {
        if let handshaking { return pathsAtEnd(of: handshaking) }
        guard let attempt else { return (.unknown, .unknown) }
        guard let first = attempt.firstPath else { return (attempt.initialPath, path(to: attempt.decision.endpoint)) }
        return (first.path, path(to: first.address))
    }

    func publish(_ reports: [DisconnectReport]) {
        readers.probe = nil
        for report in reports { publish(report) }
    }
}

extension Duration {
    /// Whether both may be the same time of a device that ends idle connections.
    fileprivate func isAbout(_ other: Duration) -> Bool {
        let difference = self > other ? self - other : other - self
        return difference <= max(.seconds(1), self / 20)
    }
}
