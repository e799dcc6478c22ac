import TrunklineCore

/// The requests of one client, from their registration to their end: who may go out, and which response is whose.
///
/// One value, so that a batch of submissions or of responses is worked off in one access to the client's state. It
/// performs nothing but the resumption of callers; what is to be written it leaves in `outgoing`.
struct Exchange: Sendable {
    /// Everyone who waits for a response, or to be written.
    var table: RequestTable<Waiter>
    /// Registered requests that wait their turn: the limit on requests in flight, or the high watermark, is reached, or
    /// every serial is held.
    private var waiting = WaitingLine()
    /// What callers add to requests under way.
    var followUps = FollowUps()
    /// How many requests are admitted and have not left. Those that were given up, and on which the server may still work,
    /// are counted by the table.
    var inFlight = 0
    /// What was admitted since `begin`, to be handed to the connection.
    var outgoing: [OutboundQueue.Item] = []
    /// The same for links that take no new requests, with the places of the requests that it is about.
    var outgoingRetired: [(item: OutboundQueue.Item, position: OutboundPosition)] = []
    /// The state of the outbound queue when this batch began, kept up with what was admitted since.
    var outbound = OutboundQueue.Level()
    private var isAboveWatermark = false
    var counters = Client.Statistics()
    /// What share of the endpoint's requests failed lately; `nil` when that is nothing to go by.
    var errors: ErrorRateWindow?

    /// Requests between two tries, by the end of their back-off. Those that were given up meanwhile are in it still.
    var resting = DeadlineQueue()
    /// What pays for retries; `nil` when they cost nothing.
    var account: RetryAccount?
    /// Draws the back-offs.
    var generator: SeededGenerator
    /// Whether there ever was a request that ends with the link that it was queued for.
    var hasLinkbound = false

    /// For replies that are joined from their parts.
    let replyRoom: ReplyRoom
    /// For protocols matched in order.
    var order: Order
    /// When the link is replaced although it works.
    var replacement: Replacement
    /// Requests that timed out since the endpoint was last heard.
    var silence: Silence
    let maximumInFlight: Int
    private let maximumWaiting: Int
    private let maximumWaitingBytes: Int
    private let highWatermark: Int
    private let lowWatermark: Int

    init(speaking codec: any FrameCodec, options: ClientOptions, seed: UInt64) {
        table = RequestTable(matching: codec.matching, quarantine: options.requests.quarantine)
        order = Order(of: codec, options.liveness)
        silence = Silence(options.liveness)
        errors = options.failover.errorRate.map {
            ErrorRateWindow(share: $0.share, minimumRequests: $0.minimumRequests, window: $0.window)
        }
        replyRoom = ReplyRoom(options.requests)
        replacement = Replacement(options.reconnecting)
        maximumInFlight = max(1, options.requests.maximumInFlight)
        maximumWaiting = max(0, options.requests.maximumWaiting)
        maximumWaitingBytes = max(0, options.requests.maximumWaitingBytes)
        account = options.requests.retryBudget.map { RetryAccount($0) }
        generator = SeededGenerator(seed: seed)
        highWatermark = max(1, options.outbound.highWatermark)
        lowWatermark = max(1, min(options.outbound.lowWatermark, highWatermark))  // nothing is below zero
    }

    /// Starts a batch with the present state of the outbound queue.
    mutating func begin(_ level: OutboundQueue.Level) {
        outbound = level
        if level.byteCount < lowWatermark { isAboveWatermark = false }
    }

    /// How many responses, and parts of them, belonged to a request, given up or not.
    var answers: Int { counters.responses &+ counters.lateResponses &+ counters.parts }

    /// Whether there was a link when this batch began.
    var isReady: Bool { outbound.isReady }

    /// No frame from here on has been written.
    var unstarted: OutboundPosition { outbound.unstarted }

    /// Whether there is something to be written.
    var hasOutgoing: Bool { !outgoing.isEmpty }

    /// Takes what is to be written.
    mutating func takeOutgoing() -> [OutboundQueue.Item] {
        outbound.nextPosition += UInt64(outgoing.count)
        return exchange(&outgoing, with: [])
    }

    /// Keeps the memory of what was taken for the next batch.
    mutating func recycle(_ items: inout [OutboundQueue.Item]) {
        if outgoing.isEmpty { swap(&outgoing, &items) }
    }

    // MARK: In

