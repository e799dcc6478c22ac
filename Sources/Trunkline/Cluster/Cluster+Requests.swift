import Synchronization

/// Sending requests, from any thread.
extension Cluster: RequestSender {
    // MARK: One request

    /// Sends a request to one of the servers and returns its response.
    ///
    /// Otherwise the method behaves like ``Client/send(_:timeout:options:)-(Request,_,_)``. The retry policy of
    /// `options` applies to the cluster:
    ///
    /// - With `.ifUnsent`, the default, a request of which no byte was written is sent to another server at once.
    /// - With `.idempotent`, a request that failed after it was written is sent to another server after the back-off. This
    ///   takes a token of the retry budget.
    /// - With `.never`, the request goes to one server.
    ///
    /// If no server is ready, the request waits for the first one, unless `waitsForReady` is false. Then it fails with
    /// `unavailable`, and ``ClientError/attempts`` has the last cause of each server.
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
            // What `Client.send` does, in this async frame: with a call of it, a request took 300 instructions more, and
            // its task needed a second piece of memory.
            // Through the link alone: each further object would be retained and released, and its count moved between the
            // processors.
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

    /// A call that is performed in the general way. A class, so that the async frame of `send` is small: it should fit in
    /// the first piece of memory of its caller's task.
    private final class GeneralCall: Sendable {
        let request: Request
        let timeout: Timeout
        let options: CallOptions
        /// The try that has failed, with the time at which it began, or `.distantPast` if that was not measured.
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

    /// Sends a request in the general way, perhaps after a try that has failed.
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
                end(.notSent, on: failed.link, from: begun)
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

    /// Chooses a link for a call without options. Returns when; `.distantPast` if there is no choice, so that nothing has
    /// to be measured.
    @inline(never)
    private nonisolated func pickForPlainCall() -> (MemberLink, Instant)? {
        if let link = picker.pickOnly() { return (link, .distantPast) }
        return pickNow()
    }

    @inline(never)
    private nonisolated func pickNow() -> (MemberLink, Instant)? {
        if mustQueue { return nil }
        let now = loop.now
        return picker.pick(PickTable.Wish(now: now)).map { ($0, now) }
    }

    /// Whether new calls wait behind others. Without an adaptive limit, calls wait only while no server is ready.
    private nonisolated var mustQueue: Bool { options.adaptiveLimit != nil && waiting.waitingCount > 0 }

    /// Whether calls with these options may go to a client as they are.
    @inline(__always)
    private nonisolated func isPlain(_ options: CallOptions) -> Bool {
        options.areOmitted && mayBePlain && !isClosing.load(ordering: .relaxed)
    }

    /// Performs a call with the client of one of the servers, and with those of others if it fails and may be tried
    /// again.
    public nonisolated(nonsending) func perform<Value: Sendable>(
        timeout: Timeout = .default,
        options: CallOptions = CallOptions(),
        _ body: nonisolated(nonsending) (Client, Timeout, CallOptions) async throws(ClientError) -> Value
    ) async throws(ClientError) -> Value {
        var call = try call(timeout, options, at: loop.now)
        return try await perform(&call, body)
    }

