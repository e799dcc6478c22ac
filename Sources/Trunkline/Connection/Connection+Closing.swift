/// How far a connection, or a client, has come on the way to its end. It never goes back.
enum Lifecycle: Comparable {
    case open
    /// A client, or one's connection, takes no new requests; those that there are finish.
    case draining
    /// Nothing is taken or awaited any more; what is queued is still written.
    case closing
    case closed
}

/// Closing: the link ends when everything is written, or its time is over.
extension Connection {
    /// Writes out what is queued and the codec's `closingFrame`, if there is a link to write them to, and closes. Returns
    /// when the link has ended.
    ///
    /// What cannot be written fails with `closed`. A peer that reads slowly is waited for no longer than
    /// `ConnectionOptions.drainTimeout`. One that reads nothing for 2 s is not waited for any longer if no `write` waits: what
    /// is left then is the rest of a frame that was given up, or the closing frame. Calling it again waits for the same end;
    /// if the calling task is cancelled, it closes at once.
    ///
    /// The socket outlives the call: it is read from until the peer closes too, for up to 1 s, because to close it earlier
    /// could destroy what the peer has not read yet. Over TLS to a peer that hardly reads it is up to 30 s, for encrypted
    /// bytes that no kernel has yet.
    public func close() async {
        entered { $0.drain() }
        await withTaskCancellationHandler {
            await waitUntilClosed()
        } onCancel: {
            schedule { $0.finishClosing() }
        }
    }

    /// Closes at once; what is queued fails with `closed`.
    public func closeNow() {
        entered { $0.finishClosing() }
    }

    func waitUntilClosed() async {
        await withContinuation { continuation in
            // Asked here and not before: the `await` may let the loop do other things first.
            if lifecycle == .closed { continuation.resume() } else { closeWaiters.append(continuation) }
        }
    }

    /// Begins to close: the link ends when everything is written.
    func drain() {
        guard lifecycle < .closing else { return }
        // No other link is made.
        perform(machine.dropChange(at: loop.now))
        lifecycle = .closing
        closing = Closing(deadline: loop.now.advanced(by: options.requests.drainTimeout))
        guard let ready else { return finishClosing() }
        if let farewell = links[ready].codec._closingFrame() { links[ready].machine.send(farewell) }
        guard !links[ready].machine.outbound.isEmpty || links[ready].transport.isHoldingBytes else {
            return finishClosing()
        }
        closing?.left = links[ready].left
        armClosing()
        publishState()
        scheduleFlush()
    }

    /// Looks at once in a while how the writing goes, until the end of the time.
    private func armClosing() {
        guard let closing else { return }
        arm(at: min(closing.deadline, loop.now.advanced(by: Self.stallLimit)))
    }

    func closingTimerFired() {
        guard let end = closing, loop.now < end.deadline, let ready else { return finishClosing() }
        guard !links[ready].machine.outbound.isEmpty || links[ready].transport.isHoldingBytes else {
            return finishClosing()
        }
        let left = links[ready].left
        // With nothing left in the queue it is whole frames that TLS holds, of callers who were told that they are written.
        let isWanted = links[ready].machine.count > 0 || links[ready].machine.outbound.isEmpty
        guard isWanted || left.isLess(than: end.left) else { return finishClosing() }
        closing?.left = left
        armClosing()
    }

    /// A client has no requests left by the time its connection drains, so nobody waits for its bytes.
    private static let stallLimit = Duration.seconds(2)

    /// The owner closes as soon as its requests have ended; the link, or the way to one, goes on meanwhile.
    func ownerDrains() {
        guard lifecycle == .open else { return }
        lifecycle = .draining
        publishState()
    }

    func finishClosing() {
        guard lifecycle < .closed else { return }
        reportEndOfAttempt()
        reportEndOfReady()
        lifecycle = .closed
        machine.close()
        arm(at: nil)
        stopLiveness()
        stopWatchingFiles()
        if let pathTimer { loop.arm(pathTimer.timer, at: nil) }
        endHandshake(ClientError(.closed, .notSent, "the connection was closed"))
        endAttempt()
        for index in links.indices {
            // Cancellations, as a rule, as far as the socket takes them.
            if links[index].draining != nil, !links[index].machine.outbound.isEmpty { _ = links[index].write() }
            Lingering.close(links[index].transport, on: loop)
            let remains = links[index].machine.close()
            if links[index].draining != nil { report(links[index], .closedLocally, nil, remains, requestsLost: 0) }
            events.append(.lost(LinkLoss(links[index], remains, TransportError.closedByUs)))
        }
        links = []
        armDraining()
        events.append(.closed)
        publishState()
        endReader()
        for waiter in exchange(&closeWaiters, with: []) { waiter.resume() }
    }
}

/// The end of a connection that has something to write yet.
struct Closing {
    let deadline: Instant
    /// At the latest look.
    var left = Link.Left()
}

extension Link {
    /// What has not been written.
    struct Left {
        /// The first frame that is not written to its last byte, how many encoded bytes wait for the socket, and how many of
        /// those that it has taken TLS still holds.
        var position: OutboundPosition = 0
        var unwritten = 0
        var held = 0

        /// Whether the socket has taken bytes since it was `earlier`. What is encoded later adds to `unwritten` only when all
        /// that was encoded has gone.
        func isLess(than earlier: Left) -> Bool {
            position > earlier.position || position == earlier.position && unwritten < earlier.unwritten
                || held < earlier.held
        }
    }

    fileprivate var left: Left {
        Left(
            position: machine.outbound.firstUnwritten,
            unwritten: machine.outbound.unwrittenCount,
            held: transport.heldByteCount
        )
    }
}
