/// Typed requests: everything that can be asked with a `Request` can be asked with one of these.
///
/// Parameters and errors are those of the call with a `Request`. Further, an error thrown by `encode` or `prepare` becomes
/// `invalidRequest`, fate `notSent`, and one thrown by `decode` becomes `invalidResponse`, a `FrameError`
/// `protocolViolation`, fate `answered`, with the error as its cause. A request type can say for all calls that it may be sent again: `TypedRequest.retry`.
extension Client {
    /// Sends `request` and returns the server's response as the request reads it.
    public nonisolated func send<Typed: TypedRequest>(
        _ request: Typed,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) async throws(ClientError) -> Typed.Reply {
        let frame = try Request(request).frame
        let options = try resolved(options, timeout, retry: Typed.retry)
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
        var options = options
        options.retry = options.retry ?? Typed.retry
        let outcomes = await send(all: encoded.compactMap { try? $0.get() }, timeout: timeout, options: options)
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
    ) throws(ClientError) -> TypedPendingRequest<Typed> {
        let untyped = try Request(request)
        var options = options
        options.retry = options.retry ?? Typed.retry
        let pending = start(untyped, timeout: timeout, options: options)
        return TypedPendingRequest(pending: pending, request: request)
    }

    /// Sends `request` and returns the server's reply as it comes: `decode` reads every part of it, and the response.
    public nonisolated func stream<Typed: TypedRequest>(
        _ request: Typed,
        timeout: Timeout = .default,
        partTimeout: Timeout = .default,
        options: CallOptions = CallOptions(),
        buffering: ReplyBuffering = ReplyBuffering()
    ) throws(ClientError) -> TypedReplyStream<Typed> {
        let untyped = try Request(request)
        var options = options
        options.retry = options.retry ?? Typed.retry
        let responses = stream(
            untyped,
            timeout: timeout,
            partTimeout: partTimeout,
            options: options,
            buffering: buffering
        )
        return TypedReplyStream(responses: responses, request: request)
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

/// A typed request that is under way without anybody waiting for it: see `Client.start`.
public struct TypedPendingRequest<Typed: TypedRequest>: Sendable {
    /// The same request, as one of frames.
    public let pending: PendingRequest
    fileprivate let request: Typed

    /// How far the request has come.
    public var state: PendingRequest.State { pending.state }

    /// Gives the request up, as cancelling the task of a `send` does. Without effect when it is over.
    public func cancel() { pending.cancel() }

    /// The response as the request reads it, awaited if need be, as often as you like: it is read anew each time.
    ///
    /// Cancelling the task that waits here cancels the request.
    public var value: Typed.Reply {
        get async throws(ClientError) { try request.read(try await pending.value) }
    }
}

/// The elements of a `ReplyStream` as a typed request reads them: see `Client.stream`.
///
/// It can be read once, and is cancelled under the same conditions as a `ReplyStream`: mind top-level code.
public struct TypedReplyStream<Typed: TypedRequest>: AsyncSequence, Sendable {
    /// What a part, or the response, is read as.
    public typealias Element = Typed.Reply
    /// What `send` throws.
    public typealias Failure = ClientError

    fileprivate let responses: ReplyStream
    fileprivate let request: Typed

    /// Gives the request up at once. Without effect after the end.
    public func cancel() { responses.cancel() }

    /// Takes elements off a stream.
    public struct AsyncIterator: AsyncIteratorProtocol {
        var responses: ReplyStream.AsyncIterator
        let request: Typed

        /// The next element; `nil` at the end. Throws once, and is at its end then: an element that cannot be read
        /// gives the request up.
        public mutating func next() async throws(ClientError) -> Typed.Reply? {
            guard let response = try await responses.next() else { return nil }
            do throws(ClientError) {
                return try request.read(response)
            } catch {
                responses.reading.channel.end()
                throw error
            }
        }

        /// The next element; `nil` at the end. Throws once, and is at its end then: an element that cannot be read
        /// gives the request up.
        public mutating func next(isolation actor: isolated (any Actor)?) async throws(ClientError) -> Typed.Reply? {
            try await next()
        }
    }

    /// An iterator; see `ReplyStream` for what several of them do.
    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(responses: responses.makeAsyncIterator(), request: request)
    }
}
