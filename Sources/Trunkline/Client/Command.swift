import Synchronization

/// A command of a caller to a client. They are taken in the order in which they were given.
enum Command: Sendable {
    /// A request, or a one-way message (`expectsResponse` false).
    case send(RequestID, Frame, Waiter, deadline: Instant?, expectsResponse: Bool)
    /// Requests with consecutive request IDs, the first of them given.
    case sendAll(first: RequestID, [Frame], Batch)
    /// Adds a frame to a request, whose reply goes to this channel.
    case addPart(RequestPart, ReplyChannel)
    /// A call that may be answered by what is cached, or by what is on its way for another.
    case coalesce(CoalescedCall, Continuation<Outcome>)
    /// Such a call is given up.
    case leave(CoalescedCall)
    case cancel(ClosedRange<RequestID>)
    /// Cancels those up to this request ID. Requests that a caller on the loop makes after it are taken before it.
    case cancelAll(upTo: RequestID)
    /// Pushes go to this channel, too, or no longer.
    case listen(PushChannel)
    case stopListening(PushChannel)
    /// The reader of pushes, or of a reply, whose full buffer suspended reading has room again.
    case resumeReading
    case connect(UInt64, Continuation<ClientError?>)
    case cancelConnect(UInt64)
    /// Drains and closes.
    case close
    case closeNow
    case awaitClosed(Continuation<Void>)
}

/// A client, which takes the commands out of its command queue.
protocol CommandQueueOwner: AnyObject, Sendable {
    /// Takes every command out of its place. Called on the loop.
    func take(_ commands: inout [Command?])
}

/// The one way into a client: what any thread posts, its loop takes, all at once and in order.
///
/// A cancellation travels behind its own request here and can never overtake it. Requests of callers on the loop itself
/// go without a lock while there is nothing in the queue, and are taken before what comes into it later.
final class CommandQueue: LoopWork {
    private struct LoopSide {
        /// What was posted on the loop.
        var items: [Command?] = []
        var isScheduled = false
        /// Empty, with memory for the next batch.
        var spare: [Command?] = []
    }

    /// The last request ID that was handed out for a request part.
    private let lastRequestPartID = Atomic<RequestID>(RequestPart.firstID)
    private let queue = Lock<[Command?]>([])
    /// Whether there is something in the queue, which the loop then knows. Changed with the queue locked.
    private let isFilled = Atomic<Bool>(false)
    private let loop: any EventLoop
    /// Unsafe for the compiler, safe in truth: touched on the loop only.
    nonisolated(unsafe) private var onLoop = LoopSide()
    /// Unsafe for the compiler, safe in truth: written once, before the client's `init` returns and anyone can post.
    nonisolated(unsafe) weak var client: (any CommandQueueOwner)?

    init(loop: any EventLoop) { self.loop = loop }

    /// Returns a new request ID for a request part.
    func nextRequestPartID() -> RequestID { lastRequestPartID.wrappingAdd(1, ordering: .relaxed).newValue }

    /// Posts anything but a request or a request part.
    func post(_ command: Command) {
        let isFirst = queue.withLock { items in
            items.append(command)
            return !isFilled.exchange(true, ordering: .acquiringAndReleasing)
        }
        if isFirst { loop.schedule(self) }
    }

    /// Posts a request or a request part.
    func postRequest(_ command: Command) {
        guard loop.isCurrent, !isFilled.load(ordering: .acquiring) else { return post(command) }
        unsafe onLoop.items.append(command)
        if unsafe !onLoop.isScheduled { loop.scheduleAtEndOfTurn(self) }
        unsafe onLoop.isScheduled = true
    }

    func runOnLoop() {
        var batch = unsafe exchange(&onLoop.spare, with: [])
        unsafe swap(&batch, &onLoop.items)
        unsafe onLoop.isScheduled = false
        take(&batch)
        queue.withLock { items in
            swap(&batch, &items)
            isFilled.store(false, ordering: .releasing)
        }
        take(&batch)
        unsafe onLoop.spare = batch
    }

    /// Hands `items` over and empties them, keeping their memory unless it is large.
    private func take(_ items: inout [Command?]) {
        guard !items.isEmpty else { return }
        if let client = unsafe client {
            client.take(&items)
        } else {
            for item in items { item?.refuse() }
        }
        items.removeAll(keepingCapacity: items.count <= 8192)
    }
}

extension Command {
    /// The client is gone: tells whoever waits.
    func refuse() {
        let error = ClientError(.closed, .notSent, "the client is gone")
        switch self {
        case .send(_, _, let waiter, _, _): waiter.resume(.failure(error))
        case .sendAll(_, let frames, let batch):
            for index in frames.indices { batch.complete(index, .failure(error)) }
        case .addPart(let requestPart, _): requestPart.fail(error, isSent: false)
        case .coalesce(_, let continuation): continuation.resume(returning: .failure(error))
        case .listen(let channel): channel.finish()
        case .connect(_, let continuation): continuation.resume(returning: error)
        case .awaitClosed(let continuation): continuation.resume()
        case .cancel, .leave, .cancelAll, .stopListening, .resumeReading, .cancelConnect, .close, .closeNow: break
        }
    }
}
