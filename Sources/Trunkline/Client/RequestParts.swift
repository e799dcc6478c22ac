/// A frame that a caller adds to a request that is under way: see `OpenRequest`.
struct RequestPart: Sendable {
    /// Names it among everything that was ever put into the outbound queue. Requests have lower ones.
    let id: RequestID
    /// The request that it belongs to.
    let request: RequestID
    var frame: Frame
    /// Who waits until it is written; `nil` when nobody does any more.
    var continuation: Continuation<ClientError?>?
    /// Whether it is the last piece of the request.
    var endsRequest = false
    /// Its link was lost before a byte of it was written.
    var isDropped = false

    /// Request parts have request IDs from here on.
    static let firstID: RequestID = 1 << 63

    /// Tells who waits that it failed. What was not written is `notSent`, whatever `error` says.
    func fail(_ error: ClientError, isSent: Bool) {
        continuation?.resume(returning: error.withFate(isSent ? .unknown : .notSent))
    }
}

/// The request parts of one client, from their command to their end.
///
///     held ──(the request has started, and there is room)──► queued ──(the last byte is written)──► gone
///
/// A queued one is in the outbound queue of the very link on which its request has started, and belongs to it. So none can
/// go out on another link; and who ends a request takes its request parts out first, so that none goes out after the
/// reply or the cancel frame, when its serial may be another's.
struct RequestParts: Sendable {
    /// What is to be known of a request that was begun in pieces or has request parts.
    struct Target: Sendable {
        /// For the cancel frame.
        let type: UInt32
        /// Whether the server waits for more pieces of it.
        var isIncomplete: Bool
        /// A request part was handed to its link: it cannot be sent again.
        var isContinued = false
    }

    private(set) var targets: [RequestID: Target] = [:]
    /// In the order in which they were submitted; `nil` where one has left.
    private(set) var held: [RequestPart?] = []
    private(set) var heldCount = 0
    private(set) var queued: [RequestID: RequestPart] = [:]

    // MARK: Requests

    /// Whether there is any request to be ended here. Asked for every response.
    var hasTargets: Bool { !targets.isEmpty }

    /// A request goes out whose first frame is a piece of it.
    mutating func begin(_ request: RequestID, type: UInt32) {
        targets[request] = Target(type: type, isIncomplete: true)
    }

    /// Ends a request; returns what is left of it, in order, and which of them wait in the client.
    mutating func end(_ request: RequestID) -> (target: Target, held: [RequestPart], queued: [RequestPart])? {
        guard let target = targets.removeValue(forKey: request) else { return nil }
        let mine = takeHeld { $0.request == request }
        // In order: that of a dictionary differs from process to process.
        let out = queued.values.filter { $0.request == request }.sorted { $0.id < $1.id }
        for requestPart in out { queued[requestPart.id] = nil }
        if targets.isEmpty, targets.capacity > 1024 { (targets, queued) = ([:], queued.isEmpty ? [:] : queued) }
        return (target, mine, out)
    }

    /// Ends everything.
    mutating func removeAll() -> (held: [RequestPart], queued: [RequestPart]) {
        let all = (takeHeld { _ in true }, queued.values.sorted { $0.id < $1.id })
        self = RequestParts()
        return all
    }

    // MARK: One of them

    /// Takes one in, of a request of `type` that is under way.
    mutating func hold(_ requestPart: RequestPart, requestType type: UInt32) {
        if targets[requestPart.request] == nil {
            targets[requestPart.request] = Target(type: type, isIncomplete: false)
        }
        if held.count > 2 * heldCount + 64 { held.removeAll { $0 == nil } }
        held.append(requestPart)
        heldCount += 1
    }

    /// The held one at `index` goes out. Returns its frame.
    mutating func release(at index: Int) -> Frame {
        guard var part = held[index].take() else { preconditionFailure("nothing is held there") }
        heldCount -= 1
        if heldCount == 0 { held.removeAll(keepingCapacity: held.capacity <= 1024) }
        let frame = part.frame
        targets[part.request]?.isContinued = true
        part.frame.body = Bytes()  // the outbound queue has it
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

    /// Nobody waits any more for one that is half written.
    mutating func takeContinuation(of id: RequestID) -> Continuation<ClientError?>? {
        queued[id]?.continuation.take()
    }

    /// The last byte of one is with the kernel.
    mutating func written(_ id: RequestID) {
        guard let requestPart = queued.removeValue(forKey: id) else { return }
        if requestPart.endsRequest { targets[requestPart.request]?.isIncomplete = false }
        requestPart.continuation?.resume(returning: nil)
    }

    /// These were lost with their link before a byte of them was written.
    mutating func noteDropped(_ ids: [RequestID]) {
        for id in ids { queued[id]?.isDropped = true }
    }
}
