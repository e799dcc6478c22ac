import Synchronization
public import TrunklineCore

extension Cluster: RoutingSender {
    /// Sends a request to one of the servers and returns its response.
    ///
    /// Otherwise the method behaves like ``Client/send(_:timeout:options:)-(Request,_,_)``. The retry policy of
    /// `options` applies to the cluster:
    ///
    /// - With every policy, a request of which no byte was written is sent to another server at once: that is no second
    ///   try.
    /// - With `.idempotent`, a request that failed after it was written is sent to another server after the back-off.
    ///   This takes a token of the retry budget.
    ///
    /// If no server is ready, the request waits for the first one, unless `waitsForReady` is false. Then it fails with
    /// `unavailable`, and ``ClientError/attempts`` has the latest causes of up to eight servers.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - timeout: The time from this call to the response, retries included. Default: the timeout of `options`, or
    ///     else ``ClientOptions/Requests/timeout`` (8 s).
    ///   - options: Whether the request is sent again when it fails, and whether it waits for a server.
    /// - Returns: The response. An error response is thrown, not returned.
    /// - Throws: A ``ClientError``. If the request was sent several times, its fate covers all of them.
    public nonisolated func send(
        _ request: Request,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) async throws(ClientError) -> Response {
        let general: GeneralCall
        if isPlain(options), let (link, begun) = pickForPlainCall() {
            // What `Client.send` does, in this async frame: with a call of it, a request took 300 instructions more,
            // and its task needed a second piece of memory. Through the link alone: each further object would be
            // retained and released, and its count moved between the processors.
            let id = link.nextRequestID()
            let outcome = await withContinuation(cancelling: link, id.number...id.number) {
                link.submit(request, id, timeout, $0, $1)
            }
            switch consume outcome {
            case .success(let response):
                link.end(from: begun, on: self)
                return response
            case .failure(let error):
                general = .after(error, link, begun, request, timeout)
            }
        } else {
            general = .first(request, timeout, options)
        }
        return try await sendInGeneral(general)
    }

    /// A class, so that the async frame of `send` is small: it should fit in the first piece of memory of its caller's
    /// task.
    private final class GeneralCall: Sendable {
        let request: Request
        let timeout: Timeout
        let options: CallOptions
        let failed: (error: ClientError, link: MemberLink, begun: Instant)?

        @inline(never)
        static func first(_ request: Request, _ timeout: Timeout, _ options: CallOptions) -> GeneralCall {
            GeneralCall(request, timeout, options, after: nil)
        }

        @inline(never)
        static func after(
            _ error: ClientError,
            _ link: MemberLink,
            _ begun: Instant,
            _ request: Request,
            _ timeout: Timeout
        ) -> GeneralCall {
            GeneralCall(request, timeout, CallOptions(), after: (error, link, begun))
        }

        private init(
            _ request: Request,
            _ timeout: Timeout,
            _ options: CallOptions,
            after failed: (error: ClientError, link: MemberLink, begun: Instant)?
        ) {
            (self.request, self.timeout, self.options, self.failed) = (request, timeout, options, failed)
        }
    }

    @inline(never)
    private nonisolated func sendInGeneral(_ general: GeneralCall) async throws(ClientError) -> Response {
        var call: ClusterCall
        if let failed = general.failed {
            // Without a choice the beginning was not measured: the time of the try in the error's timeline is close
            // enough.
            let isMeasured = failed.begun > .distantPast
            let duration = failed.error.timeline?.duration ?? .zero
            let begun =
                isMeasured
                ? failed.begun : failed.error.timeline?.begun ?? loop.now.advanced(by: .zero - duration)
            if !isMeasured { failed.link.begin() }
            let timeout = self.timeout(general.timeout, general.options)
            if let timeout, timeout <= .zero {
                end(.notSent, on: failed.link, from: begun, isMeasured: false)
                callFailed(failed.error, wasPlaced: true)
                throw failed.error
            }
            // Not refused if the cluster is closing by now: the call has begun before.
            call = begunCall(general.options, within: timeout, at: begun)
            call.isPlaced = true
            try await prepare(&call, after: failed.error, on: failed.link, from: begun)
        } else {
            call = try self.call(general.timeout, general.options, at: loop.now)
        }
        return try await perform(&call) { client, timeout, options throws(ClientError) in
            try await client.send(general.request, timeout: timeout, options: options)
        }
    }

    /// For a call without options. Returns `.distantPast` if there is no choice, so that nothing has to be measured.
    @inline(never)
    private nonisolated func pickForPlainCall() -> (MemberLink, Instant)? {
        if let link = picker.pickOnly() { return (link, .distantPast) }
        return pickNow()
    }

