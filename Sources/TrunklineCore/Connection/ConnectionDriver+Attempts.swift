/// Establishing and losing links: performs the actions of `ReconnectMachine`.
extension ConnectionDriver {
    func connectIfNeeded() {
        // Called for every batch of requests, and seldom has anything to do.
        if machine.heedsDemand { perform(machine.linkNeeded(at: loop.now)) }
    }

    func perform(_ action: ReconnectMachine.Action) {
        switch action {
        case .none: return
        case .connect(let attempt): begin(attempt)
        case .wait(let until):
            abandonAttempt()
            arm(at: until)
        case .rest:
            abandonAttempt()
            arm(at: machine.deadline)
        case .close(let session):
            abandonAttempt()
            arm(at: nil)
            if let link = links[session], !link.isDraining {
                lose(session, TransportError.closedByUs("suspend() was called"))
            }
        case .drain(let session, let next):
            drainReplaced(session)
            perform(next)
        case .giveUp:
            abandonAttempt()
            arm(at: nil)
            port.append(.unavailable(history.unavailable(hasEndpoints: !machine.endpoints.isEmpty)))
        }
        publishState()
    }

    private func drainReplaced(_ session: SessionID) {
        if let link = links[session], !link.isDraining { drain(link, machine.lastCause) }
    }

    var demand: ReconnectMachine.Demand {
        memory.subscriptions.isEmpty ? port.demand : max(port.demand, .pushes)
    }

    var linkObstacle: ClientError.LinkObstacle? {
        if ready != nil { return nil }
        return switch machine.state {
        case .suspended: .isSuspended
        case .noNetwork: .noRoute
        default: .notConnected
        }
    }

    func abandonAttempt() {
        reportEndOfAttempt()
        endDialling()
        dropHandshaking(ClientError(.connectionLost, .notSent, "the client ended the attempt"))
    }

    /// Leaves the link of the attempt alone.
    func endDialling() {
        attempt?.dialer?.cancel()
        attempt = nil
    }

    private func dropHandshaking(_ error: ClientError) {
        guard let link = handshaking else { return }
        handshakes.end(error)
        links.remove(link)
        link.transport.close()
        _ = link.close()  // what was left has failed
    }

    private func begin(_ attempt: ReconnectMachine.Attempt) {
        guard let reference else { return }  // the connection was deallocated
        abandonAttempt()
        reports.counts.attempts += 1
        paths.follow(machine.endpoints, for: reference)
        followLoop()
        paths.look(at: machine.endpoints)
        self.attempt = Attempt(attempt, startedAt: loop.now, isHeld: !mayOverlap, paths)
        if mayOverlap { dial(attempt) } else { arm(at: nil) }
    }

    private func dial(_ attempt: ReconnectMachine.Attempt) {
        guard let reference else { return }
        arm(at: nil)  // the dialer watches its time itself
        if let error = context.obstacleToDatagrams(attempt.endpoint) {
            return schedule { $0.attemptFailed(attempt.id, error, isPermanent: true) }
        }
        let dialer = SocketDialer(attempt.endpoint, context.optionsForDialing, dialMemory, on: loop, context.recorder)
        self.attempt?.dialer = dialer
        dialer.dial(for: reference)
        followProcesses(of: dialer, attempt)
        noteProgress()
    }

    /// Whatever becomes of the attempt and its link, to the end of each process.
    private func followProcesses(of dialer: any Dialer, _ attempt: ReconnectMachine.Attempt) {
        for transport in dialer.opening {
            let hasProcess = transport.followProcess { [weak reference] event in
                reference?.driver.entered { $0.processes.heard(event, attempt.endpoint, attempt.id) }
            }
            if hasProcess { processes.begin() }
        }
    }

    private func noteProgress() {
        guard let attempt else { return }
        attempt.noteProgress(paths)
        publishState()
    }

    private var mayOverlap: Bool { options.failover.overlap == .allowed || links.isEmpty }

    func openHeldAttempt() {
        guard attempt?.isHeld == true, mayOverlap else { return }
        schedule { driver in
            guard let held = driver.attempt, held.isHeld, driver.mayOverlap else { return }
            driver.attempt = Attempt(held.decision, startedAt: driver.loop.now, isHeld: false, driver.paths)
            driver.dial(held.decision)
        }
    }

    /// `isPermanent`: `nil` if it follows from `error`.
    func attemptFailed(_ id: SessionID, _ error: any Error, isPermanent: Bool?) {
        guard let attempt = machine.attempt, attempt.id == id else { return }
        let phase: DisconnectReport.Phase =
            handshaking != nil ? .handshaking : self.attempt?.progress.phase ?? .connecting
        if phase == .resolving {
            paths.couldNotResolve(attempt.endpoint, hasAnswer: self.attempt?.progress.isResolved == true)
        }
        var subject = LinkReports.Subject(attempt, pathsOfAttempt)
        subject.lateSince = self.attempt?.startedAt
        // The addresses to which a route leads may be those that were not found.
        let mayHaveRoute = self.attempt?.progress.isPartlyResolved == true && loop.pathMonitor.hasNetwork
        subject.wasSilent = handshaking?.handshake?.hasHeard == false
        let hadFarewell = handshaking?.farewell != nil
        subject.details = handshaking.map { details(of: $0, DisconnectCause(error)) }
        endDialling()
        handshaking?.secured?.forgetUnansweredSession()  // of `startTLS()`; a dialer does that itself
        dropHandshaking(.lostDuringHandshake(error, .notSent))
        if ready == nil { history.lastCause = error }
        history.attemptFailed(attempt.endpoint, error)
        liveness.heartbeats?.attemptFailed(attempt.endpoint)
        let cause = DisconnectCause(error)
        let refusal = error as? HandshakeRefusal
        // A farewell has been counted already.
        if !hadFarewell, !(error is TransportError), let reason = ServerReason(statedBy: error) {
            reports.counts.linkEndReasons.count(reason.label)
        }
        let isPermanent = isPermanent ?? refusal?.isPermanent ?? error.isMistake
        subject.isPermanent = isPermanent
        report(phase, cause, error, subject)
        perform(
            machine.attemptFailed(
                id,
                cause,
                isPermanent: isPermanent,
                retryAfter: refusal?.retryAfter,
                hasRoute: !cause.mayBeOurNetwork || mayHaveRoute || hasRoute,
                isOfThisHost: cause.isOfThisHost || (error as? TransportError)?.code == .proxy(.unreachable),
                looksAgain: paths.looksForRouteAgain,
                at: loop.now
            )
        )
    }

