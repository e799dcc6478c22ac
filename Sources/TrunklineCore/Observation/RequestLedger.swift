/// Counts, measures, tells and records the acceptance, the tries and the end of each request. Requests that are
/// accepted or answered are frequent, so they are collected and told together: before anything else is told, and at the
/// end of each batch.
struct RequestLedger {
    private let loop: any EventLoop
    let observation: Observation?
    private let recorder: (any ClientRecorder)?
    private let tellsRequests: Bool

    private(set) var counters = Counters()
    private(set) var failures: [ClientMetrics.Failure: Int] = [:]
    private(set) var refusals: [ClientError.Code: Int] = [:]
    private(set) var rejections: [String: Int] = [:]
    private(set) var callDurations = CallDurationCounter()
    private(set) var tryDurations = DurationCounter()
    /// Without tries that went to a link at once.
    private(set) var queueDurations = LatencyHistogram()
    private var slowest = SlowestRequests()
    private var accepted: [ClientEvent.AcceptedRequest] = []
    private var answered: [ClientEvent.AnsweredRequest] = []
    /// Those that were answered with an error, or an invalid response, since then, if the observers want to know.
    private var rejected: [ClientEvent.Content] = []
    private(set) var batchTime = Instant.distantPast
    private var linkGaps = LinkGaps()
    private let codec: ProtocolCodec
    /// Only for observers of failures, a recorder and metrics, and if the type does not decide the names.
    let keepsNames: Bool
    private let measuresByName: Bool
    private let tracksNames: Bool
    private var names = Rare<Names>()
    private var limit: ClientEvent.Limit?

    private struct Names: EmptyInitializable, Sendable {
        var byID = SequentialMap<String>()
        var durations: [String: ClientMetrics.CallDurations] = [:]
        /// The names under which calls of these types are measured, if the type decides them.
        var byType: [UInt32: String] = [:]
    }

    var durationsByName: [String: ClientMetrics.CallDurations] {
        names.isInitial ? [:] : names.value.durations
    }

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

    private mutating func tell(_ kind: ClientEvent.Kinds, _ content: @autoclosure () -> ClientEvent.Content) {
        guard let observation, observation.wants(kind) else { return }
        tellCollected()
        observation.add(content(), at: loop.now)
    }

    mutating func tellCollected() {
        guard let observation else { return }
        if !accepted.isEmpty { observation.add(accepted: &accepted, at: batchTime) }
        if !answered.isEmpty { observation.add(answered: &answered) }
        if !rejected.isEmpty {
            for content in rejected { observation.add(content, at: loop.now) }
            rejected.removeAll(keepingCapacity: rejected.count <= 64)
        }
    }

    @inline(never)
    mutating func keepName(of frame: Frame, _ id: RequestID) {
        guard let name = codec.name(of: frame) else { return }
        recorder?.name(name, of: id)
        names.value.byID.insert(name, for: id.number)
    }

    func keptName(of id: RequestID) -> String? { keepsNames ? names.value.byID.read(id.number) { copy $0 } : nil }

    private func name(of id: RequestID, type: UInt32) -> String? {
        if keepsNames { return keptName(of: id) }
        return codec.namesEachRequest ? nil : codec.name(of: Frame(.request, type: type))
    }

