/// The streams of a client, of pushes and of replies.
struct ClientStreams {
    var channels = PushChannels()
    /// The reply streams whose full buffer suspends reading. May contain streams that no longer do.
    var fullReplies: [ReplyChannel] = []
    /// In a batch of events: the readers of reply streams to resume at its end, each with its element.
    private var served: [(Continuation<ReplyChannel.Element>, ReplyChannel.Element)] = []
    /// The session whose pushes the streams deliver; `nil` before the first link.
    private var pushSession: SessionID?

    /// Whether a stream suspends reading.
    mutating func suspendReading() -> Bool {
        // Removes only from the end, so each stream is checked once.
        while let last = fullReplies.last, !last.suspendsReading { fullReplies.removeLast() }
        return channels.suspendReading() || !fullReplies.isEmpty
    }

    mutating func serve(_ reader: Continuation<ReplyChannel.Element>, with element: ReplyChannel.Element) {
        served.append((reader, element))
    }

    /// Resumes the readers of reply streams for which parts have arrived. Once for a batch: a reader that is resumed for
    /// each part would take it and wait again, at the price of two switches of threads.
    mutating func resumeServed() {
        guard !served.isEmpty else { return }
        for (reader, element) in served { reader.resume(returning: element) }
        served.removeAll(keepingCapacity: served.count <= 64)
    }

    /// Tells every stream, once, that pushes come from the link of `session` from now on.
    mutating func notePushes(from session: SessionID) {
        guard session != pushSession else { return }
        if pushSession != nil {
            for channel in channels.all { channel.noteReconnected() }
        }
        pushSession = session
    }

    /// Ends every stream.
    mutating func finish() {
        for channel in channels.all { channel.clientEnded() }
        channels.removeAll()
        fullReplies.removeAll()
    }
}
