/// The owner of a connection that is used alone. Confined to the event loop of its connection, which keeps it.
final class FrameUse: ConnectionOwner {
    private(set) var writes = RequestTable<Waiter>(maximumWaiting: .max, maximumBytes: .max)
    /// Always empty, because only clients send requests in parts.
    private var parts = RequestParts()
    /// What was held or came together when a task asked for a frame, and what links had when they ended.
    private(set) var inbox = Deque<Frame>()
    private(set) var reader: Reader?
    private(set) var endReason: ClientError?

    /// It owns this object.
    weak var reference: DriverReference?

    struct Reader {
        let id: UInt64
        let consumer: FrameConsumer
        let continuation: Continuation<Frame?>
    }

    func read(_ reader: Reader, mayWait: Bool, _ driver: ConnectionDriver) {
        let continuation = reader.continuation
        guard !reader.consumer.isOver else { return continuation.resume(returning: nil) }
        endReason = nil
        if let frame = inbox.popFirst() { return continuation.resume(returning: frame) }
        guard mayWait else { return continuation.resume(returning: nil) }
        dropLateReader()
        guard self.reader == nil else {
            let message = "two tasks iterated frames at the same time; only one task may"
            endReason = ClientError(.invalidRequest, .notSent, message)
            return continuation.resume(returning: nil)
        }
        self.reader = reader
        driver.io.setPaused(false)
        driver.connectIfNeeded()
        finish(driver)
    }

    func stopReading(_ id: UInt64, _ driver: ConnectionDriver) {
        guard reader?.id == id else { return }
        endReader()
        finish(driver)
    }

    func callIsOver(_ driver: ConnectionDriver) {
        guard reader?.consumer.isOver == true else { return }
        endReader()
        finish(driver)
    }

    private func dropLateReader() { if reader?.consumer.isOver == true { endReader() } }

    private func endReader(_ reason: ClientError? = nil) {
        guard let reader = reader.take() else { return }
        if let reason { endReason = reason }
        reader.continuation.resume(returning: nil)
    }

    func write(
        _ id: RequestID,
        _ frame: Frame,
        _ continuation: Continuation<Outcome>,
        _ driver: ConnectionDriver
    ) {
        writes.append(
            QueuedRequest(id: id, frame: frame, expectsResponse: false),
            Waiter(.caller(continuation)),
            deadline: nil,
            accepted: .distantPast  // not measured
        )
        finish(driver)
    }

    func cancel(_ id: RequestID, _ driver: ConnectionDriver) {
        let fate: ClientError.Fate
        switch writes[id]?.place {
        case .waiting?, .delayed?:
            _ = writes.remove(id)
            fate = .notSent
        case .onLink(let session, let place)?:
            switch driver.requests.cancel(id, session, place, isTimeout: false) {
            case .none: return
            case .notSent: fate = .notSent
            case .sent: fate = .unknown
            }
        case nil: return
        }
        end(id, .failure(ClientError(.cancelled, fate, "the write was cancelled")))
        finish(driver)
    }

    private func end(_ id: RequestID, _ outcome: Outcome) { writes.forget(id)?.resume(outcome) }

    private func endWaiting(_ error: ClientError) {
        for request in writes.queue.removeAll() { end(request.id, .failure(error)) }
    }

    func handle(_ events: inout [ConnectionEvent]) {
        guard let driver = reference?.driver else { return }
        for event in events { perform(event, driver) }
        finish(driver)
    }

    /// Puts frames on the link as far as they may go, and tells the connection what is wanted.
    private func finish(_ driver: ConnectionDriver) {
        while true {
            let (events, _) = driver.requests.work(
                on: &writes.queue,
                &parts,
                demand: reader == nil ? .none : .request,
                watchesErrors: false,
                for: self
            )
            writes.noteAdmissions(at: driver.loop.now)
            if events.isEmpty { break }
            for event in events { perform(event, driver) }
        }
        driver.io.setPaused(reader == nil)
    }

    private func perform(_ event: ConnectionEvent, _ driver: ConnectionDriver) {
        switch event {
        case .pushes(let frames):
            for frame in frames { inbox.append(frame) }
            dropLateReader()
            if reader != nil, let frame = inbox.popFirst() {
                reader.take()?.continuation.resume(returning: frame)
            }
        case .wrote(let id, _): end(id, .success(.none))
        case .failed(let id, let error, _): end(id, .failure(error))
        case .returned(let requests): writes.giveBack(requests)
        case .lost(let loss): take(loss, driver)
        case .unavailable(let error):
            endWaiting(error)
            endReader(error)
        case .closed:
            endWaiting(.connectionWasClosed(.notSent))
            endReader()
        // Those of requests, which only clients have.
        case .answered, .answeredAll, .part, .sharedPart, .wrotePart, .refusedPart, .admitted, .late, .lateResponse,
            .unknownResponse, .requested, .requestCancelled, .unexpected:
            break
        case .surplusPushes, .pushesBegin, .sessionLost, .ready, .drained, .room, .taken: break
        }
    }

    private func take(_ loss: LinkLoss, _ driver: ConnectionDriver) {
        writes.giveBack(loss.remains.unsent)
        let isClosedLocally = (loss.cause as? TransportError)?.code == .closedLocally
        let isClosed = driver.lifecycle == .closed && isClosedLocally
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
        for (id, _) in loss.remains.lost { end(id, .failure(error)) }
    }
}
