/// Requests of the server on links, and the answers to them.
extension Connection {
    /// The frame that tells the server that its request is not served; `nil` if the protocol has none, or the link has
    /// ended.
    func refusal(of request: Frame, on session: SessionID, because reason: ServingRefusal) -> Frame? {
        links[session]?.state.codec.refusal(of: request, because: reason)
    }

    /// Notes that a request of the server gets no answer.
    func noteUnanswered(_ request: Frame) {
        guard let session = request.session else { return }
        links[session]?.state.codec.noteUnanswered(request)
    }

    /// Whether an answer could be written on the link of `session`.
    func mayAnswer(on session: SessionID) -> Bool {
        guard let link = links[session] else { return false }
        return link.finalReads == nil && !link.isInHandshake
    }

    /// Queues an answer on the link of its request. Its `id` is reported when it is written. Like a part of a request, it
    /// never moves to another link.
    func answer(_ frame: Frame, _ id: RequestID, to serial: SerialNumber, on session: SessionID) {
        guard let link = links[session] else { return }
        link.state.machine.send(part: frame, id: id, of: serial)
        scheduleFlushUnlessFull(link)
    }

    /// Notes that a request of the server waits or runs on its link, or does not any more: a draining link waits for it.
    func noteCall(_ change: Int, on session: SessionID) {
        guard let link = links[session] else { return }
        link.openCalls += change
        if change < 0, link.isDraining { scheduleFlush() }
    }
}
