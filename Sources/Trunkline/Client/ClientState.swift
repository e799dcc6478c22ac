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
        for channel in channels.all { channel.finish() }
        channels.removeAll()
        fullReplies.removeAll()
    }
}

/// How far a client is closed, and the callers that wait for its beginning or its end. A class, as `Links` is.
final class ClientLife {
    var stage = Lifecycle.open
    /// The instant at which `close()` stops waiting for requests.
    var drainDeadline: Instant?
    var connectWaiters: [RequestID: Continuation<ClientError?>] = [:]
    var closeWaiters: [Continuation<Void>] = []
}

/// The timer of a client. A class, as `Links` is.
final class ClientClock {
    private let loop: any EventLoop
    private var timer: LoopTimer?
    /// The instant that `timer` is armed for.
    private var armed: Instant?
    /// The next instant at which the connection must check its links.
    var linkLook: Instant?

    /// When the timer fires.
    var deadline: Instant? { timer?.deadline }

    init(on loop: any EventLoop) { self.loop = loop }

    deinit {
        // The loop keeps an armed timer. This may run on any thread.
        if let timer { loop.schedule(LoopClosure { [loop] in loop.arm(timer, at: nil) }) }
    }

    func arm(at next: Instant?, for client: Client) {
        guard next != armed else { return }
        armed = next
        let timer = timer ?? LoopTimer(target: client)
        self.timer = timer
        loop.arm(timer, at: next)
    }

    /// The timer has fired.
    func fired() { armed = nil }
}

/// The state on which the retries of a client depend.
struct RetryRules {
    /// Pays for retries; `nil` if they are not limited.
    var account: RetryAccount?
    /// Draws the back-offs.
    var generator: SeededGenerator
    /// Whether any request has ever had options that end it together with its link.
    var hasLinkbound = false
}
