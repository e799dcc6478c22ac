/// Notes the acceptance, the tries and the end of each request, each fact in one method: counts and measures it, tells
/// the observers and the log, and passes it to the recorder.
///
/// Requests that are accepted or answered are collected, because they are frequent, and told together: before anything
/// else is told, and at the end of each batch.
///
/// Part of a `Dispatcher`.
struct RequestLedger {
    private let loop: any EventLoop
    /// The observers of the client; `nil` if there are none.
    let observation: Observation?
    private let recorder: (any ClientRecorder)?
    /// Whether the observers want the events of requests.
    private let tellsRequests: Bool

    private(set) var counters = Counters()
    private(set) var failures: [Client.Metrics.Failure: Int] = [:]
    private(set) var refusals: [ClientError.Code: Int] = [:]
    private(set) var rejections: [String: Int] = [:]
    /// The durations of all calls.
    private(set) var callDurations = CallDurationCounter()
    /// How long tries were on their link.
    private(set) var tryDurations = DurationCounter()
    /// How long tries waited, without those that went to a link at once.
    private(set) var queueDurations = LatencyHistogram()
    private var slowest = SlowestRequests()
    /// The requests that were accepted, and answered, since the latest event.
    private var accepted: [ClientEvent.AcceptedRequest] = []
    private var answered: [ClientEvent.AnsweredRequest] = []
    /// Those that were answered with an error, or an invalid response, since then, if the observers want to know.
    private var rejected: [ClientEvent.Content] = []
    /// When the present batch of commands began.
    private(set) var batchTime = Instant.distantPast
    /// The times without a ready link.
    private var linkGaps = LinkGaps()
    private let codec: ProtocolCodec
    /// Whether the names of requests are kept: only for observers of failures, a recorder and metrics, and if the type
    /// does not decide them.
    let keepsNames: Bool
    /// Whether calls are measured by their names.
    private let measuresByName: Bool
    /// Whether anything is to be done with a name when its request ends.
    private let tracksNames: Bool
    private var names = Rare<Names>()
    /// The limit because of which requests wait, as told to the observers.
    private var limit: ClientEvent.Limit?

    private struct Names: EmptyInitializable, Sendable {
        /// The names of the requests that have not ended.
        var byID = SequentialMap<String>()
        /// The durations of all calls by their names.
        var durations: [String: Client.Metrics.CallDurations] = [:]
        /// The names under which calls of these types are measured, if the type decides them: the latest, as many as
        /// there are names.
        var byType: [UInt32: String] = [:]
    }

    /// The durations of all calls by the name of their request; empty if they are not measured by it.
    var durationsByName: [String: Client.Metrics.CallDurations] {
        names.isInitial ? [:] : names.value.durations
    }

    /// The counts of `Client.Metrics` that are plain numbers, under the same names.
    struct Counters {
        var (requests, responses, written, failed) = (0, 0, 0, 0)
        var (retries, retriesRefused, repetitions) = (0, 0, 0)
        var (parts, lateResponses, unknownResponses, undecodableResponses) = (0, 0, 0, 0)
        var (pushes, unexpectedFrames) = (0, 0)
        /// The tries that ended without having been on a link, and those of them that ended in their back-off.
        var (triesWithoutLink, triesInBackOff) = (0, 0)
        /// The tries that were on a link after they had waited for it.
        var triesQueued = 0
    }

    init(
        _ observation: Observation?,
        _ recorder: (any ClientRecorder)?,
        _ codec: ProtocolCodec,
        measuresByName: Bool,
        on loop: any EventLoop
    ) {
        (self.observation, self.recorder, self.codec, self.loop) = (observation, recorder, codec, loop)
        self.measuresByName = measuresByName
        let needsNames = measuresByName || recorder != nil || observation?.wants(.failures) == true
        keepsNames = codec.namesEachRequest && needsNames
        tracksNames = keepsNames || measuresByName
        tellsRequests = observation?.wantsRequests == true
    }

    // MARK: Telling

