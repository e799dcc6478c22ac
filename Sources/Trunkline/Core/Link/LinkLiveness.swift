/// Whether one link is alive: `Liveness`, and what it has to know of the frames on their way out.
package struct LinkLiveness: Sendable {
    package internal(set) var rules: Liveness
    /// The latest ping's place in the outbound order, and its serial; 0 for none.
    fileprivate var ping: (position: OutboundPosition, serial: SerialNumber) = (0, 0)
    /// No frame from here on had been written when the frame that is incomplete began to come in.
    fileprivate var incompleteFrom: OutboundPosition = 0
    /// Whether the latest bytes left the beginning of a frame.
    fileprivate var wasIncomplete = false

    /// Asks for nothing: for a link that is not ready.
    init() {
        var policy = Liveness.Policy()
        (policy.mode, policy.interval, policy.minimumRate) = (.none, .seconds(Int64.max), nil)
        rules = Liveness(policy, startedAt: Instant(nanoseconds: 0))
    }

    init(_ policy: Liveness.Policy, startedAt now: Instant) { rules = Liveness(policy, startedAt: now) }
}

extension LinkMachine {
    // MARK: Facts

    /// So many bytes have come in, and have completed frames or not. Returns whether the timer may have to fire sooner.
    @inline(__always)
    package mutating func received(_ count: Int, hasFrames: Bool, leavesIncomplete: Bool, at now: Instant) -> Bool {
        let wasProbing = liveness.rules.isProbing
        let isNew =
            hasFrames
            ? liveness.rules.heard(at: now, leavesIncomplete: leavesIncomplete)
            : liveness.rules.grew(by: count, isIncomplete: leavesIncomplete, at: now)
        if leavesIncomplete, hasFrames || !liveness.wasIncomplete {
            liveness.incompleteFrom = outbound.firstUnstarted
        }
        liveness.wasIncomplete = leavesIncomplete
        // The timer waits for the ping's deadline; the next ping may be due before.
        return isNew || wasProbing && hasFrames
    }

    /// Bytes are about to be written. Returns whether the timer may have to fire sooner.
    @inline(__always)
    package mutating func willWrite(at now: Instant) -> Bool {
        liveness.rules.wrote(from: outbound.firstUnwritten, at: now)
    }

    /// The socket was full and takes bytes again: the peer's kernel has taken some. While our ping waits behind other frames
    /// that is a sign of life, so that a large request on a slow line does not cost the link. Otherwise it is none: a
    /// write may be cut short without the socket being full, as that of the ping itself once was.
    package mutating func socketTookBytes(at now: Instant) {
        if liveness.ping.position > outbound.firstUnwritten { liveness.rules.tookBytes(at: now) }
    }

    /// Reading was switched. A link that we do not read is never given up: what it says is not heard. Its silence counts
    /// from when reading goes on.
    package mutating func readingChanged(to isReading: Bool, at now: Instant) {
        if isReading { liveness.rules.resume(at: now) } else { liveness.rules.suspend(at: now) }
    }

    /// So many requests that had been written timed out: they are a reason to ping. Returns whether there is no ping to ask
    /// with, and no frame comes in that may be the answer to a request.
    package mutating func timedOut(_ count: Int, at now: Instant) -> Bool {
        liveness.rules.timedOut(count)
        if liveness.rules.asks { return false }
        return !(liveness.rules.isGrowing(at: now) && isIncompleteAwaited)
    }

    /// What the server's ping or pong means. `pongsLookLikePings` is the codec's.
    package mutating func heartbeat(_ frame: Frame, pongsLookLikePings: Bool, at now: Instant) -> Liveness.Meaning {
        if frame.kind == .pong { return liveness.rules.pongReceived(serial: frame.serial, at: now) }
        guard pongsLookLikePings else { return .question }
        return liveness.rules.heartbeatReceived(serial: frame.serial, at: now)
    }

    // MARK: Time

    /// Whether the frame that is coming in can be the answer to a request that waits: to one that was written before.
    private var isIncompleteAwaited: Bool { requests.hasRequest(at: 0..<liveness.incompleteFrom) }

    /// The timer that was armed for `due` fires: what is to be done.
    package mutating func look(due: Instant, at now: Instant) -> Liveness.Action {
        let first = liveness.rules.firstWritten
        let positions = first..<max(first, outbound.firstUnstarted)
        var rules = liveness.rules
        let action = rules.timerFired(
            due: due,
            at: now,
            isAwaited: { isIncompleteAwaited },
            hasUnanswered: { requests.hasRequest(at: positions) }
        )
        liveness.rules = rules
        return action
    }

    /// Has the server asked at once whether it is still there: see `Liveness.probe`.
    package mutating func probe(at now: Instant) -> Liveness.Action { liveness.rules.probe(at: now) }

    /// Sends a ping behind everything that is queued, so never within a frame; watermarks do not hold it up. Returns whether
    /// it is a new one, and not one that waits to be written already.
    package mutating func send(ping: Frame, at now: Instant) -> Bool {
        guard liveness.ping.position < outbound.firstUnwritten else {
            liveness.rules.pingSent(serial: liveness.ping.serial, goesOutAtOnce: false, at: now)
            return false
        }
        liveness.rules.pingSent(serial: ping.serial, goesOutAtOnce: outbound.isEmpty, at: now)
        liveness.ping = (outbound.nextPosition, ping.serial)
        send(ping)
        return true
    }
}