    /// Takes a request in and lets it go out if it may. Returns whether it has to wait its turn.
    mutating func register(
        _ ticket: Ticket,
        _ frame: consuming Frame,
        _ waiter: consuming Waiter,
        _ deadline: Instant?,
        expectsResponse: Bool
    ) -> Bool {
        counters.requests += 1
        let maySkip = waiting.isEmpty && mayAdmit()
        // What `enqueue` has accepted has room already.
        if !(maySkip && outbound.isReady), !waiter.hasRoom, let error = overload(OutboundQueue.cost(of: frame)) {
            waiter.resume(.failure(error))
            return false
        }
        if expectsResponse, let terms = waiter.terms, let error = lackOfSerials(terms) {
            waiter.resume(.failure(error))
            return false
        }
        if expectsResponse, frame.kind == .part { followUps.begin(ticket, type: frame.type) }
        if maySkip {
            let serial = table.registerAdmitted(
                ticket,
                waiter: waiter,
                type: frame.type,
                expectsResponse: expectsResponse,
                deadline: deadline,
                at: outbound.nextPosition + UInt64(outgoing.count)
            )
            if let serial {
                letGo(ticket, frame, serial, waiter, expectsResponse: expectsResponse)
                return false
            }
        }
        table.register(
            ticket,
            waiter: waiter,
            type: frame.type,
            expectsResponse: expectsResponse,
            deadline: deadline
        )
        wait(ticket, frame)
        return true
    }

    /// A registered request waits its turn.
    mutating func wait(_ ticket: Ticket, _ frame: consuming Frame) { waiting.append(ticket, frame) }

    /// Why a request whose frame costs `cost` bytes, and which is not to be written now, may not wait either; `nil` when it
    /// may.
    ///
    /// While there is no link, those wait too that are in the outbound queue already.
    private func overload(_ cost: Int) -> ClientError? {
        let count = outbound.isReady ? waitingCount : table.count
        guard count < maximumWaiting else {
            return ClientError(.overloaded, .notSent, "\(count) requests are waiting already")
        }
        let bytes = waiting.byteCount + outbound.byteCount + count * Self.waitingCost
        guard bytes > 0, bytes + cost + Self.waitingCost > maximumWaitingBytes else { return nil }
        return ClientError(
            .overloaded,
            .notSent,
            "\(bytes) bytes of memory are taken by requests that wait (maximumWaitingBytes is \(maximumWaitingBytes))"
        )
    }

    /// What a request that waits costs besides its frame, in bytes: its places in the tables, of which between a quarter and
    /// half are filled while they grow (128 bytes each), its place in the line, and its deadline.
    static let waitingCost = 512

    /// Whether requests wait their turn.
    var hasWaiting: Bool { !waiting.isEmpty }

    /// Gives memory back that requests which have left still take.
    mutating func dropDead() {
        waiting.dropDead()
        table.dropDeadDeadlines()
        if resting.isCrowded(alive: table.count) { compactResting() }
    }

    /// The number of requests for which there is memory.
    var capacity: Int { max(table.capacity, waiting.capacity, resting.capacity) }

    /// Queues a frame that nobody waits for.
    mutating func send(_ frame: Frame) {
        outbound.linkFrameCount += 1
        outgoing.append(OutboundQueue.Item(frame, ticket: 0))
    }

    /// Answers a ping, unless very many answers and cancellations wait to be written: a server that pings and never
    /// reads must not fill our memory.
    mutating func answerPing(with pong: Frame) {
        if outbound.linkFrameCount < 1024 { send(pong) }
    }

    mutating func mayAdmit() -> Bool {
        isBelowLimit && !table.isHeld && isBelowWatermark()
    }

    mutating func isBelowWatermark() -> Bool {
        if outbound.byteCount >= highWatermark { isAboveWatermark = true }
        return !isAboveWatermark
    }

    /// An admitted request goes out.
    private mutating func letGo(
        _ ticket: Ticket,
        _ frame: consuming Frame,
        _ serial: SerialNumber,
        _ waiter: Waiter,
        expectsResponse: Bool
    ) {
        outbound.byteCount += OutboundQueue.cost(of: frame)
        var item = OutboundQueue.Item(frame, ticket: ticket, reportsWritten: !expectsResponse)
        // A one-way message has none, or that of what it answers.
        if expectsResponse { item.frame.serial = serial } else { waiter.accept() }
        if let handle = waiter.handle {
            handle.admitted(as: serial)
            item.reportsWritten = true
        }
        if let codec = order.codec, expectsResponse, !codec.mayPipeline(behind: item.frame) {
            table.hold(behind: outbound.nextPosition + UInt64(outgoing.count))
        }
        inFlight += 1
        outgoing.append(item)
    }

