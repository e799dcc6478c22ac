public import TrunklineCore
import TrunklineIO

/// Noticing that the link is dead: performs what `Liveness` decides.
///
/// The machine hears of every read, of every flush and of requests that time out. Its timer is armed for the instant at
/// which it has to look next, and not moved when something is heard: when it fires and there is nothing to do, it is armed
/// anew.
extension Connection {
    /// How long pings take on the present link; `nil` before the first pong.
    public var roundTripTime: RoundTripTime? { heartbeat.machine.roundTripTime }

    /// What belongs to liveness, of the present link and of all.
    struct Heartbeat {
        /// That of no link until one is ready: it asks for nothing.
        var machine = Liveness.stopped(at: Instant(nanoseconds: 0))
        var timer: ConnectionTimer?
        /// The instant `timer` is armed for.
        var armed: Instant?
        /// The latest ping's place in the outbound order, and its serial; 0 for none on this link.
        var ping: (position: OutboundPosition, serial: SerialNumber) = (0, 0)
        /// No frame from here on had been written when the frame that is incomplete began to come in.
        var incompleteFrom: OutboundPosition = 0
        /// Whether the latest bytes left the beginning of a frame.
        var wasIncomplete = false
    }

    // MARK: From link to link

    /// The link may be used: its silence counts from now.
    func startLiveness() {
        var policy = Liveness.Policy()
        policy.interval = options.liveness.interval
        policy.deadline = options.liveness.deadline
        policy.probeAfter = options.liveness.probeAfter
        policy.speakAfter = options.liveness.speakAfter
        policy.minimumRate = options.liveness.minimumRate
        policy.maximumTimeouts = options.liveness.maximumStalls
        policy.mode =
            switch options.liveness.heartbeat {
            case _ where codec.ping(number: 0) == nil: .none
            case .none: .none
            case .oneWay: .oneWay
            case .pingPong: .pingPong
            }
        heartbeat.machine = Liveness(policy, startedAt: loop.now)
        heartbeat.ping = (0, 0)
        (heartbeat.incompleteFrom, heartbeat.wasIncomplete) = (0, false)
        // The greeting may have left the beginning of a frame.
        if link?.received.isEmpty == false { received(0, hasFrames: false) }
        armLiveness()
    }

    /// There is no link any more.
    func stopLiveness() {
        heartbeat.machine = .stopped(at: loop.now)
        heartbeat.armed = nil
        if let timer = heartbeat.timer { loop.arm(timer.timer, at: nil) }
    }

    // MARK: Facts

    /// The transport's reading was switched. A link that we do not read is never given up: what it says is not heard. Its
    /// silence counts from when reading goes on.
    func readingChanged(to isReading: Bool) {
        if isReading {
            heartbeat.machine.resume(at: loop.turnTime)
            armLiveness()
        } else {
            heartbeat.machine.suspend(at: loop.turnTime)
            armLiveness()
        }
    }

    /// So many bytes have come in, and have completed frames or not.
    @inline(__always)
    func received(_ count: Int, hasFrames: Bool) {
        let wasProbing = heartbeat.machine.isProbing
        // Complete frames may be left for the next turn.
        let isIncomplete = link.map { !$0.received.isEmpty && !$0.holdsFrames } ?? false
        let isNew =
            hasFrames
            ? heartbeat.machine.heard(at: loop.turnTime, leavesIncomplete: isIncomplete)
            : heartbeat.machine.grew(by: count, isIncomplete: isIncomplete, at: loop.turnTime)
        if isIncomplete, hasFrames || !heartbeat.wasIncomplete { heartbeat.incompleteFrom = outbound.firstUnstarted }
        heartbeat.wasIncomplete = isIncomplete
        // The timer waits for the ping's deadline; the next ping may be due before.
        if isNew || wasProbing && hasFrames { armLiveness() }
    }

    /// So many requests that had been written to the link timed out: they are a reason to ping. Returns whether the link has
    /// no ping to be asked with, and no frame comes in that may be the answer to a request.
    func requestsTimedOut(_ count: Int) -> Bool {
        guard link != nil, greeting == nil else { return false }
        heartbeat.machine.timedOut(count)
        armLiveness()
        guard !heartbeat.machine.asks else { return false }
        return !(heartbeat.machine.isGrowing(at: loop.now) && isIncompleteAwaited)
    }

    /// Whether the frame that is coming in can be the answer to a request that waits: to one that was written before.
    private var isIncompleteAwaited: Bool {
        let first = link?.firstPosition ?? 0
        return owner?.hasUnanswered(at: first..<max(first, heartbeat.incompleteFrom)) ?? true
    }

