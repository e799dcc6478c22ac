/// What it means that the event loop was late: the server, which has had to wait, is not judged for that time.
extension ConnectionDriver {
    func followLoop() {
        guard !memory.isToldOfDelays, let reference else { return }
        memory.isToldOfDelays = true
        loop.addDelayReceiver(reference)
    }

    /// Deadlines of callers do not change.
    func giveBack(_ delay: LoopDelay) {
        guard lifecycle < .closed else { return }
        observation?.add(.links, .loopLate(delay))
        ready?.state.machine.loopWasLate(delay)
        for link in links.draining { link.draining?.prolong(by: delay.duration) }
        attempt?.dialer?.loopWasLate(delay)
        if let end = attempt?.deadline {
            attempt?.deadline = delay.prolonging(end, of: options.connecting.timeout)
        }
        if handshaking != nil { handshakes.giveBack(delay) }
    }
}