    /// Tells the observers that this has happened, if they want such events.
    private mutating func tell(_ kind: ClientEvent.Kinds, _ content: @autoclosure () -> ClientEvent.Content) {
        guard let observation, observation.wants(kind) else { return }
        tellCollected()
        observation.add(content(), at: loop.now)
    }

    /// Tells the observers of the requests that were collected.
    mutating func tellCollected() {
        guard let observation else { return }
        if !accepted.isEmpty { observation.add(accepted: &accepted, at: batchTime) }
        if !answered.isEmpty { observation.add(answered: &answered) }
        if !rejected.isEmpty {
            for content in rejected { observation.add(content, at: loop.now) }
            rejected.removeAll(keepingCapacity: rejected.count <= 64)
        }
    }

    // MARK: Names

    /// Keeps the name of a request that is about to be accepted, if `keepsNames`.
    @inline(never)
    mutating func keepName(of frame: Frame, _ id: RequestID) {
        guard let name = codec.name(of: frame) else { return }
        recorder?.name(name, of: id)
        names.value.byID.insert(name, for: id.number)
    }

    /// The name of a request that has not ended, if names are kept and it has one.
    func keptName(of id: RequestID) -> String? { keepsNames ? names.value.byID.read(id.number) { copy $0 } : nil }

    /// The name of a request, if it has one and is known.
    private func name(of id: RequestID, type: UInt32) -> String? {
        if keepsNames { return keptName(of: id) }
        return codec.namesEachRequest ? nil : codec.name(of: Frame(.request, type: type))
    }

    /// Forgets the name of a request that has ended, and measures the call by it.
    ///
    /// - Parameter failure: Why it failed; `nil` if it was answered or, for a one-way message, written.
    @inline(__always)
    mutating func endName(
        of id: RequestID,
        _ request: RequestFacts,
        _ failure: ClientError.Code? = nil,
        at now: Instant
    ) {
        if tracksNames { measureByName(id, request, failure, at: now) }
    }

    @inline(never)
    private mutating func measureByName(
        _ id: RequestID,
        _ request: RequestFacts,
        _ failure: ClientError.Code?,
        at now: Instant
    ) {
        let known = keepsNames ? names.value.byID.remove(id.number) : nil
        guard measuresByName else { return }
        let name = names.value.durations.countedName(known ?? measuredName(ofType: request.type))
        let nanoseconds = now.nanoseconds &- request.accepted.nanoseconds
        names.value.durations[name, default: Client.Metrics.CallDurations()].record(nanoseconds: nanoseconds, failure)
    }

    /// The name under which calls of `type` are measured that have no name of their own.
    private mutating func measuredName(ofType type: UInt32) -> String {
        if let name = names.value.byType[type] { return name }
        let name = codec.namesEachRequest ? nil : codec.name(of: Frame(.request, type: type))
        let measured = name ?? "type 0x\(String(type, radix: 16))"
        if names.value.byType.count >= 64 { names.value.byType = [:] }
        names.value.byType[type] = measured
        return measured
    }

    /// Whether no name is kept.
    var isWithoutNames: Bool { !names.value.byID.hasValue { _ in true } }

    // MARK: Acceptance

    /// A batch of commands begins.
    mutating func beginBatch() { batchTime = loop.now }

    /// A request was accepted. It is on the link of `session`, or waits for `wait`.
    @inline(__always)
    mutating func accepted(
        _ id: RequestID,
        _ type: UInt32,
        _ bodyCount: Int,
        _ expectsResponse: Bool,
        isOpen: Bool,
        _ deadline: Instant?,
        on session: SessionID?,
        orWaitsFor wait: ClientEvent.Wait = .link
    ) {
        counters.requests += 1
        recorder?.call(id, type, bodyCount, expectsResponse, isOpen: isOpen, deadline, at: batchTime)
        if tellsRequests { collect(id, type, expectsResponse, on: session) }
        if session == nil { waits(id, for: wait) }
    }

