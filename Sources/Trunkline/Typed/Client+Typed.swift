/// Typed requests: everything that can be asked with a `Request` can be asked with one of these.
///
/// Parameters and errors are those of the call with a `Request`. Further, an error thrown by `encode` or `prepare` becomes
/// `invalidRequest`, fate `notSent`, and one thrown by `decode` becomes `invalidResponse`, a `FrameError`
/// `protocolViolation`, fate `answered`, with the error as its cause. A request type can say for all calls that it may be sent
/// again: `TypedRequest.retry`.
extension Client {
    /// Sends `request` and returns the server's response as the request reads it.
    public nonisolated func send<Typed: TypedRequest>(
        _ request: Typed,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) async throws(ClientError) -> Typed.Reply {
        let frame = try Request(request).frame
        let options = try resolved(options.retrying(Typed.retry), timeout)
        return try request.read(try await outcome(of: frame, options).get())
    }

    /// Sends `requests` together and returns their results as they read them, in the same order, when the last one has
    /// ended. One that cannot be encoded fails; the others are sent.
    public nonisolated func send<Typed: TypedRequest>(
        all requests: some Collection<Typed>,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) async -> [Result<Typed.Reply, ClientError>] {
        let encoded = requests.map { request in Result { () throws(ClientError) in try Request(request) } }
        let outcomes = await send(
            all: encoded.compactMap { try? $0.get() },
            timeout: timeout,
            options: options.retrying(Typed.retry)
        )
        var answered = outcomes.makeIterator()
        return zip(requests, encoded).compactMap { request, encoded in
            if case .failure(let error) = encoded { return .failure(error) }
            return answered.next()?.flatMap { response in
                Result { () throws(ClientError) in try request.read(response) }
            }
        }
    }

    /// Starts `request` and returns a handle on it, without waiting.
    public nonisolated func start<Typed: TypedRequest>(
        _ request: Typed,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) throws(ClientError) -> PendingRequest<Typed.Reply> {
        let untyped = try Request(request)
        return start(untyped, timeout: timeout, options: options.retrying(Typed.retry)).read(by: request)
    }

    /// Sends `request` and returns the server's reply as it comes: `decode` reads every part of it, and the response.
    public nonisolated func stream<Typed: TypedRequest>(
        _ request: Typed,
        timeout: Timeout = .default,
        partTimeout: Timeout = .default,
        options: CallOptions = CallOptions(),
        buffering: ReplyBuffering = ReplyBuffering()
    ) throws(ClientError) -> ReplyStream<Typed.Reply> {
        let untyped = try Request(request)
        let responses = stream(
            untyped,
            timeout: timeout,
            partTimeout: partTimeout,
            options: options.retrying(Typed.retry),
            buffering: buffering
        )
        return responses.read(by: request)
    }

    /// Sends `request`, and once the server has accepted it, sends it again on every new link.
    ///
    /// Returns the subscription and what the server answered when it was first told. When that cannot be read the
    /// subscription is over on this side.
    public nonisolated func subscribe<Typed: TypedRequest>(
        _ request: Typed,
        timeout: Timeout = .default
    ) async throws(ClientError) -> (subscription: Subscription, response: Typed.Reply) {
        let (subscription, response) = try await subscribe(Request(request), timeout, expectsResponse: true)
        do throws(ClientError) {
            return (subscription, try request.read(response))
        } catch {
            await subscription.end()
            throw error
        }
    }
}

extension Handshaker {
    /// Sends `request` and returns the server's response as the request reads it.
    public func send<Typed: TypedRequest>(
        _ request: Typed,
        timeout: Timeout = .default
    ) async throws(ClientError) -> Typed.Reply {
        let untyped = try Request(request)
        return try request.read(try await send(untyped, timeout: timeout))
    }
}
