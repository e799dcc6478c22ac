/// The links that are not closed. Confined to the event loop of their connection. A class, because the runtime checks
/// every access to a value that is stored in an object, and a turn with one request finds its link fifteen times.
final class Links {
    private(set) var handshaking: Link?
    private(set) var ready: Link?
    /// Oldest first. Only assigned as a whole: then the compiler needs no check at run time.
    private(set) var draining: [Link] = []
    private let limit: Int

    /// A limit from this one on bounds the client's memory. A limit below it protects the server: it holds across
    /// draining links, and no link is replaced because of it.
    static let strictLimit = 1024

    /// Beyond it the oldest is closed, in case a server sends goAway on every link.
    static let maximumDraining = 64

    /// `maximumInFlight`: that of the options.
    init(maximumInFlight: Int) { limit = max(1, maximumInFlight) }

    var isEmpty: Bool { count == 0 }

    var count: Int { draining.count + (ready == nil ? 0 : 1) + (handshaking == nil ? 0 : 1) }

    var all: [Link] {
        var all = draining
        if let ready { all.append(ready) }
        if let handshaking { all.append(handshaking) }
        return all
    }

    /// The usual case, in which nothing has to be allocated.
    var onlyReady: Link? { draining.isEmpty && handshaking == nil ? ready : nil }

    subscript(_ session: SessionID) -> Link? {
        if let ready, ready.session == session { return ready }
        if let handshaking, handshaking.session == session { return handshaking }
        return draining.first { $0.session == session }
    }

    func handshaking(_ session: SessionID) -> Link? { handshaking.flatMap { $0.session == session ? $0 : nil } }

    func link(ofTransport id: UInt64) -> Link? {
        if let ready, ready.transport.id == id { return ready }
        if let handshaking, handshaking.transport.id == id { return handshaking }
        return draining.first { $0.transport.id == id }
    }

    /// `body` may end links.
    func forEach(where isMeant: (Link) -> Bool, _ body: (SessionID) -> Void) {
        if let only = onlyReady {
            if isMeant(only) { body(only.session) }
            return
        }
        for link in all.filter(isMeant) { body(link.session) }
    }

    func begin(_ link: Link) {
        precondition(handshaking == nil && link.isInHandshake, "only one link is in its handshake")
        handshaking = link
    }

    func becomeReady(_ link: Link, _ policy: Liveness.Policy, at now: Instant) {
        precondition(link === handshaking && ready == nil, "only one link is ready")
        link.becomeReady(policy, at: now)
        (handshaking, ready) = (nil, link)
    }

    func drain(_ link: Link, _ draining: Link.Draining) -> [QueuedRequest] {
        precondition(link === ready, "only the ready link drains")
        let unsent = link.drain(draining)
        ready = nil
        self.draining = self.draining + [link]
        return unsent
    }

    func remove(_ link: Link) {
        if link === ready {
            ready = nil
        } else if link === handshaking {
            handshaking = nil
        } else {
            draining = draining.filter { $0 !== link }
        }
    }
}

/// How many requests are in flight, and how many more may be.
extension Links {
    var room: Int {
        guard let ready else { return 0 }
        let room = ready.maximumInFlight - inFlight
        return ready.exchangesDatagrams ? min(room, windowRoom(on: ready)) : room
    }

    /// Abandoned requests do not count: they are no longer sent, and may be held for long.
    private func windowRoom(on link: Link) -> Int { link.window.size - link.state.machine.count }

    var maximumInFlight: Int { ready?.maximumInFlight ?? limit }

    var isStrict: Bool { maximumInFlight < Self.strictLimit }

    var isAtMaximum: Bool { inFlight >= maximumInFlight }

    var isWindowFull: Bool { ready.map { $0.exchangesDatagrams && windowRoom(on: $0) <= 0 } ?? false }

    /// Includes abandoned ones.
    var inFlight: Int {
        // The usual case, in one access.
        if let ready = onlyReady { return ready.state.machine.inFlightCount }
        return requestCount + abandonedInFlight
    }

