/// The requests that the server sends to one client, from their arrival to their end.
///
///     received ──► waiting ──► running ──► an answer or a refusal is being written ──► counted
///
/// Each is counted once at its end: as answered, refused, cancelled or dropped. Its serial is unique on one link only.
package struct ServerCalls: Sendable {
    package struct Limits: Sendable, Equatable {
        /// A running handler counts until its answer is written: a server that does not read cannot fill the memory.
        let maximumConcurrent: Int
        let maximumWaiting: Int
        let maximumWaitingBytes: Int

        init(maximumConcurrent: Int, maximumWaiting: Int, maximumWaitingBytes: Int) {
            self.maximumConcurrent = max(1, maximumConcurrent)
            self.maximumWaiting = max(0, maximumWaiting)
            self.maximumWaitingBytes = max(0, maximumWaitingBytes)
        }
    }

    struct Counts: Sendable, Equatable {
        var received = 0
        var answered = 0
        var refused: [ServingRefusal: Int] = [:]
        var cancelled = 0
        var dropped = 0
    }

    enum Arrival: Sendable, Equatable {
        case accepted
        case refused(ServingRefusal)
        /// Not counted: an answer would be taken for that of the earlier request with this serial.
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

    private struct Outgoing {
        let session: SessionID
        let reason: ServingRefusal?
        let request: Frame?
    }

    private var calls: [RequestID: Call] = [:]
    private var ids: [Key: RequestID] = [:]
    /// The waiting calls, in order. May contain others.
    private var queue = Deque<RequestID>()
    private var outgoing: [RequestID: Outgoing] = [:]
    private var lastID = Self.firstID
    private var waitingBytes = 0
    private var refusalCount = 0
    private(set) var waitingCount = 0
    /// Without abandoned calls.
    private var liveCount = 0
    /// The number of handlers that run and of answers that are being written.
    private(set) var occupiedCount = 0
    private(set) var counts = Counts()
    private(set) var limits: Limits?

    /// The IDs of the client's requests and of their parts are lower.
    static let firstID = RequestID(3 << 62)

    /// How many refusals may wait to be written. A server that sends requests and never reads must not fill the memory.
    static let maximumRefusals = 24_576

    init() {}

    var isIdle: Bool { waitingCount == 0 && liveCount == 0 }

    var openCount: Int {
        waitingCount + liveCount + outgoing.values.reduce(0) { $0 + ($1.reason == .cancelled ? 0 : 1) }
    }

    // MARK: The server

    mutating func begin(_ limits: Limits) { self.limits = limits }

    mutating func stop() -> [Frame] {
        limits = nil
        var waiting: [Frame] = []
        while let id = queue.popFirst() {
            if let request = takeWaiting(id) { waiting.append(request) }
        }
        return waiting
    }

    // MARK: In

    mutating func receive(_ request: consuming Frame) -> Arrival {
        let key = Key(of: request)
        guard ids[key] == nil else { return .repeated }
        counts.received += 1
        if let reason = request.malformedReason { return .refused(reason == .illegalLength ? .overloaded : .malformed) }
        guard let limits else { return .refused(.notServed) }
        let cost = request.queueCost
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

    mutating func startNext() -> (id: RequestID, request: Frame)? {
        guard let limits, waitingCount > 0, occupiedCount < limits.maximumConcurrent else { return nil }
        while let id = queue.popFirst() {
            guard let call = calls[id], call.state == .waiting else { continue }
            calls[id]?.state = .running
            waitingCount -= 1
            waitingBytes -= call.request.queueCost
            liveCount += 1
            occupiedCount += 1
            return (id, call.request)
        }
        return nil
    }

    mutating func cancel(
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

    /// Returns the handlers that run for the link, in order.
    mutating func linkEnded(_ session: SessionID?) -> [RequestID] {
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

    mutating func handlerEnded(_ id: RequestID) -> Frame? {
        guard let call = calls.removeValue(forKey: id) else { return nil }
        occupiedCount -= 1
        guard call.state == .running else { return nil }
        liveCount -= 1
        ids[Key(of: call.request)] = nil
        return call.request
    }

    mutating func endWithoutAnswer() { counts.answered += 1 }

    mutating func drop() { counts.dropped += 1 }

    var mayRefuse: Bool { refusalCount < Self.maximumRefusals }

    mutating func queue(_ reason: ServingRefusal?, for request: Frame, on session: SessionID) -> RequestID {
        let id = nextID()
        outgoing[id] = Outgoing(session: session, reason: reason, request: reason == nil ? request : nil)
        if reason == nil { occupiedCount += 1 } else { refusalCount += 1 }
        return id
    }

    mutating func wrote(_ id: RequestID) -> ServingRefusal? {
        guard let frame = outgoing[id] else { return nil }
        remove(id, frame)
        switch frame.reason {
        case nil: counts.answered += 1
        case .cancelled?: break  // counted when it was cancelled
        case let reason?: counts.refused[reason, default: 0] += 1
        }
        return frame.reason
    }

    /// Returns the request of an answer, which is to be refused. A refusal is dropped.
    mutating func couldNotEncode(_ id: RequestID) -> Frame? {
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

    private mutating func takeWaiting(_ id: RequestID) -> Frame? {
        guard let call = calls[id], call.state == .waiting else { return nil }
        calls[id] = nil
        ids[Key(of: call.request)] = nil
        waitingCount -= 1
        waitingBytes -= call.request.queueCost
        return call.request
    }

    private mutating func abandon(_ id: RequestID) {
        guard let call = calls[id], call.state == .running else { return }
        calls[id]?.state = .abandoned
        ids[Key(of: call.request)] = nil
        liveCount -= 1
    }

    /// Removes calls that have left: a server may send and cancel requests without end.
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
