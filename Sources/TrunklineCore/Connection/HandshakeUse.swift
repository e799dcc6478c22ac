/// The use of a link by its handshake, before it is ready: requests as everywhere else, but bound to this link and ahead of
/// those that wait in the client, and the messages that were not requested. It ends when each request has a response, or
/// with the link. Confined to the event loop of its connection.
final class HandshakeUse {
    /// The deadline. While subscriptions are restored, every response extends it.
    var deadline: Instant
    /// The option that has set `deadline`.
    var limit: Limit
    /// Its requests, with their callers.
    var requests = RequestTable<Waiter>(maximumWaiting: .max, maximumBytes: .max)
    /// Whether requests were dropped after a failure, so that the link must not become ready without them.
    private(set) var hasDropped = false
    /// Always empty, because handshakes send no requests in parts.
    private var parts = RequestParts()
    /// Received frames that are not responses and were not requested by `nextMessage()` yet.
    private(set) var inbox = Deque<Frame>()
    /// The number of bytes in `inbox`, counting bodies and named byte fields.
    private var inboxBytes = 0
    /// Callers that wait for such a frame.
    var readers: [UInt64: Continuation<Outcome>] = [:]
    /// The task of the running closure.
    var task: Task<Void, Never>?

    /// Whether the closures have returned, and only queued bytes remain to be written.
    var isOver = false
    /// Whether the closures may have received something from the server. If so, their error, not the loss of the link,
    /// decides how the attempt failed.
    var hasHeard = false
    /// Why the link was lost, while the closures may still report why.
    var loss: (any Error)?
    /// Whether the server has announced that it answers nothing more on this link.
    var hasLastFrame = false

    /// The caller that waits for the TLS handshake of `startTLS()`.
    var securing: Continuation<Outcome>?
    /// Whether an unmatched response, or a heartbeat, was received after the last matched response.
    var hasStray = false

    /// Whether the server still knows the subscriptions.
    var keepsSubscriptions = false
    /// Whether a subscription has ended that was already sent on this link. Then the attempt is repeated after the
    /// handshake.
    var hasRestoredTooMuch = false
    /// The ID of the latest subscription that was sent on this link.
    var restoredThrough: UInt64 = 0
    /// The frames whose fields are default values of the link's codec, in the order in which they were set.
    var defaults: [Frame] = []
    /// What the handshake has learned for its client. Takes effect when the link is ready.
    var learned = Learned()
    /// Set when `options.handshake.restore` begins.
    var restoring: Restoring?

    /// The maximum number of endpoints that a handshake may add. Every attempt looks at the whole list.
    static let maximumLearnedEndpoints = 1024

    enum Limit {
        /// `options.handshake.timeout`, counted from the beginning of the handshake.
        case handshake(Duration)
        /// `options.connecting.timeout`, counted from the beginning of the attempt.
        case attempt(Duration)
    }

    struct Learned {
        /// The added endpoints; `nil` to keep those of an earlier handshake.
        var endpoints: [Endpoint]?
        var serverInfo: (any Sendable)?
    }

    struct Restoring {
        /// The number of subscriptions.
        let count: Int
        /// The number of responses since the beginning.
        var answered = 0
    }

    init(deadline: Instant, _ limit: Limit) { (self.deadline, self.limit) = (deadline, limit) }

    /// Whether more may be read. The limit is high, because messages that the server has kept since the last link may
    /// come before the response that the handshake waits for.
    var mayRead: Bool { inbox.count < 65_536 && inboxBytes < 8 * 1024 * 1024 }

    /// When to check the handshake again.
    var nextDeadline: Instant { min(deadline, requests.nextDeadline ?? deadline) }

    // MARK: Requests

    /// Puts requests on `link` as far as they may go, with at most `window` on it at a time. Returns whether there is
    /// something to write.
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

    /// Ends the request `id` with `outcome`, unless it has ended.
    func end(_ id: RequestID, _ outcome: Outcome) {
        guard let waiter = requests.forget(id) else { return }
        waiter.resume(outcome)
        if let batch = waiter.batch, batch.hasStopped { dropWaiting(of: batch) }
    }

    /// Drops the requests of `batch` that are on no link: its caller has its result.
    private func dropWaiting(of batch: Batch) {
        for id in requests.queue.waiting.map(\.id) where requests.waiter(of: id)?.batch === batch {
            _ = requests.remove(id)
            requests.forget(id)
            hasDropped = true
        }
    }

    // MARK: Frames that were not requested

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

    /// Removes the pushes and returns them, in order.
    func takePushes() -> [Frame] {
        let frames = takeAll()
        for frame in frames where frame.kind != .push { append(frame) }
        return frames.filter { $0.kind == .push }
    }

    // MARK: The end

    /// The error message when `deadline` has passed. `timeout` is `options.handshake.timeout`, which limits the time
    /// between two responses while subscriptions are restored.
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

    /// Resumes all callers that wait for a frame or for TLS, with `error`.
    func failReaders(_ error: ClientError) {
        for (_, reader) in readers.sorted(by: { $0.key < $1.key }) { reader.resume(returning: .failure(error)) }
        readers = [:]
        securing.take()?.resume(returning: .failure(error))
    }
}
