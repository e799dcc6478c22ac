import Synchronization

/// The frames to write and to read of a connection without an owner.
struct DirectUse {
    /// The frames of `write` that are not written yet, each with its caller.
    var requests = RequestTable<Waiter>(maximumWaiting: .max, maximumBytes: .max)
    /// Frames that were read and not yet taken: at most one batch of reading, and what links had when they ended.
    var inbox = Deque<Frame>()
    /// How much memory the frames take that entered `inbox` while no task waited for a frame, counted as in `Link.Held`.
    var unaskedBytes = 0
    /// The task that waits for the next frame, and the ID of its wait.
    var reader: (id: UInt64, continuation: Continuation<Frame?>)?
    /// Why `frames` ended.
    var endReason: ClientError?

    /// Whether no link is needed.
    var isIdle: Bool { reader == nil && !requests.queue.hasWaiting }

    mutating func popFirst() -> Frame? {
        guard let frame = inbox.popFirst() else { return nil }
        if unaskedBytes > 0 { unaskedBytes = max(0, unaskedBytes - frame.heldByteCount) }
        return frame
    }

    /// Removes the latest frames of the link of `session`, which has ended, as long as more than `limit` bytes entered
    /// the inbox while no task waited.
    mutating func dropUnasked(of session: UInt64, beyond limit: Int) {
        while unaskedBytes > limit, let last = inbox.last, last.session == session, let frame = inbox.popLast() {
            unaskedBytes -= frame.heldByteCount
        }
    }
}

/// The consumer of a connection's `frames`. When it is destroyed, `frames` may have another one.
private final class FrameConsumer: Sendable {
    let connection: Connection

    init(of connection: Connection) { self.connection = connection }

    deinit { connection.hasConsumer.store(false, ordering: .releasing) }
}

/// Using a connection alone: reading and writing single frames.
extension Connection {
    // MARK: In

    /// The frames that the server sends, of every kind and from every link, until the connection is closed, or until it
    /// gives up because no server could be reached (see `options.reconnecting`).
    ///
    /// - Requesting the first frame connects.
    /// - The connection reads from the socket only while a frame is requested. Otherwise TCP slows the server down, the
    ///   server's pings are not answered, and a dead link is not detected (``ClientOptions/Liveness-swift.struct``).
    /// - The server's pings are elements. If the codec answers pings, the connection has already answered them. Answers to
    ///   the connection's own pings are not elements.
    /// - Frames that one consumer leaves unread are kept for the next consumer.
    /// - While no frame is requested, what links have received when they end is kept up to `inbound.maximumHeld` and
    ///   1 MiB more, over all links. The rest is lost with its link.
    ///
    /// The stream ends when its task is cancelled, and for the reasons in ``endReason``. Only one task may use the
    /// stream. If a second task requests a frame while the first one waits, the stream ends for both, after the frame
    /// that the first task waits for.
    ///
    /// - Important: In top-level code (`main.swift`, scripts) a stream, and the iterator of a `for` loop that has
    ///   ended, live until the program ends, so there can be no other consumer. Put the loop in a function.
    /// - Throws: `invalidRequest`, fate `notSent`, while there is another consumer: until its stream has ended, or
    ///   until the stream and its iterators have been deallocated.
    public nonisolated var frames: AsyncStream<Frame> {
        get throws(ClientError) {
            guard !hasConsumer.exchange(true, ordering: .acquiringAndReleasing) else {
                throw ClientError(.invalidRequest, .notSent, "frames already has a consumer; it supports one at a time")
            }
            let consumer = FrameConsumer(of: self)
            return AsyncStream {
                let frame = await consumer.connection.nextFrame()
                // Kept until here: otherwise the next consumer could find this one still waiting.
                withExtendedLifetime(consumer) {}
                return frame
            }
        }
    }

    /// The reason why ``frames`` ended; `nil` if the stream has not ended, if its consumer was cancelled, or if another
    /// frame has been requested since.
    ///
    /// - `closed`: the connection is closed, or closing.
    /// - `unavailable` or `tlsFailed`, with the attempts: no server could be reached.
    /// - `invalidRequest`: two tasks iterated one stream at the same time.
    public var endReason: ClientError? {
        lifecycle < .closing ? direct.endReason : .connectionWasClosed(.notSent)
    }

