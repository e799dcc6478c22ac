/// Reporting why attempts fail and links end.
extension Connection {
    /// Counts and durations of attempts, links and their ends since the connection was created.
    public struct Metrics: Sendable, Hashable {
        /// The number of attempts that began.
        public var attempts = 0
        /// The number of attempts that failed, or that the client ended before their link was ready.
        public var failedAttempts = 0
        /// The number of links that became ready.
        public var links = 0
        var reconnects: Int { max(0, links - 1) }
        /// The number of pings sent.
        public var pings = 0
        /// The number of frames that the codec created itself (pings, pongs, cancellations, the closing frame) and
        /// could not encode. Such frames are not sent. For a ping this means that the protocol allows none at that time
        /// (``HeartbeatCodec``). For all others it is a bug in the codec.
        public var unencodableFrames = 0
        /// The error of the latest frame in ``unencodableFrames``; `nil` if there was none.
        public var lastEncodingFailure: FrameError?
        /// The number of attempts of ``failedAttempts``, by cause. An attempt that the client ended has the cause
        /// `closedLocally`.
        public var attemptFailures: [DisconnectCause: Int] = [:]
        /// The number of times that an address of a name failed, or did not answer, while another one did, by address.
        /// At most 65 names: once 64 have been counted, `others` stands for every further one.
        public var addressFailures: [String: Int] = [:]
        /// The number of links that ended after they had been ready, by cause.
        ///
        /// An end that the client caused is among them: `closedLocally` for `close()`, `suspend()` and planned changes.
        public var losses: [DisconnectCause: Int] = [:]
        /// The number of links that the server ended with a reason of its own, those of failed attempts included, by
        /// the ``ServerReason/label``. At most 65 names: once 64 have been counted, `others` stands for every further
        /// one.
        public var linkEndReasons: [String: Int] = [:]
        /// The number of attempts and links that ended, by cause: the sum of ``attemptFailures`` and ``losses``.
        public var disconnects: [DisconnectCause: Int] {
            attemptFailures.merging(losses, uniquingKeysWith: { $0.addingClamped($1) })
        }

        /// The time from the beginning of each successful attempt until its link was established: resolving, connecting
        /// and TLS, without waiting until an earlier link is closed (``LinkOverlap``).
        public var connectDurations = LatencyHistogram()
        /// The time of each handshake that made its link ready, including the restoring of subscriptions.
        public var handshakeDurations = LatencyHistogram()
        /// The round-trip times of pings, on all links. A ping that waited behind other frames is not among them.
        public var pingDurations = LatencyHistogram()
        /// The number of datagrams that were dropped because they were not complete frames, or not valid responses to
        /// the requests with their serials (``ResponseCheckingCodec``).
        public var droppedDatagrams = 0
        /// The number of bytes read; over TLS, after decryption.
        public var bytesReceived = 0
        /// The number of bytes written; over TLS, before encryption.
        public var bytesSent = 0
        /// The number of frames received, heartbeats and handshakes included.
        public var framesReceived = 0
        /// The number of frames whose last byte was written, also heartbeats, cancel frames and those of handshakes.
        public var framesSent = 0

        /// The values read with the metrics. In a box, because the stored counts have none.
        private var present: Present?

        private final class Present: Sendable, Hashable {
            let values: PresentValues
            init(_ values: PresentValues) { self.values = values }
            static func == (a: Present, b: Present) -> Bool { a.values == b.values }
            func hash(into hasher: inout Hasher) { hasher.combine(values) }
        }

        /// The state of the connection.
        public var state: ConnectionState { present?.values.state ?? .idle }

        /// Several if the metrics of several connections were merged.
        package var stateCounts: [String: Int] { present?.values.stateCounts ?? [ConnectionState.idle.name: 1] }

        /// The present link, which takes requests: its endpoint, address and session number. `nil` without a ready
        /// link.
        public var link: Timeline.Link? { present?.values.link }

        /// The number of bytes that wait to be written, on all links: an estimate for frames that are not encoded yet,
        /// and over TLS also encrypted bytes that the socket has not taken. Bytes in the socket are not counted: see
        /// ``TCPInformation/unsentBytes``.
        public var bytesToWrite: Int {
            present?.values.bytesToWrite ?? 0
        }

        /// The state of the TCP connection of the present link. `nil` without a ready link, over a Unix domain socket,
        /// in a simulated network, and on systems other than Linux.
        public var tcp: TCPInformation? { present?.values.tcp }

        /// The interval of the heartbeats of the present link. `nil` without a ready link, and if the link has no
        /// heartbeats.
        public var heartbeatInterval: Duration? { present?.values.heartbeatInterval }

        /// The certificates that expire first: of those of the server on the latest TLS link, and that of this client,
        /// as the latest attempt has read it from its file. Empty without TLS.
        public var certificates: [CertificateExpiry] { present?.values.certificates ?? [] }

