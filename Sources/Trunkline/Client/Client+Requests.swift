import Synchronization

/// Asking the server: what callers use, on any thread.
extension Client {
    // MARK: One request

    /// Sends `request` and returns the server's response.
    ///
    /// - Throws: `rejected` when the response is an error response (`error.response`), `timedOut`, `cancelled`,
    ///   `connectionLost`, `protocolViolation`, `unavailable`, `overloaded`, `invalidRequest` or `closed`, each with
    ///   the request's fate.
    ///
    /// Cancelling the task: a request that is not yet written is removed and never sent, fate `notSent`. One that is
    /// written is given up at once, fate `unknown`: a cancel frame goes out if the protocol has one, and its serial is
    /// not used again until the server answers or `options.requests.quarantine` has passed.
    ///
    /// Without a link the request waits for one until its deadline.
    ///
    /// A reply that comes in parts is reassembled: the response has the bodies of all of them, one after the other. More than
    /// `options.requests.maximumReplySize` is `overloaded`. An error response has its own body alone. See
    /// `stream(_:timeout:partTimeout:options:buffering:)`.
    ///
    /// - Parameters:
    ///   - timeout: From this call until the response, retries included. Default: that of `options`, or else
    ///     `ClientOptions.Requests.timeout` (8 s). When it expires the request is given up as by cancellation, and nothing
    ///     else happens to the link.
    ///   - options: Whether it is sent again, and whether it waits for a link.
    public nonisolated func send(
        _ request: Request,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) async throws(ClientError) -> Response {
        try await outcome(of: request.frame, try resolved(options, timeout)).get()
    }

    /// Sends `request` as a one-way message and returns when the kernel has its last byte.
    ///
    /// That the kernel has it does not mean that the server will. Over TLS it is the last encrypted byte that the kernel
    /// has. Parameters and errors are those of `send`; no
    /// response is awaited and no serial is taken. In protocols matched in order it is for messages that the server
    /// does not answer: an answer would be taken for that of the next request. Where the codec knows that the server
    /// answers (`PostingCodec.mayPost(_:)`; HTTP always does) it fails with `invalidRequest`, fate `notSent`.
    public nonisolated func post(
        _ request: Request,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) async throws(ClientError) {
        guard codec._mayPost(request.frame) else { throw .answeredWhenPosted }
        _ = try await outcome(of: request.frame, try resolved(options, timeout, expectsResponse: false)).get()
    }

    /// Answers what the server sent on its own account, on the very link on which it came: an acknowledgement, or the
    /// response to a request of the server's.
    ///
    /// The frame that goes out is a `response` with the type, the body and the fields of `request` and the serial of `push`.
    /// As `post`, but never on another link, where the server could take it for the acknowledgement of another message:
    /// when that link is gone or drains, it fails with `connectionLost`, fate `notSent`. There is nothing to be done
    /// about that as a rule: the server sends the message again. `invalidArgument` when `push` was not received.
    ///
    /// - Parameter timeout: As in `send`: it waits while the server is slow to read.
    public nonisolated func post(
        _ request: Request,
        answering push: PushMessage,
        timeout: Timeout = .default
    ) async throws(ClientError) {
        guard push.session != 0 else {
            throw ClientError(.invalidArgument, .notSent, "the push was made by its initializer, and not received")
        }
        var frame = request.frame
        (frame.kind, frame.serial) = (.response, push.serial)
        let callOptions = CallOptions(retry: .never, waitsForReady: false)
        var options = try resolved(callOptions, timeout, expectsResponse: false)
        options.session = push.session
        _ = try await outcome(of: frame, options).get()
    }

    /// Sends `frame` and returns what comes of it, which for a one-way message is an empty response.
    nonisolated func outcome(of frame: Frame, _ options: ResolvedOptions, isEnqueued: Bool = false) async -> Outcome {
        if Task.isCancelled { return .failure(.cancelledUnsent) }
        let id = nextRequestID()
        return await withTaskCancellationHandler {
            await withContinuation { continuation in
                submit(frame, id, isEnqueued ? enqueuing(frame, continuation) : .caller(continuation), options)
                // A cancellation since the handler was installed came before the request and was taken for a late one.
                if Task.isCancelled { commandQueue.post(.cancel(id...id)) }
            }
        } onCancel: {
            commandQueue.post(.cancel(id...id))
        }
    }

    nonisolated func nextRequestID() -> RequestID { requestIDs.wrappingAdd(1, ordering: .relaxed).newValue }

    /// The options of a call that is made now; fails when its timeout is not positive.
    nonisolated func resolved(
        _ call: CallOptions,
        _ timeout: Timeout,
        expectsResponse: Bool = true
    ) throws(ClientError) -> ResolvedOptions {
        let timeout = timeout.or(call.timeout).duration(orByDefault: options.requests.timeout)
        return ResolvedOptions(
            retry: retryPolicy(of: call),
            waitsForReady: call.waitsForReady,
            deadline: try deadline(after: timeout),
            expectsResponse: expectsResponse
        )
    }

