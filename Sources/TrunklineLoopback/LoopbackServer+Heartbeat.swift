public import TrunklineCore

extension LoopbackServer {
    /// Pings every connected client, and returns the number of clients. The journal counts the pongs.
    ///
    /// The codec creates the ping, without a serial number. In protocols whose pings and pongs look alike, a client
    /// answers at most one ping per second, and no ping while it waits for the answer to a ping that it sent.
    ///
    /// A client whose codec cannot encode a ping now is left out and not counted.
    ///
    /// - Throws: `FrameError` if no client can be pinged, because the protocol has no ping or none now.
    @discardableResult
    public func ping() throws(FrameError) -> Int {
        defer { settle() }
        var (count, refusal) = (0, FrameError?.none)
        for link in sortedLinks where !link.isEnding {
            do throws(FrameError) {
                try link.append(link.codec.serverPing)
                link.unansweredPings += 1
                count += 1
                markDirty(link)
            } catch {
                refusal = error
            }
        }
        if count == 0, let refusal { throw refusal }
        return count
    }

    /// Sets whether pings are answered from now on, and after what delay. Pongs that are already delayed are still
    /// sent.
    ///
    /// - Parameters:
    ///   - answers: `false` to answer no pings.
    ///   - delay: The time between a ping and its pong. Default: zero.
    public func answerPings(_ answers: Bool = true, after delay: Duration = .zero) {
        answersPings = answers
        pongDelay = delay
    }

    /// Stops writing to all connections but continues to read, like a process that hangs. What the server writes in the
    /// meantime is queued until ``speakAgain()``.
    public func fallSilent() { isSilent = true }

    /// Ends ``fallSilent()`` and writes what was queued.
    public func speakAgain() {
        isSilent = false
        for link in sortedLinks { markDirty(link) }
        settle()
    }

    func heartbeatReceived(_ frame: Frame, on link: ServerLink) {
        guard frame.kind == .ping else { return pongReceived(on: link) }
        if codec.pongsLookLikePings, link.unansweredPings > 0, frame.serial == 0 {
            // The server's pings have no serial. If the client's pings have one, this frame is a pong. If they have
            // none, it may also be a ping. An unnecessary pong is harmless, but a missing one can end the link.
            pongReceived(on: link)
            if link.codec.ping(number: 0)?.serial != 0 { return }
        } else {
            record.pingCount += 1
        }
        guard answersPings, let pong = link.codec.pong(answering: frame) else { return }
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

extension LinkCodec {
    /// Custom codecs may need more than the kind of a ping to encode it.
    var serverPing: Frame {
        var ping = ping(number: 0) ?? Frame(.ping)
        ping.serial = 0
        return ping
    }
}
