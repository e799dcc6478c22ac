/// The requests and the outbound frames of one link, from its handshake to its end.
///
/// A request that `send` adds leaves in exactly one way: by its response, `cancel`, `refused`, `drain` (if nothing of
/// it was written), or `close`. The machine knows neither callers nor the phase of the link. It keeps nothing of an
/// earlier link except what `drain` or `close` returned.
package struct LinkMachine: Sendable {
    /// Greater than that of every earlier link.
    let session: SessionID
    private(set) var outbound: OutboundQueue
    private(set) var requests: InFlightTable
    private var writeLog = WriteLog()
    private var messages = SequentialMap<OutboundPosition>()
    let isInOrder: Bool
    let serialExtension: SerialExtension
    private let quarantine: Duration
    /// Why the next request may not be sent: the latest must be answered before, or abandoned ones are being cancelled.
    private var holder: Holder?
    /// How long an abandoned request that holds others may take to be answered.
    private var holdPatience: Duration = .zero

    private struct Holder: Sendable {
        var number: SerialNumber = 0
        /// Matched in order: only if the request was cancelled separately.
        var abandonedUntil: Instant?
        var isRequest = false
        var isUpload = false
        /// The number of abandoned requests that are being cancelled outside this link, and of those for which this has
        /// failed: these hold the link to its end. Small, because every link has room for it.
        var cancellations: UInt32 = 0
    }

    private var readyFrom = OutboundPosition.first
    /// They send no ping before the link is ready.
    var liveness = LinkLiveness()
    private var givenUp = GivenUp()

    init(
        session: SessionID,
        matching: ResponseMatching,
        quarantine: Duration,
        firstSerial: SerialNumber? = nil,
        maximumInFlightPerChannel: Int = .max,
        maximumFrameSize: Int = .max,
        numbering: SerialNumbering = SerialNumbering(),
        randomBits: (@Sendable () -> UInt64)? = nil
    ) {
        let extraBits = matching.isInOrder ? 0 : Int(numbering.extraBits)
        serialExtension =
            extraBits == 0 ? SerialExtension() : SerialExtension(bits: extraBits, secret: randomBits?() ?? 0)
        outbound = OutboundQueue(maximumFrameSize: maximumFrameSize)
        self.session = session
        self.quarantine = quarantine
        isInOrder = matching.isInOrder
        requests = InFlightTable(
            matching: matching,
            firstSerial: firstSerial,
            maximumInFlightPerChannel: maximumInFlightPerChannel,
            draw: numbering.isRandom ? randomBits : nil
        )
    }

    // MARK: From the handshake to the end

    mutating func becomeReady(_ policy: Liveness.Policy, at now: Instant) {
        readyFrom = outbound.firstUnstarted
        givenUp = GivenUp()
        requests.startOver()
        holdPatience = min(quarantine, policy.deadline)
        liveness = LinkLiveness(policy, startedAt: now)
    }

    /// Takes back, in order, the requests of which nothing was written. The others finish on this link.
    mutating func drain() -> [QueuedRequest] {
        givenUp.stalls = 0
        return takeUnstarted()
    }

    struct Remains: Sendable {
        var unsent: [QueuedRequest] = []
        var lost: [(id: RequestID, written: WriteLog.Times)] = []
        /// The parts of which nothing was written although their requests had started.
        var unsentParts: [RequestID] = []
        var unwrittenBytes = 0
        /// Whether the next response is known to belong to `receiver`, or, if that is `nil`, to none of them.
        var isReceiverKnown = false
        var receiver: RequestID?

        func mayReceive(_ id: RequestID) -> Bool { !isReceiverKnown || id == receiver }
    }

    mutating func close() -> Remains {
        var remains = Remains()
        if isInOrder, !requests.hasChannels {
            (remains.isReceiverKnown, remains.receiver) = (true, requests.nextAnswered())
        }
        remains.unwrittenBytes = outbound.unwrittenCount
        remains.unsent = takeUnstarted()
        remains.unsentParts = outbound.unstartedIDs
        let started = requests.removeAll(from: .first).map { ($0.id, $0.position) }
        let partlyWritten = messages.sorted.map { (RequestID($0.key), $0.value) }
        remains.lost = (started + partlyWritten).sorted { $0.0 < $1.0 }.map {
            (id: $0.0, written: writeTimes(of: $0.1))
        }
        messages.removeAll()
        outbound.removeAll()
        return remains
    }

    private mutating func takeUnstarted() -> [QueuedRequest] {
        let unstarted = outbound.firstUnstarted
        let items = outbound.takeUnstarted()
        guard !items.isEmpty else { return [] }
        // Both lists are in the order of their frames. Frames of abandoned requests have left already.
        var entries = requests.removeAll(from: unstarted)[...]
        return items.compactMap { item in
            guard let id = item.id else { return nil }
            if messages.remove(id.number) != nil {
                return QueuedRequest(id: id, frame: item.frame, expectsResponse: false)
            }
            guard let entry = entries.popFirst() else { return nil }
            assert(entry.id == id, "the lists of frames and of requests differ")
            var frame = item.frame
            frame.serial = 0
            let reports: QueuedRequest.Progress = item.reportsWritten ? .admissionAndWrite : .none
            return QueuedRequest(id: id, frame: frame, expectsResponse: true, reports: reports)
        }
    }

    // MARK: Out

    /// Returns `nil`, and changes nothing, if every number is held. `keepsRequest`: the response is to be compared with
    /// the request; always true if serials have more than 64 bits.
    @inline(__always)
    mutating func send(
        _ id: RequestID,
        _ frame: consuming Frame,
        keepsRequest: Bool = false,
        expectsResponse: Bool,
        reportsWritten: Bool = false,
        holdsOthers: Bool = false,
        channel: UInt64? = nil
    ) -> PlaceOnLink? {
        let position = outbound.nextPosition
        guard expectsResponse else {
            messages.insert(position, for: id.number)
            outbound.append(OutboundQueue.Item(frame, id: id, reportsWritten: true))
            return .written
        }
        guard let number = requests.insert(id, type: frame.type, at: position) else { return nil }
        let isUpload = isInOrder && frame.kind == .part
        if keepsRequest { requests.keep(copy frame, for: number) }
        frame.serial = isInOrder ? 0 : number
        if keepsRequest { serialExtension.complete(&frame) }
        outbound.append(OutboundQueue.Item(frame, id: id, reportsWritten: reportsWritten))
        // The request before it no longer holds others, and its number may be used again.
        if let channel {
            requests.note(number, onChannel: channel, holdsOthers: holdsOthers)
        } else if holdsOthers {
            holder = Holder(number: number, isRequest: true, isUpload: isUpload)
        } else if holder != nil {
            holder = nil
        }
        return .response(number)
    }

    /// Queues a frame that is no request. It is never moved to another link.
    mutating func send(_ frame: Frame) { outbound.append(OutboundQueue.Item(frame, id: nil)) }

    mutating func send(
        cancelFrame frame: consuming Frame,
        for serial: SerialNumber,
        _ kind: CancelKind,
        now: Instant
    ) {
        let until = now.advanced(by: quarantine)
        switch requests.noteCancelFrame(for: serial, kind, at: outbound.nextPosition, holdingUntil: until) {
        case .none: return
        case .ofRequest: break
        case .own(let own):
            frame.cancelledSerial = serial
            frame.serial = own
        }
        if frame.serial != 0 { serialExtension.complete(&frame) }
        send(frame)
    }

    /// The first byte of the request has been written.
    @discardableResult
    mutating func send(
        part frame: consuming Frame,
        id: RequestID,
        of number: SerialNumber
    ) -> OutboundPosition {
        frame.serial = isInOrder ? 0 : number
        serialExtension.complete(&frame)
        return outbound.append(OutboundQueue.Item(frame, id: id, reportsWritten: true, belongsToLink: true))
    }

    mutating func sendAgain(
        _ frame: consuming Frame,
        _ id: RequestID,
        as number: SerialNumber
    ) {
        guard maySendAgain(id, as: number) else { return }
        frame.serial = number
        serialExtension.complete(&frame)
        requests.noteRepeated(number, copy frame)
        send(frame)
    }

    /// Whether the request waits for its response, and all of it was written.
    func maySendAgain(_ id: RequestID, as number: SerialNumber) -> Bool {
        guard let entry = requests[number], entry.id == id else { return false }
        return entry.position < outbound.firstUnwritten
    }

    /// Does nothing if 1,024 heartbeat and cancel frames wait to be written: a server that sends pings and never reads
    /// must not fill the memory. Returns whether the answer was queued.
    mutating func answerPing(with pong: Frame) -> Bool {
        guard outbound.linkFrameCount < 1024 else { return false }
        send(pong)
        return true
    }

    /// True also if the request or message has left.
    func hasStarted(_ id: RequestID, at place: PlaceOnLink) -> Bool {
        switch place {
        case .response(let number): requests[number].map { outbound.hasStarted($0.position) } ?? true
        case .written: messages[id.number].map { outbound.hasStarted($0) } ?? true
        }
    }

    /// Returns false if a byte of the part was written.
    mutating func removePart(_ id: RequestID, at position: OutboundPosition) -> Bool {
        outbound.remove(position)?.id == id
    }

    mutating func dropOutbound() { outbound.removeAll() }

    package mutating func encode(using codec: inout any FrameCodec) -> [OutboundQueue.Refusal] {
        outbound.encode(using: &codec)
    }

    @discardableResult
    mutating func didWrite(_ length: Int, reporting reported: inout [RequestID]) -> Int {
        outbound.didWrite(length, reporting: &reported)
    }

    mutating func didWrite(
        _ length: Int,
        reporting reported: inout [RequestID],
        requests: inout [RequestID]
    ) -> Int {
        outbound.didWrite(length, reporting: &reported, requests: &requests)
    }

    mutating func noteWrites(at now: Instant) {
        if writeLog.isFull { writeLog.dropOld(keeping: requests.positions + messages.sorted.map(\.value)) }
        writeLog.note(
            encoded: outbound.firstUnencoded,
            started: outbound.firstUnstarted,
            written: outbound.firstUnwritten,
            at: now
        )
    }

    /// The times of frames that are not in flight may be missing.
    func writeTimes(of position: OutboundPosition) -> WriteLog.Times { writeLog.times(of: position) }

    func writeTimes(of id: RequestID, at place: PlaceOnLink) -> WriteLog.Times? {
        switch place {
        case .response(let number): requests[number].flatMap { $0.id == id ? writeTimes(of: $0.position) : nil }
        case .written: messages[id.number].map { writeTimes(of: $0) }
        }
    }

    // MARK: Leaving

    mutating func written(_ id: RequestID) -> OutboundPosition? { messages.remove(id.number) }

    mutating func refused(_ refusal: OutboundQueue.Refusal) -> Bool {
        guard let id = refusal.item.id else { return false }
        if messages.remove(id.number) != nil { return true }
        guard !refusal.item.belongsToLink else { return false }
        if !isInOrder { return requests.remove(refusal.item.frame.serial) != nil }
        return requests.removeInOrder(at: refusal.position) != nil
    }

    package enum Cancellation: Sendable {
        case none
        case notSent
        case sent
        /// At least one byte was written, and the response is due. If the protocol has a cancel frame, send it.
        case awaited(serial: SerialNumber, type: UInt32)
    }

    mutating func cancel(_ id: RequestID, at place: PlaceOnLink, isTimeout: Bool, now: Instant) -> Cancellation {
        switch place {
        case .written:
            guard let position = messages.remove(id.number) else { return .none }
            if outbound.hasStarted(position) { return .sent }
            outbound.remove(position)
            return .notSent
        case .response(let number):
            guard let entry = requests[number], entry.id == id else { return .none }
            guard outbound.hasStarted(entry.position) else {
                outbound.remove(entry.position)
                return requests.remove(number) == nil ? .none : .notSent
            }
            guard let entry = requests.abandon(number, until: now.advanced(by: quarantine)) else { return .none }
            noteGivenUp(isTimeout: isTimeout)
            if requests.hasChannels {
                requests.noteAbandoned(number, isTimeout: isTimeout, holdingUntil: now.advanced(by: holdPatience))
            }
            if !isInOrder || requests.hasChannels, holder?.isRequest == true, holder?.number == number {
                holder?.abandonedUntil = now.advanced(by: holdPatience)
            }
            return .awaited(serial: isInOrder ? 0 : number, type: entry.type)
        }
    }

    mutating func holdOthers(behind place: PlaceOnLink?) {
        if case .response(let number)? = place { holder = Holder(number: number, isRequest: true) }
    }

    func isUploading(besides place: PlaceOnLink) -> Bool {
        guard let holder, holder.isUpload, requests.holds(holder.number) else { return false }
        return place != .response(holder.number)
    }

    /// A frame in place of the last piece has told the server that the request is abandoned: its answer is due soon.
    mutating func noteClosingPiece(at now: Instant) {
        guard let held = holder, held.isUpload, held.abandonedUntil == nil, requests[held.number] == nil else { return }
        holder?.abandonedUntil = now.advanced(by: holdPatience)
    }

    // MARK: Cancelling by other means

    /// Only if a cancellation that names the link can reach no other request. Matched in order, the server goes on to
    /// the next request while the cancellation is on its way: so nothing else may be in flight or queued after it.
    func cancellable(_ id: RequestID, at place: PlaceOnLink) -> (frame: Frame, serial: SerialNumber)? {
        guard case .response(let number) = place, let entry = requests[number], entry.id == id,
            outbound.hasStarted(entry.position), let frame = requests.kept(number)
        else { return nil }
        guard isInOrder else { return (frame, number) }
        guard requests.heldCount == 1, messages.isEmpty, outbound.nextPosition == entry.position.advanced(by: 1) else {
            return nil
        }
        return (frame, 0)
    }

    mutating func beginCancelling() {
        var held = holder ?? Holder()
        held.cancellations += 1
        holder = held
    }

    /// If the cancellation has failed, it may still reach the server, and no request may follow any more.
    mutating func endCancelling(hasFailed: Bool, at now: Instant) {
        guard var held = holder, held.cancellations > 0 else { return }
        if hasFailed {
            held.abandonedUntil = now
        } else {
            held.cancellations -= 1
            // The answer to an abandoned holder is due soon. Until then the request holds others as before.
            if held.isRequest, held.cancellations == 0, requests[held.number] == nil {
                held.abandonedUntil = now.advanced(by: holdPatience)
            }
        }
        holder = held.isRequest || held.cancellations > 0 ? held : nil
    }

    // MARK: In

    /// `serial` is that of the response or, matched in order by channel, its channel; here and below.
    mutating func answer(_ serial: SerialNumber) -> InFlightTable.Answered {
        let answered = requests.takeAnswered(serial, before: outbound.firstUnstarted)
        if requests.hasChannels { requests.noteAnswered(onChannel: serial, before: outbound.firstUnstarted) }
        if givenUp.stalls > 0, requests.isLevel(before: outbound.firstUnstarted) { givenUp.stalls = 0 }
        return answered
    }

    mutating func answerAll(with frame: Frame, _ serial: SerialNumber) -> InFlightTable.AnsweredRequests {
        let unstarted = outbound.firstUnstarted
        let answered = requests.takeAnswered(
            frame.answers,
            serial,
            types: frame.answeredTypes,
            before: unstarted
        )
        if requests.hasChannels { requests.noteAnswered(onChannel: serial, before: unstarted) }
        if givenUp.stalls > 0, requests.isLevel(before: unstarted) { givenUp.stalls = 0 }
        return answered
    }

    /// The request stays. Also for a response that must be compared with its request first.
    mutating func match(_ serial: SerialNumber, at now: Instant) -> InFlightTable.Match {
        requests.match(serial, before: outbound.firstUnstarted, prolongingTo: now.advanced(by: quarantine))
    }

    mutating func matchAll(
        _ part: Frame,
        _ serial: SerialNumber,
        at now: Instant
    ) -> InFlightTable.NamedRequests {
        requests.matchAll(
            part.answers,
            serial,
            types: part.answeredTypes,
            before: outbound.firstUnstarted,
            prolongingTo: now.advanced(by: quarantine)
        )
    }

    mutating func expectedID(for serial: SerialNumber, at now: Instant) -> RequestID? {
        if case .request(let entry, _) = match(serial, at: now) { entry.id } else { nil }
    }

    // MARK: Channels

    mutating func noteAwaited(_ channel: UInt64) { requests.noteAwaited(channel) }

    mutating func dropAwaited(unless isAwaited: (UInt64) -> Bool) { requests.dropAwaited(unless: isAwaited) }

    mutating func dropFreed() { requests.dropFreed() }

    mutating func awaitedChannelsUntil() -> Instant? { requests.awaitedChannelsUntil() }

    // MARK: State

    var count: Int { requests.count + messages.count }

    var inFlightCount: Int { count + requests.abandonedCount }

    var hasUnanswered: Bool { requests.hasRequest(at: OutboundPosition.first..<outbound.firstUnstarted) }

    var hasStartedMessage: Bool { messages.hasValue { $0 < outbound.firstUnstarted } }

    var wasUsed: Bool { outbound.firstUnstarted > readyFrom }

    var ids: [RequestID] { requests.all.map(\.id) + messages.sorted.map { RequestID($0.key) } }

    var isHeld: Bool {
        holder.map { $0.cancellations > 0 || $0.isRequest && requests.holds($0.number) } ?? false
    }

    var heldUntil: Instant? { isHeld ? holder?.abandonedUntil : nil }

    var exhaustion: (count: Int, abandoned: Int, holders: String)? {
        guard requests.isExhausted else { return nil }
        let frames = requests.cancelFrameCount
        let holders = frames == 0 ? "abandoned requests" : "abandoned requests and their cancel frames"
        return (requests.heldCount, requests.abandonedCount + frames, holders)
    }

    var isHeldByCancellation: Bool { holder.map { $0.cancellations > 0 } ?? false }

    mutating func oldestAbandonedUntil() -> Instant? { requests.oldestAbandonedUntil() }

    // MARK: Judging

    private struct GivenUp: Sendable {
        var timeouts = 0
        var (isAny, hasTimedOut) = (false, false)
        /// At a stall, every started request on the link is abandoned and at least one of them has timed out.
        var stalls = 0
    }

    private mutating func noteGivenUp(isTimeout: Bool) {
        if isTimeout { givenUp.timeouts += 1 }
        guard isInOrder else { return }
        givenUp.isAny = true
        if isTimeout { givenUp.hasTimedOut = true }
    }

    /// Mutating, because a call with the machine as its argument would copy it, for every batch.
    mutating func look() -> (isToBeJudged: Bool, quarantineEnd: Instant?) {
        (isToBeJudged, requests.nextQuarantineEnd)
    }

    var isToBeJudged: Bool { @inline(__always) get { givenUp.isAny || givenUp.timeouts > 0 } }

    /// `asIfWritten`: matched in order, the request would have waited for the responses of others too.
    mutating func noteTimedOutUnsent(asIfWritten: Bool) {
        if asIfWritten { noteGivenUp(isTimeout: true) } else { givenUp.timeouts += 1 }
    }

    enum Spent: Sendable, Equatable {
        case heldByAbandoned
        case stalled(Int, inChannel: Bool)
    }

    /// Returns the number of timeouts that count against the server, and why the link is of no more use. Timeouts do
    /// not count while the next response belongs to a request that was not abandoned, or if the client held frames back
    /// (`counts` is false).
    ///
    /// If a server that responds in order leaves a response out, all later ones are assigned to the wrong requests, and
    /// nothing in the protocol reveals it. But from then on, one response is always missing: whenever the link falls
    /// idle, its latest request has timed out. After `maximumStalls` such stalls in a row the link is spent. It is also
    /// spent if the next request would have to wait for the response to an abandoned one. With channels, each is judged
    /// alone, and one that an abandoned request holds is no reason to leave the link at once.
    mutating func judge(counts: Bool, maximumStalls: Int?) -> (timeouts: Int, spent: Spent?) {
        let latest = givenUp
        (givenUp.timeouts, givenUp.isAny, givenUp.hasTimedOut) = (0, false, false)
        let unstarted = outbound.firstUnstarted
        let timeouts = counts && !requests.isFirstAwaited(before: unstarted) ? latest.timeouts : 0
        guard latest.isAny else { return (timeouts, nil) }
        if requests.hasChannels {
            let stalls = requests.judgeChannels(counts: counts, maximumStalls: maximumStalls)
            return (timeouts, stalls.map { .stalled($0, inChannel: true) })
        }
        if isInOrder, let holder, isHeld, holder.cancellations == 0, holder.abandonedUntil == nil,
            requests[holder.number] == nil
        {
            return (timeouts, .heldByAbandoned)
        }
        guard latest.hasTimedOut, counts, let maximumStalls, requests.awaitsOnlyAbandoned(before: unstarted) else {
            return (timeouts, nil)
        }
        givenUp.stalls += 1
        let isSpent = givenUp.stalls >= max(1, maximumStalls)
        return (timeouts, isSpent ? .stalled(givenUp.stalls, inChannel: false) : nil)
    }

    // MARK: Ends

    /// To be called for each codec that the link gets, if it learns of ends.
    mutating func reportEnds() { requests.reportEnds() }

    mutating func takeEnded() -> [SerialNumber] { requests.takeEnded() }

    // MARK: Time

    /// Also removes cancel frames with a freed number that were not written.
    mutating func endQuarantine(at now: Instant) {
        for position in requests.endQuarantine(at: now, before: outbound.firstUnstarted) { outbound.remove(position) }
    }
}
