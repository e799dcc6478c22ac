import TrunklineCore
import TrunklineIO

/// What callers say to a client, in the order in which they say it.
enum Submission: Sendable {
    /// A request, or a one-way message (`expectsResponse` false).
    case send(Ticket, Frame, Waiter, deadline: Instant?, expectsResponse: Bool)
    /// Requests with consecutive tickets, the first of them given.
    case sendAll(first: Ticket, [Frame], Batch, deadline: Instant?)
    case cancel(ClosedRange<Ticket>)
    case cancelAll
    case subscribe(PushChannel)
    case unsubscribe(PushChannel)
    /// A subscriber whose full buffer suspended reading has room again.
    case resumeReading
    case connect(UInt64, Suspension<ClientError?>)
    case cancelConnect(UInt64)
    /// Drains and closes.
    case close
    case closeNow
    case awaitClosed(Suspension<Void>)
}

/// The one way into a client: what any thread posts, its loop takes, all at once and in order.
///
/// A cancellation travels behind its own request here and can never overtake it. Requests of callers on the loop itself
/// go without a lock and are taken before everything else; all other things, cancellations of those requests included,
/// go through the lock.
final class Mailbox: LoopWork {
    private struct Box {
        var items: [Submission] = []
        /// Whether the loop was told that there is something.
        var isScheduled = false
    }

    private let box = Lock(Box())
    private let loop: any EventLoop
    /// What was posted on the loop. Unsafe for the compiler, safe in truth: touched on the loop only.
    nonisolated(unsafe) private var local = Box()
    /// Unsafe for the compiler, safe in truth: written once, before the client's `init` returns and anyone can post.
    nonisolated(unsafe) weak var client: Client?

    init(loop: any EventLoop) { self.loop = loop }

    /// Posts anything but a request.
    func post(_ submission: Submission) {
        let isFirst = box.withLock { box in
            box.items.append(submission)
            defer { box.isScheduled = true }
            return !box.isScheduled
        }
        if isFirst { loop.schedule(self) }
    }

    /// Posts a request.
    func postRequest(_ submission: Submission) {
        guard loop.isCurrent else { return post(submission) }
        unsafe local.items.append(submission)
        if unsafe !local.isScheduled { loop.scheduleAtEndOfTurn(self) }
        unsafe local.isScheduled = true
    }

    func runOnLoop() {
        take(unsafe exchange(&local, with: Box()).items)
        take(
            box.withLock { box in
                box.isScheduled = false
                return exchange(&box.items, with: [])
            }
        )
    }

    private func take(_ items: [Submission]) {
        guard !items.isEmpty else { return }
        if let client = unsafe client {
            client.assumeIsolated { $0.take(items) }
        } else {
            for item in items { item.refuse() }
        }
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
        case .subscribe(let channel): channel.finish()
        case .connect(_, let suspension): suspension.resume(returning: error)
        case .awaitClosed(let suspension): suspension.resume()
        case .cancel, .cancelAll, .unsubscribe, .resumeReading, .cancelConnect, .close, .closeNow: break
        }
    }
}
