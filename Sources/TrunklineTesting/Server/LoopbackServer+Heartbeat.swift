public import Trunkline

/// Pings, pongs and silence.
extension LoopbackServer {
    // MARK: Commands

    /// Pings every connected client. Returns how many; the journal counts their pongs. Throws when the protocol has no
    /// ping. The ping is the codec's own, without a serial number.
    ///
    /// In protocols in which pings and pongs look alike a client answers one ping a second at most, and none while it
    /// waits for the answer to its own.
    @discardableResult
    public func ping() throws(FrameError) -> Int {
        let count = try broadcast(codec.serverPing)
        for link in sortedLinks where !link.isEnding { link.unansweredPings += 1 }
        return count
    }

    /// Answers pings from now on, `delay` after they come, or not at all. Pongs that are on their way still go out.
    public func answerPings(_ answers: Bool = true, after delay: Duration = .zero) {
        answersPings = answers
        pongDelay = delay
    }

    /// Writes nothing from now on, to no connection, but goes on reading: as a process that hangs. What there is to be
    /// written waits for `speakAgain()`.
    public func fallSilent() { isSilent = true }

    /// Ends `fallSilent()`: writes what has waited.
    public func speakAgain() {
        isSilent = false
        for link in sortedLinks { markDirty(link) }
        settle()
    }

    // MARK: On the loop

    /// A ping, or a pong, has come.
    func heartbeatReceived(_ frame: Frame, on link: ServerLink) {
        guard frame.kind == .ping else { return pongReceived(on: link) }
        if link.codec._pongsLookLikePings, link.unansweredPings > 0, frame.serial == 0 {
            // Our pings have no serial. Where the client's have one, this is a pong. Where they have none it may be a
            // ping as well, and an answer too many does no harm, while one too few can cost the link.
            pongReceived(on: link)
            if link.codec._ping(number: 0)?.serial != 0 { return }
        } else {
            record.pingCount += 1
        }
        guard answersPings, let pong = link.codec._pong(answering: frame) else { return }
        if pongDelay > .zero {
            perform(Reaction(.after(pongDelay, Reaction(.frame(pong)))), for: frame, on: link)
        } else {
            send(pong, on: link)
        }
    }

    private func pongReceived(on link: ServerLink) {
        record.pongCount += 1
        link.unansweredPings = max(0, link.unansweredPings - 1)
    }
}

extension FrameCodec {
    /// A ping on the server's own account. Users' codecs may need more than its kind to encode it.
    var serverPing: Frame {
        var ping = _ping(number: 0) ?? Frame(.ping)
        ping.serial = 0
        return ping
    }
}