        /// How long the turns of the event loop took, without waiting.
        ///
        /// In each turn the loop serves everything that is ready: calls, sockets and timers. Whatever becomes ready in
        /// a turn waits for the next one, so the longest turns are the delay that the loop itself adds. Turns of more
        /// than some milliseconds have a cause in the program: code on ``Client/executor`` that blocks, a slow observer
        /// on the event loop, or too few processors.
        ///
        /// Turns of less than 65 µs all count with their mean. The turns are those of the whole loop, since it was
        /// started. Clients that share a loop return the same durations. Empty in a simulated network, where code takes
        /// no time.
        public var turnDurations: LatencyHistogram {
            present?.values.turnDurations.values.reduce(into: LatencyHistogram()) { $0.merge($1) } ?? LatencyHistogram()
        }

        /// How long the event loop did not run what was due, each time that this was 250 ms or longer: the process was
        /// stopped, had no processor, or code on the loop blocked it (``LoopDelay``).
        ///
        /// As for ``turnDurations``, these are the delays of the whole loop. Their ``LatencyHistogram/sum`` is the time
        /// in which this process was not able to work.
        public var loopDelays: LatencyHistogram {
            present?.values.delays.values.reduce(into: LatencyHistogram()) { $0.merge($1) } ?? LatencyHistogram()
        }

        init() {}

        mutating func add(_ values: PresentValues) { present = Present(values) }

        mutating func merge(_ other: Metrics) {
            attempts.addClamped(other.attempts)
            failedAttempts.addClamped(other.failedAttempts)
            links.addClamped(other.links)
            pings.addClamped(other.pings)
            unencodableFrames.addClamped(other.unencodableFrames)
            lastEncodingFailure = other.lastEncodingFailure ?? lastEncodingFailure
            attemptFailures.addClamped(other.attemptFailures)
            losses.addClamped(other.losses)
            addressFailures.addNamed(other.addressFailures)
            linkEndReasons.addNamed(other.linkEndReasons)
            connectDurations.merge(other.connectDurations)
            handshakeDurations.merge(other.handshakeDurations)
            pingDurations.merge(other.pingDurations)
            droppedDatagrams.addClamped(other.droppedDatagrams)
            bytesReceived.addClamped(other.bytesReceived)
            bytesSent.addClamped(other.bytesSent)
            framesReceived.addClamped(other.framesReceived)
            framesSent.addClamped(other.framesSent)
            guard let added = other.present else { return }
            guard var values = present?.values else { return present = added }
            values.merge(added.values)
            present = Present(values)
        }

        /// Counts and durations remain, those of turns included.
        mutating func removeCurrentValues() {
            guard let values = present?.values else { return }
            present = Present(PresentValues(state: nil, turnDurations: values.turnDurations, delays: values.delays))
        }

        /// From 0 to 1.
        func share(of cause: DisconnectCause) -> Double {
            let disconnects = disconnects
            let all = disconnects.values.reduce(0) { $0.addingClamped($1) }
            return all == 0 ? 0 : Double(disconnects[cause] ?? 0) / Double(all)
        }
    }

    /// Counts and durations of attempts, links and their ends, and the state of the present link.
    ///
    /// Reading them costs a system call if a link is ready.
    public var metrics: Metrics {
        var metrics = counts
        let key = ObjectIdentifier(loop)
        var values = PresentValues(
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

    struct PresentValues: Sendable, Hashable {
        /// `nil` if the connection is closed and forgotten.
        private(set) var state: ConnectionState?
        private(set) var stateCounts: [String: Int] = [:]
        /// By loop, so that connections that share a loop count it once.
        private(set) var turnDurations: [ObjectIdentifier: LatencyHistogram]
        private(set) var delays: [ObjectIdentifier: LatencyHistogram]
        var link: Timeline.Link?
        var tcp: TCPInformation?
        var heartbeatInterval: Duration?
        var certificates: [CertificateExpiry] = []
        var bytesToWrite = 0

        init(
            state: ConnectionState?,
            turnDurations: [ObjectIdentifier: LatencyHistogram],
            delays: [ObjectIdentifier: LatencyHistogram] = [:]
        ) {
            (self.state, self.turnDurations, self.delays) = (state, turnDurations, delays)
            if let state { stateCounts[state.name] = 1 }
        }

        mutating func merge(_ other: PresentValues) {
            if state == nil || link == nil && other.link != nil {
                (state, link, tcp) = (other.state, other.link, other.tcp)
                heartbeatInterval = other.heartbeatInterval
            }
            for certificate in other.certificates {
                guard let place = certificates.firstIndex(where: { $0.owner == certificate.owner }) else {
                    certificates.append(certificate)
                    continue
                }
                if certificate.notAfter < certificates[place].notAfter { certificates[place] = certificate }
            }
            stateCounts.addClamped(other.stateCounts)
            // Both were read from the same loop, so the one with more turns was read later, and contains the other.
            turnDurations.merge(other.turnDurations) { $1.count > $0.count ? $1 : $0 }
            delays.merge(other.delays) { $1.count > $0.count ? $1 : $0 }
            bytesToWrite.addClamped(other.bytesToWrite)
        }
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

    /// A report of every attempt that fails and every link that ends from now on, until the connection is closed.
    ///
    /// Each access creates a separate stream. A reader that is more than 64 reports behind misses the oldest ones. With
    /// `options.diagnosis.probe`, reports wait for the probe.
    public nonisolated var disconnects: AsyncStream<DisconnectReport> { reportReaders.makeStream() }

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
