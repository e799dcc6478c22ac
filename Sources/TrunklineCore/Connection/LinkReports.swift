/// What a connection counts, and its reports of failed attempts and ended links. Confined to the event loop of its
/// connection.
final class LinkReports {
    private let context: ConnectionContext
    var counts = ConnectionMetrics()
    let readers = ReportReaders()
    private(set) var probe: NetworkProbe?
    /// How long nothing was sent or received on the latest link that the server, or a device on the path, has ended.
    private var idleTimeOfLatestEnd: Duration?

    init(_ context: ConnectionContext) { self.context = context }

    /// What a report is about.
    struct Subject {
        let endpoint: Endpoint
        let session: SessionID
        let attempt: Int
        let paths: (before: NetworkPath, after: NetworkPath)
        var lifetime = Duration.zero
        var departure: String?
        var requestsLost = 0
        var bytesUnsent = 0
        var wasSilent = false
        var hasSpoken = true
        /// Delays of the loop since then are part of the report.
        var lateSince: Instant?
        var details: DisconnectReport.Details?
        var isPermanent = false
        var certificateProblem: String?
        var outputOfChild: String?

        init(_ decision: ReconnectMachine.Attempt, _ paths: (before: NetworkPath, after: NetworkPath)) {
            (endpoint, session, attempt) = (decision.endpoint, decision.id, decision.number)
            self.paths = paths
        }

        init(_ link: Link, _ paths: (before: NetworkPath, after: NetworkPath), at now: Instant) {
            (endpoint, session, attempt) = (link.endpoint, link.session, link.attempt)
            self.paths = paths
            lifetime = link.readySince.map { now.since($0) } ?? .zero
        }
    }

    func report(_ phase: DisconnectReport.Phase, _ cause: DisconnectCause, _ error: (any Error)?, _ subject: Subject) {
        if phase == .ready || phase == .draining {
            counts.losses[cause, default: 0] += 1
        } else {
            counts.failedAttempts += 1
            counts.attemptFailures[cause, default: 0] += 1
        }
        let loop = context.loop
        var report = DisconnectReport(
            endpoint: subject.endpoint,
            phase: phase,
            endedBy: (error as? TransportError)?.party ?? cause.party,
            cause: cause,
            error: error,
            session: subject.session,
            attempt: subject.attempt,
            lifetime: subject.lifetime,
            departure: subject.departure,
            requestsLost: subject.requestsLost,
            bytesUnsent: subject.bytesUnsent,
            pathBefore: subject.paths.before,
            pathAfter: subject.paths.after,
            loopDelay: subject.lateSince.map { loop.delays.overlap(from: $0, to: loop.now) } ?? .zero,
            isPermanent: subject.isPermanent,
            certificateProblem: subject.endpoint.isSecured && phase != .resolving && phase != .connecting
                ? subject.certificateProblem : nil,
            wasSilent: subject.wasSilent,
            hasSpoken: subject.hasSpoken,
            outputOfChild: subject.outputOfChild
        )
        report.details = subject.details
        if cause.isAbnormal, let perform = context.options.diagnosis.probe {
            let timeout = context.options.diagnosis.probeTimeout
            let running = probe ?? NetworkProbe(self, perform, timeout: timeout, on: loop)
            probe = running
            running.add(report)
        } else if let probe {
            probe.add(report)  // after those that wait
        } else {
            publish(report)
        }
    }

    private func publish(_ report: DisconnectReport) {
        context.observation?.add(.links, .linkEnded(report))
        readers.yield(report)
    }

    func probeEnded(_ reports: [DisconnectReport]) {
        publish(reports)
        context.observation?.deliver()
    }

    private func publish(_ reports: [DisconnectReport]) {
        probe = nil
        for report in reports { publish(report) }
    }

    func finish() {
        if let reports = probe?.stop() { publish(reports) }
        readers.finish()
    }

    func details(of link: Link, _ cause: DisconnectCause, hadHandshake: Bool) -> DisconnectReport.Details {
        let proxy = context.options.connecting.proxy(for: link.endpoint)
        guard link.readySince != nil else {
            return DisconnectReport.Details(link.path.remote, through: proxy, link.firstBytes)
        }
        let rules = link.state.machine.liveness.rules
        let idleTime = rules.idleTime(isReset: cause == .reset, at: context.loop.now)
        var isUsual = false
        if cause == .closedByServer || cause == .reset {
            isUsual = idleTimeOfLatestEnd.map { idleTime.isAbout($0) } ?? false
            idleTimeOfLatestEnd = idleTime
        }
        return DisconnectReport.Details(
            link.path.remote,
            through: proxy,
            idleTime: idleTime,
            sendsPings: rules.heartbeatInterval != nil,
            isIdleTimeUsual: isUsual,
            // On a link that had a handshake, they are not the first.
            hadHandshake ? .none : link.firstBytes
        )
    }

    func audit(isAttemptUnderWay: Bool, aliveLinks: Int) -> [String] {
        let failures = counts.attemptFailures.values.reduce(0, +)
        let losses = counts.losses.values.reduce(0, +)
        let attempts = [
            ("the number of attempt failures by cause", failures, "failedAttempts", counts.failedAttempts),
            (
                "attempts", counts.attempts, "links + failedAttempts + attempts under way",
                counts.links + counts.failedAttempts + (isAttemptUnderWay ? 1 : 0)
            ),
            ("links", counts.links, "losses + links that are alive", losses + aliveLinks),
        ]
        return attempts.filter { $0.1 != $0.3 }.map { "\($0.0) is \($0.1), but \($0.2) is \($0.3)" }
    }
}

/// Counting.
extension LinkReports {
    func noteUnencodable(_ refused: [OutboundQueue.Refusal]) {
        for refusal in refused where refusal.item.id == nil {
            counts.unencodableFrames += 1
            counts.lastEncodingFailure = refusal.error
        }
    }

    func note(_ dropped: Link.Dropped, _ link: Link) {
        counts.droppedDatagrams += dropped.count
        context.observation?.add(.mismatches, .datagramsDropped(dropped.count, link.endpoint, dropped.reason))
    }

    func noteFarewell(_ reason: ServerReason?, _ link: Link) {
        guard let reason else { return }
        if link.farewell == nil { counts.linkEndReasons.count(reason.label) }
        link.farewell = reason
    }

    func notePassedOver(_ channel: DialedChannel, of endpoint: Endpoint) {
        for failure in channel.passedOver {
            guard let address = failure.address else { continue }
            counts.addressFailures.count(address.description)
            context.observation?.add(
                .links,
                .addressFailed(endpoint, address: "\(address)", failure.error, instead: "\(channel.address)")
            )
        }
    }
}

extension Duration {
    /// Whether both may be the same time of a device that ends idle connections.
    fileprivate func isAbout(_ other: Duration) -> Bool {
        let difference = self > other ? self - other : other - self
        return difference <= max(.seconds(1), self / 20)
    }
}
