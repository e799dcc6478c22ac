import Synchronization

/// Sending requests, from any thread.
extension Client {
    // MARK: One request

    /// Sends a request and returns the server's response.
    ///
    /// ```swift
    /// let response = try await client.send(Request(type: 0x402, body: "hello"), timeout: .seconds(2))
    /// ```
    ///
    /// If there is no link, the client connects, and the request waits for the link until its deadline. The call does
    /// not affect other requests, many of which may be in flight.
    ///
    /// **Deadline.** If the timeout expires, the call fails with `timedOut`, and the request ends as if it had been
    /// cancelled. The link stays.
    ///
    /// **Cancellation.** If the task is cancelled, the call fails immediately with `cancelled`:
    ///
    /// - If no byte of the request was written, it is removed and never sent: fate `notSent`.
    /// - If at least one byte was written, the request is abandoned: fate `unknown`. A cancel frame tells the server,
    ///   if the protocol has one. The serial of the request is not reused until the server answers or
    ///   `options.requests.quarantine` (60 s) has passed, so a late response never reaches another request.
    ///
    /// If the response has already arrived, the call returns it.
    ///
    /// **Replies in parts.** If the server sends a reply in several parts, the response contains the bodies of all
    /// parts, one after the other. A reply longer than `options.requests.maximumReplySize` (16 MiB) fails with
    /// `overloaded`. If the server sends an error response after parts, ``ClientError/response`` contains the body of
    /// the error response alone. To receive each part as it arrives, use
    /// ``Client/stream(_:timeout:partTimeout:options:buffering:)-(Request,_,_,_,_)``.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - timeout: The time from this call to the response, retries included. Default: the timeout of `options`, or
    ///     else ``ClientOptions/Requests/timeout`` (8 s). If it is zero or negative, the call fails immediately.
    ///   - options: Whether the request is sent again when it fails, and whether it waits for a link.
    /// - Returns: The response. An error response is thrown, not returned.
    /// - Throws: A ``ClientError`` with one of these codes. Its `fate` says what became of the request:
    ///   - `rejected`: the server answered with an error response, which is in ``ClientError/response``. Fate
    ///     `answered`.
    ///   - `timedOut`, `cancelled`: the deadline passed or the task was cancelled. Fate `notSent` or `unknown`.
    ///   - `connectionLost`: the link was lost before the response arrived. Fate `unknown`, or `notSent` if `options`
    ///     do not let the request wait for the next link.
    ///   - `protocolViolation`: the server broke the protocol. Fate `unknown`, or `answered` if the response itself is
    ///     malformed.
    ///   - `unavailable`, `tlsFailed`: the client gave up connecting, or `waitsForReady` is false and there is no link.
    ///     Fate `notSent`. A server that refuses the client's certificate after the request was written leads to
    ///     `tlsFailed`, fate `unknown`.
    ///   - `overloaded`: a limit of the client was reached. Fate `notSent`. If the reply is too long, the fate is
    ///     `unknown` or `answered`.
    ///   - `invalidRequest`: the codec cannot encode the request. Fate `notSent`.
    ///   - `closed`: the client is closed. Fate `notSent` or `unknown`.
    public nonisolated func send(
        _ request: Request,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) async throws(ClientError) -> Response {
        let isPlain = !isIntercepted && options.recorder == nil
        let intercepted = isPlain ? nil : interceptedRequest(.send, request, timeout, options)
        let id = nextRequestID()
        var outcome = await withContinuation(cancelling: commandQueue, id.number...id.number) {
            submit(request, id, timeout, options, intercepted, $0, $1)
        }
        intercepted?.end(&outcome)
        switch consume outcome {  // moved, not copied
        case .success(let response): return response
        case .failure(let error): throw named(error, request)
        }
    }

    /// Not inlined: see `submit`.
    @inline(never)
    private nonisolated func named(_ error: ClientError, _ request: Request) -> ClientError {
        error.named(codec.name(of: request.frame))
    }

    /// Not inlined, so that the command and the options are on this stack and not in the async frame of the suspended
    /// task. `send` and its callers should fit in the first 984 bytes of memory of their task: with 4,096 requests in
    /// flight, smaller frames reduced the processor time of a request by a third.
    @inline(never)
    package nonisolated func submit(
        _ request: Request,
        _ id: RequestID,
        _ timeout: Timeout,
        _ options: CallOptions,
        _ intercepted: InterceptedRequest?,
        _ continuation: Continuation<Outcome>,
        _ cancellation: Cancellation
    ) {
        if let ending = intercepted?.ending { return continuation.resume(returning: ending) }
        // Checked after the interceptors, which may take time.
        if cancellation.isRequested { return continuation.resume(returning: .failure(.cancelledUnsent)) }
        do throws(ClientError) {
            if let intercepted {
                submit(intercepted.frame, id, .caller(continuation), intercepted.options)
            } else if retriesIfUnsent, options.areOmitted {
                try submitPlain(request.frame, id, timeout, continuation)
            } else {
                submit(request.frame, id, .caller(continuation), try resolved(options, timeout))
            }
        } catch {
            return continuation.resume(returning: .failure(error))
        }
        cancelIfNeeded(id...id, cancellation)
    }