    private func established(_ channel: DialedChannel) {
        let transport = channel.transport
        guard let attempt = machine.attempt, let begun = self.attempt, begun.decision == attempt else {
            return transport.close()
        }
        transport.handler = reference
        begun.deadline = channel.deadline
        begun.dialer = nil
        memory.linksBegun += 1
        let now = loop.now
        reports.counts.connectDurations.record(from: begun.startedAt, to: now)
        reports.notePassedOver(channel, of: attempt.endpoint)
        let path = paths.path(of: transport, to: channel.address.family == nil ? nil : channel.address)
        let end = now.advanced(by: options.handshake.timeout)
        let limit = options.handshakeLimit(isAttempt: begun.deadline.map { $0 < end } ?? false)
        let link = Link(
            attempt,
            transport,
            context.codec,
            HandshakeUse(deadline: min(begun.deadline ?? end, end), limit),
            number: memory.linksBegun,
            path: path,
            quarantine: options.requests.quarantine,
            maximumDatagramSize: options.connecting.sizeOfLargestDatagram,
            randomBits: { [loop] in loop.randomSeed() },
            at: now
        )
        link.fileVersions = channel.fileVersions
        links.begin(link)
        if let session = memory.savedSession { link.state.codec.setSession(session) }
        let hasHandshake = options.handshake.perform != nil || !memory.subscriptions.isEmpty
        if !hasHandshake || !handshakes.begin(link) { becomeReady(attempt.id, afterHandshake: false) }
    }

    func becomeReady(_ session: SessionID, afterHandshake: Bool) {
        guard let action = machine.linkReady(session, afterHandshake: afterHandshake, at: loop.now) else { return }
        let startedAt = attempt?.startedAt
        attempt = nil
        dialMemory.lateLookups.drop()
        if case .drain(let replaced, _) = action { drainReplaced(replaced) }
        guard let link = links[session] else { return }
        arm(at: machine.deadline)
        reports.counts.links += 1
        liveness.learnFromLoss(before: link)
        observation?.add(
            .links,
            .linkReady(
                ClientEvent.ReadyLink(
                    link,
                    since: startedAt,
                    waiting: port.waitingCount,
                    through: options.connecting.proxy(for: link.endpoint),
                    hasLostSession: memory.hasLostSession,
                    at: loop.now
                )
            )
        )
        requests.judge.linkIsReady(at: link.endpoint)
        history.linkIsReady()
        link.maximumInFlight = min(link.negotiated.maximumInFlight ?? .max, max(1, options.requests.maximumInFlight))
        if link.exchangesDatagrams { link.window = DatagramWindow(minimum: options.requests.datagramWindow) }
        links.becomeReady(link, liveness.policy(for: link), at: loop.now)
        timers.setLivenessGrid((link.negotiated.liveness ?? options.liveness).grid)
        liveness.start(link)
        if link.secured != nil { certificates.note(of: link) }
        io.updateReading()
        if memory.hasLostSession {
            memory.hasLostSession = false
            port.append(.sessionLost(link.endpoint, on: link.session))
        }
        port.append(.ready(session: session, link.endpoint))
        watchFiles(of: link)
        takeBetterPath(link)
        publishState()
        io.scheduleFlush()
    }

    func take(_ event: DialEvent) {
        switch event {
        case .progressed: noteProgress()
        case .connected(let channel): established(channel)
        case .failed(let error, let isPermanent):
            noteProgress()
            if let attempt = machine.attempt { attemptFailed(attempt.id, error, isPermanent: isPermanent) }
        }
    }
}

extension ClientEvent.ReadyLink {
    fileprivate init(
        _ link: Link,
        since startedAt: Instant?,
        waiting: Int,
        through proxy: Proxy?,
        hasLostSession: Bool,
        at now: Instant
    ) {
        self.init(
            endpoint: link.endpoint,
            address: link.path.remote?.description,
            session: link.session,
            attempt: link.attempt,
            duration: now.since(startedAt ?? link.establishedAt),
            tlsVersion: link.secured?.session?.version,
            waiting: waiting,
            proxy: proxy?.description,
            hasLostSession: hasLostSession
        )
    }
}

extension Error {
    /// Whether an attempt that fails with it would fail again.
    fileprivate var isMistake: Bool {
        switch (self as? ClientError)?.code {
        case .invalidRequest?, .invalidResponse?, .invalidArgument?: true
        default: (self as? TransportError)?.isPermanent ?? false
        }
    }
}
