import TrunklineCore

/// The conversation on a link before it is ready. Its requests have a table and a queue of their own, so that they
/// overtake what waits; it ends with every one of them answered, or with the link.
struct Greeting {
    /// The number of the attempt, and of the session when it succeeds.
    let session: UInt64
    /// While subscriptions are restored, it moves with every answer.
    var deadline: Instant
    var requests: RequestTable<Waiter>
    var outbound = OutboundQueue()
    /// Frames that are no responses and that nobody has asked for yet.
    var inbox = Deque<Frame>()
    /// Who asks for such a frame.
    var readers: [UInt64: Suspension<Outcome>] = [:]
    /// The user's closures.
    var task: Task<Void, Never>?

    /// The bodies and named bytes in `inbox`.
    var inboxBytes = 0
    /// The user's closures have returned; what they said is still being written.
    var isOver = false
    /// The closures have been told something that the server said, so the last word on the attempt is theirs.
    var hasHeard = false
    /// Why the link is gone that they have not judged yet.
    var loss: (any Error)?
    /// The server has said that it answers nothing more on this link.
    var hasLastResponse = false

    /// Who waits for TLS, which the greeting has asked for in mid-connection.
    var securing: Suspension<Outcome>?
    /// A response that nobody waited for, or a heartbeat, has come since the last response that somebody did.
    var hasStray = false

    /// The server knows them still.
    var keepsSubscriptions = false
    /// What it has learned for its client; adopted when the link is ready.
    var learned = Learned()
    /// Set when `options.greeting.restore` begins.
    var restoring: Restoring?

    struct Learned {
        /// `nil` to keep what an earlier greeting has added.
        var endpoints: [Endpoint]?
        var serverInfo: (any Sendable)?
    }

    struct Restoring {
        /// How many subscriptions there are.
        let count: Int
        /// How many responses came since it began.
        var answered = 0
    }

    /// Whether more may be read: there are not very many frames that nobody has asked for. But they may be what has
    /// gathered for us since the last link, in front of the answer that the greeting waits for.
    var mayRead: Bool { inbox.count < 65_536 && inboxBytes < 8 * 1024 * 1024 }

    /// For replies that are joined from their parts. Not that of the client: what a greeting holds ends with it.
    let replyRoom: ReplyRoom

    init(session: UInt64, deadline: Instant, matching: ResponseMatching, _ options: ClientOptions.Requests) {
        self.session = session
        self.deadline = deadline
        replyRoom = ReplyRoom(options)
        // Far from those that the client hands out: a second answer to one of these must not meet a later request.
        var first: SerialNumber?
        if case .serial(let range) = matching { first = range.upperBound - (range.upperBound - range.lowerBound) / 4 }
        requests = RequestTable(matching: matching, quarantine: .zero, firstSerial: first)
    }

    /// When to look after it again.
    var nextDeadline: Instant { min(deadline, requests.nextDeadline ?? deadline) }

    /// Takes the pushes out of `inbox`, in order.
    mutating func takePushes() -> [Frame] {
        var pushes: [Frame] = []
        let held = inbox
        (inbox, inboxBytes) = (Deque(), 0)
        for index in 0..<held.count {
            if held[index].kind == .push {
                pushes.append(held[index])
            } else {
                inbox.append(held[index])
                inboxBytes += held[index].byteCount
            }
        }
        return pushes
    }

    /// Why the greeting failed when `deadline` came. `timeout` is `options.greeting.timeout`.
    func timeoutMessage(_ timeout: Duration) -> String {
        guard let restoring else { return "the greeting did not end within \(timeout)" }
        return "restoring \(restoring.count) subscriptions: no response within \(timeout), after \(restoring.answered)"
    }

    /// Takes everyone out who waits.
    mutating func removeWaiters() -> [(waiter: Waiter, hasStarted: Bool)] {
        let asking = readers.sorted { $0.key < $1.key }.map { (waiter: Waiter.caller($0.value), hasStarted: false) }
        readers = [:]
        let upgrade = securing.map { (waiter: Waiter.caller($0), hasStarted: false) }
        securing = nil
        let outbound = outbound
        return requests.removeAll().map { ($0.entry.waiter, outbound.hasStarted($0.entry.position)) } + asking
            + (upgrade.map { [$0] } ?? [])
    }
}
