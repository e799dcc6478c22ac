/// Noticing that the link is dead: performs what `Liveness` decides.
///
/// Its timer is armed for the instant at which it has to look next, and not moved when something is heard: when it fires and
/// there is nothing to do, it is armed anew.
extension Connection {
    /// How long pings take on the present link; `nil` before the first pong.
    public var roundTripTime: RoundTripTime? { ready.flatMap { links[$0].machine.liveness.rules.roundTripTime } }

    // MARK: From link to link

    /// The link may be used: its silence counts from now.
    func startLiveness(_ index: Int) {
        var policy = Liveness.Policy()
        policy.interval = options.liveness.interval
        policy.deadline = options.liveness.deadline
        policy.probeAfter = options.liveness.probeAfter
        policy.speakAfter = options.liveness.speakAfter
        policy.minimumRate = options.liveness.minimumRate
        policy.maximumTimeouts = options.liveness.maximumStalls
        policy.mode = codec._ping(number: 0) == nil ? .none : options.liveness.heartbeat
        links[index].machine.becomeReady(policy, at: loop.now)
        // The handshake may have left the beginning of a frame.
        if !links[index].received.isEmpty { received(0, hasFrames: false, index) }
        armLiveness()
    }

    /// There is no link any more to be watched.
    func stopLiveness() {
        livenessArmed = nil
        if let livenessTimer { loop.arm(livenessTimer.timer, at: nil) }
    }

    /// So many bytes have come in, and have completed frames or not.
    @inline(__always)
    func received(_ count: Int, hasFrames: Bool, _ index: Int) {
        // Complete frames may be left for the next turn.
        let leavesIncomplete = !links[index].received.isEmpty && !links[index].holdsFrames
        let isSooner = links[index].machine.received(
            count,
            hasFrames: hasFrames,
            leavesIncomplete: leavesIncomplete,
            at: loop.turnTime
        )
        if isSooner { armLiveness() }
    }

    // MARK: The timer

    /// Lets the timer fire in time for the machine's next look. One that is armed for earlier stays.
    func armLiveness() {
        guard let ready, let next = links[ready].machine.liveness.rules.nextLook, next < .distantFuture else { return }
        if let livenessArmed, livenessArmed <= next { return }
        let timer = livenessTimer ?? ConnectionTimer(self) { $0.livenessTimerFired() }
        livenessTimer = timer
        livenessArmed = next
        loop.arm(timer.timer, at: next)
    }

    var isLivenessTimerArmed: Bool { livenessTimer?.timer.deadline != nil }

    private func livenessTimerFired() {
        guard let due = livenessArmed, let ready else { return }
        let session = links[ready].session
        livenessArmed = nil
        switch look(due, ready) {
        case .none, .ping: break
        case .examine:
            // A socket that has failed says so to those who read or write, and we do neither: takes what is left to read,
            // and with it the failure, wherever that goes.
            if links[ready].transport.hasFailed {
                links[ready].held.isUnlimited = true
                updateReading()
            }
        case .declareDead:
            // What the socket holds was said in time: a loop that was held up has not read it yet.
            read(session)
            guard let ready = self.ready, links[ready].session == session else { return }
            if look(due, ready) == .declareDead { return loseToSilence(ready) }
        }
        armLiveness()
    }

    /// Asks the machine, and sends the ping it asks for.
    private func look(_ due: Instant, _ index: Int) -> Liveness.Action {
        let action = links[index].machine.look(due: due, at: loop.now)
        // Only a full socket can hold it up, see `socketTookBytes`.
        if case .ping(let number) = action { ping(number, index) }
        return action
    }

    private func ping(_ number: UInt64, _ index: Int) {
        guard let ping = codec._ping(number: number) else { return }
        if links[index].machine.send(ping: ping, at: loop.now) { statistics.pings += 1 }
        if !links[index].transport.awaitsWritable { scheduleFlush() }
    }

    /// Asks the server now, on the link of `session` if that is ready, whether it is still there.
    func probe(_ session: UInt64) {
        guard let ready, links[ready].session == session,
            case .ping(let number) = links[ready].machine.probe(at: loop.now)
        else { return }
        ping(number, ready)
        armLiveness()
    }

    private func loseToSilence(_ index: Int) {
        let since = links[index].machine.liveness.rules.asks ? "of a ping" : "of the beginning of a frame"
        let silence = "no complete frame from \(links[index].endpoint) within \(options.liveness.deadline) \(since)"
        lose(links[index].session, TransportError(.halfOpen, silence))
    }
}
