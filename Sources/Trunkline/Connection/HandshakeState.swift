/// The conversation on a link before it is ready. Its requests are on the link like any others, so they overtake what waits
/// in the client; it ends with every one of them answered, or with the link.
struct HandshakeState {
    /// While subscriptions are restored, it moves with every answer.
    var deadline: Instant
    /// When requests with a time of their own are out of it.
    var deadlines = DeadlineQueue()
    /// Where those are.
    var places: [RequestID: LinkMachine<Waiter>.Place] = [:]
    /// Frames that are no responses and that nobody has asked for yet.
    private(set) var inbox = Deque<Frame>()
    /// The bodies and named bytes in `inbox`.
    private var inboxBytes = 0
    /// Who asks for such a frame.
    var readers: [UInt64: Continuation<Outcome>] = [:]
    /// The user's closures.
    var task: Task<Void, Never>?

    /// The user's closures have returned; what they said is still being written.
    var isOver = false
    /// The closures have been told something that the server said, so the last word on the attempt is theirs.
    var hasHeard = false
    /// Why the link is gone that they have not judged yet.
    var loss: (any Error)?
    /// The server has said that it answers nothing more on this link.
    var hasLastResponse = false

    /// Who waits for TLS, which the handshake has asked for in mid-connection.
    var securing: Continuation<Outcome>?
    /// A response that nobody waited for, or a heartbeat, has come since the last response that somebody did.
    var hasStray = false

    /// The server knows them still.
    var keepsSubscriptions = false
    /// A subscription has ended of which the server was told on this link: once the handshake is over, it begins anew.
    var hasToldTooMuch = false
    /// The ID of the latest subscription that is sent on this link.
    var toldThrough: UInt64 = 0
    /// What it has learned for its client; adopted when the link is ready.
    var learned = Learned()
    /// Set when `options.handshake.restore` begins.
    var restoring: Restoring?

    struct Learned {
        /// `nil` to keep what an earlier handshake has added.
        var endpoints: [Endpoint]?
        var serverInfo: (any Sendable)?
    }

    struct Restoring {
        /// How many subscriptions there are.
        let count: Int
        /// How many responses came since it began.
        var answered = 0
    }

    init(deadline: Instant) { self.deadline = deadline }

    /// Whether more may be read: there are not very many frames that nobody has asked for. But they may be what has
    /// gathered for us since the last link, in front of the answer that the handshake waits for.
    var mayRead: Bool { inbox.count < 65_536 && inboxBytes < 8 * 1024 * 1024 }

    /// When to look after it again.
    var nextDeadline: Instant { min(deadline, deadlines.earliest ?? deadline) }

    // MARK: Frames that nobody has asked for

    mutating func append(_ frame: Frame) {
        inbox.append(frame)
        inboxBytes += frame.byteCount
    }

    mutating func popFirst() -> Frame? {
        guard let frame = inbox.popFirst() else { return nil }
        inboxBytes -= frame.byteCount
        return frame
    }

    mutating func takeAll() -> [Frame] {
        var frames: [Frame] = []
        while let frame = popFirst() { frames.append(frame) }
        return frames
    }

    /// Takes the pushes out, in order.
    mutating func takePushes() -> [Frame] {
        let frames = takeAll()
        for frame in frames where frame.kind != .push { append(frame) }
        return frames.filter { $0.kind == .push }
    }

    // MARK: The end

    /// Why the handshake failed when `deadline` came. `timeout` is `options.handshake.timeout`.
    func timeoutMessage(_ timeout: Duration) -> String {
        guard let restoring else { return "the handshake did not end within \(timeout)" }
        return "restoring \(restoring.count) subscriptions: no response within \(timeout), after \(restoring.answered)"
    }

    /// Tells everyone who waits for a frame, or for TLS.
    mutating func failReaders(_ error: ClientError) {
        for (_, reader) in readers.sorted(by: { $0.key < $1.key }) { reader.resume(returning: .failure(error)) }
        readers = [:]
        securing.take()?.resume(returning: .failure(error))
    }
}
