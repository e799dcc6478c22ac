/// Typed requests: every kind of call that takes a `Request` also takes a `TypedRequest`.
extension Client {
    /// Sends a typed request and returns the decoded response.
    ///
    /// The request encodes its body and decodes its response. Deadline, cancellation and errors are those of
    /// ``Client/send(_:timeout:options:)-(Request,_,_)``. A request type can declare that its requests may be sent
    /// again: ``TypedRequest/retry``.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - timeout: The time from this call to the response, retries included. Default: the timeout of `options`, or
    ///     else ``ClientOptions/Requests/timeout`` (8 s).
    ///   - options: Whether the request is sent again when it fails, and whether it waits for a link.
    /// - Returns: The decoded response.
    /// - Throws: A ``ClientError``, as for an untyped request, and also:
    ///   - `invalidRequest`, fate `notSent`: ``TypedRequest/encode()`` or ``TypedRequest/prepare(_:)`` threw the error
    ///     that is the cause.
    ///   - `invalidResponse`, fate `answered`: ``TypedRequest/decode(_:for:)`` threw the error that is the cause.
    ///   - `protocolViolation`, fate `answered`: ``TypedRequest/decode(_:for:)`` threw a ``FrameError``, which is the
    ///     cause.
    public nonisolated func send<Typed: TypedRequest>(
        _ request: Typed,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) async throws(ClientError) -> Typed.Reply {
        let frame = try Request(request).frame
        let options = try resolved(options.retrying(Typed.retry), timeout)
        return try request.read(try await outcome(of: frame, options, as: .send).get())
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
    public nonisolated func start<Typed: TypedRequest>(
        _ request: Typed,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) throws(ClientError) -> PendingRequest<Typed.Reply> {
        let untyped = try Request(request)
        return start(untyped, timeout: timeout, options: options.retrying(Typed.retry)).read(by: request)
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

    /// Sends a typed request and, once the server has accepted it, repeats it on every new link.
    ///
    /// If the response cannot be decoded, the subscription ends on the client's side and the call throws. Otherwise the
    /// method behaves like ``Client/subscribe(_:timeout:)-(Request,_)``.
    ///
    /// - Parameters:
    ///   - request: The request that subscribes.
    ///   - timeout: The time for the whole call. Default: ``ClientOptions/Requests/timeout`` (8 s).
    /// - Returns: The subscription, and the decoded response to the first request.
    /// - Throws: A ``ClientError``, as ``Client/send(_:timeout:options:)-(Typed,_,_)`` does.
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
    /// Sends a typed request during the handshake and returns the decoded response.
    ///
    /// Otherwise the method behaves like ``Handshaker/send(_:timeout:)-(Request,_)``. If the encoding or decoding of
    /// `Typed` fails, the error is the same as for ``Client/send(_:timeout:options:)-(Typed,_,_)``.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - timeout: The time from this call to the response. Default: the time that is left for the handshake, which a
    ///     longer timeout does not extend.
    /// - Returns: The decoded response.
    /// - Throws: A ``ClientError``.
    public func send<Typed: TypedRequest>(
        _ request: Typed,
        timeout: Timeout = .default
    ) async throws(ClientError) -> Typed.Reply {
        let untyped = try Request(request)
        return try request.read(try await send(untyped, timeout: timeout))
    }
}