    /// Without options of the call, and with the usual ones of the client: nothing has to be resolved.
    private nonisolated func submitPlain(
        _ frame: Frame,
        _ id: RequestID,
        _ timeout: Timeout,
        _ continuation: Continuation<Outcome>
    ) throws(ClientError) {
        let now = loop.now
        let timeout = timeout.duration(orByDefault: options.requests.timeout)
        let deadline = try deadline(after: timeout, from: now)
        let waiter = Waiter(.caller(continuation))
        let command = Command.send(id, frame, waiter, accepted: now, deadline: deadline, expectsResponse: true)
        commandQueue.postRequest(command)
    }

    /// Cancels requests that were just posted: a cancel command that came before them had no effect.
    private nonisolated func cancelIfNeeded(_ ids: ClosedRange<RequestID>, _ cancellation: Cancellation) {
        if cancellation.isRequested { commandQueue.post(.cancel(ids)) }
    }

    /// Sends a one-way message and returns when the kernel has accepted its last byte.
    ///
    /// The server does not confirm the message: it may still be lost with the link. Over TLS, the call returns when the
    /// kernel has accepted the last encrypted byte. A one-way message has no response and uses no serial number.
    ///
    /// Do not post a message that the server answers. In a protocol matched in order, the client would give its answer
    /// to the next request as the response. If the codec knows that the server answers (``PostingCodec/mayPost(_:)``;
    /// HTTP servers always do), the call fails with `invalidRequest`, fate `notSent`.
    ///
    /// Cancellation works as in ``Client/send(_:timeout:options:)-(Request,_,_)``, but no cancel frame is sent: a
    /// message that is partly written is written to its end.
    ///
    /// - Parameters:
    ///   - request: The message.
    ///   - timeout: The time from this call until the message is written, retries included. Default: the timeout of
    ///     `options`, or else ``ClientOptions/Requests/timeout`` (8 s).
    ///   - options: Whether the message is sent again when it fails, and whether it waits for a link.
    /// - Throws: A ``ClientError``, as `send` does, but never `rejected`.
    public nonisolated func post(
        _ request: Request,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) async throws(ClientError) {
        guard codec.mayPost(request.frame) else { throw .answeredWhenPosted }
        let options = try resolved(options, timeout, expectsResponse: false)
        _ = try await outcome(of: request.frame, options, as: .post).get()
    }

    /// Answers a push on the link on which it was received: with an acknowledgement, or with the response to a request
    /// of the server.
    ///
    /// The client sends a frame of kind `response` with the type, the body and the fields of `request` and the serial
    /// of `push`. The call returns when the kernel has accepted its last byte.
    ///
    /// The answer passes the requests that wait for their turn: the server may wait for it before it answers the
    /// request in flight. So `requests.maximumInFlight`, limits of channels, and a request that no other may follow do
    /// not hold it back, only a full socket does.
    ///
    /// The answer is never sent on another link, because the server could match it with another message there. If the
    /// link of the push has been closed or is draining, the call fails with `connectionLost`, fate `notSent`. Usually
    /// no action is needed in that case: the server sends the message again.
    ///
    /// - Parameters:
    ///   - request: The type, body and fields of the answer.
    ///   - push: The push to answer. It must have been received, not created: otherwise the call fails with
    ///     `invalidArgument`, fate `notSent`.
    ///   - timeout: The time from this call until the answer is written, which is long if the server reads slowly.
    ///     Default: ``ClientOptions/Requests/timeout`` (8 s).
    /// - Throws: A ``ClientError``, as ``Client/post(_:timeout:options:)`` does.
    public nonisolated func post(
        _ request: Request,
        answering push: PushMessage,
        timeout: Timeout = .default
    ) async throws(ClientError) {
        let (frame, options) = try answer(request, push, timeout)
        _ = try await outcome(of: frame, options, as: .post).get()
    }

    nonisolated func answer(
        _ request: Request,
        _ push: PushMessage,
        _ timeout: Timeout
    ) throws(ClientError) -> (Frame, ResolvedOptions) {
        guard let session = push.session else {
            throw ClientError(.invalidArgument, .notSent, "the push was not received from a server")
        }
        var frame = request.frame
        (frame.kind, frame.serial) = (.response, push.serial)
        let callOptions = CallOptions(retry: .never, waitsForReady: false)
        var options = try resolved(callOptions, timeout, expectsResponse: false)
        options.session = session
        options.marks.insert(.isAnswer)
        return (frame, options)
    }