    /// The first `count` requests of a batch were accepted and are on the link of `session`.
    mutating func accepted(
        _ batched: borrowing [Request],
        _ count: Int,
        first: RequestID,
        _ options: borrowing ResolvedOptions,
        on session: SessionID
    ) {
        counters.requests += count
        if keepsNames {
            for index in 0..<count { keepName(of: batched[index].frame, first.advanced(by: index)) }
        }
        recorder?.calls(batched, count, first: first, options.expectsResponse, options.deadline, at: batchTime)
        guard tellsRequests else { return }
        for index in 0..<count {
            collect(first.advanced(by: index), batched[index].type, options.expectsResponse, on: session)
        }
    }

    private mutating func collect(_ id: RequestID, _ type: UInt32, _ expectsResponse: Bool, on session: SessionID?) {
        accepted.append(ClientEvent.AcceptedRequest(id: id, session: session, type: type, isOneWay: !expectsResponse))
    }

    /// The request of `frame` was not accepted. The event has its name, which the caller adds to the error later.
    mutating func refused(_ frame: Frame, _ error: ClientError) {
        refusals[error.code, default: 0] += 1
        let codec = codec
        tell([.requests, .failures], .requestRefused(error.named(codec.name(of: frame))))
    }

    // MARK: Waiting

    /// An accepted request waits.
    mutating func waits(_ id: RequestID, for wait: ClientEvent.Wait) {
        tell(.steps, .requestWaiting(id: id, for: wait))
    }

    /// Requests have begun to wait because of `limit`, or no longer do so.
    mutating func waits(because limit: ClientEvent.Limit?) {
        guard limit != self.limit else { return }
        if let limit = self.limit { tell(.limits, .limitCleared(limit)) }
        if let limit { tell(.limits, .limitReached(limit)) }
        self.limit = limit
    }

    /// Whether it matters why requests wait. `areWaiting`: whether any does.
    func wantsLimit(areWaiting: Bool) -> Bool {
        observation?.wants(.limits) == true && (areWaiting || limit != nil)
    }

    /// A try has failed with an error after which the request is repeated at `until`. `next` is its next try.
    mutating func retries(
        _ id: RequestID,
        _ request: RequestFacts,
        _ call: TrackedCall,
        _ next: TrackedCall,
        until: Instant,
        at now: Instant
    ) {
        counters.retries += 1
        noteTry(of: request, from: call.rested, at: now)
        tell(.steps, .requestRetrying(id: id, tryNumber: next.tryNumber, delay: until.since(now)))
    }

    /// A request in a datagram is sent again, because it was not answered.
    mutating func repeats(_ id: RequestID) { counters.repetitions += 1 }

    /// A request is not repeated, because the budget for retries is spent.
    mutating func refusedRetry() {
        counters.retriesRefused += 1
        tell(.limits, .limitReached(.retryBudget))
    }

    // MARK: Ends

    /// A request was answered. If that is a success, `succeeded` follows, and otherwise `failed`.
    @inline(__always)
    mutating func answered(_ id: RequestID, _ request: RequestFacts, _ status: UInt32, isError: Bool, at now: Instant) {
        counters.responses += 1
        guard tellsRequests else { return }
        let nanoseconds = now.nanoseconds &- request.accepted.nanoseconds
        answered.append(
            ClientEvent.AnsweredRequest(
                id: id,
                nanoseconds: nanoseconds,
                type: request.type,
                status: status,
                isError: isError
            )
        )
    }

    /// A request was answered with an error of the server.
    mutating func rejected(_ id: RequestID, type: UInt32, _ frame: Frame) {
        if let reason = frame.reason { rejections.count(reason.label) }
        // One that leaves the outcome open is a failure: see `failed`.
        guard let observation, observation.wants(.failures), !frame.isFateUnknown else { return }
        let name = name(of: id, type: type)
        rejected.append(.requestRejected(id: id, type: type, status: frame.status, frame.reason, name: name))
    }

