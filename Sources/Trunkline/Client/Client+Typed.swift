public import TrunklineCore

/// Typed requests wherever there are requests.
extension Client {
    /// Sends `requests` together and returns their responses, as the requests read them, in the same order.
    ///
    /// As `send(all:)` of `Request`s; further, a request that cannot be encoded is not sent and fails alone, with
    /// `invalidRequest`, fate `notSent`, and one whose response cannot be read with `invalidRequest`, fate `answered`.
    public nonisolated func send<Typed: TypedRequest>(
        all requests: some Collection<Typed>,
        timeout: Duration? = nil,
        retry: RetryPolicy? = nil,
        waitsForReady: Bool = true
    ) async -> [Result<Typed.Response, ClientError>] {
        let encoded = requests.map { typed in
            Result { () throws(ClientError) in try Request(typed) }
        }
        let outcomes = await send(
            all: encoded.compactMap { try? $0.get() },
            timeout: timeout,
            retry: retry ?? Typed.retry,
            waitsForReady: waitsForReady
        )
        var next = outcomes.makeIterator()
        return encoded.map { request in
            Result { () throws(ClientError) in
                _ = try request.get()
                // As many outcomes as requests that could be encoded.
                return try Typed.read(next.next() ?? .failure(.cancelledUnsent))
            }
        }
    }

    /// Sends `request`, and again on every new link, as `subscribe` of a `Request`. An error thrown by its `encode`
    /// becomes `invalidRequest`, fate `notSent`; `Subscription.response` is the server's answer as it came.
    public nonisolated func subscribe(
        _ request: some TypedRequest,
        timeout: Duration? = nil
    ) async throws(ClientError) -> Subscription {
        try await subscribe(Request(request), timeout: timeout)
    }
}

extension Greeter {
    /// Sends `request` and returns the server's response as the request reads it.
    ///
    /// As `send` of a `Request`; further, an error thrown by `encode` becomes `invalidRequest`, fate `notSent`, and one
    /// thrown by `decode` becomes `invalidRequest`, fate `answered`.
    public func send<Typed: TypedRequest>(
        _ request: Typed,
        timeout: Duration? = nil
    ) async throws(ClientError) -> Typed.Response {
        try Typed.read(.success(await send(Request(request), timeout: timeout)))
    }
}

extension Request {
    /// The request that `typed` is encoded as, for calls that know nothing of its type.
    ///
    /// - Throws: `invalidRequest`, fate `notSent`, for what `encode` throws.
    public init<Typed: TypedRequest>(_ typed: Typed) throws(ClientError) {
        do {
            self.init(type: Typed.type, body: try typed.encode())
        } catch {
            throw ClientError(.invalidRequest, .notSent, "\(Typed.self) cannot be encoded", cause: error)
        }
    }
}

extension TypedRequest {
    /// The response in `outcome` as the request reads it.
    static func read(_ outcome: Outcome) throws(ClientError) -> Response {
        let response = try outcome.get()
        do {
            return try decode(response)
        } catch {
            throw ClientError(
                .invalidRequest,
                .answered,
                "the response cannot be read as \(Response.self)",
                response: response,
                cause: error
            )
        }
    }
}