    /// The server's ping or pong has come.
    func heartbeatReceived(_ frame: Frame) -> Liveness.Meaning {
        if frame.kind == .pong { return heartbeat.machine.pongReceived(serial: frame.serial, at: loop.now) }
        guard codec.pongsLookLikePings else { return .question }
        return heartbeat.machine.heartbeatReceived(serial: frame.serial, at: loop.now)
    }

    /// As `heartbeatReceived`, without an owner: answers the server's ping and hands it over; keeps the answer to ours.
    func deliverHeartbeat(_ frame: Frame) {
        let meaning = heartbeatReceived(frame)
        if meaning == .answer { return }
        // A server that pings and never reads must not fill our memory.
        if meaning == .question, outbound.level.linkFrameCount < 1024, let pong = codec.pong(answering: frame) {
            outbound.append(OutboundQueue.Item(pong, ticket: 0))
            scheduleFlush()
        }
        inbox.append(frame)
    }

    // MARK: The timer

    /// Lets the timer fire in time for the machine's next look. One that is armed for earlier stays.
    func armLiveness() {
        guard let next = heartbeat.machine.nextLook, next < .distantFuture else { return }
        if let armed = heartbeat.armed, armed <= next { return }
        let timer = heartbeat.timer ?? ConnectionTimer(self) { $0.livenessTimerFired() }
        heartbeat.timer = timer
        heartbeat.armed = next
        loop.arm(timer.timer, at: next)
    }

    var isLivenessTimerArmed: Bool { heartbeat.timer?.timer.deadline != nil }

    private func livenessTimerFired() {
        guard let due = heartbeat.armed, let link = link?.session else { return }
        heartbeat.armed = nil
        let action = look(due)
        if action == .examine { examine() }
        if action == .declareDead {
            // What the socket holds was said in time: a loop that was held up has not read it yet.
            read()
            guard self.link?.session == link else { return }
            if look(due) == .declareDead { return loseToSilence() }
        }
        armLiveness()
    }

    /// A socket that has failed says so to those who read or write, and we do neither: takes what is left to read, and with
    /// it the failure, wherever that goes.
    private func examine() {
        guard let link, link.transport.hasFailed else { return }
        held.isUnlimited = true
        updateReading()
    }

    /// Asks the machine, and sends the ping it asks for.
    private func look(_ due: Instant) -> Liveness.Action {
        let positions = heartbeat.machine.firstWritten..<max(heartbeat.machine.firstWritten, outbound.level.unstarted)
        let owner = owner
        var machine = heartbeat.machine
        let action = machine.timerFired(due: due, at: loop.now) {
            isIncompleteAwaited
        } hasUnanswered: {
            owner?.hasUnanswered(at: positions) ?? false
        }
        heartbeat.machine = machine
        if case .ping(let number) = action, let ping = codec.ping(number: number) { send(ping) }
        return action
    }

    /// Behind everything that is queued, so never within a frame; watermarks do not hold it up. Only a full socket can,
    /// see `socketTookBytes`.
    private func send(_ ping: Frame) {
        guard !isPingQueued else {
            return heartbeat.machine.pingSent(serial: heartbeat.ping.serial, goesOutAtOnce: false, at: loop.now)
        }
        heartbeat.machine.pingSent(serial: ping.serial, goesOutAtOnce: outbound.isEmpty, at: loop.now)
        statistics.pings += 1
        heartbeat.ping = (outbound.append(OutboundQueue.Item(ping, ticket: 0)), ping.serial)
        scheduleFlush()
    }

    private var isPingQueued: Bool { heartbeat.ping.position >= outbound.firstUnwritten }

    /// The socket was full and takes bytes again: the peer's kernel has taken some. While our ping waits behind other frames
    /// that is a sign of life, so that a large request on a slow line does not cost the link. Otherwise it is none: a
    /// write may be cut short without the socket being full, as that of the ping itself once was.
    func socketTookBytes() {
        if heartbeat.ping.position > outbound.firstUnwritten { heartbeat.machine.tookBytes(at: loop.turnTime) }
    }

    private func loseToSilence() {
        guard let endpoint = link?.endpoint else { return }
        let since = heartbeat.machine.asks ? "of a ping" : "of the beginning of a frame"
        let message = "no complete frame from \(endpoint) within \(options.liveness.deadline) \(since)"
        lose(TransportError(.halfOpen, message))
    }
}

extension Liveness {
    /// A machine that asks for nothing, for when there is no link.
    fileprivate static func stopped(at now: Instant) -> Liveness {
        var policy = Policy()
        (policy.mode, policy.interval, policy.minimumRate) = (.none, .seconds(Int64.max), nil)
        return Liveness(policy, startedAt: now)
    }
}
