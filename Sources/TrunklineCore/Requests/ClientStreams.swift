/// The streams of a client, of pushes and of replies.
struct ClientStreams {
    var channels = PushChannels()
    /// The reply streams whose full buffer suspends reading. May contain streams that no longer do.
    var fullReplies: [ReplyChannel] = []
    /// Readers to resume at the end of a batch of events.
    private var served: [(Continuation<ReplyChannel.Element>, ReplyChannel.Element)] = []
    private var pushSession: SessionID?

    mutating func suspendReading() -> Bool {
        // Removes only from the end, so each stream is checked once.
        while let last = fullReplies.last, !last.suspendsReading { fullReplies.removeLast() }
        return channels.suspendReading() || !fullReplies.isEmpty
    }

    mutating func serve(_ reader: Continuation<ReplyChannel.Element>, with element: ReplyChannel.Element) {
        served.append((reader, element))
    }

    /// Once for a batch: a reader that is resumed for each part would cost two thread switches for each.
    mutating func resumeServed() {
        guard !served.isEmpty else { return }
        for (reader, element) in served { reader.resume(returning: element) }
        served.removeAll(keepingCapacity: served.count <= 64)
    }

    mutating func notePushes(from session: SessionID) {
        guard session != pushSession else { return }
        if pushSession != nil {
            for channel in channels.all { channel.noteReconnected() }
        }
        pushSession = session
    }

    mutating func finish() {
        for channel in channels.all { channel.clientEnded() }
        channels.removeAll()
        fullReplies.removeAll()
    }
}