    @inline(never)
    private nonisolated func pickNow() -> (MemberLink, Instant)? {
        if mustQueue { return nil }
        let now = loop.now
        return picker.pick(Wish(now: now)).map { ($0, now) }
    }

    /// Without an adaptive limit, calls wait only while no server is ready.
    private nonisolated var mustQueue: Bool { options.adaptiveLimit != nil && waiting.waitingCount > 0 }

    @inline(__always)
    private nonisolated func isPlain(_ options: CallOptions) -> Bool {
        options.areOmitted && mayBePlain && !isClosing.load(ordering: .relaxed)
    }

    /// Performs a call with the client of one of the servers, and with those of others if it fails and may be tried
    /// again.
    ///
    /// How long `body` takes does not count for the choice of a server: it may do anything.
    public nonisolated(nonsending) func perform<Value: Sendable>(
        timeout: Timeout = .default,
        options: CallOptions = CallOptions(),
        _ body: nonisolated(nonsending) (Client, Timeout, CallOptions) async throws(ClientError) -> Value
    ) async throws(ClientError) -> Value {
        var call = try call(timeout, options, at: loop.now)
        call.isMeasured = false
        return try await perform(&call, body)
    }

    nonisolated(nonsending) func perform<Value: Sendable>(
        _ call: inout ClusterCall,
        judging judge: (Value) -> ClusterMember.End = { _ in .answered },
        _ body: nonisolated(nonsending) (Client, Timeout, CallOptions) async throws(ClientError) -> Value
    ) async throws(ClientError) -> Value {
        while true {
            let link = try await nextLink(for: &call)
            let begun = loop.now
            do throws(ClientError) {
                let value = try await body(link.client, call.timeLeft(at: begun), call.tryOptions)
                end(judge(value), on: link, from: begun, isMeasured: call.isMeasured)
                return value
            } catch {
                try await prepare(&call, after: error, on: link, from: begun)
            }
        }
    }

    /// `body` calls its last argument when the first part has arrived, which proves the server long before the reply
    /// ends, and returns the error with which the reply ends after that.
    nonisolated(nonsending) func performReply(
        timeout: Timeout,
        options: CallOptions,
        ending: @escaping RoutedReplies.Ending,
        _ body: RoutedReplies.Try
    ) async throws(ClientError) {
        var call = try call(timeout, options, at: loop.now)
        call.ending = ending
        call.isMeasured = false
        while true {
            let link = try await nextLink(for: &call)
            let begun = loop.now
            do throws(ClientError) {
                let failure = try await body(link.client, call.timeLeft(at: begun), call.tryOptions) {
                    link.member.answersInParts(from: begun)
                }
                let end = failure.map { judge($0, call, on: link) } ?? .answered
                self.end(end, on: link, from: begun, isMeasured: false)
                if let failure { callFailed(failure, wasPlaced: true) }
                return
            } catch {
                try await prepare(&call, after: error, on: link, from: begun)
            }
        }
    }

    nonisolated func call(
        _ timeout: Timeout,
        _ options: CallOptions,
        at now: Instant
    ) throws(ClientError) -> ClusterCall {
        do throws(ClientError) {
            return try uncountedCall(timeout, options, at: now)
        } catch {
            callFailed(error, wasPlaced: false)
            throw error
        }
    }

    nonisolated func uncountedCall(
        _ timeout: Timeout,
        _ call: CallOptions,
        at now: Instant
    ) throws(ClientError) -> ClusterCall {
        if isClosing.load(ordering: .acquiring) { throw .clusterIsClosed }
        let timeout = self.timeout(timeout, call)
        if let timeout, timeout <= .zero { throw Task.isCancelled ? .cancelledUnsent : .expiredUnsent(timeout) }
        return begunCall(call, within: timeout, at: now)
    }

    package nonisolated var defaultTimeout: Duration? { callOptions.requests.timeout }

    private nonisolated func timeout(_ timeout: Timeout, _ call: CallOptions) -> Duration? {
        timeout.or(call.timeout).duration(orByDefault: defaultTimeout)
    }

    private nonisolated func begunCall(
        _ call: CallOptions,
        within timeout: Duration?,
        at now: Instant
    ) -> ClusterCall {
        let timelines = call.recorder.map { CallTimelines($0, since: now) }
        let policy = call.retry.or(callOptions.requests.retry).or(.ifUnsent)
        let mayBePerformedTwice = if case .idempotent = policy { true } else { false }
        var tryOptions = CallOptions()
        if let timelines { tryOptions.recorder = TimelineRecorder(capacity: 1, forwardingTo: timelines) }
        if let deadline = call.movableDeadline { tryOptions.movableDeadline = deadline }
        return ClusterCall(
            begun: now,
            deadline: timeout.map { now.advanced(by: $0) },
            policy: policy,
            waitsForReady: call.waitsForReady,
            tryOptions: tryOptions,
            timelines: timelines,
            key: call.key?.hash,
            isLarge: call.isLarge,
            isMeasured: !call.isLarge,
            probing: mayBePerformedTwice ? .first : .last
        )
    }

