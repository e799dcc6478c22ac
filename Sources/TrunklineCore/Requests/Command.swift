import Synchronization

/// A command from a caller to a client. Commands are performed in the order in which they were submitted.
package enum Command: Sendable {
    case send(RequestID, Frame, Waiter, accepted: Instant, deadline: Instant?, expectsResponse: Bool)
    case sendAll(first: RequestID, [Request], Batch)
    case addPart(RequestPart, ReplyChannel)
    case cancel(ClosedRange<RequestID>)
    /// Without the ID, it would also cancel later requests of callers on the event loop, which are taken before it.
    case cancelAll(upTo: RequestID)
    case listen(PushChannel)
    case stopListening(PushChannel)
    case serve(ServingPort, ServerCalls.Limits)
    case stopServing(ServingPort)
    case served(ServedCall, ServedCall.Outcome)
    case resumeReading
    case connect(RequestID, Continuation<ClientError?>)
    case cancelConnect(RequestID)
    case needLink
    case close
    case closeNow
    case awaitClosed(Continuation<Void>)
    /// A caller could not decode its response.
    case noteUndecodable(ClientError)
    /// Left in the place of a command that was taken out. Not an optional command: destroying an optional of an
    /// enumeration goes through the runtime, which costs as much as adding a command.
    case taken
}

protocol CommandQueueOwner: AnyObject, Sendable {
    /// Takes every command out of its place. Called on the event loop.
    func take(_ commands: inout [Command])
}

/// The only way into a client. Any thread adds commands, and the event loop takes all of them at once and in order.
///
/// A cancellation that is queued before its request has no effect, so it is queued again after it. Callers on the event
/// loop need no lock while the queue is empty; their requests are taken before commands that are queued later.
package final class CommandQueue: LoopWork, CancellationReceiver, PushChannelOwner {
    private struct LoopSide {
        var items: [Command] = []
        var isScheduled = false
        var spare: [Command] = []

        mutating func add(_ command: consuming Command) -> Bool {
            items.append(command)
            return !exchange(&isScheduled, with: true)
        }

        /// Give the array back to `spare` when it is empty.
        mutating func takeItems() -> [Command] {
            isScheduled = false
            return exchange(&items, with: exchange(&spare, with: []))
        }
    }

    private let lastRequestPartID = Atomic<UInt64>(RequestPart.firstID.number)
    private let queue = Lock<[Command]>([])
    /// Whether the queue is not empty and the event loop has been woken. Changed only while the queue is locked.
    private let isFilled = Atomic<Bool>(false)
    private let loop: any EventLoop
    // Safe: accessed only on the event loop.
    nonisolated(unsafe) private var onLoop = LoopSide()
    /// Safe: written once, before the client's `init` returns and before any command can be added.
    nonisolated(unsafe) weak var client: (any CommandQueueOwner)?

    init(loop: any EventLoop) { self.loop = loop }

    func nextRequestPartID() -> RequestID {
        RequestID(lastRequestPartID.wrappingAdd(1, ordering: .relaxed).newValue)
    }

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

    private func take(_ items: inout [Command]) {
        guard !items.isEmpty else { return }
        if let client = unsafe client {
            client.take(&items)
        } else {
            for item in items { item.refuse() }
        }
        items.empty(keepingCapacity: items.count <= 8192)
    }
}

extension Command {
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
            .close, .closeNow, .noteUndecodable, .taken:
            break
        }
    }
}