    /// How many wait their turn, or the end of a back-off.
    private var waitingCount: Int { table.count - inFlight }

    /// Lets those go out who waited, as far as they may: requests and follow-ups in turn, so that neither keep the others
    /// from the room below the watermark.
    mutating func admitWaiting() {
        var next = 0
        while true {
            let hasReleased = releaseFollowUp(from: &next)
            guard admitFirst() || hasReleased else { return }
        }
    }

    private mutating func admitFirst() -> Bool {
        guard let ticket = waiting.first() else { return false }
        let position = outbound.nextPosition + UInt64(outgoing.count)
        guard mayAdmit(), let serial = table.admit(ticket, at: position) else { return false }
        guard let frame = waiting.remove(ticket), let entry = table[ticket] else { return false }
        letGo(ticket, frame, serial, entry.waiter, expectsResponse: entry.expectsResponse)
        return true
    }

    // MARK: Out

    /// Hands a response to the one who waits for it.
    mutating func answer(_ frame: consuming Frame) {
        resume(table.answer(frame.serial, unstarted: outbound.unstarted), with: frame)
        if order.stalls > 0 { noteAnswer() }
    }

    /// Hands a response that came on a link that takes no new requests to the one who waits for it.
    mutating func answer(_ frame: Frame, on session: UInt64, _ positions: Range<OutboundPosition>) {
        resume(table.answer(frame.serial, on: session, positions), with: frame, on: positions)
    }

    @inline(__always)
    private mutating func resume(
        _ answer: RequestTable<Waiter>.Answer,
        with frame: consuming Frame,
        on positions: Range<OutboundPosition>? = nil
    ) {
        switch answer {
        case .resume(let ticket, let waiter):
            if followUps.hasTargets { followUps.noteAnswered(ticket, frame.serial, positions) }
            inFlight -= 1
            counters.responses += 1
            errors?.countAnswered()
            waiter.resume(Outcome(of: frame))
        case .late: counters.lateResponses += 1
        case .unknown: counters.unknownResponses += 1
        }
    }

    mutating func count(_ counter: WritableKeyPath<Client.Statistics, Int>) { counters[keyPath: counter] += 1 }

    /// The last byte of a frame is with the kernel.
    mutating func written(_ ticket: Ticket) {
        if ticket >= FollowUp.firstTicket { return followUps.written(ticket) }
        guard let entry = table[ticket] else { return }
        if entry.expectsResponse {
            entry.waiter.handle?.noteWritten()
        } else if let waiter = table.take(ticket) {
            inFlight -= 1
            waiter.resume(.success(Frame(.response)))
        }
    }

    /// A request cannot be encoded; it is out of the outbound queue.
    mutating func refused(_ ticket: Ticket, _ error: ClientError) {
        guard let waiter = table.take(ticket) else { return }
        inFlight -= 1
        waiter.resume(.failure(error))
    }

    /// Gives a request up; the caller performs what the result asks for.
    mutating func cancel(
        _ ticket: Ticket,
        now: Instant,
        hasStarted: (OutboundPosition) -> Bool
    ) -> RequestTable<Waiter>.Cancellation {
        if let entry = table[ticket], entry.position != 0 { inFlight -= 1 } else { waiting.remove(ticket) }
        return table.cancel(ticket, now: now, hasStarted: hasStarted)
    }

    /// The link is gone: hands out those who had started on it.
    mutating func linkLost(
        isOurDoing: Bool,
        hasStarted: (OutboundPosition) -> Bool
    ) -> [(ticket: Ticket, waiter: Waiter)] {
        let lost = table.linkLost(hasStarted: hasStarted)
        order.stalls = 0
        // A link that the server, or the network, has ended proves nothing of the endpoint: only a frame does.
        if isOurDoing {
            silence.end()
        } else {
            for _ in lost { errors?.countFailed() }
        }
        inFlight -= lost.count
        return lost
    }

    /// Hands out everyone; those under way on links that take no new requests only when `includingRetired`.
    mutating func removeAll(
        includingRetired: Bool = true
    ) -> [(ticket: Ticket, entry: RequestTable<Waiter>.Entry)] {
        waiting.removeAll()
        resting = DeadlineQueue()
        let removed = includingRetired ? table.removeAll() : table.removeAllButRetired()
        inFlight = table.count
        return removed
    }
}