    /// Without abandoned ones.
    var requestCount: Int {
        var count = ready?.state.machine.count ?? 0
        for link in draining { count += link.state.machine.count }
        return count
    }

    var abandonedInFlight: Int {
        var count = ready?.state.machine.requests.abandonedCount ?? 0
        if let handshaking { count += handshaking.state.machine.requests.abandonedCount }
        if isStrict { for link in draining { count += link.state.machine.requests.abandonedCount } }
        return count
    }

    var serialShortage: String? {
        guard let ready, let (count, abandoned, holders) = ready.state.machine.exhaustion else { return nil }
        let serials = count == 1 ? "the only serial number is" : "all \(count) serial numbers are"
        return "\(serials) in use, \(abandoned) by \(holders)"
    }

    /// Of all links that are not handshaking.
    var held: (abandoned: Int, serials: Int, allSerials: Int) {
        var (abandoned, serials, all) = (0, 0, 0)
        for link in self.all where !link.isInHandshake {
            abandoned += link.state.machine.requests.abandonedCount
            if link.state.machine.isInOrder { continue }
            serials += link.state.machine.requests.heldCount
            all.addClamped(Int(clamping: link.state.machine.requests.span))
        }
        return (abandoned, serials, all)
    }

    var nextQuarantineEnd: Instant? {
        var next = ready?.state.machine.requests.nextQuarantineEnd
        guard onlyReady == nil else { return next }
        for link in all {
            if let end = link.state.machine.requests.nextQuarantineEnd { next = min(next ?? end, end) }
        }
        return next
    }

    func endQuarantines(at now: Instant) {
        for link in all {
            link.state.machine.endQuarantine(at: now)
            link.state.noteEnds()
        }
    }
}

/// Single requests on links. Each answer is `nil` or false if the link has ended, except that of `hasStarted`.
extension Links {
    func position(of id: RequestID, _ number: SerialNumber, on session: SessionID) -> OutboundPosition? {
        guard let link = self[session], let entry = link.state.machine.requests[number], entry.id == id else {
            return nil
        }
        return entry.position
    }

    /// Does nothing if a byte of the part was written.
    func remove(_ part: RequestPart) -> Bool {
        guard let (session, position) = part.place, let link = self[session] else { return false }
        return link.state.machine.removePart(part.id, at: position)
    }

    /// `nil` if the request has left its link.
    func tryOnLink(
        _ id: RequestID,
        _ session: SessionID,
        _ place: PlaceOnLink,
        at now: Instant
    ) -> TryOnLink? {
        guard let link = self[session], let times = link.state.machine.writeTimes(of: id, at: place) else {
            return nil
        }
        return link.state.tryOnLink(times, now: now, hasFailed: true)
    }

    func tryOnLink(_ session: SessionID, at position: OutboundPosition, now: Instant) -> TryOnLink? {
        self[session].map { $0.state.tryOnLink(at: position, now: now, hasFailed: false) }
    }

    func hasStarted(_ id: RequestID, _ session: SessionID, _ place: PlaceOnLink) -> Bool {
        self[session].map { $0.state.machine.hasStarted(id, at: place) } ?? true
    }

    /// Whether all of the request was written. `nil` if the link exchanges no datagrams.
    func maySendAgain(_ id: RequestID, _ session: SessionID, _ number: SerialNumber) -> Bool? {
        guard let link = self[session], link.exchangesDatagrams else { return nil }
        return link.state.machine.maySendAgain(id, as: number)
    }

    /// `nil` if the protocol has no such frame, or the link has ended.
    func refusal(of request: Frame, on session: SessionID, because reason: ServingRefusal) -> Frame? {
        self[session]?.state.codec.refusal(of: request, because: reason)
    }

    func noteUnanswered(_ request: Frame) {
        guard let session = request.session else { return }
        self[session]?.state.codec.noteUnanswered(request)
    }

    func mayAnswer(on session: SessionID) -> Bool {
        guard let link = self[session] else { return false }
        return link.finalReads == nil && !link.isInHandshake
    }
}
