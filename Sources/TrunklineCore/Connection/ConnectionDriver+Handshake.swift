/// What handshakes and the watch for dead links ask of the driver.
extension ConnectionDriver: HandshakeHost, LivenessHost {
    func makeGate() -> any HandshakeLink { HandshakeGate(to: self) }

    var attemptDeadline: Instant? { attempt?.deadline }

    func handshakeIsComplete(_ link: Link, afterHearing: Bool, _ early: inout [Frame]) {
        reports.counts.handshakeDurations.record(from: link.establishedAt, to: loop.now)
        becomeReady(link.session, afterHandshake: afterHearing)
        if let ready, ready === link { io.deliver(&early, ready) }
    }

    func restartAttempt() { perform(machine.restartAttempt(at: loop.now)) }

    func extendEndpoints(with added: [Endpoint]) {
        machine.extendEndpoints(memory.givenEndpoints + added)
        forgetPathsOfOthers()
    }
}

extension ClientOptions {
    func handshakeLimit(isAttempt: Bool) -> HandshakeUse.Limit {
        isAttempt ? .attempt(connecting.timeout) : .handshake(handshake.timeout)
    }
}
