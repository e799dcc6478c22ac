/// The requests of the server of a client, with their handlers.
struct Serving: EmptyInitializable, Sendable {
    var calls = ServerCalls()
    fileprivate(set) var port: ServingPort?
    fileprivate var handlers: [RequestID: ServedCall] = [:]
    fileprivate var untold: (refused: [ServingRefusal: Int], dropped: Int) = ([:], 0)
    private(set) var hasUntold = false

    fileprivate mutating func noteRefused(_ reason: ServingRefusal) {
        untold.refused[reason, default: 0] += 1
        hasUntold = true
    }

    fileprivate mutating func noteDropped(_ count: Int = 1) {
        untold.dropped += count
        if count > 0 { hasUntold = true }
    }

    fileprivate mutating func takeUntold() -> (refused: [ServingRefusal: Int], dropped: Int) {
        hasUntold = false
        return exchange(&untold, with: ([:], 0))
    }
}

/// Requests of the server: how they reach their handlers, and how the answers reach their links.
extension Dispatcher {
    // MARK: The server

    mutating func serve(_ port: ServingPort, _ limits: ServerCalls.Limits) {
        guard lifecycle == .open else { return port.finish() }
        guard serving.port == nil else {
            return port.finish(ClientError(.invalidRequest, .notSent, "another call of serve is in progress"))
        }
        serving.port = port
        serving.calls.begin(limits)
        driver.connectIfNeeded()
    }

    mutating func stopServing(_ port: ServingPort) {
        if serving.port === port { stopServing() }
        // The task takes no more calls.
        for call in port.takeRest() { served(call, .stopped) }
    }

    /// Refuses the requests that wait for a handler. Handlers that run end by themselves.
    mutating func stopServing() {
        guard !isWithoutServing, let port = exchange(&serving.port, with: nil) else { return }
        for request in serving.calls.stop() {
            noteCall(-1, request)
            refuse(request, .notServed)
        }
        port.finish()
    }

    mutating func endServing() {
        if isWithoutServing { return }
        stopServing()
        endCalls(of: nil)
    }

    // MARK: In

    mutating func requested(_ request: Frame) {
        switch serving.calls.receive(request) {
        case .accepted:
            noteCall(1, request)
            startCalls()
        case .refused(let reason): refuse(request, reason)
        case .repeated: ledger.unexpectedFrame()
        }
    }

    mutating func cancelCall(_ serial: SerialNumber, on session: SessionID) {
        guard let (request, handler) = serving.calls.cancel(serial, on: session) else {
            // Where requests are served, it has crossed the answer.
            if serving.port == nil { ledger.unexpectedFrame() }
            return
        }
        noteCall(-1, request)
        if let handler { serving.handlers[handler]?.cancel() }
        refuse(request, .cancelled)
    }

    /// `nil` ends the calls of all links.
    mutating func endCalls(of session: SessionID?) {
        if isWithoutServing { return }
        let before = serving.calls.counts.dropped
        for id in serving.calls.linkEnded(session) { serving.handlers[id]?.cancel() }
        serving.noteDropped(serving.calls.counts.dropped - before)
        // Answers that the link did not take any more have made room.
        startCalls()
    }

    private mutating func startCalls() {
        guard let port = serving.port else { return }
        while let (id, request) = serving.calls.startNext() {
            let call = ServedCall(id, request)
            serving.handlers[id] = call
            port.offer(call)
        }
    }

    // MARK: Out

    mutating func served(_ call: ServedCall, _ outcome: ServedCall.Outcome) {
        serving.handlers[call.id] = nil
        if let request = serving.calls.handlerEnded(call.id) {
            noteCall(-1, request)
            switch outcome {
            case .answer(let frame) where frame.receivedMark == nil: answer(request, frame)
            case .answer, .failed: refuse(request, .failed)
            case .nothing:
                serving.calls.endWithoutAnswer()
                driver.links.noteUnanswered(request)
            case .stopped: refuse(request, .notServed)
            }
        }
        startCalls()
    }

    mutating func wroteAnswer(_ id: RequestID) {
        if let reason = serving.calls.wrote(id), reason != .cancelled { serving.noteRefused(reason) }
        startCalls()
    }

    mutating func couldNotEncodeAnswer(_ id: RequestID) {
        let before = serving.calls.counts.dropped
        if let request = serving.calls.couldNotEncode(id) {
            refuse(request, .failed)
        } else {
            serving.noteDropped(serving.calls.counts.dropped - before)
        }
        startCalls()
    }

    private mutating func answer(_ request: Frame, _ frame: Frame) {
        var frame = frame
        frame.kind = .response
        if !send(frame, for: request, nil) { drop(request) }
    }

    private mutating func refuse(_ request: Frame, _ reason: ServingRefusal) {
        guard serving.calls.mayRefuse, lifecycle < .closing, let session = request.session,
            var frame = driver.links.refusal(of: request, on: session, because: reason)
        else { return drop(request, unless: reason) }
        frame.kind = .response
        if !send(frame, for: request, reason) { drop(request, unless: reason) }
    }

    private mutating func drop(_ request: Frame, unless reason: ServingRefusal? = nil) {
        driver.links.noteUnanswered(request)
        if reason == .cancelled { return }  // counted when it was cancelled
        serving.calls.drop()
        serving.noteDropped()
    }

    private mutating func send(_ frame: Frame, for request: Frame, _ reason: ServingRefusal?) -> Bool {
        guard let session = request.session, driver.links.mayAnswer(on: session) else {
            return false
        }
        let id = serving.calls.queue(reason, for: request, on: session)
        driver.requests.answer(frame, id, to: request.serial, on: session)
        return true
    }

    private func noteCall(_ change: Int, _ request: Frame) {
        guard let session = request.session else { return }
        driver.requests.noteCall(change, on: session)
    }

    mutating func tellUnserved() {
        let (refused, dropped) = serving.takeUntold()
        for (reason, count) in refused.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            ledger.refused(count, because: reason)
        }
        if dropped > 0 { ledger.dropped(count: dropped) }
    }
}