    /// The outcome of a one-way message is an empty response.
    nonisolated func outcome(of frame: Frame, _ options: ResolvedOptions, as form: ClientCall.Form) async -> Outcome {
        guard isIntercepted || options.recorder != nil else { return await plainOutcome(of: frame, options) }
        if Task.isCancelled { return .failure(.cancelledUnsent) }
        return await interceptedOutcome(form, of: frame, options) { await plainOutcome(of: $0, $1) }
    }

    nonisolated func plainOutcome(
        of frame: Frame,
        _ options: ResolvedOptions,
        isEnqueued: Bool = false
    ) async -> Outcome {
        if Task.isCancelled { return .failure(.cancelledUnsent) }
        let id = nextRequestID()
        let outcome = await withContinuation(cancelling: commandQueue, id.number...id.number) {
            continuation,
            cancellation in
            submit(frame, id, isEnqueued ? enqueuing(frame, continuation) : .caller(continuation), options)
            cancelIfNeeded(id...id, cancellation)
        }
        guard case .failure(let error) = outcome else { return outcome }
        return .failure(error.named(codec.name(of: frame)))
    }

    package nonisolated func nextRequestID() -> RequestID {
        RequestID(requestIDs.wrappingAdd(1, ordering: .relaxed).newValue)
    }

    nonisolated func resolved(
        _ call: CallOptions,
        _ timeout: Timeout,
        expectsResponse: Bool = true
    ) throws(ClientError) -> ResolvedOptions {
        let timeout = timeout.or(call.timeout).duration(orByDefault: options.requests.timeout)
        let now = loop.now
        var options = ResolvedOptions(
            retry: retryPolicy(of: call),
            accepted: now,
            deadline: try deadline(after: timeout, from: now),
            expectsResponse: expectsResponse
        )
        guard !call.areOmitted else { return options }
        (options.marks, options.session, options.recorder) = (call.marks, call.session, call.recorder)
        options.movableDeadline = call.movableDeadline
        if !expectsResponse { options.marks.remove(.isExclusive) }
        return options
    }

    nonisolated func retryPolicy(of call: CallOptions) -> RetryPolicy {
        call.retry.or(options.requests.retry).or(.ifUnsent)
    }

    private nonisolated func deadline(after timeout: Duration?, from now: Instant) throws(ClientError) -> Instant? {
        guard let timeout else { return nil }
        guard timeout > .zero else { throw Task.isCancelled ? .cancelledUnsent : .expiredUnsent(timeout) }
        return now.advanced(by: timeout)
    }

    nonisolated func submit(_ frame: Frame, _ id: RequestID, _ receiver: Waiter.Receiver, _ options: ResolvedOptions) {
        let waiter = Waiter(receiver, options, frame)
        commandQueue.postRequest(
            .send(
                id,
                frame,
                waiter,
                accepted: options.accepted,
                deadline: options.deadline,
                expectsResponse: options.expectsResponse
            )
        )
    }

    // MARK: Many requests

    /// Sends several requests together and returns their results in the same order.
    ///
    /// This costs much less per request than a call of `send` for each. The call returns when the last request has
    /// ended. Each request succeeds or fails separately, as in ``Client/send(_:timeout:options:)-(Request,_,_)``.
    ///
    /// If the task is cancelled, the requests that have no response yet are cancelled, and the call returns
    /// immediately.
    ///
    /// - Parameters:
    ///   - requests: The requests. They go out in this order.
    ///   - timeout: The timeout of each request, counted from this call. Default: the timeout of `options`, or else
    ///     ``ClientOptions/Requests/timeout`` (8 s).
    ///   - options: The options of each request. With the retry policy `.never`, requests that are still queued when
    ///     the link is lost fail with `connectionLost`, fate `notSent`.
    /// - Returns: The result of each request: its response or its error. If `requests` is empty, the array is empty.
    public nonisolated func send(
        all requests: some Collection<Request>,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) async -> [Result<Response, ClientError>] {
        let requests = Array(requests)
        do throws(ClientError) {
            return await outcomes(of: requests, try resolved(options, timeout), as: .send)
        } catch {
            return requests.map { _ in .failure(error) }
        }
    }

