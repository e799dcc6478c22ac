/// The use of a link by its handshake, ahead of requests that wait in the client. Confined to its event loop.
final class HandshakeUse {
    /// While subscriptions are restored, every response extends it.
    var deadline: Instant
    var limit: Limit
    var requests = RequestTable<Waiter>(maximumWaiting: .max, maximumBytes: .max)
    /// Requests were dropped after a failure: the link must not become ready without them.
    private(set) var hasDropped = false
    /// Always empty, because handshakes send no requests in parts.
    private var parts = RequestParts()
    /// Received frames that are no responses, and that `nextMessage()` has not taken yet.
    private(set) var inbox = Deque<Frame>()
    private var inboxBytes = 0
    var readers: [UInt64: Continuation<Outcome>] = [:]
    var task: Task<Void, Never>?

    /// The closures have returned, and only queued bytes remain to be written.
    var isOver = false
    /// The closures may have received something: their error, not the loss of the link, says how the attempt failed.
    var hasHeard = false
    /// Set while the closures may still report why the link was lost.
    var loss: (any Error)?
    var hasLastFrame = false

    /// Waits for the TLS handshake of `startTLS()`.
    var securing: Continuation<Outcome>?
    /// Whether an unmatched response, or a heartbeat, was received after the last matched response.
    var hasStray = false

    var keepsSubscriptions = false
    /// A subscription ended that was already sent on this link: the attempt is repeated after the handshake.
    var hasRestoredTooMuch = false
    /// The ID of the latest subscription that was sent on this link.
    var restoredThrough: UInt64 = 0
    /// Their fields are default values of the link's codec, in the order in which they were set.
    var defaults: [Frame] = []
    /// Takes effect when the link is ready.
    var learned = Learned()
    var restoring: Restoring?

    enum Limit {
        /// Counted from the beginning of the handshake.
        case handshake(Duration)
        /// Counted from the beginning of the attempt.
        case attempt(Duration)
    }

    struct Learned {
        /// `nil` keeps those of an earlier handshake.
        var endpoints: [Endpoint]?
        var serverInfo: (any Sendable)?
    }

    struct Restoring {
        let count: Int
        var answered = 0
    }

    init(deadline: Instant, _ limit: Limit) { (self.deadline, self.limit) = (deadline, limit) }

    /// The limit is high: messages kept since the last link may come before the response that the handshake waits for.
    var mayRead: Bool { inbox.count < 65_536 && inboxBytes < 8 * 1024 * 1024 }

    var nextDeadline: Instant { min(deadline, requests.nextDeadline ?? deadline) }

    func admit(to link: Link, window: Int, at now: Instant, by rules: LinkRules) -> Bool {
        guard requests.queue.hasWaiting else { return false }
        let room = window - link.state.machine.count
        var events: [ConnectionEvent] = []  // admissions are not reported
        let count = link.state.admit(
            from: &requests.queue,
            &parts,
            atMost: room,
            at: now,
            by: rules,
            telling: nil,
            into: &events
        )
        requests.noteAdmissions(at: now)
        return count > 0
    }

    func end(_ id: RequestID, _ outcome: Outcome) {
        guard let waiter = requests.forget(id) else { return }
        waiter.resume(outcome)
        if let batch = waiter.batch, batch.hasStopped { dropWaiting(of: batch) }
    }

    /// The caller of `batch` has its result, so requests that are on no link are dropped.
    private func dropWaiting(of batch: Batch) {
        for id in requests.queue.waiting.map(\.id) where requests.waiter(of: id)?.batch === batch {
            _ = requests.remove(id)
            requests.forget(id)
            hasDropped = true
        }
    }

    func append(_ frame: Frame) {
        inbox.append(frame)
        inboxBytes += frame.byteCount
    }

    func popFirst() -> Frame? {
        guard let frame = inbox.popFirst() else { return nil }
        inboxBytes -= frame.byteCount
        return frame
    }

    func takeAll() -> [Frame] {
        var frames: [Frame] = []
        while let frame = popFirst() { frames.append(frame) }
        return frames
    }

    func takePushes() -> [Frame] {
        let frames = takeAll()
        for frame in frames where frame.kind != .push { append(frame) }
        return frames.filter { $0.kind == .push }
    }

    /// `timeout` limits the time between two responses while subscriptions are restored.
    func timeoutMessage(_ timeout: Duration) -> String {
        guard let restoring else {
            return switch limit {
            case .handshake(let timeout): "the handshake did not complete within \(timeout) (handshake.timeout)"
            case .attempt(let timeout):
                "the handshake did not complete: no link within \(timeout) of the attempt (connecting.timeout)"
            }
        }
        let progress = "restoring \(Quantity.count(restoring.count, "subscription")): \(restoring.answered) answered"
        return "\(progress), then none within \(timeout) (handshake.timeout)"
    }

    func failReaders(_ error: ClientError) {
        for (_, reader) in readers.sorted(by: { $0.key < $1.key }) { reader.resume(returning: .failure(error)) }
        readers = [:]
        securing.take()?.resume(returning: .failure(error))
    }
}
