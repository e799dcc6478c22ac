import Synchronization

/// A command from a caller to a client. Commands are performed in the order in which they were submitted.
package enum Command: Sendable {
    /// A request, or a one-way message (`expectsResponse` is false).
    case send(RequestID, Frame, Waiter, accepted: Instant, deadline: Instant?, expectsResponse: Bool)
    /// At least one request, with consecutive request IDs from `first` on.
    case sendAll(first: RequestID, [Request], Batch)
    /// Adds a frame to a request whose reply goes to this channel.
    case addPart(RequestPart, ReplyChannel)
    case cancel(ClosedRange<RequestID>)
    /// Cancels every request up to this request ID. Without the ID, it would also cancel later requests of callers on
    /// the event loop, which are taken before it.
    case cancelAll(upTo: RequestID)
    /// Adds or removes a channel that receives pushes.
    case listen(PushChannel)
    case stopListening(PushChannel)
    /// A task begins to serve requests of the server.
    case serve(ServingPort, ServerCalls.Limits)
    case stopServing(ServingPort)
    /// The handler of a request of the server has ended.
    case served(ServedCall, ServedCall.Outcome)
    /// The reader of a push or reply stream whose full buffer suspended reading has room again.
    case resumeReading
    case connect(RequestID, Continuation<ClientError?>)
    case cancelConnect(RequestID)
    /// Connects, unless there is a link.
    case needLink
    /// Drains and closes.
    case close
    case closeNow
    case awaitClosed(Continuation<Void>)
    /// A command that was taken out of its place. Not an optional command: destroying an optional of an enumeration
    /// goes through the runtime, which costs as much as adding a command.
    case taken
}

/// A client, which takes commands from its command queue.
protocol CommandQueueOwner: AnyObject, Sendable {
    /// Takes every command out of its place. Called on the event loop.
    func take(_ commands: inout [Command])
}

/// The only way into a client. Any thread adds commands, and the event loop takes all of them at once and in order.
///
/// A cancellation that is queued before its request has no effect, so it is queued again after it. Requests of callers on the event loop need
/// no lock while the queue is empty. They are taken before commands that are queued later.
package final class CommandQueue: LoopWork, CancellationReceiver, PushChannelOwner {
    private struct LoopSide {
        /// The commands that were added on the event loop.
        var items: [Command] = []
        var isScheduled = false
        /// Empty, with capacity for the next batch.
        var spare: [Command] = []

        /// Adds a command. Returns whether the queue must be scheduled.
        mutating func add(_ command: consuming Command) -> Bool {
            items.append(command)
            return !exchange(&isScheduled, with: true)
        }

        /// Takes all commands out, into an array with their memory. Give it back to `spare` when it is empty.
        mutating func takeItems() -> [Command] {
            isScheduled = false
            return exchange(&items, with: exchange(&spare, with: []))
        }
    }

    /// The latest request ID of a request part.
    private let lastRequestPartID = Atomic<UInt64>(RequestPart.firstID.number)
    private let queue = Lock<[Command]>([])
    /// Whether the queue is not empty, in which case the event loop has been woken. Changed only while the queue is
    /// locked.
    private let isFilled = Atomic<Bool>(false)
    private let loop: any EventLoop
    /// The side of the callers on the event loop.
    // Safe: accessed only on the event loop.
    nonisolated(unsafe) private var onLoop = LoopSide()
    /// Safe: written once, before the client's `init` returns and before any command can be added.
    nonisolated(unsafe) weak var client: (any CommandQueueOwner)?

    init(loop: any EventLoop) { self.loop = loop }

    /// Returns a new request ID for a request part.
    func nextRequestPartID() -> RequestID {
        RequestID(lastRequestPartID.wrappingAdd(1, ordering: .relaxed).newValue)
    }

    /// Adds a command other than a request or a request part.
    package func post(_ command: consuming Command) {
        // A variable, so that it can be moved into the closure.
        var command = consume command
        let isFirst = queue.withLock { items in
            items.append(exchange(&command, with: .taken))
            if isFilled.load(ordering: .relaxed) { return false }
            isFilled.store(true, ordering: .releasing)
            return true
        }
        if isFirst { loop.schedule(self) }
    }

    /// Adds a request or a request part.
    func postRequest(_ command: consuming Command) {
        guard loop.isCurrent, !isFilled.load(ordering: .acquiring) else { return post(consume command) }
        if unsafe onLoop.add(consume command) { loop.scheduleAtEndOfTurn(self) }
    }

    package func runOnLoop() {
        var batch = unsafe onLoop.takeItems()
        take(&batch)
        queue.withLock { items in
            swap(&batch, &items)
            isFilled.store(false, ordering: .releasing)
        }
        take(&batch)
        unsafe onLoop.spare = batch
    }

    package var endsWithClient: Bool { true }

    package func source(of session: SessionID) -> ClusterSource? { nil }

    package func resumeReading() { post(.resumeReading) }

    package func stopListening(_ channel: PushChannel) { post(.stopListening(channel)) }

    package func cancelWaits(_ numbers: ClosedRange<UInt64>) {
        post(.cancel(RequestID(numbers.lowerBound)...RequestID(numbers.upperBound)))
    }

    /// Hands `items` over and empties the array. Its capacity is kept unless it is large.
    private func take(_ items: inout [Command]) {
        guard !items.isEmpty else { return }
        if let client = unsafe client {
            client.take(&items)
        } else {
            for item in items { item.refuse() }
        }
        items.removeAll(keepingCapacity: items.count <= 8192)
    }
}

extension Command {
    /// Ends a command of a client that was deallocated.
    func refuse() {
        let error = ClientError.clientWasDeallocated(.notSent)
        switch self {
        case .send(_, _, let waiter, _, _, _): waiter.resume(.failure(error))
        case .sendAll(_, let requests, let batch):
            for index in requests.indices { batch.complete(index, .failure(error)) }
        case .addPart(let requestPart, _): requestPart.fail(error, isSent: false)
        case .listen(let channel): channel.clientEnded()
        case .serve(let port, _): port.finish()
        case .connect(_, let continuation): continuation.resume(returning: error)
        case .awaitClosed(let continuation): continuation.resume()
        case .cancel, .cancelAll, .stopListening, .stopServing, .served, .resumeReading, .cancelConnect,
            .needLink,
            .close, .closeNow, .taken:
            break
        }
    }
}
