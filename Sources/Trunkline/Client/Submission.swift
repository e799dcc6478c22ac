import Synchronization

/// What callers say to a client, in the order in which they say it.
enum Submission: Sendable {
    /// A request, or a one-way message (`expectsResponse` false).
    case send(RequestID, Frame, Waiter, deadline: Instant?, expectsResponse: Bool)
    /// Requests with consecutive tickets, the first of them given.
    case sendAll(first: RequestID, [Frame], Batch, deadline: Instant?)
    /// Adds a frame to a request, whose reply goes to this channel.
    case follow(FollowUp, ReplyChannel)
    /// A call that may be answered by what is cached, or by what is on its way for another.
    case share(SharedCall, Suspension<Outcome>)
    /// Such a call is given up.
    case leave(SharedCall)
    case cancel(ClosedRange<RequestID>)
    /// Cancels those up to this ticket. Requests that a caller on the loop makes after it are taken before it.
    case cancelAll(upTo: RequestID)
    case subscribe(PushChannel)
    case unsubscribe(PushChannel)
    /// A subscriber, or the reader of a reply, whose full buffer suspended reading has room again.
    case resumeReading
    case connect(UInt64, Suspension<ClientError?>)
    case cancelConnect(UInt64)
    /// Drains and closes.
    case close
    case closeNow
    case awaitClosed(Suspension<Void>)
}

/// Who takes what a mailbox holds: a client.
protocol MailboxOwner: AnyObject, Sendable {
    /// Takes every submission out of its place. Called on the loop.
    func take(_ submissions: inout [Submission?])
}

/// The one way into a client: what any thread posts, its loop takes, all at once and in order.
///
/// A cancellation travels behind its own request here and can never overtake it. Requests of callers on the loop itself
/// go without a lock while there is nothing in the box, and are taken before what comes into it later.
final class Mailbox: LoopWork {
    private struct LoopSide {
        /// What was posted on the loop.
        var items: [Submission?] = []
        var isScheduled = false
        /// Empty, with memory for the next batch.
        var spare: [Submission?] = []
    }

    /// Tickets of follow-ups.
    private let followUps = Atomic<RequestID>(FollowUp.firstTicket)
    private let box = Lock<[Submission?]>([])
    /// Whether there is something in the box, which the loop then knows. Changed with the box locked.
    private let isFilled = Atomic<Bool>(false)
    private let loop: any EventLoop
    /// Unsafe for the compiler, safe in truth: touched on the loop only.
    nonisolated(unsafe) private var onLoop = LoopSide()
    /// Unsafe for the compiler, safe in truth: written once, before the client's `init` returns and anyone can post.
    nonisolated(unsafe) weak var client: (any MailboxOwner)?

    init(loop: any EventLoop) { self.loop = loop }

    /// A ticket for a follow-up.
    func followUpTicket() -> RequestID { followUps.wrappingAdd(1, ordering: .relaxed).newValue }

    /// Posts anything but a request or a follow-up.
    func post(_ submission: Submission) {
        let isFirst = box.withLock { items in
            items.append(submission)
            return !isFilled.exchange(true, ordering: .acquiringAndReleasing)
        }
        if isFirst { loop.schedule(self) }
    }

    /// Posts a request or a follow-up.
    func postRequest(_ submission: Submission) {
        guard loop.isCurrent, !isFilled.load(ordering: .acquiring) else { return post(submission) }
        unsafe onLoop.items.append(submission)
        if unsafe !onLoop.isScheduled { loop.scheduleAtEndOfTurn(self) }
        unsafe onLoop.isScheduled = true
    }

    func runOnLoop() {
        var batch = unsafe exchange(&onLoop.spare, with: [])
        unsafe swap(&batch, &onLoop.items)
        unsafe onLoop.isScheduled = false
        take(&batch)
        box.withLock { items in
            swap(&batch, &items)
            isFilled.store(false, ordering: .releasing)
        }
        take(&batch)
        unsafe onLoop.spare = batch
    }

    /// Hands `items` over and empties them, keeping their memory unless it is large.
    private func take(_ items: inout [Submission?]) {
        guard !items.isEmpty else { return }
        if let client = unsafe client {
            client.take(&items)
        } else {
            for item in items { item?.refuse() }
        }
        items.removeAll(keepingCapacity: items.count <= 8192)
    }
}

extension Submission {
    /// The client is gone: tells whoever waits.
    func refuse() {
        let error = ClientError(.closed, .notSent, "the client is gone")
        switch self {
        case .send(_, _, let waiter, _, _): waiter.resume(.failure(error))
        case .sendAll(_, let frames, let batch, _):
            for index in frames.indices { batch.complete(index, .failure(error)) }
        case .follow(let followUp, _): followUp.fail(error, isSent: false)
        case .share(_, let suspension): suspension.resume(returning: .failure(error))
        case .subscribe(let channel): channel.finish()
        case .connect(_, let suspension): suspension.resume(returning: error)
        case .awaitClosed(let suspension): suspension.resume()
        case .cancel, .leave, .cancelAll, .unsubscribe, .resumeReading, .cancelConnect, .close, .closeNow: break
        }
    }
}