    /// `failure` is `nil` if the request was answered or, for a one-way message, written.
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
        names.value.durations[name, default: ClientMetrics.CallDurations()].record(nanoseconds: nanoseconds, failure)
    }

    private mutating func measuredName(ofType type: UInt32) -> String {
        if let name = names.value.byType[type] { return name }
        let name = codec.namesEachRequest ? nil : codec.name(of: Frame(.request, type: type))
        let measured = name ?? "type 0x\(String(type, radix: 16))"
        if names.value.byType.count >= 64 { names.value.byType = [:] }
        names.value.byType[type] = measured
        return measured
    }

    var isWithoutNames: Bool { !names.value.byID.hasValue { _ in true } }

    mutating func beginBatch() { batchTime = loop.now }

    /// The request is on the link of `session`, or waits for `wait`.
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

    /// The event has the name of the request, which the caller adds to the error later.
    mutating func refused(_ frame: Frame, _ error: ClientError) {
        refusals[error.code, default: 0] += 1
        let codec = codec
        tell([.requests, .failures], .requestRefused(error.named(codec.name(of: frame))))
    }

    mutating func waits(_ id: RequestID, for wait: ClientEvent.Wait) {
        tell(.steps, .requestWaiting(id: id, for: wait))
    }

    mutating func waits(because limit: ClientEvent.Limit?) {
        guard limit != self.limit else { return }
        if let limit = self.limit { tell(.limits, .limitCleared(limit)) }
        if let limit { tell(.limits, .limitReached(limit)) }
        self.limit = limit
    }

    func wantsLimit(areWaiting: Bool) -> Bool {
        observation?.wants(.limits) == true && (areWaiting || limit != nil)
    }

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

    /// A request in a datagram was not answered.
    mutating func repeats(_ id: RequestID) { counters.repetitions += 1 }

    mutating func refusedRetry() {
        counters.retriesRefused += 1
        tell(.limits, .limitReached(.retryBudget))
    }

    /// If that is a success, `succeeded` follows, and otherwise `failed`.
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

    mutating func rejected(_ id: RequestID, type: UInt32, _ frame: Frame) {
        if let reason = frame.reason { rejections.count(reason.label) }
        // One that leaves the outcome open is a failure: see `failed`.
        guard let observation, observation.wants(.failures), !frame.isFateUnknown else { return }
        let name = name(of: id, type: type)
        rejected.append(.requestRejected(id: id, type: type, status: frame.status, frame.reason, name: name))
    }

    /// The caller cannot receive the response: see `ClientEvent.responseInvalid`.
    mutating func invalid(_ id: RequestID, type: UInt32, _ error: ClientError) {
        guard let observation, observation.wants(.failures) else { return }
        rejected.append(.responseInvalid(id: id, type: type, error.named(name(of: id, type: type))))
    }

    /// `succeeded` follows.
    mutating func written(_ id: RequestID, _ request: RequestFacts, at now: Instant) {
        counters.written += 1
        tell(.requests, .messageWritten(id: id, after: now.since(request.accepted)))
    }

    /// Returns whether the timeline of the request is wanted: see `keep`.
    @inline(__always)
    mutating func succeeded(_ request: RequestFacts, _ waiter: Waiter, at now: Instant) -> Bool {
        let nanoseconds = now.nanoseconds &- request.accepted.nanoseconds
        callDurations.record(nanoseconds: nanoseconds, on: request.session)
        let isTracked = waiter.extras != nil
        noteTry(of: request, from: isTracked ? waiter.tracked?.rested : nil, at: now)
        return slowest.wants(nanoseconds, at: now) || isTracked && waiter.tracked?.options.recorder != nil
    }

    mutating func failed(
        _ error: ClientError,
        _ id: RequestID,
        _ request: RequestFacts,
        _ waiter: Waiter,
        _ onLink: TryOnLink?,
        at now: Instant
    ) -> ClientError {
        let failure = ClientMetrics.Failure(error.code, error.fate)
        failures[failure, default: 0] += 1
        let nanoseconds = now.nanoseconds &- request.accepted.nanoseconds
        callDurations.record(nanoseconds: nanoseconds, failure.code, on: request.session)
        noteTry(of: request, from: waiter.tracked?.rested, at: now)
        let timeline = timeline(of: id, request, waiter, onLink, failure, at: now)
        keep(timeline, for: waiter, at: now)
        endName(of: id, request, failure.code, at: now)
        return error.with(timeline)
    }

    mutating func ended(_ id: RequestID, _ request: RequestFacts, _ error: ClientError, at now: Instant) {
        counters.failed += 1
        tell([.requests, .failures], .requestFailed(id: id, error, after: now.since(request.accepted)))
    }

    /// `rested` is the end of the back-off before the try; `nil` for the first try.
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

    mutating func keep(_ timeline: Timeline, for waiter: Waiter, at now: Instant) {
        if slowest.wants(timeline.duration.clampedNanoseconds, at: now) { slowest.add(timeline, at: now) }
        waiter.tracked?.options.recorder?.add(timeline)
    }

    mutating func slowestRequests() -> [Timeline] { slowest.all(at: loop.now) }

    func timeline(
        of id: RequestID,
        _ request: RequestFacts,
        _ waiter: Waiter,
        _ onLink: TryOnLink?,
        _ failure: ClientMetrics.Failure?,
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

    func lastTry(
        _ request: RequestFacts,
        _ waiter: Waiter,
        _ onLink: TryOnLink?,
        _ failure: ClientMetrics.Failure?,
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

    mutating func linkIsReady(_ session: SessionID, to endpoint: Endpoint, areWaiting: Bool, at now: Instant) {
        callDurations.begin(session, to: endpoint)
        linkGaps.end(at: now, isOfInterest: areWaiting)
    }

    mutating func linkDrains(_ unsent: [QueuedRequest], at now: Instant) {
        callDurations.drain()
        linkGaps.begin(at: now)
        for request in unsent { waits(request.id, for: .link) }
    }

    mutating func linkHasEnded(_ session: SessionID) { callDurations.end(session) }

    mutating func linkIsLost(_ unsent: [QueuedRequest], wasReady: Bool, at now: Instant) {
        if wasReady { linkGaps.begin(at: now) }
        for request in unsent { waits(request.id, for: .link) }
    }

    /// Only calls that are refused are told after this.
    mutating func closed(_ metrics: ClientMetrics) { tell(.links, .clientClosed(metrics)) }

    mutating func late(_ id: RequestID) {
        counters.lateResponses += 1
        tell(.steps, .lateResponse(id: id))
    }

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

    mutating func undecodable(_ error: ClientError) {
        counters.undecodableResponses += 1
        tell(.mismatches, .responseUndecodable(error))
    }

    mutating func unexpectedFrame() { counters.unexpectedFrames += 1 }

    mutating func part(of id: RequestID, isFirst: @autoclosure () -> Bool) {
        counters.parts += 1
        if observation?.wantsSteps == true, isFirst() { tell(.steps, .requestFirstPart(id: id)) }
    }

    mutating func pushes(_ count: Int) { counters.pushes += count }

    mutating func dropped(_ count: Int, by stream: String) { tell(.pushes, .pushesDropped(count, stream: stream)) }

    mutating func refused(_ count: Int, because reason: ServingRefusal) {
        tell(.pushes, .serverRequestsRefused(count, because: reason))
    }

    mutating func dropped(count: Int) { tell(.pushes, .serverRequestsDropped(count)) }
}

extension RequestFacts {
    fileprivate var session: SessionID? { if case .onLink(let session, _) = place { session } else { nil } }
}

/// The slowest requests of the present period and the one before it, unless they are faster than `minimum`: making a
/// timeline takes longer than making a request, and an idle client should need no memory for timelines.
struct SlowestRequests {
    private var present: [Timeline] = []
    private var previous: [Timeline] = []
    private var presentEnd = Instant.distantPast
    /// In nanoseconds. A slower request that ends in the present period is one of the slowest.
    private var threshold = Self.minimum

    static let capacity = 8
    static let period = Duration.seconds(120)
    /// In nanoseconds: 1 ms.
    private static let minimum: Int64 = 1_000_000

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

    private mutating func roll(to now: Instant) {
        guard now >= presentEnd else { return }
        // A period without any request of its own may have passed. Then the present one is too old to be kept.
        let isNext = now < presentEnd.advanced(by: Self.period)
        (previous, present, threshold) = (isNext ? present : [], [], Self.minimum)
        presentEnd = (isNext ? presentEnd : now).advanced(by: Self.period)
    }

    mutating func all(at now: Instant) -> [Timeline] {
        roll(to: now)
        return (present + previous).sorted { $0.duration > $1.duration }
    }
}

/// The times without a ready link, as far as requests waited in them.
struct LinkGaps {
    private var since: Instant? = .distantPast
    private var past: [(from: Instant, to: Instant)] = []

    private static let capacity = 16

    mutating func begin(at now: Instant) { since = since ?? now }

    mutating func end(at now: Instant, isOfInterest: Bool) {
        guard let from = exchange(&since, with: nil), isOfInterest else { return }
        if past.count == Self.capacity { past.removeFirst() }
        past.append((from, now))
    }

    func overlap(from start: Instant, to end: Instant) -> Int64 {
        let all = past + (since.map { [(from: $0, to: Instant.distantFuture)] } ?? [])
        return all.reduce(0) { sum, gap in
            sum + max(0, min(gap.to, end).nanoseconds - max(gap.from, start).nanoseconds)
        }
    }
}