    nonisolated func retryPolicy(of call: CallOptions) -> RetryPolicy {
        call.retry.or(options.requests.retry).or(.ifUnsent)
    }

    /// The instant `timeout` from now, `nil` for none; fails when it is not positive.
    private nonisolated func deadline(after timeout: Duration?) throws(ClientError) -> Instant? {
        guard let timeout else { return nil }
        guard timeout > .zero else { throw Task.isCancelled ? .cancelledUnsent : .expiredUnsent(timeout) }
        return loop.now.advanced(by: timeout)
    }

    /// Posts a request, of whose end `waiter` is told.
    nonisolated func submit(_ frame: Frame, _ id: RequestID, _ waiter: Waiter, _ options: ResolvedOptions) {
        let waiter = waiter.under(options, frame, keepsFrame: checksResponses)
        commandQueue.postRequest(
            .send(id, frame, waiter, deadline: options.deadline, expectsResponse: options.expectsResponse)
        )
    }

    // MARK: Many requests

    /// Sends `requests` together and returns their results, in the same order, when the last one has ended.
    ///
    /// Far cheaper per request than a `send` each. Every request succeeds or fails on its own. `timeout` counts for each
    /// of them from this call, `options` hold for each of them, as in `send`: with the retry policy `.never`, those that
    /// have not gone out when the link is lost end with it, `connectionLost`, fate `notSent`. Cancelling the task cancels
    /// those that have no response yet.
    public nonisolated func send(
        all requests: some Collection<Request>,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) async -> [Result<Response, ClientError>] {
        let frames = requests.map(\.frame)
        do throws(ClientError) {
            return await outcomes(of: frames, try resolved(options, timeout))
        } catch {
            return frames.map { _ in .failure(error) }
        }
    }

    /// Sends `requests` together as one-way messages and returns what became of each, in the same order, when the kernel
    /// has the last byte of the last one or it has failed.
    ///
    /// Far cheaper per message than a `post` each. They go out in this order. Every message succeeds or fails on its own,
    /// as in `post(_:timeout:options:)`; parameters and cancellation are those of `send(all:timeout:options:)`. To be told no more than that they were accepted, use
    /// `enqueue(_:timeout:)`.
    public nonisolated func post(
        all requests: some Collection<Request>,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) async -> [Result<Void, ClientError>] {
        let frames = requests.map(\.frame)
        let arePosted = frames.map { codec._mayPost($0) }
        let posted = zip(frames, arePosted).filter(\.1).map(\.0)
        do throws(ClientError) {
            let options = try resolved(options, timeout, expectsResponse: false)
            var outcomes = await outcomes(of: posted, options).makeIterator()
            return arePosted.map { isPosted in
                guard isPosted, let outcome = outcomes.next() else { return .failure(.answeredWhenPosted) }
                return outcome.map { _ in }
            }
        } catch {
            return arePosted.map { .failure($0 ? error : .answeredWhenPosted) }
        }
    }

    private nonisolated func outcomes(of frames: [Frame], _ options: ResolvedOptions) async -> [Outcome] {
        guard !frames.isEmpty else { return [] }
        if Task.isCancelled { return frames.map { _ in .failure(.cancelledUnsent) } }
        let count = RequestID(frames.count)
        let first = requestIDs.wrappingAdd(count, ordering: .relaxed).oldValue + 1
        let range = first...(first + count - 1)
        return await withTaskCancellationHandler {
            await withContinuation { continuation in
                let batch = Batch(count: frames.count, options, continuation)
                commandQueue.postRequest(.sendAll(first: first, frames, batch))
                if Task.isCancelled { commandQueue.post(.cancel(range)) }
            }
        } onCancel: {
            commandQueue.post(.cancel(range))
        }
    }

    // MARK: Requests as objects

    /// Starts `request` and returns a handle on it, without waiting. Parameters and errors are those of `send`.
    ///
    /// Letting go of the handle does not cancel the request.
    public nonisolated func start(
        _ request: Request,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) -> PendingRequest<Response> {
        let id = nextRequestID()
        let handle = RequestHandle { [commandQueue] in commandQueue.post(.cancel(id...id)) }
        do throws(ClientError) {
            submit(request.frame, id, .handle(handle), try resolved(options, timeout))
        } catch {
            handle.complete(.failure(error))
        }
        return PendingRequest(handle)
    }

    /// Cancels every request that has not ended, as cancelling its task would.
    public nonisolated func cancelAll() { commandQueue.post(.cancelAll(upTo: requestIDs.load(ordering: .relaxed))) }
}

extension ClientError {
    static var cancelledUnsent: ClientError {
        ClientError(.cancelled, .notSent, "cancelled before it was sent")
    }

    static var answeredWhenPosted: ClientError {
        ClientError(.invalidRequest, .notSent, "the server answers it, so it cannot be posted; `send` it")
    }

    static func expiredUnsent(_ timeout: Duration) -> ClientError {
        ClientError(.timedOut, .notSent, "timeout must be positive, not \(timeout)")
    }
}
