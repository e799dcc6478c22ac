public import TrunklineCore

// Names of earlier versions, so that the compiler says where to look. None of them can be called.

extension RequestSender {
    /// Moved to `CachingSender`.
    @available(*, unavailable, message: "use CachingSender(client).send(_:cache:)")
    public func send(
        _ request: Request,
        cache policy: CachePolicy,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) async throws(ClientError) -> Response { throw .notCached }

    /// Moved to `CachingSender`.
    @available(*, unavailable, message: "use CachingSender(client).send(_:cache:)")
    public func send<Typed: TypedRequest>(
        _ request: Typed,
        cache policy: CachePolicy,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) async throws(ClientError) -> Typed.Reply { throw .notCached }

    /// Moved to `CachingSender`.
    @available(*, unavailable, message: "use the method of CachingSender")
    public func removeCachedResponses() {}

    /// Moved to `CachingSender`.
    @available(*, unavailable, message: "use the method of CachingSender")
    public func removeCachedResponse(for key: CacheKey) {}
}

extension ClientOptions {
    /// Moved to `CachingSender`.
    @available(*, unavailable, message: "pass CachingSender.Options to CachingSender")
    public var cache: CachingSender.Options { CachingSender.Options() }
}

extension Client {
    /// Moved to `CachingSender`.
    @available(*, unavailable, message: "use CachingSender.Metrics")
    public typealias CacheMetrics = CachingSender.Metrics
}

extension ClientMetrics {
    /// Moved to `CachingSender`.
    @available(*, unavailable, message: "use CachingSender.metrics")
    public var cache: CachingSender.Metrics { CachingSender.Metrics() }
}