    nonisolated(nonsending) func nextLink(for call: inout ClusterCall) async throws(ClientError) -> MemberLink {
        // A call that was woken and does not wait again wakes the next one: there may be room for several, and a call
        // that was cancelled meanwhile takes none.
        var isWoken = false
        defer {
            if isWoken { waiting.passOn() }
            call.endSearch(in: waiting)
        }
        while true {
            if Task.isCancelled { throw failed(call, await cancelledWaiting(call)) }
            let now = loop.now
            if let deadline = call.deadline, deadline <= now { throw failed(call, await timedOutWaiting()) }
            // Before it is decided whether the call waits, so that no chance is missed meanwhile.
            let moment = waiting.moment
            let wish = Wish(
                now: now,
                key: call.key,
                excluded: call.excluded,
                isLarge: call.isLarge,
                probing: call.probing
            )
            if !call.isNew || !call.waitsForReady || !mustQueue, let link = picker.pick(wish) {
                guard call.hedge?.copies.begin(on: link.member.id, ofSecond: call.isExtra, at: now) ?? true else {
                    // The other copy has gone there meanwhile.
                    end(.notSent, on: link, from: now, isMeasured: false)
                    continue
                }
                if call.isPlaced { counts.withLock { $0.countRepeats(1) } }
                call.isPlaced = true
                call.timelines?.begin(on: link.member, rested: call.rested)
                return link
            }
            call.beginSearch(in: waiting)
            begin()
            guard call.waitsForReady, !call.isExtra else {
                throw failed(call, await notReady(ClientError.mayNotWaitMessage))
            }
            if !wish.excluded.isEmpty {
                // Every ready server has failed, or is at work on the other copy. That may change soon.
                call.tried = []
                if !picker.table.isEmpty { try await rest(&call) }
                if call.excluded.isEmpty || !picker.table.isEmpty { continue }
            }
            isWoken = false
            switch await waiting.wait(until: call.deadline, &call.turn, since: moment) {
            case .ready: isWoken = true
            case .cancelled: throw failed(call, await cancelledWaiting(call))
            case .expired: throw failed(call, await timedOutWaiting())
            case .closed: throw failed(call, .clusterWasClosed)
            case .full:
                let calls = Quantity.count(waiting.waitingCount, "call is", "calls are")
                let text = "\(calls) waiting for a server (maximumWaiting is reached)"
                throw failed(call, await notReady(text, .overloaded))
            }
        }
    }

    private nonisolated func failed(_ call: ClusterCall, _ error: ClientError) -> ClientError {
        let error = call.failed(with: error, at: loop.now)
        call.timelines?.end(error.timeline)
        if !call.isPart { callFailed(error, wasPlaced: call.isPlaced) }
        return error
    }

    package nonisolated func noteUndecodable(_ error: ClientError) {
        counts.withLock { $0.countUndecodable() }
        voice.responseUndecodable(error)
    }

    nonisolated func callFailed(_ error: ClientError, wasPlaced: Bool, count: Int = 1) {
        guard count > 0 else { return }
        counts.withLock { $0.failed(error, wasPlaced: wasPlaced, count: count) }
        voice.callFailed(error, wasPlaced: wasPlaced, count: count)
    }

    private nonisolated(nonsending) func rest(_ call: inout ClusterCall) async throws(ClientError) {
        let backoff = Backoff(base: .milliseconds(10), cap: .seconds(1))
        let wait = retries.withLock { $0.wait(backoff, round: call.rests) }
        call.rests += 1
        await loop.sleep(until: min(loop.now.advanced(by: wait), call.deadline ?? .distantFuture))
    }

    enum Next {
        case elsewhere
        case later(Instant)
        case failure(ClientError)
    }

    private nonisolated(nonsending) func prepare(
        _ call: inout ClusterCall,
        after error: ClientError,
        on link: MemberLink,
        from begun: Instant
    ) async throws(ClientError) {
        switch next(&call, after: error, on: link, from: begun) {
        case .elsewhere: break
        case .later(let begin):
            call.beginSearch(in: waiting)
            await loop.sleep(until: begin)
            call.rested = loop.now
        case .failure(let error):
            call.timelines?.end(error.timeline)
            if !call.isPart { callFailed(error, wasPlaced: true) }
            throw error
        }
    }

