/// A frame that a caller adds to a request in flight. See `OpenRequest`.
package struct RequestPart: Sendable {
    let id: RequestID
    let request: RequestID
    var frame: Frame
    var continuation: Continuation<ClientError?>?
    var endsRequest = false
    fileprivate(set) var place: (session: SessionID, position: OutboundPosition)?
    /// Whether its link was lost before any byte of it was written.
    var isDropped = false

    /// The IDs of requests are lower.
    static let firstID = RequestID(1 << 63)

    /// The fate is `notSent` if the part was not written, whatever `error` contains.
    func fail(_ error: ClientError, isSent: Bool) {
        continuation?.resume(returning: error.withFate(isSent ? .unknown : .notSent))
    }
}

/// The request parts of one client, from their command to their end.
///
///     held ──(the request has started, and there is room)──► queued ──(the last byte is written)──► removed
///
/// A queued part never goes out on another link. Code that ends a request removes its parts first, so that none is sent
/// after the reply or the cancel frame, when the serial may belong to another request.
///
/// A request with held parts is found when it can go on, without a search among those that cannot:
///
///     unplaced ──► awaiting a link ──► unplaced ──► on a link, not started ──► on a link, started
struct RequestParts: Sendable {
    struct Target: Sendable {
        let type: UInt32
        /// Whether the server expects more pieces of the request.
        var isIncomplete: Bool
        /// Whether a part has been put on the link. If so, the request cannot be retried.
        var isContinued = false
        var hasWrittenPart = false
        fileprivate var held = List()
        fileprivate var queued = List()
        fileprivate var listing = Listing.none
    }

    /// Where a request with held parts is listed. A request without held parts may still be listed.
    fileprivate enum Listing: Sendable, Equatable {
        case none, unplaced, awaitingLink
        case onLink(UInt64)
    }

    /// The parts of a request, in order. Some may have ended.
    fileprivate struct List: Sendable {
        private(set) var ids = Deque<RequestID>()
        private(set) var count = 0

        mutating func append(_ id: RequestID) {
            ids.append(id)
            count += 1
        }

        /// Forgets the parts that have ended if they outnumber the others.
        mutating func end(isAlive: (RequestID) -> Bool) {
            count -= 1
            if ids.count > 2 * count + 16 { ids.removeAll { !isAlive($0) } }
        }

        mutating func first(isAlive: (RequestID) -> Bool) -> RequestID? {
            while let first = ids.first {
                if isAlive(first) { return first }
                _ = ids.popFirst()
            }
            return nil
        }

        mutating func takeAll(from parts: inout [RequestID: RequestPart]) -> [RequestPart] {
            var taken: [RequestPart] = []
            while let id = ids.popFirst() {
                if let part = parts.removeValue(forKey: id) { taken.append(part) }
            }
            count = 0
            if parts.isEmpty, parts.capacity > 1024 { parts = [:] }
            return taken
        }
    }

    struct Entry: Sendable {
        let request: RequestID
        let serial: SerialNumber
        /// The entry is valid if its request is listed with this number.
        fileprivate let number: UInt64
    }

    /// The requests with held parts on one link. Some may have ended.
    private struct OnLink: Sendable {
        /// Those of which no byte is written, by the position of their first frame.
        var unstarted = Heap<OutboundPosition, Entry>()
        /// By their first held part: parts go out in the order in which they were submitted.
        var started = Heap<RequestID, Entry>()
    }

    private(set) var targets: [RequestID: Target] = [:]
    private var held: [RequestID: RequestPart] = [:]
    private(set) var queued: [RequestID: RequestPart] = [:]
    private var unplaced: [RequestID] = []
    private var awaitingLink: Set<RequestID> = []
    private var links: [SessionID: OnLink] = [:]
    private var lastNumber: UInt64 = 0
    private(set) var visitedCount = 0

    var heldCount: Int { held.count }

    // MARK: Requests

    /// Read for every response.
    var hasTargets: Bool { !targets.isEmpty }

    mutating func begin(_ request: RequestID, type: UInt32) {
        targets[request] = Target(type: type, isIncomplete: true)
    }

    /// Registers a request that has ended here, but whose response is still to be handled.
    mutating func resume(_ request: RequestID, _ target: Target) {
        targets[request] = target
        targets[request]?.listing = Listing.none
    }

    mutating func end(_ request: RequestID) -> (target: Target, held: [RequestPart], queued: [RequestPart])? {
        guard var target = targets.removeValue(forKey: request) else { return nil }
        if target.listing == .awaitingLink { awaitingLink.remove(request) }
        visitedCount += target.held.ids.count + target.queued.ids.count
        let mine = target.held.takeAll(from: &held)
        let out = target.queued.takeAll(from: &queued)
        if targets.isEmpty, targets.capacity > 1024 { (targets, links) = ([:], [:]) }
        return (target, mine, out)
    }

    mutating func removeAll() -> (held: [RequestPart], queued: [RequestPart]) {
        let all = (held.values.sorted { $0.id < $1.id }, queued.values.sorted { $0.id < $1.id })
        self = RequestParts()
        return all
    }

    // MARK: One part

    mutating func hold(_ requestPart: RequestPart, requestType type: UInt32) {
        let request = requestPart.request
        targets[request, default: Target(type: type, isIncomplete: false)].held.append(requestPart.id)
        held[requestPart.id] = requestPart
        if targets[request]?.listing == Listing.none { listUnplaced(request) }
    }

