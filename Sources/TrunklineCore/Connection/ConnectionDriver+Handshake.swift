/// What handshakes ask of the driver.
extension ConnectionDriver: HandshakeHost, LivenessHost {
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
