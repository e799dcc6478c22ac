/// A frame that a caller adds to a request in flight. See `OpenRequest`.
struct RequestPart: Sendable {
    /// Identifies the part in the outbound queue. The IDs of requests are lower.
    let id: RequestID
    /// The request that the part belongs to.
    let request: RequestID
    var frame: Frame
    /// The caller that waits until the part is written; `nil` after it has stopped waiting.
    var continuation: Continuation<ClientError?>?
    /// Whether this is the last piece of the request.
    var endsRequest = false
    /// Whether its link was lost before any byte of it was written.
    var isDropped = false

    /// The lowest ID of request parts.
    static let firstID: RequestID = 1 << 63

    /// Resumes the waiting caller with an error. The fate is `notSent` if the part was not written, whatever `error`
    /// contains.
    func fail(_ error: ClientError, isSent: Bool) {
        continuation?.resume(returning: error.withFate(isSent ? .unknown : .notSent))
    }
}

/// The request parts of one client, from their command to their end.
///
///     held ──(the request has started, and there is room)──► queued ──(the last byte is written)──► removed
///
/// A queued part is in the outbound queue of the link on which its request has started, and belongs to that link. So a
/// part never goes out on another link. Code that ends a request removes its parts first, so that none is sent after
/// the reply or the cancel frame, when the serial may belong to another request.
struct RequestParts: Sendable {
    /// The state of a request that began in pieces or has request parts.
    struct Target: Sendable {
        /// For the cancel frame.
        let type: UInt32
        /// Whether the server expects more pieces of the request.
        var isIncomplete: Bool
        /// Whether a part has been put on the link. If so, the request cannot be retried.
        var isContinued = false
    }

    private(set) var targets: [RequestID: Target] = [:]
    /// In the order in which they were submitted; `nil` where a part has been removed.
    private(set) var held: [RequestPart?] = []
    private(set) var heldCount = 0
    private(set) var queued: [RequestID: RequestPart] = [:]

    // MARK: Requests

    /// Whether any request must be ended here. Read for every response.
    var hasTargets: Bool { !targets.isEmpty }

    /// Registers a request whose first frame is a piece of it.
    mutating func begin(_ request: RequestID, type: UInt32) {
        targets[request] = Target(type: type, isIncomplete: true)
    }

    /// Ends a request. Returns its remaining parts in order, separated into those held in the client and those queued
    /// on a link.
    mutating func end(_ request: RequestID) -> (target: Target, held: [RequestPart], queued: [RequestPart])? {
        guard let target = targets.removeValue(forKey: request) else { return nil }
        let mine = takeHeld { $0.request == request }
        // Sorted, because the order of a dictionary differs between processes.
        let out = queued.values.filter { $0.request == request }.sorted { $0.id < $1.id }
        for requestPart in out { queued[requestPart.id] = nil }
        if targets.isEmpty, targets.capacity > 1024 { (targets, queued) = ([:], queued.isEmpty ? [:] : queued) }
        return (target, mine, out)
    }

    /// Ends all requests.
    mutating func removeAll() -> (held: [RequestPart], queued: [RequestPart]) {
        let all = (takeHeld { _ in true }, queued.values.sorted { $0.id < $1.id })
        self = RequestParts()
        return all
    }

    // MARK: One part

    /// Holds a part of a request of `type` that is in flight.
    mutating func hold(_ requestPart: RequestPart, requestType type: UInt32) {
        if targets[requestPart.request] == nil {
            targets[requestPart.request] = Target(type: type, isIncomplete: false)
        }
        if held.count > 2 * heldCount + 64 { held.removeAll { $0 == nil } }
        held.append(requestPart)
        heldCount += 1
    }

    /// Moves the held part at `index` to the queued ones. Returns its frame.
    mutating func release(at index: Int) -> Frame {
        guard var part = held[index].take() else { preconditionFailure("no request part is held at this index") }
        heldCount -= 1
        if heldCount == 0 { held.removeAll(keepingCapacity: held.capacity <= 1024) }
        let frame = part.frame
        targets[part.request]?.isContinued = true
        part.frame.body = Bytes()  // owned by the outbound queue
        queued[part.id] = part
        return frame
    }

    mutating func takeHeld(_ id: RequestID) -> RequestPart? { takeHeld { $0.id == id }.first }

    private mutating func takeHeld(where isMeant: (RequestPart) -> Bool) -> [RequestPart] {
        let taken = held.compactMap { part in part.flatMap { isMeant($0) ? $0 : nil } }
        guard !taken.isEmpty else { return [] }
        held.removeAll { part in part.map(isMeant) ?? true }
        heldCount -= taken.count
        if heldCount == 0, held.capacity > 1024 { held = [] }
        return taken
    }

    mutating func takeQueued(_ id: RequestID) -> RequestPart? { queued.removeValue(forKey: id) }

    /// Removes the caller that waits for a partly written part.
    mutating func takeContinuation(of id: RequestID) -> Continuation<ClientError?>? {
        queued[id]?.continuation.take()
    }

    /// Handles that the kernel has accepted the last byte of a part.
    mutating func written(_ id: RequestID) {
        guard let requestPart = queued.removeValue(forKey: id) else { return }
        if requestPart.endsRequest { targets[requestPart.request]?.isIncomplete = false }
        requestPart.continuation?.resume(returning: nil)
    }

    /// Marks parts whose link was lost before any byte of them was written.
    mutating func noteDropped(_ ids: [RequestID]) {
        for id in ids { queued[id]?.isDropped = true }
    }
}
