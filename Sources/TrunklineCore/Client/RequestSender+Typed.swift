/// Typed requests: every kind of call that takes a `Request` also takes a `TypedRequest`.
extension RequestSender {
    /// Sends a typed request and returns the decoded response. See
    /// ``Client/send(_:timeout:options:)-(Typed,_,_)``.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - timeout: The time from this call to the response, retries included.
    ///   - options: Whether the request is sent again when it fails, and whether it waits for a link.
    /// - Returns: The decoded response.
    /// - Throws: A ``ClientError``.
    public nonisolated(nonsending) func send<Typed: TypedRequest>(
        _ request: Typed,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) async throws(ClientError) -> Typed.Reply {
        do throws(ClientError) {
            let untyped = try Request(request)
            return try request.read(
                try await send(untyped, timeout: timeout, options: options.retrying(Typed.retry)),
                for: self
            )
        } catch {
            throw error.named(Typed.errorName)
        }
    }

    /// Sends several typed requests together and returns their decoded responses in the same order.
    ///
    /// The call returns when the last request has ended. A request that cannot be encoded fails; the others are sent.
    /// Otherwise the method behaves like ``Client/send(all:timeout:options:)-(Collection<Request>,_,_)``.
    ///
    /// - Parameters:
    ///   - requests: The requests. They go out in this order.
    ///   - timeout: The timeout of each request, counted from this call. Default: the timeout of `options`, or else
    ///     ``ClientOptions/Requests/timeout`` (8 s).
    ///   - options: The options of each request.
    /// - Returns: The result of each request: its decoded response or its error.
    public nonisolated(nonsending) func send<Typed: TypedRequest>(
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
            return answered.next()?.mapError { $0.named(Typed.errorName) }.flatMap { response in
                Result { () throws(ClientError) in try request.read(response, for: self) }
            }
        }
    }

    /// Starts a typed request and returns a handle to it without waiting for the response.
    ///
    /// Otherwise the method behaves like ``Client/start(_:timeout:options:)-(Request,_,_)``. The handle's
    /// ``PendingRequest/value`` decodes the response.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - timeout: The time from this call to the response, retries included. Default: the timeout of `options`, or
    ///     else ``ClientOptions/Requests/timeout`` (8 s).
    ///   - options: Whether the request is sent again when it fails, and whether it waits for a link.
    /// - Returns: A handle with the state of the request and its decoded response.
    /// - Throws: `invalidRequest`, fate `notSent`, if the request cannot be encoded. All other errors are thrown by the
    ///   handle.
    public func start<Typed: TypedRequest>(
        _ request: Typed,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) throws(ClientError) -> PendingRequest<Typed.Reply> {
        let untyped = try Request(request)
        return start(untyped, timeout: timeout, options: options.retrying(Typed.retry)).read(by: request, for: self)
    }

    /// Sends a typed request and returns a stream of the reply, in which the request decodes each part and the
    /// response.
    ///
    /// Otherwise the method behaves like ``Client/stream(_:timeout:partTimeout:options:buffering:)-(Request,_,_,_,_)``.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - timeout: The time from this call to the end of the reply, retries included. Default: the timeout of
    ///     `options`, or else ``ClientOptions/Requests/streamTimeout`` (no timeout).
    ///   - partTimeout: The longest wait for one element, counted from the reader's call of `next`. Default:
    ///     ``ClientOptions/Requests/timeout`` (8 s).
    ///   - options: Whether the request is sent again when it fails, and whether it waits for a link.
    ///   - buffering: How much of the reply is buffered for a slow reader, and what happens beyond that.
    /// - Returns: The stream of the reply. It can be read once.
    /// - Throws: `invalidRequest`, fate `notSent`, if the request cannot be encoded. All other errors are thrown by the
    ///   iterator.
    public func stream<Typed: TypedRequest>(
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
        return responses.read(by: request, for: self)
    }

    /// Sends a typed request and, once the server has accepted it, repeats it so that pushes continue.
    ///
    /// If the response cannot be decoded, the subscription ends on the client's side and the call throws. Otherwise the
    /// method behaves like ``Client/subscribe(_:timeout:)-(Request,_)``.
    ///
    /// - Parameters:
    ///   - request: The request that subscribes.
    ///   - timeout: The time for the whole call. Default: ``ClientOptions/Requests/timeout`` (8 s).
    /// - Returns: The subscription, and the decoded response to the first request.
    /// - Throws: A ``ClientError``, as ``Client/send(_:timeout:options:)-(Typed,_,_)`` does.
    public nonisolated(nonsending) func subscribe<Typed: TypedRequest>(
        _ request: Typed,
        timeout: Timeout = .default
    ) async throws(ClientError) -> (subscription: Subscription, response: Typed.Reply) {
        do throws(ClientError) {
            let subscription = try await subscribe(Request(request), timeout: timeout)
            return (subscription, try await request.read(subscription, for: self))
        } catch {
            throw error.named(Typed.errorName)
        }
    }
}

extension TypedRequest {
    package func read(
        _ subscription: Subscription,
        for sender: any RequestSender
    ) async throws(ClientError) -> Reply {
        do throws(ClientError) {
            guard let response = subscription.response else {
                throw ClientError(.invalidResponse, .answered, "the subscription has no response")
            }
            return try read(response, for: sender)
        } catch {
            await subscription.end()
            throw error
        }
    }
}