    /// Sends several one-way messages together and returns their results in the same order.
    ///
    /// This costs much less per message than a call of `post` for each. The messages go out in their order. The call
    /// returns when each message has failed or the kernel has accepted its last byte. Each message succeeds or fails
    /// separately, as in ``Client/post(_:timeout:options:)``.
    ///
    /// If the task is cancelled, the messages that are not written are cancelled, and the call returns immediately. To
    /// hand over messages without waiting until they are written, use ``Client/enqueue(_:timeout:)``.
    ///
    /// - Parameters:
    ///   - requests: The messages.
    ///   - timeout: The timeout of each message, counted from this call. Default: the timeout of `options`, or else
    ///     ``ClientOptions/Requests/timeout`` (8 s).
    ///   - options: The options of each message, as in `send(all:)`.
    /// - Returns: The result of each message. If `requests` is empty, the array is empty.
    public nonisolated func post(
        all requests: some Collection<Request>,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) async -> [Result<Void, ClientError>] {
        let requests = Array(requests)
        let arePosted = requests.map { codec.mayPost($0.frame) }
        let posted = zip(requests, arePosted).filter(\.1).map(\.0)
        do throws(ClientError) {
            let options = try resolved(options, timeout, expectsResponse: false)
            var outcomes = await outcomes(of: posted, options, as: .post).makeIterator()
            return arePosted.map { isPosted in
                guard isPosted, let outcome = outcomes.next() else { return .failure(.answeredWhenPosted) }
                return outcome.map { _ in }
            }
        } catch {
            return arePosted.map { .failure($0 ? error : .answeredWhenPosted) }
        }
    }

    private nonisolated func outcomes(
        of requests: [Request],
        _ options: ResolvedOptions,
        as form: ClientCall.Form
    ) async -> [Outcome] {
        guard isIntercepted || options.recorder != nil else {
            return await plainOutcomes(of: requests, options).outcomes
        }
        if Task.isCancelled { return requests.map { _ in .failure(.cancelledUnsent) } }
        return await interceptedOutcomes(form, of: requests, options)
    }

    /// For requests that have passed the interceptors. The ID is `nil` if nothing was sent.
    nonisolated func plainOutcomes(
        of requests: [Request],
        _ options: ResolvedOptions
    ) async -> (first: RequestID?, outcomes: [Outcome]) {
        guard !requests.isEmpty else { return (nil, []) }
        if Task.isCancelled { return (nil, requests.map { _ in .failure(.cancelledUnsent) }) }
        let first = RequestID(requestIDs.wrappingAdd(UInt64(requests.count), ordering: .relaxed).oldValue + 1)
        let range = first...first.advanced(by: requests.count - 1)
        let numbers = range.lowerBound.number...range.upperBound.number
        let outcomes = await withContinuation(cancelling: commandQueue, numbers) {
            submit(requests, range, options, $0, $1)
        }
        let hasFailure = outcomes.contains { if case .failure = $0 { true } else { false } }
        return (first, hasFailure ? named(outcomes, of: requests) : outcomes)
    }

    @inline(never)
    private nonisolated func named(_ outcomes: [Outcome], of requests: [Request]) -> [Outcome] {
        zip(requests, outcomes).map { request, outcome in
            outcome.mapError { $0.named(codec.name(of: request.frame)) }
        }
    }

    /// Not inlined: see `submit` of one request.
    @inline(never)
    private nonisolated func submit(
        _ requests: [Request],
        _ ids: ClosedRange<RequestID>,
        _ options: ResolvedOptions,
        _ continuation: Continuation<[Outcome]>,
        _ cancellation: Cancellation
    ) {
        let batch = Batch(count: requests.count, options, continuation)
        commandQueue.postRequest(.sendAll(first: ids.lowerBound, requests, batch))
        cancelIfNeeded(ids, cancellation)
    }

    // MARK: Handles

    /// Starts a request and returns a handle to it without waiting for the response.
    ///
    /// The request continues if the handle is discarded. Its errors are those of
    /// ``Client/send(_:timeout:options:)-(Request,_,_)`` and are thrown by ``PendingRequest/value``. The handle does
    /// not keep the client alive: if the client is deallocated, the request fails with `closed`.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - timeout: The time from this call to the response, retries included. Default: the timeout of `options`, or
    ///     else ``ClientOptions/Requests/timeout`` (8 s).
    ///   - options: Whether the request is sent again when it fails, and whether it waits for a link.
    /// - Returns: A handle with the state of the request and its response.
    public nonisolated func start(
        _ request: Request,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) -> PendingRequest<Response> {
        do throws(ClientError) {
            switch passInterceptors(.start, request.frame, try resolved(options, timeout)) {
            case .ended(let outcome): return PendingRequest(RequestHandle(outcome))
            case .sends(let frame, let options, let completion):
                let id = nextRequestID()
                let handle = RequestHandle(onEnd: completion) { [commandQueue] in commandQueue.post(.cancel(id...id)) }
                submit(frame, id, .handle(handle), options)
                return PendingRequest(handle)
            }
        } catch {
            return PendingRequest(RequestHandle(.failure(error)))
        }
    }

    /// Cancels every request and one-way message that was made before this call and has not ended.
    ///
    /// Each of them ends as if its task had been cancelled. This includes messages that `enqueue` accepted.
    public nonisolated func cancelAll() {
        commandQueue.post(.cancelAll(upTo: RequestID(requestIDs.load(ordering: .relaxed))))
    }
}