    /// A request was answered, but with a response that its caller cannot receive: see `ClientEvent.responseInvalid`.
    mutating func invalid(_ id: RequestID, type: UInt32, _ error: ClientError) {
        guard let observation, observation.wants(.failures) else { return }
        rejected.append(.responseInvalid(id: id, type: type, error.named(name(of: id, type: type))))
    }

    /// A one-way message was written. `succeeded` follows.
    mutating func written(_ id: RequestID, _ request: RequestFacts, at now: Instant) {
        counters.written += 1
        tell(.requests, .messageWritten(id: id, after: now.since(request.accepted)))
    }

    /// A request was answered, or a one-way message written. Returns whether its timeline is wanted: see `keep`.
    @inline(__always)
    mutating func succeeded(_ request: RequestFacts, _ waiter: Waiter, at now: Instant) -> Bool {
        let nanoseconds = now.nanoseconds &- request.accepted.nanoseconds
        callDurations.record(nanoseconds: nanoseconds, on: request.session)
        let isTracked = waiter.extras != nil
        noteTry(of: request, from: isTracked ? waiter.tracked?.rested : nil, at: now)
        return slowest.wants(nanoseconds, at: now) || isTracked && waiter.tracked?.options.recorder != nil
    }

    /// A request has ended with an error. Returns the error with the timeline of the request.
    mutating func failed(
        _ error: ClientError,
        _ id: RequestID,
        _ request: RequestFacts,
        _ waiter: Waiter,
        _ onLink: TryOnLink?,
        at now: Instant
    ) -> ClientError {
        let failure = Client.Metrics.Failure(error.code, error.fate)
        failures[failure, default: 0] += 1
        let nanoseconds = now.nanoseconds &- request.accepted.nanoseconds
        callDurations.record(nanoseconds: nanoseconds, failure.code, on: request.session)
        noteTry(of: request, from: waiter.tracked?.rested, at: now)
        let timeline = timeline(of: id, request, waiter, onLink, failure, at: now)
        keep(timeline, for: waiter, at: now)
        endName(of: id, request, failure.code, at: now)
        return error.with(timeline)
    }

    /// A request has ended without an answer, with this error, which has its timeline.
    mutating func ended(_ id: RequestID, _ request: RequestFacts, _ error: ClientError, at now: Instant) {
        counters.failed += 1
        tell([.requests, .failures], .requestFailed(id: id, error, after: now.since(request.accepted)))
    }

    // MARK: Tries and timelines

    /// Measures a try that has ended.
    ///
    /// - Parameter rested: The end of the back-off before it; `nil` for the first try.
    @inline(__always)
    private mutating func noteTry(of request: RequestFacts, from rested: Instant?, at now: Instant) {
        guard request.admitted < .distantFuture else { return noteTryWithoutLink(of: request, from: rested, at: now) }
        if request.hasWaited { noteWait(of: request, from: rested) }
        tryDurations.record(nanoseconds: now.nanoseconds &- request.admitted.nanoseconds)
    }

    @inline(never)
    private mutating func noteWait(of request: RequestFacts, from rested: Instant?) {
        counters.triesQueued += 1
        queueDurations.record(from: rested ?? request.accepted, to: request.admitted)
    }

    @inline(never)
    private mutating func noteTryWithoutLink(of request: RequestFacts, from rested: Instant?, at now: Instant) {
        counters.triesWithoutLink += 1
        if case .delayed = request.place { return counters.triesInBackOff += 1 }
        queueDurations.record(from: rested ?? request.accepted, to: now)
    }

    /// Keeps the timeline of a request that has ended, if it is slow or has a recorder.
    mutating func keep(_ timeline: Timeline, for waiter: Waiter, at now: Instant) {
        if slowest.wants(timeline.duration.clampedNanoseconds, at: now) { slowest.add(timeline, at: now) }
        waiter.tracked?.options.recorder?.add(timeline)
    }

    /// The slowest requests and one-way messages of the last minutes. See ``ClientDiagnostics/slowestRequests``.
    mutating func slowestRequests() -> [Timeline] { slowest.all(at: loop.now) }

