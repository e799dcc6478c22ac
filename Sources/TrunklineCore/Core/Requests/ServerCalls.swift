/// The requests that the server sends to one client, from their arrival to their end.
///
///     received ──► waiting ──► running ──► an answer or a refusal is being written ──► counted
///
/// Each request that is received is counted once at its end: as answered, refused, cancelled or dropped. The numbers of
/// requests belong to the server, and are unique on one link only.
package struct ServerCalls: Sendable {
    /// The limits of one server.
    package struct Limits: Sendable, Equatable {
        /// The number of handlers that may run. An answer counts until it is written, so that a server that does not
        /// read cannot fill the memory.
        package let maximumConcurrent: Int
        /// The number of requests that may wait for a handler, and their size.
        package let maximumWaiting: Int
        package let maximumWaitingBytes: Int

        package init(maximumConcurrent: Int, maximumWaiting: Int, maximumWaitingBytes: Int) {
            self.maximumConcurrent = max(1, maximumConcurrent)
            self.maximumWaiting = max(0, maximumWaiting)
            self.maximumWaitingBytes = max(0, maximumWaitingBytes)
        }
    }

    /// What was counted since the client was created.
    package struct Counts: Sendable, Equatable {
        package var received = 0
        package var answered = 0
        package var refused: [ServingRefusal: Int] = [:]
        package var cancelled = 0
        package var dropped = 0
    }

    /// The outcome of `receive`.
    package enum Arrival: Sendable, Equatable {
        /// The request waits: see `startNext`.
        case accepted
        case refused(ServingRefusal)
        /// A request with this serial is not answered yet. It is not counted: an answer would be taken for that of the
        /// other one.
        case repeated
    }

    private struct Key: Hashable {
        let session: SessionID
        let serial: SerialNumber

        init(of request: borrowing Frame) {
            (session, serial) = (request.session ?? SessionID(bits: 0), request.serial)
        }

        init(_ session: SessionID, _ serial: SerialNumber) { (self.session, self.serial) = (session, serial) }
    }

    private enum State {
        case waiting, running
        /// A handler runs whose answer is not wanted any more. The request has been counted.
        case abandoned
    }

    private struct Call {
        let request: Frame
        var state: State
    }

    /// An answer or a refusal that is not written yet.
    private struct Outgoing {
        let session: SessionID
        /// Why the request was refused; `nil` for an answer.
        let reason: ServingRefusal?
        /// The request of an answer.
        let request: Frame?
    }

    private var calls: [RequestID: Call] = [:]
    /// The waiting and running calls, by their serials.
    private var ids: [Key: RequestID] = [:]
    /// The waiting calls, in order. May contain others.
    private var queue = Deque<RequestID>()
    private var outgoing: [RequestID: Outgoing] = [:]
    private var lastID = Self.firstID
    private var waitingBytes = 0
    /// The number of refusals in `outgoing`.
    private var refusalCount = 0
    /// The number of calls that wait.
    package private(set) var waitingCount = 0
    /// The number of calls that run, without abandoned ones.
    private var liveCount = 0
    /// The number of handlers that run and of answers that are being written.
    package private(set) var occupiedCount = 0
    package private(set) var counts = Counts()
    /// The limits of the present server; `nil` if there is none.
    package private(set) var limits: Limits?

    /// The lowest ID of a request of the server. The IDs of the client's requests and of their parts are lower.
    package static let firstID = RequestID(3 << 62)

    /// How many refusals may wait to be written. A server that sends requests and never reads must not fill the memory.
    package static let maximumRefusals = 24_576

    package init() {}

    /// Whether no request waits or runs.
    package var isIdle: Bool { waitingCount == 0 && liveCount == 0 }

    /// The number of requests that were received and have not been counted otherwise.
    package var openCount: Int {
        waitingCount + liveCount + outgoing.values.reduce(0) { $0 + ($1.reason == .cancelled ? 0 : 1) }
    }

    // MARK: The server

    /// Begins to serve. There must be no other server.
    package mutating func begin(_ limits: Limits) { self.limits = limits }

    /// Takes no more requests. Returns those that waited, in order, which are to be refused. Others finish.
    package mutating func stop() -> [Frame] {
        limits = nil
        var waiting: [Frame] = []
        while let id = queue.popFirst() {
            if let request = takeWaiting(id) { waiting.append(request) }
        }
        return waiting
    }

    // MARK: In

    /// Takes a request, which has the session of its link.
    package mutating func receive(_ request: consuming Frame) -> Arrival {
        let key = Key(of: request)
        guard ids[key] == nil else { return .repeated }
        counts.received += 1
        if let reason = request.malformedReason { return .refused(reason == .illegalLength ? .overloaded : .malformed) }
        guard let limits else { return .refused(.notServed) }
        let cost = OutboundQueue.cost(of: request)
        let mayStart = waitingCount == 0 && occupiedCount < limits.maximumConcurrent
        let mayWait =
            waitingCount < limits.maximumWaiting
            && (waitingCount == 0 || waitingBytes + cost <= limits.maximumWaitingBytes)
        guard mayStart || mayWait else { return .refused(.overloaded) }
        let id = nextID()
        calls[id] = Call(request: request, state: .waiting)
        ids[key] = id
        queue.append(id)
        waitingCount += 1
        waitingBytes += cost
        return .accepted
    }

    /// Removes the first waiting request if a handler may begin to run for it.
    package mutating func startNext() -> (id: RequestID, request: Frame)? {
        guard let limits, waitingCount > 0, occupiedCount < limits.maximumConcurrent else { return nil }
        while let id = queue.popFirst() {
            guard let call = calls[id], call.state == .waiting else { continue }
            calls[id]?.state = .running
            waitingCount -= 1
            waitingBytes -= OutboundQueue.cost(of: call.request)
            liveCount += 1
            occupiedCount += 1
            return (id, call.request)
        }
        return nil
    }

    /// Cancels a request for the server. Returns it, and the ID of its handler if that runs; `nil` if there is no such
    /// request.
    package mutating func cancel(
        _ serial: SerialNumber,
        on session: SessionID
    ) -> (request: Frame, handler: RequestID?)? {
        guard let id = ids[Key(session, serial)], let call = calls[id] else { return nil }
        counts.cancelled += 1
        if takeWaiting(id) != nil {
            trimQueue()
            return (call.request, nil)
        }
        abandon(id)
        return (call.request, id)
    }

    /// Drops everything that belongs to the link of `session`, which has ended, or to all links. Returns the handlers
    /// that run for it, in order.
    package mutating func linkEnded(_ session: SessionID?) -> [RequestID] {
        var running: [RequestID] = []
        for (id, call) in calls.sorted(by: { $0.key < $1.key }) {
            guard session == nil || call.request.session == session, call.state != .abandoned else { continue }
            counts.dropped += 1
            if takeWaiting(id) != nil { continue }
            abandon(id)
            running.append(id)
        }
        trimQueue()
        for (id, frame) in outgoing where session == nil || frame.session == session {
            remove(id, frame)
            if frame.reason != .cancelled { counts.dropped += 1 }
        }
        return running
    }

    // MARK: Out

    /// The handler of `id` has ended, or did not begin. Returns its request if that is still to be answered.
    package mutating func handlerEnded(_ id: RequestID) -> Frame? {
        guard let call = calls.removeValue(forKey: id) else { return nil }
        occupiedCount -= 1
        guard call.state == .running else { return nil }
        liveCount -= 1
        ids[Key(of: call.request)] = nil
        return call.request
    }

    /// Counts a request that needs no answer.
    package mutating func endWithoutAnswer() { counts.answered += 1 }

    /// Counts a request that cannot be answered.
    package mutating func drop() { counts.dropped += 1 }

    /// Whether one more refusal may be queued.
    package var mayRefuse: Bool { refusalCount < Self.maximumRefusals }

    /// Returns an ID for an answer or a refusal, which is now being written.
    package mutating func queue(_ reason: ServingRefusal?, for request: Frame, on session: SessionID) -> RequestID {
        let id = nextID()
        outgoing[id] = Outgoing(session: session, reason: reason, request: reason == nil ? request : nil)
        if reason == nil { occupiedCount += 1 } else { refusalCount += 1 }
        return id
    }

    /// The last byte of an answer or a refusal was written. Returns why the request was refused, if it was.
    package mutating func wrote(_ id: RequestID) -> ServingRefusal? {
        guard let frame = outgoing[id] else { return nil }
        remove(id, frame)
        switch frame.reason {
        case nil: counts.answered += 1
        case .cancelled?: break  // counted when it was cancelled
        case let reason?: counts.refused[reason, default: 0] += 1
        }
        return frame.reason
    }

    /// An answer or a refusal could not be encoded. Returns the request of an answer, which is to be refused. A refusal
    /// is dropped.
    package mutating func couldNotEncode(_ id: RequestID) -> Frame? {
        guard let frame = outgoing[id] else { return nil }
        remove(id, frame)
        if let request = frame.request { return request }
        if frame.reason != .cancelled { counts.dropped += 1 }
        return nil
    }

    // MARK: Tables

    private mutating func nextID() -> RequestID {
        lastID = lastID.advanced(by: 1)
        return lastID
    }

    /// Removes the call if it waits. It may stay in the queue.
    private mutating func takeWaiting(_ id: RequestID) -> Frame? {
        guard let call = calls[id], call.state == .waiting else { return nil }
        calls[id] = nil
        ids[Key(of: call.request)] = nil
        waitingCount -= 1
        waitingBytes -= OutboundQueue.cost(of: call.request)
        return call.request
    }

    private mutating func abandon(_ id: RequestID) {
        guard let call = calls[id], call.state == .running else { return }
        calls[id]?.state = .abandoned
        ids[Key(of: call.request)] = nil
        liveCount -= 1
    }

    /// Removes calls from the queue that have left: a server may send and cancel requests without end.
    private mutating func trimQueue() {
        guard queue.count > 2 * waitingCount + 64 else { return }
        var trimmed = Deque<RequestID>()
        while let id = queue.popFirst() {
            if calls[id]?.state == .waiting { trimmed.append(id) }
        }
        queue = trimmed
    }

    private mutating func remove(_ id: RequestID, _ frame: Outgoing) {
        outgoing[id] = nil
        if frame.reason == nil { occupiedCount -= 1 } else { refusalCount -= 1 }
    }
}