    private mutating func release(_ request: RequestID, _ id: RequestID) -> RequestPart? {
        guard var part = held.removeValue(forKey: id) else { return nil }
        let released = part
        targets[request]?.held.end { [held] in held[$0] != nil }
        targets[request]?.queued.append(id)
        targets[request]?.isContinued = true
        part.frame.body = Bytes()  // owned by the outbound queue
        queued[id] = part
        return released
    }

    mutating func noteQueued(_ id: RequestID, at position: OutboundPosition, on session: SessionID) {
        queued[id]?.place = (session, position)
    }

    mutating func takeHeld(_ id: RequestID) -> RequestPart? {
        guard let part = held.removeValue(forKey: id) else { return nil }
        visitedCount += 1
        targets[part.request]?.held.end { [held] in held[$0] != nil }
        return part
    }

    mutating func takeQueued(_ id: RequestID) -> RequestPart? {
        guard let part = queued.removeValue(forKey: id) else { return nil }
        visitedCount += 1
        targets[part.request]?.queued.end { [queued] in queued[$0] != nil }
        return part
    }

    /// For a partly written part, the rest of which must go out.
    mutating func takeContinuation(of id: RequestID) -> Continuation<ClientError?>? {
        queued[id]?.continuation.take()
    }

    mutating func written(_ id: RequestID) {
        guard let requestPart = takeQueued(id) else { return }
        if requestPart.endsRequest { targets[requestPart.request]?.isIncomplete = false }
        targets[requestPart.request]?.hasWrittenPart = true
        requestPart.continuation?.resume(returning: nil)
    }

    mutating func noteDropped(_ ids: [RequestID]) {
        for id in ids { queued[id]?.isDropped = true }
    }

    // MARK: Which part can go out

    enum Place {
        case none
        case waiting
        case onLink(session: SessionID, SerialNumber, OutboundPosition)
    }

    var sessions: [SessionID] { links.isEmpty ? [] : links.keys.sorted() }

    func awaitsLink(_ request: RequestID) -> Bool { !awaitingLink.isEmpty && awaitingLink.contains(request) }

    mutating func noteOnLink(_ request: RequestID) {
        awaitingLink.remove(request)
        listUnplaced(request)
    }

    mutating func noteOffLink(_ request: RequestID) {
        guard hasTargets, let listing = targets[request]?.listing, listing != .unplaced, listing != .awaitingLink else {
            return
        }
        listUnplaced(request)
    }

    mutating func forgetLink(_ session: SessionID) { if !links.isEmpty { links[session] = nil } }

    private mutating func listUnplaced(_ request: RequestID) {
        targets[request]?.listing = .unplaced
        unplaced.append(request)
    }

    var hasUnplaced: Bool { !unplaced.isEmpty }

    mutating func place(_ place: (RequestID) -> Place) {
        guard !unplaced.isEmpty else { return }
        for request in unplaced {
            visitedCount += 1
            guard let target = targets[request], target.listing == .unplaced else { continue }
            targets[request]?.listing = Listing.none
            guard target.held.count > 0 else { continue }
            switch place(request) {
            case .none: break  // its end will be reported
            case .waiting:
                awaitingLink.insert(request)
                targets[request]?.listing = .awaitingLink
            case .onLink(let session, let serial, let position):
                lastNumber += 1
                targets[request]?.listing = .onLink(lastNumber)
                let entry = Entry(request: request, serial: serial, number: lastNumber)
                links[session, default: OnLink()].unstarted.insert(entry, key: position)
            }
        }
        unplaced.removeAll(keepingCapacity: unplaced.capacity <= 1024)
        for session in sessions { dropInvalid(on: session) }
    }

    private func isValid(_ entry: Entry) -> Bool { targets[entry.request]?.listing == .onLink(entry.number) }

    private mutating func dropInvalid(on session: SessionID) {
        guard var onLink = links[session], onLink.unstarted.count + onLink.started.count > 2 * targets.count + 64 else {
            return
        }
        visitedCount += onLink.unstarted.count + onLink.started.count
        onLink.unstarted.removeAll { !isValid($1) }
        onLink.started.removeAll { !isValid($1) }
        links[session] = onLink
    }

    /// Only of a request that has started: its frame is before `unstarted`, the first of which no byte is written.
    mutating func releaseNext(
        on session: SessionID,
        before unstarted: OutboundPosition,
        isInFlight: (Entry) -> Bool
    ) -> (part: RequestPart, serial: SerialNumber)? {
        while let (position, entry) = links[session]?.unstarted.first, position < unstarted {
            visitedCount += 1
            links[session]?.unstarted.removeFirst()
            if isValid(entry) { list(entry, on: session) }
        }
        while let (id, entry) = links[session]?.started.first {
            visitedCount += 1
            links[session]?.started.removeFirst()
            guard isValid(entry) else { continue }
            guard isInFlight(entry) else {
                targets[entry.request]?.listing = Listing.none  // its end will be reported
                continue
            }
            // The part may have been cancelled. Then another part of the request comes later.
            let part = release(entry.request, id)
            list(entry, on: session)
            if let part { return (part, entry.serial) }
        }
        return nil
    }

    private mutating func list(_ entry: Entry, on session: SessionID) {
        let held = held
        if let first = targets[entry.request]?.held.first(isAlive: { held[$0] != nil }) {
            links[session]?.started.insert(entry, key: first)
        } else {
            targets[entry.request]?.listing = Listing.none
        }
    }
}

extension ClientError {
    static var notAddressable: ClientError {
        ClientError(
            .invalidRequest,
            .notSent,
            "the protocol has no serials, so frames can be added only to a request of open"
        )
    }
}
