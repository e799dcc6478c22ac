/// Decides whether one link is alive: the rules of `Liveness`, and what they need to know about the outbound frames.
package struct LinkLiveness: Sendable {
    package internal(set) var rules: Liveness
    /// The position of the latest ping in the outbound order, and its serial; `nil` for none.
    fileprivate var ping: (position: OutboundPosition, serial: SerialNumber)?
    /// No frame from this position on had been written when the incomplete frame began to arrive.
    fileprivate var incompleteFrom = OutboundPosition.first
    /// Whether the latest bytes ended with an incomplete frame.
    fileprivate var wasIncomplete = false

    /// Creates rules that never send a ping, for a link that is not ready.
    init() {
        var policy = Liveness.Policy()
        (policy.mode, policy.interval, policy.minimumRate) = (.none, .seconds(Int64.max), nil)
        rules = Liveness(policy, startedAt: Instant(nanoseconds: 0))
    }

    init(_ policy: Liveness.Policy, startedAt now: Instant) { rules = Liveness(policy, startedAt: now) }
}

extension LinkMachine {
    // MARK: Facts

    /// Records that `count` bytes were received, which completed frames or did not. Returns whether the timer may have
    /// to fire earlier.
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
        // The timer waits for the deadline of the ping. The next ping may be due earlier.
        return isNew || wasProbing && hasFrames
    }

    /// Records that bytes are about to be written. Returns whether the timer may have to fire earlier.
    @inline(__always)
    package mutating func willWrite(at now: Instant) -> Bool {
        liveness.rules.wrote(from: outbound.firstUnwritten, at: now)
    }

    /// Records that a full socket accepts bytes again, because the peer's kernel has accepted some.
    ///
    /// This is a sign of life only while the ping waits behind other frames, so that a large request on a slow network
    /// does not end the link. In other cases it is no evidence: a write may be short although the socket is not full,
    /// which once happened to the ping itself.
    package mutating func socketTookBytes(at now: Instant) {
        if let ping = liveness.ping, ping.position > outbound.firstUnwritten { liveness.rules.tookBytes(at: now) }
    }

    /// Records that reading was suspended or resumed. A link that is not read is never declared dead, because nothing
    /// that the peer sends is received. Its silence counts from when reading resumes.
    package mutating func readingChanged(to isReading: Bool, at now: Instant) {
        if isReading { liveness.rules.resume(at: now) } else { liveness.rules.suspend(at: now) }
    }

    /// Records that `count` written requests timed out, which is a reason for a ping. Returns true if this link has no
    /// ping, and no frame is arriving that may be the response to a request.
    package mutating func timedOut(_ count: Int, at now: Instant) -> Bool {
        liveness.rules.timedOut(count)
        if liveness.rules.asks { return false }
        return !(liveness.rules.isGrowing(at: now) && isIncompleteAwaited)
    }

    /// Returns the meaning of a ping or pong from the server. `pongsLookLikePings` is a property of the codec.
    package mutating func heartbeat(_ frame: Frame, pongsLookLikePings: Bool, at now: Instant) -> Liveness.Meaning {
        if frame.kind == .pong { return liveness.rules.pongReceived(serial: frame.serial, at: now) }
        guard pongsLookLikePings else { return .question }
        return liveness.rules.heartbeatReceived(serial: frame.serial, at: now)
    }

    // MARK: Time

    /// Whether the incomplete frame can be the response to a request in flight: one that was written before the frame
    /// began.
    private var isIncompleteAwaited: Bool { requests.hasRequest(at: OutboundPosition.first..<liveness.incompleteFrom) }

    /// Handles the timer that was armed for `due`. Returns the action to perform.
    package mutating func look(due: Instant, at now: Instant) -> Liveness.Action {
        let first = liveness.rules.firstWritten ?? .first
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

    /// Sends a ping at once, to test the link: see `Liveness.probe`.
    package mutating func probe(at now: Instant) -> Liveness.Action { liveness.rules.probe(at: now) }

    /// Queues a ping behind all other frames, so that it is never written within a frame. Watermarks do not delay it.
    /// Returns false if an earlier ping still waits to be written; then no new one is queued.
    package mutating func send(ping: Frame, at now: Instant) -> Bool {
        if let waiting = liveness.ping, waiting.position >= outbound.firstUnwritten {
            liveness.rules.pingSent(serial: waiting.serial, goesOutAtOnce: false, at: now)
            return false
        }
        liveness.rules.pingSent(serial: ping.serial, goesOutAtOnce: outbound.isEmpty, at: now)
        liveness.ping = (outbound.nextPosition, ping.serial)
        send(ping)
        return true
    }

    /// Records that the codec has no ping now, or that the ping that was queued cannot be encoded.
    package mutating func pingRefused(wasQueued: Bool, at now: Instant) {
        if wasQueued { liveness.ping = nil }
        liveness.rules.pingRefused(wasQueued: wasQueued, at: now)
    }
}