    /// Performs a call, or what remains of it.
    ///
    /// - Parameter judge: Returns what the value tells about its server.
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
                end(judge(value), on: link, from: begun)
                return value
            } catch {
                try await prepare(&call, after: error, on: link, from: begun)
            }
        }
    }

    /// Performs a call whose reply has several parts. How long it takes depends on the reply and its reader.
    ///
    /// - Parameters:
    ///   - ending: Returns why the call has ended, if its task is cancelled.
    ///   - body: Returns the error with which the reply has ended after it began.
    nonisolated(nonsending) func performReply(
        timeout: Timeout,
        options: CallOptions,
        ending: @escaping RoutedReplies.Ending,
        _ body: nonisolated(nonsending) (Client, Timeout, CallOptions) async throws(ClientError) -> ClientError?
    ) async throws(ClientError) {
        var call = try call(timeout, options, at: loop.now)
        call.ending = ending
        let failure = try await perform(&call, judging: { $0.map { end(of: $0) } ?? .completed }, body)
        if let failure { callFailed(failure, wasPlaced: true) }
    }

    /// Begins a call.
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

    /// Begins a call, without counting it if it fails.
    private nonisolated func uncountedCall(
        _ timeout: Timeout,
        _ call: CallOptions,
        at now: Instant
    ) throws(ClientError) -> ClusterCall {
        if isClosing.load(ordering: .acquiring) { throw .clusterIsClosed }
        let timeout = self.timeout(timeout, call)
        if let timeout, timeout <= .zero { throw Task.isCancelled ? .cancelledUnsent : .expiredUnsent(timeout) }
        return begunCall(call, within: timeout, at: now)
    }

    /// The time that a call may take; `nil` for no limit.
    private nonisolated func timeout(_ timeout: Timeout, _ call: CallOptions) -> Duration? {
        timeout.or(call.timeout).duration(orByDefault: callOptions.requests.timeout)
    }

    /// A call that has begun, even if the cluster takes no new ones by now.
    private nonisolated func begunCall(
        _ call: CallOptions,
        within timeout: Duration?,
        at now: Instant
    ) -> ClusterCall {
        let timelines = call.recorder.map { CallTimelines($0, since: now) }
        return ClusterCall(
            begun: now,
            deadline: timeout.map { now.advanced(by: $0) },
            policy: call.retry.or(callOptions.requests.retry).or(.ifUnsent),
            waitsForReady: call.waitsForReady,
            // The usual ones, unless the caller records timelines.
            tryOptions: timelines.map { CallOptions(recorder: TimelineRecorder(capacity: 1, forwardingTo: $0)) }
                ?? CallOptions(),
            timelines: timelines,
            key: call.key?.hash,
            isLarge: call.isLarge
        )
    }

    // MARK: Choosing a server

    /// Chooses a link for a call, and waits for one if there is none.
    nonisolated(nonsending) func nextLink(for call: inout ClusterCall) async throws(ClientError) -> MemberLink {
        // A call that was woken and does not wait again wakes the next one: there may be room for several, and a call that
        // was cancelled meanwhile takes none.
        var isWoken = false
        defer {
            if isWoken, options.adaptiveLimit != nil { waiting.requestEnded() }
            call.endSearch(in: waiting)
        }
        while true {
            if Task.isCancelled { throw failed(call, call.ending?() ?? .cancelledUnsent) }
            let now = loop.now
            if let deadline = call.deadline, deadline <= now { throw failed(call, await timedOutWaiting()) }
            // Before it is decided whether the call waits, so that no chance is missed meanwhile.
            let moment = waiting.moment
            let wish = PickTable.Wish(
                now: now,
                key: call.key,
                excluded: call.avoided + call.tried,
                isLarge: call.isLarge
            )
            if !call.isNew || !call.waitsForReady || !mustQueue, let link = picker.pick(wish) {
                if let trace = call.trace { trace.withLock { $0 = link.member.id } }
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
            if !call.tried.isEmpty {
                // Every server that is ready has failed: they may be ready again soon, or others.
                call.tried = []
                if !picker.table.isEmpty { try await rest(&call) }
                continue
            }
            isWoken = false
            switch await waiting.wait(until: call.deadline, &call.turn, since: moment) {
            case .ready: isWoken = true
            case .cancelled: throw failed(call, call.ending?() ?? .cancelledUnsent)
            case .expired: throw failed(call, await timedOutWaiting())
            case .closed: throw failed(call, .clusterWasClosed)
            case .full:
                let calls = LogText.count(waiting.waitingCount, "call is", "calls are")
                let text = "\(calls) waiting for a server (maximumWaiting is reached)"
                throw failed(call, await notReady(text, .overloaded))
            }
        }
    }

    /// Returns the error of a call that no server took.
    private nonisolated func failed(_ call: ClusterCall, _ error: ClientError) -> ClientError {
        let error = call.amended(error, at: loop.now)
        call.timelines?.end(error.timeline)
        if !call.isPart { callFailed(error, wasPlaced: call.isPlaced) }
        return error
    }

    /// Counts and tells a response that its caller could not decode.
    nonisolated func noteUndecodable(_ error: ClientError) {
        counts.withLock { $0.countUndecodable() }
        voice.responseUndecodable(error)
    }

    /// Counts and tells that calls have failed.
    ///
    /// - Parameter wasPlaced: Whether a server was chosen for them before.
    nonisolated func callFailed(_ error: ClientError, wasPlaced: Bool, count: Int = 1) {
        guard count > 0 else { return }
        counts.withLock { $0.failed(error, wasPlaced: wasPlaced, count: count) }
        voice.callFailed(error, wasPlaced: wasPlaced, count: count)
    }

    /// Waits a little before the servers that have not taken the request are tried again.
    private nonisolated(nonsending) func rest(_ call: inout ClusterCall) async throws(ClientError) {
        let backoff = Backoff(base: .milliseconds(10), cap: .seconds(1))
        let wait = retries.withLock { $0.wait(backoff, round: call.rests) }
        call.rests += 1
        await loop.sleep(until: min(loop.now.advanced(by: wait), call.deadline ?? .distantFuture))
    }

    // MARK: Failures

    /// What follows a try that failed.
    private enum Next {
        /// Another server, at once.
        case elsewhere
        /// Another server, after a wait.
        case after(Duration)
        /// Nothing: the call fails.
        case failure(ClientError)
    }

    /// Ends a try that failed, and waits until the next one. Throws the error of the call if there is none.
    private nonisolated(nonsending) func prepare(
        _ call: inout ClusterCall,
        after error: ClientError,
        on link: MemberLink,
        from begun: Instant
    ) async throws(ClientError) {
        switch next(&call, after: error, on: link, from: begun) {
        case .elsewhere: break
        case .after(let wait):
            call.beginSearch(in: waiting)
            await loop.sleep(until: loop.now.advanced(by: wait))
            call.rested = loop.now
        case .failure(let error):
            call.timelines?.end(error.timeline)
            if !call.isPart { callFailed(error, wasPlaced: true) }
            throw error
        }
    }

    /// Ends a try that failed. Returns what follows.
    private nonisolated func next(
        _ call: inout ClusterCall,
        after error: ClientError,
        on link: MemberLink,
        from begun: Instant
    ) -> Next {
        let error = ofCluster(error, link)
        let (now, end) = (loop.now, end(of: error))
        if error.code == .rejected, end == .failed { link.member.markFailure() }
        self.end(end, on: link, from: begun)
        call.noteTry(error, on: link.member)
        if error.fate == .notSent, error.mayBeSentElsewhere, call.policy != .never {
            if !call.tried.contains(link.member.id) { call.tried.append(link.member.id) }
            return .elsewhere
        }
        // Its caller waits no longer: there is no retry, and so nothing to pay for one. Perhaps the call has ended for
        // another reason than a cancellation.
        if Task.isCancelled || error.code == .cancelled { return .failure(call.amended(call.ending?() ?? error)) }
        guard case .idempotent(let tries, let backoff) = call.policy, call.tryNumber < tries,
            error.code == .connectionLost || error.code == .interrupted || error.code == .protocolViolation
        else { return .failure(call.amended(error)) }
        let (round, requests) = (call.tryNumber - 1, picker.requests)
        let wait = retries.withLock { retries in
            retries.withdraw(at: now, requests: requests) ? retries.wait(backoff, round: round) : nil
        }
        counts.withLock { $0.countRetry(isAllowed: wait != nil) }
        guard let wait, now.advanced(by: wait) < call.deadline ?? .distantFuture else {
            return .failure(call.amended(error))
        }
        call.earlierFate = error.fate.after(call.earlierFate)
        call.tryNumber += 1
        call.tried.append(link.member.id)
        return .after(wait)
    }

    /// The error of a try, as a caller of the cluster must see it.
    private nonisolated func ofCluster(_ error: ClientError, _ link: MemberLink) -> ClientError {
        var error = error
        if error.endpoint == nil { error = error.with(link.member.endpoint) }
        guard error.code == .closed, error.fate == .unknown, !isClosing.load(ordering: .relaxed) else { return error }
        // The cluster is open: it has closed this client alone.
        return error.changed {
            $0.code = .connectionLost
            $0.message = "the server was removed from the cluster, and the request did not end within its drainTimeout"
        }
    }

    /// Ends a request on its link.
    nonisolated func end(_ end: ClusterMember.End, on link: MemberLink, from begun: Instant) {
        link.end(end, from: begun, at: loop.now)
        if options.adaptiveLimit != nil { waiting.requestEnded() }
    }

    /// What a failed try tells about its server.
    nonisolated func end(of error: ClientError) -> ClusterMember.End {
        switch error.code {
        case .rejected, .interrupted:
            guard let response = error.response else { return .answered }
            if options.isOverload?(response) == true { return .overloaded }
            return options.isFailure?(response) == true ? .failed : .answered
        // A process that did not run itself cannot judge its servers.
        case .timedOut: return error.timeline?.tries.last.map { $0.loopDelay > .zero } == true ? .givenUp : .failed
        case .connectionLost: return error.fate == .notSent ? .notSent : .lost
        case .tlsFailed, .protocolViolation: return error.fate == .notSent ? .notSent : .failed
        case .cancelled: return error.fate == .notSent ? .notSent : .givenUp
        case .invalidResponse: return .answered
        case .overloaded: return error.fate == .answered ? .answered : error.fate == .unknown ? .givenUp : .notSent
        case .unavailable, .closed, .invalidRequest, .invalidArgument, .notCached, .sessionLost:
            return error.fate == .notSent ? .notSent : .givenUp
        }
    }

    /// The deadline of a call passed while no server could take it.
    private nonisolated func timedOutWaiting() async -> ClientError {
        await notReady("deadline exceeded", .timedOut)
    }

    /// The error of a call that no server takes, with the last cause of each server.
    func notReady(_ message: String, _ code: ClientError.Code = .unavailable) -> ClientError {
        let causes = servers.all.filter { !$0.isReady }.compactMap { server in
            server.lastReport.map { (server.found.endpoint, $0.error ?? EndedLink(cause: $0.cause)) }
        }
        var text = "\(message); \(whyNoServerIsReady)"
        for (endpoint, cause) in causes.prefix(8) { text += "; \(endpoint): \("\(cause)".asMessage)" }
        return ClientError(
            code,
            .notSent,
            text,
            attempts: causes.map { ClientError.Attempt(endpoint: $0.0, cause: $0.1) },
            cause: causes.last?.1 ?? servers.discoveryError
        )
    }

    private var whyNoServerIsReady: String {
        if servers.all.isEmpty {
            let reason = servers.discoveryError.map { ": \("\($0)".asMessage)" } ?? ""
            return "no server was found\(reason)"
        }
        let (ready, count) = (servers.all.count(where: \.isReady), servers.all.count)
        if ready == 0 { return count == 1 ? "the only server is not ready" : "none of the \(count) servers is ready" }
        return "\(ready) of \(LogText.count(count, "server")) can be reached, but can take no further request"
    }

    // MARK: Many requests

    /// Sends several requests together, spread over the servers, and returns their results in the same order.
    ///
    /// Consecutive requests go to the same server, at least 16 of them. Each request succeeds or fails separately; those
    /// of which no byte was written are sent to other servers. Otherwise the method behaves like
    /// ``Client/send(all:timeout:options:)-(Collection<Request>,_,_)``.
    public nonisolated func send(
        all requests: some Collection<Request>,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) async -> [Result<Response, ClientError>] {
        let requests = Array(requests)
        let groups = max(1, min(picker.table.count, requests.count / Self.smallestGroup))
        let size = (requests.count + groups - 1) / groups
        if groups == 1 { return await sendGroup(requests[...], timeout, options) }
        return await withTaskGroup { group in
            for number in 0..<groups {
                let part = requests[min(number * size, requests.count)..<min((number + 1) * size, requests.count)]
                group.addTask { (number, await self.sendGroup(part, timeout, options)) }
            }
            var results = [[Result<Response, ClientError>]](repeating: [], count: groups)
            for await (number, result) in group { results[number] = result }
            return Array(results.joined())
        }
    }

    /// The number of requests of a batch that are worth a server of their own.
    private static let smallestGroup = 16

    /// Sends requests to one server, and those that it did not receive to others.
    private nonisolated func sendGroup(
        _ requests: ArraySlice<Request>,
        _ timeout: Timeout,
        _ options: CallOptions
    ) async -> [Result<Response, ClientError>] {
        var results = [Result<Response, ClientError>](repeating: .failure(.cancelledUnsent), count: requests.count)
        // The requests that may be sent again although they were written do not wait for the others.
        await withTaskGroup(of: (Int, Result<Response, ClientError>).self) { group in
            /// The requests that no server has received.
            var unsent = Array(requests.indices)
            /// Those of them that a server did not take.
            var returned: Set<Int> = []
            do throws(ClientError) {
                var call = try uncountedCall(timeout, options, at: loop.now)
                // The recorder receives the timeline of each try.
                call.tryOptions = options.recorder.map { CallOptions(recorder: $0) } ?? CallOptions()
                call.isPart = true
                while !unsent.isEmpty {
                    call.isPlaced = false
                    let link = try await nextLink(for: &call)
                    let (begun, count) = (loop.now, min(unsent.count, room(on: link)))
                    let sent = Array(unsent.prefix(count))
                    unsent.removeFirst(count)
                    link.begin(count - 1)
                    picker.note(count - 1)
                    counts.withLock { $0.countRepeats(sent.count { returned.contains($0) }) }
                    var hasFailed = false
                    let timeLeft = call.timeLeft(at: begun)
                    let outcomes = await link.client.send(
                        all: sent.map { requests[$0] },
                        timeout: timeLeft,
                        options: call.tryOptions
                    )
                    for (index, outcome) in zip(sent, outcomes) {
                        results[index - requests.startIndex] = outcome
                        guard case .failure(let error) = outcome else {
                            end(.answered, on: link, from: begun)
                            continue
                        }
                        var rest = call
                        switch next(&rest, after: error, on: link, from: begun) {
                        case .elsewhere:
                            unsent.append(index)
                            returned.insert(index)
                            hasFailed = true
                        case .after(let wait):
                            // Two calls with one place in the line would replace each other, and one would never end.
                            (rest.turn, rest.isPart, rest.isPlaced) = (nil, false, true)
                            let (request, rest) = (requests[index], rest)
                            group.addTask { (index, await self.sendAgain(request, rest, after: wait)) }
                        case .failure(let error):
                            callFailed(error, wasPlaced: true)
                            results[index - requests.startIndex] = .failure(error)
                        }
                    }
                    if hasFailed { call.tried.append(link.member.id) }
                }
            } catch {
                for index in unsent { results[index - requests.startIndex] = .failure(error) }
                callFailed(error, wasPlaced: true, count: returned.intersection(unsent).count)
                callFailed(error, wasPlaced: false, count: unsent.count { !returned.contains($0) })
            }
            for await (index, result) in group { results[index - requests.startIndex] = result }
        }
        return results
    }

    /// The number of requests of a batch that a server takes at once, of which one is counted already.
    private nonisolated func room(on link: MemberLink) -> Int {
        if link.member.isProbed { return 1 }
        guard options.adaptiveLimit != nil else { return .max }
        return max(1, link.member.maximumInFlight - link.inFlight + 1)
    }

    /// Sends a request again after a wait.
    private nonisolated func sendAgain(
        _ request: Request,
        _ call: ClusterCall,
        after wait: Duration
    ) async -> Result<Response, ClientError> {
        var call = call
        call.beginSearch(in: waiting)
        await loop.sleep(until: loop.now.advanced(by: wait))
        call.rested = loop.now
        do throws(ClientError) {
            let response = try await perform(&call) { client, timeout, options throws(ClientError) in
                try await client.send(request, timeout: timeout, options: options)
            }
            return .success(response)
        } catch {
            return .failure(error)
        }
    }
}

extension ClientError {
    /// Whether another server may take a request that was not sent: the reason lies with the link or the server.
    var mayBeSentElsewhere: Bool {
        switch code {
        case .connectionLost, .unavailable, .tlsFailed, .closed, .overloaded, .protocolViolation: true
        case .cancelled, .timedOut, .rejected, .interrupted, .invalidRequest, .invalidResponse, .invalidArgument,
            .notCached, .sessionLost:
            false
        }
    }

    static var clusterIsClosed: ClientError { ClientError(.closed, .notSent, "the cluster is closed") }

    static var clusterWasClosed: ClientError { ClientError(.closed, .notSent, "the cluster was closed") }
}

/// A link that ended without an error.
private struct EndedLink: Error, LoggableError {
    let cause: DisconnectCause
    var description: String { "the link ended: \(cause.rawValue)" }
}

extension MemberLink {
    /// Ends a request that was answered.
    @inline(__always)
    fileprivate func end(from begun: Instant, on cluster: Cluster) {
        if begun > .distantPast { cluster.end(.answered, on: self, from: begun) } else { member.forgetFailures() }
    }
}
