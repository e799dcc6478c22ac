/// Requests of the server on links, and the answers to them.
extension ConnectionDriver {
    /// Like a part of a request, the answer never moves to another link.
    func answer(_ frame: Frame, _ id: RequestID, to serial: SerialNumber, on session: SessionID) {
        guard let link = links[session] else { return }
        link.state.machine.send(part: frame, id: id, of: serial)
        scheduleFlushUnlessFull(link)
    }

    /// A draining link waits for the requests of the server.
    func noteCall(_ change: Int, on session: SessionID) {
        guard let link = links[session] else { return }
        link.openCalls += change
        if change < 0, link.isDraining { io.scheduleFlush() }
    }
}
