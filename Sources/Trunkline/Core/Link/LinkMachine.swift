/// One link, from its handshake to its end: what is under way on it, and what goes out on it.
///
///     handshaking ──ready──► ready ──drain──► draining
///          └────────────────────┴── close ──────┴──► closed
///
/// In every phase requests go out by `send`, and leave by exactly one of a response, `cancel`, `refused`, `drain` (those
/// of which nothing was written) and `close`, each of which hands out who waits. A new link is a new value: nothing of the
/// old one survives but what `drain` or `close` hands out.
package struct LinkMachine<Waiter> {
    /// How far the link has come. What is allowed in which phase is up to the one who drives it.
    package enum Phase: Sendable {
        case handshaking, ready, draining, closed
    }

    /// Where a request is on its link.
    package enum Place: Sendable, Equatable {
        /// It waits for the response of this number, which is its serial where responses match by serial.
        case response(SerialNumber)
        /// It is a one-way message, or a part of a request, and waits to be written.
        case written
    }

    /// A one-way message, or a part of a request, on its way out.
    struct Message {
        let waiter: Waiter
        let position: OutboundPosition
    }

    /// Ascends from link to link; 0 for none.
    package let session: UInt64
    package private(set) var phase = Phase.handshaking
    package private(set) var outbound = OutboundQueue()
    package private(set) var requests: InFlightTable<Waiter>
    private var messages = SequentialMap<Message>()
    private let isInOrder: Bool
    private let quarantine: Duration
    /// In order: the number of the latest request that nothing may follow before it is answered; 0 for none yet.
    private var holder: SerialNumber = 0

    /// Where the first frame was when the link became ready.
    private var readyFrom: OutboundPosition = 1
    /// Whether the link is alive. Asks for nothing until the link is ready.
    package var liveness = LinkLiveness()
    /// The requests that were given up since they were judged last, and what is known of the order of responses.
    private var givenUp = GivenUp()

    /// - Parameter firstSerial: The serial to begin with, until the link is ready.
    package init(
        session: UInt64,
        matching: ResponseMatching,
        quarantine: Duration,
        firstSerial: SerialNumber? = nil
    ) {
        self.session = session
        self.quarantine = quarantine
        isInOrder = matching == .inOrder
        requests = InFlightTable(matching: matching, firstSerial: firstSerial)
    }

    // MARK: Phases

    /// The handshake is over, with no request in flight.
    package mutating func becomeReady(_ policy: Liveness.Policy, at now: Instant) {
        phase = .ready
        readyFrom = outbound.firstUnstarted
        givenUp = GivenUp()
        requests.startOver()
        liveness = LinkLiveness(policy, startedAt: now)
    }

    /// The link takes no new requests. Hands out, in order, those of which nothing was written; the others finish here.
    package mutating func drain() -> [QueuedRequest<Waiter>] {
        phase = .draining
        givenUp.stalls = 0
        return takeUnstarted()
    }

    /// What is left when a link ends.
    package struct Remains {
        /// Nothing of them was written, in order.
        package var unsent: [QueuedRequest<Waiter>] = []
        /// These had started, in the order of their IDs.
        package var lost: [(id: RequestID, waiter: Waiter)] = []
        /// Parts of requests that had started, of which nothing was written.
        package var unsentParts: [RequestID] = []
        package var unwrittenBytes = 0
    }

    /// The link has ended.
    package mutating func close() -> Remains {
        phase = .closed
        var remains = Remains()
        remains.unwrittenBytes = outbound.unwrittenCount
        remains.unsent = takeUnstarted()
        remains.unsentParts = outbound.unstartedIDs
        let started = requests.removeAll(from: 0).map { (id: $0.id, waiter: $0.waiter) }
        let partlyWritten = messages.sorted.map { (id: $0.key, waiter: $0.value.waiter) }
        remains.lost = (started + partlyWritten).sorted { $0.id < $1.id }
        messages.removeAll()
        outbound.removeAll()
        return remains
    }

    private mutating func takeUnstarted() -> [QueuedRequest<Waiter>] {
        let unstarted = outbound.firstUnstarted
        let items = outbound.takeUnstarted()
        guard !items.isEmpty else { return [] }
        // Both are in the order of their frames; frames of requests that were given up have left already.
        var entries = requests.removeAll(from: unstarted)[...]
        return items.compactMap { item in
            if let message = messages.remove(item.id) {
                return QueuedRequest(id: item.id, frame: item.frame, waiter: message.waiter, expectsResponse: false)
            }
            guard let entry = entries.popFirst() else { return nil }
            var frame = item.frame
            frame.serial = 0
            return QueuedRequest(id: item.id, frame: frame, waiter: entry.waiter, expectsResponse: true)
        }
    }

    // MARK: Out

    /// Puts a request on the link. Returns its place; `nil`, and nothing happens, when every number is held.
    ///
    /// - Parameters:
    ///   - reportsWritten: Whether the one who waits for the response wants to hear, too, when the request is written.
    ///   - holdsOthers: In order: nothing may follow it before it is answered.
    package mutating func send(
        _ request: consuming QueuedRequest<Waiter>,
        reportsWritten: Bool = false,
        holdsOthers: Bool = false
    ) -> Place? {
        let position = outbound.nextPosition
        let (id, type) = (request.id, request.frame.type)
        guard request.expectsResponse else {
            messages.insert(Message(waiter: request.waiter, position: position), for: id)
            outbound.append(OutboundQueue.Item(request.frame, id: id, reportsWritten: true))
            return .written
        }
        guard let number = requests.insert(id, request.waiter, type: type, at: position) else { return nil }
        var frame = request.frame
        frame.serial = isInOrder ? 0 : number
        outbound.append(OutboundQueue.Item(frame, id: id, reportsWritten: reportsWritten))
        if holdsOthers { holder = number }
        return .response(number)
    }

    /// Sends a frame that nobody waits for: a cancellation, a pong, the closing frame. It is of no use on another link.
    package mutating func send(_ frame: Frame) { outbound.append(OutboundQueue.Item(frame, id: 0)) }

    /// Sends a part of the request of `number`, whose first byte has been written. Its `id` is reported when it is written.
    package mutating func send(part frame: consuming Frame, id: RequestID, of number: SerialNumber) {
        frame.serial = number
        outbound.append(OutboundQueue.Item(frame, id: id, reportsWritten: true, belongsToLink: true))
    }

    /// Answers a ping, unless very many frames of ours wait to be written: a server that pings and never reads must not
    /// fill our memory. Returns whether it does.
    package mutating func answerPing(with pong: Frame) -> Bool {
        guard outbound.linkFrameCount < 1024 else { return false }
        send(pong)
        return true
    }

    /// Who waits for the request or message of `id`.
    package func waiter(of id: RequestID, at place: Place) -> Waiter? {
        switch place {
        case .response(let number): requests[number].flatMap { $0.id == id ? $0.waiter : nil }
        case .written: messages[id]?.waiter
        }
    }

    /// Whether the request or message has started: the server may have seen it.
    package func hasStarted(_ id: RequestID, at place: Place) -> Bool {
        switch place {
        case .response(let number): requests[number].map { outbound.hasStarted($0.position) } ?? true
        case .written: messages[id].map { outbound.hasStarted($0.position) } ?? true
        }
    }

    /// Takes a part of a request out of the way, unless a byte of it was written. Returns whether it did.
    package mutating func removePart(_ id: RequestID) -> Bool { outbound.remove(of: id) }

    /// The server is gone: nothing more is written.
    package mutating func dropOutbound() { outbound.removeAll() }

    /// See `OutboundQueue.encode(using:)`.
    package mutating func encode(using codec: inout any FrameCodec) -> [OutboundQueue.Refusal] {
        outbound.encode(using: &codec)
    }

    /// See `OutboundQueue.didWrite(_:reporting:)`.
    package mutating func didWrite(_ length: Int, reporting reported: inout [RequestID]) {
        outbound.didWrite(length, reporting: &reported)
    }

    // MARK: Leaving

    /// The last byte of the message of `id` is with the kernel: it leaves. `nil` for a request that waits for its response,
    /// or a part of one.
    package mutating func written(_ id: RequestID) -> Waiter? { messages.remove(id)?.waiter }

    /// A frame could not be encoded, and is out of the queue: its request or message leaves. `nil` for other frames.
    package mutating func refused(_ refusal: OutboundQueue.Refusal) -> Waiter? {
        if let message = messages.remove(refusal.item.id) { return message.waiter }
        guard refusal.item.id != 0, !refusal.item.belongsToLink else { return nil }
        if !isInOrder { return requests.remove(refusal.item.frame.serial)?.waiter }
        return requests.remove(at: refusal.position)?.waiter
    }

    /// What giving a request up comes to.
    package enum Cancellation {
        /// It has left already.
        case none
        /// It was never written, and never will be.
        case notSent(Waiter)
        /// The server has it, or part of it.
        case sent(Waiter)
        /// The same, and its response is due: the server is to be told that nobody wants it, if the protocol can.
        case awaited(Waiter, serial: SerialNumber, type: UInt32)
    }

    /// The caller, or its deadline, gives up the request of `id`, which is at `place`.
    package mutating func cancel(_ id: RequestID, at place: Place, isTimeout: Bool, now: Instant) -> Cancellation {
        switch place {
        case .written:
            guard let message = messages.remove(id) else { return .none }
            if outbound.hasStarted(message.position) { return .sent(message.waiter) }
            outbound.remove(message.position)
            return .notSent(message.waiter)
        case .response(let number):
            guard let entry = requests[number], entry.id == id else { return .none }
            guard outbound.hasStarted(entry.position) else {
                outbound.remove(entry.position)
                return requests.remove(number).map { .notSent($0.waiter) } ?? .none
            }
            guard let entry = requests.abandon(number, until: now.advanced(by: quarantine)) else { return .none }
            noteGivenUp(isTimeout: isTimeout)
            return .awaited(entry.waiter, serial: isInOrder ? 0 : number, type: entry.type)
        }
    }

    /// Replaces who waits for the response of `number`.
    package mutating func setWaiter(_ waiter: Waiter, of number: SerialNumber) {
        requests.setWaiter(waiter, of: number)
    }

    // MARK: In

    /// A response has come: hands out whose it is.
    package mutating func answer(_ serial: SerialNumber) -> InFlightTable<Waiter>.Match {
        let match = requests.takeAnswered(serial, before: outbound.firstUnstarted)
        if givenUp.stalls > 0, requests.isLevel(before: outbound.firstUnstarted) { givenUp.stalls = 0 }
        return match
    }

    /// A part of a response has come, or one that is to be compared with its request: tells whose it is. The request stays.
    package mutating func match(_ serial: SerialNumber, at now: Instant) -> InFlightTable<Waiter>.Match {
        requests.match(serial, before: outbound.firstUnstarted, prolongingTo: now.advanced(by: quarantine))
    }

    // MARK: What is under way

    /// How many requests and messages have not left.
    package var count: Int { requests.count + messages.count }

    /// Whether a request that has started waits for its response.
    package var hasUnanswered: Bool { requests.hasRequest(at: 0..<outbound.firstUnstarted) }

    /// Whether a message is half written.
    package var hasStartedMessage: Bool { messages.hasValue { $0.position < outbound.firstUnstarted } }

    /// Whether anything was written since the link is ready.
    package var wasUsed: Bool { outbound.firstUnstarted > readyFrom }

    /// Every request and message that has not left.
    package var ids: [RequestID] { requests.all.map(\.id) + messages.sorted.map(\.key) }

    /// Whether the next request has to wait for the response to the latest one.
    package var isHeld: Bool { holder != 0 && requests.isLatest(holder) }

    /// When every serial is held: how many there are, and how many of them by requests that were given up.
    package var exhaustion: (count: Int, abandoned: Int)? {
        requests.isExhausted ? (requests.heldCount, requests.abandonedCount) : nil
    }

    /// In order: how long the server may take for the oldest request if that was given up; `nil` if it was not.
    package mutating func oldestAbandonedUntil() -> Instant? { requests.oldestAbandonedUntil() }

    // MARK: Judging

    private struct GivenUp: Sendable {
        /// How many requests timed out.
        var timeouts = 0
        /// In order: whether requests that had started were given up, and for want of time.
        var (isAny, hasTimedOut) = (false, false)
        /// In order: how often in a row the link came to rest with nothing but requests that were given up, at least one of
        /// them for want of time.
        var stalls = 0
    }

    private mutating func noteGivenUp(isTimeout: Bool) {
        if isTimeout { givenUp.timeouts += 1 }
        guard isInOrder else { return }
        givenUp.isAny = true
        if isTimeout { givenUp.hasTimedOut = true }
    }

    /// Whether requests that had started were given up since `judge` was called.
    package var isToBeJudged: Bool { givenUp.isAny || givenUp.timeouts > 0 }

    /// A request timed out that waited its turn behind others that had. In order, `asIfWritten`: it would have waited for
    /// their responses, too.
    package mutating func noteTimedOutUnsent(asIfWritten: Bool) {
        if asIfWritten { noteGivenUp(isTimeout: true) } else { givenUp.timeouts += 1 }
    }

    /// Takes what was given up since the last call: how many requests timed out although nobody waits for the response that
    /// comes next, and whether the link is of no more use.
    ///
    /// In order, a server that leaves a response out shifts all that follow, and nothing in the protocol can tell. But such a
    /// link is never level again, with a response for every request: whenever it comes to rest, the latest request is out of
    /// time. After `maximumStalls` such rests the link is spent. So it is when the next request would wait for a response
    /// that nobody wants.
    ///
    /// - Parameter counts: Whether what timed out was for the server to answer, and not held back by us.
    package mutating func judge(counts: Bool, maximumStalls: Int?) -> (timeouts: Int, isSpent: Bool) {
        let latest = givenUp
        (givenUp.timeouts, givenUp.isAny, givenUp.hasTimedOut) = (0, false, false)
        let unstarted = outbound.firstUnstarted
        let timeouts = counts && !requests.isFirstAwaited(before: unstarted) ? latest.timeouts : 0
        guard latest.isAny else { return (timeouts, false) }
        if isHeld, requests[holder] == nil { return (timeouts, true) }
        guard latest.hasTimedOut, counts, let maximumStalls, requests.isForsaken(before: unstarted) else {
            return (timeouts, false)
        }
        givenUp.stalls += 1
        return (timeouts, givenUp.stalls >= max(1, maximumStalls))
    }

    // MARK: Time

    /// Frees serials whose quarantine is over.
    package mutating func endQuarantine(at now: Instant) { requests.endQuarantine(at: now) }
}

extension LinkMachine: Sendable where Waiter: Sendable {}
extension LinkMachine.Message: Sendable where Waiter: Sendable {}
extension LinkMachine.Remains: Sendable where Waiter: Sendable {}
extension LinkMachine.Cancellation: Sendable where Waiter: Sendable {}
