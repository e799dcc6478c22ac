import Synchronization

/// What a connection without an owner has to write and to read.
struct DirectUse {
    /// Frames to be written that are on no link.
    var queue = RequestQueue<Waiter>(maximumWaiting: .max, maximumBytes: .max)
    /// Frames that were read and not yet asked for. At most one batch of reading.
    var inbox = Deque<Frame>()
    /// The task that asks for the next frame, under an ID of its own.
    var reader: (id: UInt64, continuation: Continuation<Frame?>)?
    /// Why `frames` ended.
    var endReason: ClientError?

    /// Whether no link is needed.
    var isIdle: Bool { reader == nil && queue.isEmpty }
}

/// The consumer of a connection's `frames`. Its end makes way for another.
private final class FrameConsumer: Sendable {
    let connection: Connection

    init(of connection: Connection) { self.connection = connection }

    deinit { connection.hasConsumer.store(false, ordering: .releasing) }
}

/// A connection used alone: frames in by asking for them, frames out one by one.
extension Connection {
    // MARK: In

    /// The frames that the server sends, of every kind, across reconnects, until the connection is closed
    /// or, with `options.reconnecting.maximumAttempts`, no server could be reached.
    ///
    /// It pulls: while nobody asks for the next frame, reading from the socket pauses and TCP pushes back on the
    /// server; its pings stay unanswered then, and a dead link unnoticed (`ClientOptions.Liveness`). Asking for the first
    /// frame connects. A ping of the server's has been answered when it comes, if the codec answers pings; answers to our own
    /// heartbeat do not come. Frames that a consumer leaves unread are there for the next one.
    ///
    /// The stream ends when its task is cancelled, and for the reason in `endReason`. It is for one task: when a second one
    /// asks it for a frame while the first waits, the stream ends for both, after the frame that the first waits for.
    ///
    /// - Important: In top-level code (`main.swift`, scripts) a stream, and the iterator of a `for` loop that was left, live
    ///   until the program ends, and so does the consumer. Put the loop in a function.
    /// - Throws: `invalidRequest` while there is another consumer: until its stream has ended or was destroyed together with
    ///   its iterators.
    public nonisolated var frames: AsyncStream<Frame> {
        get throws(ClientError) {
            guard !hasConsumer.exchange(true, ordering: .acquiringAndReleasing) else {
                throw ClientError(.invalidRequest, .notSent, "frames already has a consumer, and takes one at a time")
            }
            let consumer = FrameConsumer(of: self)
            return AsyncStream {
                let frame = await consumer.connection.nextFrame()
                // Not before: the next consumer would find this one waiting.
                withExtendedLifetime(consumer) {}
                return frame
            }
        }
    }

    /// Why `frames` ended: `closed`, after `close()`; `unavailable`, with the attempts, when no server could be reached;
    /// `invalidRequest`, when two tasks iterated one stream at a time. `nil` before that, after a consumer that was cancelled,
    /// and once another has asked for a frame.
    public var endReason: ClientError? {
        lifecycle < .closing ? direct.endReason : ClientError(.closed, .notSent, "the connection was closed")
    }

    fileprivate func nextFrame() async -> Frame? {
        lastID += 1
        let id = lastID
        return await withTaskCancellationHandler {
            await withContinuation { continuation in
                // Asked here and not before: each `await` above may let the loop do other things first.
                direct.endReason = nil
                if let frame = direct.inbox.popFirst() { return continuation.resume(returning: frame) }
                guard lifecycle < .closing, !Task.isCancelled else { return continuation.resume(returning: nil) }
                guard direct.reader == nil else {
                    let message = "frames was iterated by two tasks at a time"
                    direct.endReason = ClientError(.invalidRequest, .notSent, message)
                    return continuation.resume(returning: nil)
                }
                direct.reader = (id, continuation)
                entered { connection in
                    connection.connectIfNeeded()
                    connection.updateReading()
                }
            }
        } onCancel: {
            schedule { $0.stopReader(id) }
        }
    }

    private func stopReader(_ id: UInt64) {
        guard direct.reader?.id == id else { return }
        direct.reader.take()?.continuation.resume(returning: nil)
        updateReading()
    }

    /// No frame will come for the one who asks for it now: its stream ends, for this reason unless the connection is closed.
    func endReader(_ reason: ClientError? = nil) {
        guard let reader = direct.reader.take() else { return }
        direct.endReason = reason
        reader.continuation.resume(returning: nil)
    }

    /// Frames of a link that is ready go to those who ask for them.
    func deliverToReaders(_ frames: [Frame], _ index: Int) {
        // Without requests there is no telling an answer from a complaint, unless nothing was written.
        if links[index].machine.wasUsed { machine.linkAnswered() }
        for var frame in frames {
            frame.session = links[index].session
            if frame.kind == .ping || frame.kind == .pong {
                let (meaning, hasToWrite) = links[index].takeHeartbeat(frame, rules, at: loop.now)
                if hasToWrite { scheduleFlush() }
                if meaning == .answer { continue }
            }
            direct.inbox.append(frame)
        }
        if let frame = direct.reader == nil ? nil : direct.inbox.popFirst() {
            direct.reader.take()?.continuation.resume(returning: frame)
        }
        updateReading()
    }

