/// Closing: the link ends when everything is written, or when the time is over.
extension ConnectionDriver {
    func whenClosed(_ continuation: Continuation<Void>) {
        if lifecycle == .closed {
            processes.whenAllHaveEnded { continuation.resume() }
        } else {
            ending.waiters.append(continuation)
        }
    }

    func beginClosing() {
        guard lifecycle < .closing else { return }
        perform(machine.dropChange(at: loop.now))
        deliverHeldToReaders()
        ending.lifecycle = .closing
        ending.deadline = loop.now.advanced(by: options.requests.drainTimeout)
        guard let ready else { return finishClosing() }
        if let closingFrame = ready.state.codec.closingFrame() {
            ready.state.machine.send(closingFrame)
            ending.awaitsAnswer = ready.state.codec.closingIsAnswered
        }
        guard !ready.state.machine.outbound.isEmpty || ready.isHoldingBytes else {
            return finishClosing()
        }
        ending.left = ready.left
        armClosing()
        publishState()
        io.scheduleFlush()
    }

    func closingIsWritten() {
        guard ending.awaitsAnswer else { return finishClosing() }
        // Once: what is written later, such as a pong, does not give the server more time.
        guard ending.answerDeadline == nil else { return }
        let deadline = min(ending.deadline, loop.now.advanced(by: Link.stallLimit))
        ending.answerDeadline = deadline
        arm(at: deadline)
    }

    func closingIsAnswered() {
        if lifecycle == .closing, ending.awaitsAnswer { finishClosing() }
    }

    private func armClosing() {
        arm(at: min(ending.deadline, loop.now.advanced(by: Link.stallLimit)))
    }

    func closingTimerFired() {
        guard loop.turnTime < ending.deadline, let session = ready?.session else { return finishClosing() }
        io.flush(session)  // the socket may take bytes before it reports that it is writable
        guard lifecycle == .closing, let ready else { return }
        if let deadline = ending.answerDeadline {
            return loop.turnTime < deadline ? arm(at: deadline) : finishClosing()
        }
        guard !ready.state.machine.outbound.isEmpty || ready.isHoldingBytes else {
            return finishClosing()
        }
        let left = ready.left
        // If the queue is empty, TLS holds whole frames whose calls have returned because they count as written.
        let isWanted =
            ready.state.machine.count > 0 || ready.state.machine.outbound.isEmpty && ready.isHoldingBytes
        guard isWanted || left.isLess(than: ending.left) else { return finishClosing() }
        ending.left = left
        armClosing()
    }

    /// Until the owner closes, links are used, and replaced, as before.
    func ownerDrains() {
        guard lifecycle == .open else { return }
        ending.lifecycle = .draining
        publishState()
    }

    /// Frames that are held can be read after the connection was closed.
    private func deliverHeldToReaders() { if rules.deliversAll, let ready { io.deliverHeld(ready) } }

    func finishClosing() {
        guard lifecycle < .closed else { return }
        deliverHeldToReaders()
        guard lifecycle < .closed else { return }  // a frame that was held has ended the link
        reportEndOfAttempt()
        reportEndOfReady()
        ending.lifecycle = .closed
        machine.close()
        liveness.stop()
        if handshaking != nil { handshakes.end(.connectionWasClosed(.notSent)) }
        endDialling()
        requests.stopCancelling()
        dialMemory.lateLookups.drop()
        for link in links.all {
            // What waits on a draining link is usually cancellations: writes as many as the socket takes.
            if link.isDraining, !link.state.machine.outbound.isEmpty {
                var result = Link.WriteResult()  // not used: no call waits for these writes
                io.write(link, &result)
            }
            end(link, .closed)
        }
        timers.disarmAll()
        port.append(.closed)
        publishState()
        let waiters = exchange(&ending.waiters, with: [])
        if !waiters.isEmpty { processes.whenAllHaveEnded { for waiter in waiters { waiter.resume() } } }
    }
}

struct Ending {
    var lifecycle = Lifecycle.open
    var deadline = Instant.distantFuture
    var left = Link.Left()
    var awaitsAnswer = false
    /// `nil` before everything is written.
    var answerDeadline: Instant?
    var waiters: [Continuation<Void>] = []
}