    /// The timeline of a request that ends at `now`.
    func timeline(
        of id: RequestID,
        _ request: RequestFacts,
        _ waiter: Waiter,
        _ onLink: TryOnLink?,
        _ failure: Client.Metrics.Failure?,
        at now: Instant
    ) -> Timeline {
        let last = lastTry(request, waiter, onLink, failure, at: now)
        let call = waiter.tracked
        return Timeline(
            id: id,
            type: request.type,
            name: name(of: id, type: request.type),
            tryCount: call?.tryNumber ?? 1,
            tries: (call?.failedTries ?? []) + [last]
        )
    }

    /// The last try of a request, which ends at `now`.
    func lastTry(
        _ request: RequestFacts,
        _ waiter: Waiter,
        _ onLink: TryOnLink?,
        _ failure: Client.Metrics.Failure?,
        at now: Instant
    ) -> Timeline.Try {
        let call = waiter.tracked
        let started = call?.failedTries.last?.endedAt ?? request.accepted
        let rested = call?.rested.map { min($0, now) }
        return Timeline.Try(
            request.accepted,
            started: started,
            rested: rested,
            withoutLink: linkGaps.overlap(from: rested ?? started, to: min(request.admitted, now)),
            admitted: request.admitted == .distantFuture ? nil : request.admitted,
            onLink,
            firstPart: waiter.firstPart,
            ended: now,
            loopDelay: loop.delays.overlap(from: started, to: now),
            failure
        )
    }

    // MARK: Links

    /// A link is ready. `areWaiting`: whether any request waits.
    mutating func linkIsReady(_ session: SessionID, to endpoint: Endpoint, areWaiting: Bool, at now: Instant) {
        callDurations.begin(session, to: endpoint)
        linkGaps.end(at: now, isOfInterest: areWaiting)
    }

    /// The ready link drains. These requests are on no link any more.
    mutating func linkDrains(_ unsent: [QueuedRequest], at now: Instant) {
        callDurations.drain()
        linkGaps.begin(at: now)
        for request in unsent { waits(request.id, for: .link) }
    }

    /// A link has ended. The other requests on it have been noted.
    mutating func linkHasEnded(_ session: SessionID) { callDurations.end(session) }

    /// The ready link is lost. These requests are on no link any more, and others fail.
    mutating func linkIsLost(_ unsent: [QueuedRequest], wasReady: Bool, at now: Instant) {
        if wasReady { linkGaps.begin(at: now) }
        for request in unsent { waits(request.id, for: .link) }
    }

    /// The client is closed. Only calls that are refused are told after this.
    mutating func closed(_ metrics: Client.Metrics) { tell(.links, .clientClosed(metrics)) }

    // MARK: Frames

    /// A response to an abandoned request was received.
    mutating func late(_ id: RequestID) {
        counters.lateResponses += 1
        tell(.steps, .lateResponse(id: id))
    }

    /// A response was received that no request was waiting for.
    mutating func unknownResponse(
        _ serial: SerialNumber,
        type: UInt32,
        _ session: SessionID,
        _ reason: ServerReason?,
        namesNoRequest: Bool
    ) {
        counters.unknownResponses += 1
        tell(
            .mismatches,
            .unknownResponse(
                serial: serial,
                type: type,
                session: session,
                reason: reason,
                namesNoRequest: namesNoRequest
            )
        )
    }

    /// The caller of a request could not decode its response.
    mutating func undecodable(_ error: ClientError) {
        counters.undecodableResponses += 1
        tell(.mismatches, .responseUndecodable(error))
    }

    mutating func unexpectedFrame() { counters.unexpectedFrames += 1 }

    /// A part of a reply was received.
    mutating func part(of id: RequestID, isFirst: @autoclosure () -> Bool) {
        counters.parts += 1
        if observation?.wantsSteps == true, isFirst() { tell(.steps, .requestFirstPart(id: id)) }
    }