    // MARK: Out

    /// Sends `frame` as it is and returns when the kernel has all of its bytes. Connects if there is no link.
    ///
    /// Cancelled before its first byte is written, it is not sent: `cancelled`, fate `notSent`; after that the frame
    /// goes out whole: `cancelled`, fate `unknown`. Lost with the link: `connectionLost`, fate `unknown`. A frame with a
    /// mark that codecs give to received frames (`malformedReason`, `endsLink`) is not sent: `invalidRequest`, fate `notSent`.
    public func write(_ frame: Frame) async throws(ClientError) {
        if let mark = frame.receivedMark {
            throw ClientError(
                .invalidRequest,
                .notSent,
                "the frame has the mark \(mark), which only received frames have"
            )
        }
        lastID += 1
        let id = lastID
        let outcome: Outcome = await withTaskCancellationHandler {
            await withContinuation { continuation in
                // Asked here and not before: each `await` above may let the loop do other things first.
                guard lifecycle < .closing else {
                    let error = ClientError(.closed, .notSent, "the connection is closed")
                    return continuation.resume(returning: .failure(error))
                }
                guard !Task.isCancelled else { return continuation.resume(returning: .failure(.cancelledUnsent)) }
                let waiter = Waiter.caller(continuation)
                let request = QueuedRequest(id: id, frame: frame, waiter: waiter, expectsResponse: false)
                entered { connection in
                    connection.direct.queue.append(request, deadline: nil)
                    connection.admit()
                    connection.connectIfNeeded()
                }
                if Task.isCancelled { cancelWrite(id) }
            }
        } onCancel: {
            schedule { $0.cancelWrite(id) }
        }
        _ = try outcome.get()
    }

    /// Puts what waits on the link.
    private func admit() {
        guard let ready else { return }
        while let request = direct.queue.popFirst() {
            let id = request.id
            guard let place = links[ready].machine.send(request) else { continue }
            direct.queue.went(id, to: place, on: links[ready].session)
        }
        if !links[ready].transport.awaitsWritable { scheduleFlush() }
    }

    private func cancelWrite(_ id: RequestID) {
        let message = "cancelled while it was being sent"
        switch direct.queue[id] {
        case .waiting?, .resting?:
            direct.queue.remove(id)?.waiter.resume(.failure(ClientError(.cancelled, .notSent, message)))
        case .onLink(let session, let place)?:
            let (waiter, fate): (Waiter, ClientError.Fate)
            switch cancel(id, session, place, isTimeout: false) {
            case .none: return
            case .notSent(let caller): (waiter, fate) = (caller, .notSent)
            case .sent(let caller, _): (waiter, fate) = (caller, .unknown)
            }
            direct.queue.forget(id)
            waiter.resume(.failure(ClientError(.cancelled, fate, message)))
        case nil: return
        }
    }

    // MARK: Events

    /// What happened, without an owner: there are frames that were to be written, and nothing else. An owner may also have
    /// been let go, and its requests with it.
    func handle(_ batch: [ConnectionEvent?]) {
        for case let event? in batch {
            switch event {
            case .wrote(let id, let waiter): if isMine(id) { waiter.resume(.success(.none)) }
            case .failed(let id, let waiter, let error): if isMine(id) { waiter.resume(.failure(error)) }
            case .returned(let requests):
                guard isOwned else {
                    direct.queue.giveBack(requests)
                    continue
                }
                for request in requests {
                    request.waiter.resume(.failure(ClientError(.closed, .notSent, "the client was let go")))
                }
            case .answered(_, let waiter, _):
                // Parts of it may have been for nobody.
                waiter.resume(.failure(ClientError(.closed, .unknown, "the client was let go")))
            case .lost(let loss): take(loss)
            case .ready: admit()
            case .unavailable(let error): failAll(error)
            case .closed: failAll(ClientError(.closed, .notSent, "the connection was closed"))
            case .part, .wrotePart, .refusedPart, .admitted, .push, .late, .unknownResponse, .unexpected,
                .pushesBegin, .room:
                break
            }
        }
    }

    private func isMine(_ id: RequestID) -> Bool { direct.queue.forget(id) || isOwned }

    private func take(_ loss: LinkLoss) {
        direct.queue.giveBack(loss.remains.unsent)
        let isOurDoing = (loss.cause as? TransportError)?.code == .closedLocally
        let isClosed = lifecycle == .closed && isOurDoing
        let error =
            isClosed
            ? ClientError(.closed, .unknown, "the connection was closed")
            : ClientError(
                .connectionLost,
                .unknown,
                "the link was lost while writing",
                endpoint: loss.endpoint,
                cause: loss.cause
            )
        for (id, waiter) in loss.remains.lost where isMine(id) { waiter.resume(.failure(error)) }
        guard isOwned else { return }
        for request in loss.remains.unsent { request.waiter.resume(.failure(error.withFate(.notSent))) }
    }

    private func failAll(_ error: ClientError) {
        for request in direct.queue.removeAll() { request.waiter.resume(.failure(error)) }
    }
}