    fileprivate func nextFrame() async -> Frame? {
        lastID += 1
        let id = lastID
        return await withTaskCancellationHandler {
            await withContinuation { continuation in
                // Checked here and not earlier: each `await` above may let the loop do other things first.
                direct.endReason = nil
                if let frame = direct.popFirst() { return continuation.resume(returning: frame) }
                guard lifecycle < .closing, !Task.isCancelled else { return continuation.resume(returning: nil) }
                guard direct.reader == nil else {
                    let message = "two tasks iterated frames at the same time; only one task may"
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

    /// Ends the stream of the consumer that waits. The reason is `reason`, unless the connection is closed.
    func endReader(_ reason: ClientError? = nil) {
        guard let reader = direct.reader.take() else { return }
        direct.endReason = reason
        reader.continuation.resume(returning: nil)
    }

    /// Gives the frames of a ready link to the consumer.
    func deliverToReaders(_ frames: [Frame], _ link: Link) {
        // Without requests an answer cannot be distinguished from an error message, unless nothing was written.
        if link.state.machine.wasUsed { machine.linkAnswered() }
        // Otherwise these are frames of a handshake, or the last ones of a link that has failed: each link has some.
        let isAsked = direct.reader != nil
        for var frame in frames {
            frame.session = link.session
            if frame.kind == .ping || frame.kind == .pong {
                let (meaning, hasToWrite) = link.state.takeHeartbeat(frame, rules, at: loop.now)
                if hasToWrite { scheduleFlush() }
                if meaning == .answer {
                    notePong(link)
                    continue
                }
            }
            if !isAsked { direct.unaskedBytes += frame.heldByteCount }
            direct.inbox.append(frame)
        }
        if let frame = direct.reader == nil ? nil : direct.popFirst() {
            direct.reader.take()?.continuation.resume(returning: frame)
        }
        updateReading()
    }

    // MARK: Out

    /// Sends `frame` unchanged and returns when the kernel has accepted all of its bytes. If there is no link, the call
    /// connects and waits for the link without a deadline.
    ///
    /// If the task is cancelled before the first byte of the frame is written, the frame is not sent. If it is
    /// cancelled later, the rest of the frame is still written.
    ///
    /// - Throws:
    ///   - `cancelled`, fate `notSent` if no byte was written, otherwise `unknown`.
    ///   - `connectionLost`, fate `unknown`: the link was lost after the first byte was written. If no byte was
    ///     written, the frame waits for the next link.
    ///   - `unavailable` or `tlsFailed`, fate `notSent`: no server could be reached, and the connection gave up.
    ///   - `invalidRequest`, fate `notSent`: the codec cannot encode the frame, or the frame has `malformedReason` or
    ///     `endsLink` set, which is allowed only on received frames.
    ///   - `closed`, fate `notSent`, or `unknown` if a byte was written: the connection was closed.
    public func write(_ frame: Frame) async throws(ClientError) {
        if let mark = frame.receivedMark {
            throw ClientError(
                .invalidRequest,
                .notSent,
                "the frame has \(mark) set, which is allowed only on received frames"
            )
        }
        lastID += 1
        let id = lastID
        let outcome: Outcome = await withTaskCancellationHandler {
            await withContinuation { continuation in
                // Checked here and not earlier: each `await` above may let the loop do other things first.
                guard lifecycle < .closing else {
                    return continuation.resume(returning: .failure(.connectionIsClosed))
                }
                guard !Task.isCancelled else { return continuation.resume(returning: .failure(.cancelledUnsent)) }
                let request = QueuedRequest(id: id, frame: frame, expectsResponse: false)
                entered { connection in
                    connection.direct.requests.append(
                        request,
                        Waiter(.caller(continuation)),
                        deadline: nil,
                        accepted: .distantPast  // not measured
                    )
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

    /// Moves the waiting frames to the link.
    private func admit() {
        guard let ready else { return }
        while let request = direct.requests.queue.popFirst() {
            guard let place = ready.state.machine.send(request) else { continue }
            direct.requests.queue.went(request.id, to: place, on: ready.session)
        }
        direct.requests.noteAdmissions(at: loop.now)
        if !ready.state.transport.awaitsWritable { scheduleFlush() }
    }

    private func cancelWrite(_ id: RequestID) {
        let message = "the write was cancelled"
        let fate: ClientError.Fate
        switch direct.requests[id]?.place {
        case .waiting?, .delayed?:
            _ = direct.requests.remove(id)
            fate = .notSent
        case .onLink(let session, let place)?:
            switch cancel(id, session, place, isTimeout: false) {
            case .none: return
            case .notSent: fate = .notSent
            case .sent: fate = .unknown
            }
        case nil: return
        }
        endWrite(id, .failure(ClientError(.cancelled, fate, message)))
    }

    // MARK: Events

    /// Handles events without an owner: frames to be written, and nothing else. The owner may also have been
    /// deallocated, which ends its requests.
    func handle(_ batch: [ConnectionEvent]) {
        for event in batch {
            switch event {
            case .wrote(let id, _): endWrite(id, .success(.none))
            case .failed(let id, let error, _): endWrite(id, .failure(error))
            case .returned(let requests): direct.requests.giveBack(requests)
            case .lost(let loss): take(loss)
            case .ready: admit()
            case .unavailable(let error): failAll(error)
            case .closed: failAll(.connectionWasClosed(.notSent))
            case .answered, .part, .wrotePart, .refusedPart, .admitted, .pushes, .surplusPushes, .late,
                .unknownResponse,
                .unexpected, .pushesBegin, .drained, .room, .taken:
                break
            }
        }
    }

    private func endWrite(_ id: RequestID, _ outcome: Outcome) { direct.requests.forget(id)?.resume(outcome) }

    private func take(_ loss: LinkLoss) {
        direct.requests.giveBack(loss.remains.unsent)
        let isClosedLocally = (loss.cause as? TransportError)?.code == .closedLocally
        let isClosed = lifecycle == .closed && isClosedLocally
        let error =
            isClosed
            ? ClientError.connectionWasClosed(.unknown)
            : ClientError(
                .connectionLost,
                .unknown,
                "the link was lost while writing",
                endpoint: loss.link.endpoint,
                cause: loss.cause
            )
        for (id, _) in loss.remains.lost { endWrite(id, .failure(error)) }
    }

    private func failAll(_ error: ClientError) {
        for request in direct.requests.queue.removeAll() { endWrite(request.id, .failure(error)) }
    }
}