    /// Pushes were received.
    mutating func pushes(_ count: Int) { counters.pushes += count }

    /// Streams of one kind have dropped pushes.
    mutating func dropped(_ count: Int, by stream: String) { tell(.pushes, .pushesDropped(count, stream: stream)) }

    /// Requests of the server were refused.
    mutating func refused(_ count: Int, because reason: ServingRefusal) {
        tell(.pushes, .serverRequestsRefused(count, because: reason))
    }

    /// Requests of the server were dropped.
    mutating func dropped(count: Int) { tell(.pushes, .serverRequestsDropped(count)) }
}

extension RequestFacts {
    /// The session of the link that the request is on; `nil` if it is on no link.
    fileprivate var session: SessionID? { if case .onLink(let session, _) = place { session } else { nil } }
}

/// The slowest requests of the last minutes, in fixed memory.
///
/// There are two periods, the present one and the one before it. Each keeps its slowest requests, unless they are
/// faster than `minimum`: making a timeline takes longer than making a request, and an idle client should need no
/// memory for timelines.
struct SlowestRequests {
    private var present: [Timeline] = []
    private var previous: [Timeline] = []
    private var presentEnd = Instant.distantPast
    /// The duration, in nanoseconds, above which a request that ends in the present period belongs to the slowest.
    private var threshold = Self.minimum

    /// The maximum number of requests of each period.
    static let capacity = 8
    static let period = Duration.seconds(120)
    /// The duration of the fastest request that counts as slow, in nanoseconds: 1 ms.
    private static let minimum: Int64 = 1_000_000

    /// Whether a request of this duration, which ends at `now`, must be added.
    @inline(__always)
    func wants(_ nanoseconds: Int64, at now: Instant) -> Bool {
        nanoseconds >= threshold || nanoseconds >= Self.minimum && now >= presentEnd
    }

    mutating func add(_ timeline: Timeline, at now: Instant) {
        roll(to: now)
        let place = present.firstIndex { $0.duration < timeline.duration } ?? present.count
        present.insert(timeline, at: place)
        if present.count > Self.capacity { present.removeLast() }
        if present.count == Self.capacity, let last = present.last { threshold = last.duration.clampedNanoseconds }
    }

    /// Begins a new period if the present one has ended.
    private mutating func roll(to now: Instant) {
        guard now >= presentEnd else { return }
        // A period without any request of its own may have passed. Then the present one is too old to be kept.
        let isNext = now < presentEnd.advanced(by: Self.period)
        (previous, present, threshold) = (isNext ? present : [], [], Self.minimum)
        presentEnd = (isNext ? presentEnd : now).advanced(by: Self.period)
    }

    /// The slowest requests of the present and the previous period, slowest first.
    mutating func all(at now: Instant) -> [Timeline] {
        roll(to: now)
        return (present + previous).sorted { $0.duration > $1.duration }
    }
}

/// The times without a ready link, as far as requests waited in them.
struct LinkGaps {
    /// When the present gap began; `nil` while a link is ready.
    private var since: Instant? = .distantPast
    /// The latest earlier gaps.
    private var past: [(from: Instant, to: Instant)] = []

    private static let capacity = 16

    mutating func begin(at now: Instant) { since = since ?? now }

    /// Ends the present gap. `isOfInterest`: whether any request waits.
    mutating func end(at now: Instant, isOfInterest: Bool) {
        guard let from = exchange(&since, with: nil), isOfInterest else { return }
        if past.count == Self.capacity { past.removeFirst() }
        past.append((from, now))
    }

    /// The time between `start` and `end` in which no link was ready, in nanoseconds.
    func overlap(from start: Instant, to end: Instant) -> Int64 {
        let all = past + (since.map { [(from: $0, to: Instant.distantFuture)] } ?? [])
        return all.reduce(0) { sum, gap in
            sum + max(0, min(gap.to, end).nanoseconds - max(gap.from, start).nanoseconds)
        }
    }
}