    nonisolated func next(
        _ call: inout ClusterCall,
        after error: ClientError,
        on link: MemberLink,
        from begun: Instant
    ) -> Next {
        let error = ofCluster(error, link)
        let now = loop.now
        end(judge(error, call, on: link), on: link, from: begun, isMeasured: call.isMeasured)
        call.noteTry(error, on: link.member)
        let failed = call.failed(error)
        let decision = retries.withLock {
            $0.decision(after: failed, at: now, requests: picker.requests - counts.withLock { $0.repeats })
        }
        switch decision {
        case .goElsewhere:
            if !call.tried.contains(link.member.id) { call.tried.append(link.member.id) }
            return .elsewhere
        case .retry(let begin):
            counts.withLock { $0.countRetry(isAllowed: true) }
            call.earlierFate = error.fate.after(call.earlierFate)
            call.tryNumber += 1
            call.tried.append(link.member.id)
            return .later(begin)
        case .failOverBudget:
            counts.withLock { $0.countRetry(isAllowed: false) }
            return .failure(call.failed(with: error))
        case .fail: return .failure(call.failed(with: error))
        }
    }

    /// The error of a try, as a caller of the cluster must see it.
    nonisolated func ofCluster(_ error: ClientError, _ link: MemberLink) -> ClientError {
        var error = error
        if error.endpoint == nil { error = error.with(link.member.endpoint) }
        guard error.code == .closed, error.fate == .unknown, !isClosing.load(ordering: .relaxed) else { return error }
        // The cluster is open: it has closed this client alone.
        return error.changed {
            $0.code = .connectionLost
            $0.message = "the server was removed from the cluster, and the request did not end within its drainTimeout"
        }
    }

    nonisolated func end(
        _ end: ClusterMember.End,
        on link: MemberLink,
        from begun: Instant,
        isMeasured: Bool = true
    ) {
        link.end(end, from: begun, isMeasured: isMeasured, at: loop.now)
        if options.adaptiveLimit != nil { waiting.requestEnded() }
    }

    /// Also counts an error response that is a failure.
    private nonisolated func judge(
        _ error: ClientError,
        _ call: ClusterCall,
        on link: MemberLink
    ) -> ClusterMember.End {
        let end = end(of: error)
        if error.code == .rejected, end == .failed { link.member.markFailure() }
        return end == .rejected && call.key != nil ? .rejectedByKey : end
    }

    nonisolated func end(of error: ClientError) -> ClusterMember.End {
        switch error.code {
        case .rejected, .interrupted:
            guard let response = error.response else { return .rejected }
            if options.isOverload?(response) == true { return .overloaded }
            return options.isFailure?(response) == true ? .failed : .rejected
        // A process that did not run itself cannot judge its servers.
        case .timedOut: return error.timeline?.tries.last.map { $0.loopDelay > .zero } == true ? .givenUp : .failed
        case .connectionLost: return error.fate == .notSent ? .notSent : .lost
        case .tlsFailed, .protocolViolation: return error.fate == .notSent ? .notSent : .failed
        case .cancelled: return error.fate == .notSent ? .notSent : .givenUp
        case .invalidResponse: return .rejected
        case .overloaded: return error.fate == .answered ? .rejected : error.fate == .unknown ? .givenUp : .notSent
        case .unavailable, .closed, .invalidRequest, .invalidArgument, .notCached, .sessionLost:
            return error.fate == .notSent ? .notSent : .givenUp
        }
    }

    private nonisolated func timedOutWaiting() async -> ClientError {
        await notReady("deadline exceeded", .timedOut)
    }

    private nonisolated func cancelledWaiting(_ call: ClusterCall) async -> ClientError {
        call.movableDeadline?.isExpired == true ? await timedOutWaiting() : .cancelledUnsent
    }

    func notReady(_ message: String, _ code: ClientError.Code = .unavailable) -> ClientError {
        let trouble = trouble ?? ClusterTrouble(of: servers)
        self.trouble = trouble
        return ClientError(
            code,
            .notSent,
            "\(message); \(trouble.text)",
            attempts: trouble.attempts,
            cause: trouble.cause
        )
    }
}

extension ClientError {
    static var clusterIsClosed: ClientError { ClientError(.closed, .notSent, "the cluster is closed") }

    static var clusterWasClosed: ClientError { ClientError(.closed, .notSent, "the cluster was closed") }
}

extension MemberLink {
    @inline(__always)
    fileprivate func end(from begun: Instant, on cluster: Cluster) {
        guard begun > .distantPast else { return member.forgetFailures() }
        endAnswered(from: begun, at: cluster.loop.now)
        if cluster.options.adaptiveLimit != nil { cluster.waiting.requestEnded() }
    }
}
