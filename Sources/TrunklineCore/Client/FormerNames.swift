// Names of earlier versions, so that the compiler says where to look. None of them can be called.

extension Client {
    /// Renamed to `metrics`.
    @available(*, unavailable, renamed: "metrics")
    public var statistics: Metrics { metrics }

    /// Renamed to `Metrics`.
    @available(*, unavailable, renamed: "Metrics")
    public typealias Statistics = Metrics

    /// Moved to `diagnostics`.
    @available(*, unavailable, message: "use diagnostics.path")
    public nonisolated var path: NetworkPath { get async { await diagnostics.path } }

    /// Moved to `diagnostics`.
    @available(*, unavailable, message: "use diagnostics.paths")
    public nonisolated var paths: AsyncStream<NetworkPath> { diagnostics.paths }

    /// Moved to `diagnostics`.
    @available(*, unavailable, message: "use diagnostics.tlsSession")
    public nonisolated var tlsSession: TLSSession? { get async { await diagnostics.tlsSession } }

    /// Moved to `diagnostics`.
    @available(*, unavailable, message: "use diagnostics.roundTripTime")
    public nonisolated var roundTripTime: RoundTripTime? { get async { await diagnostics.roundTripTime } }

    /// Moved to `diagnostics`.
    @available(*, unavailable, message: "use diagnostics.slowestRequests")
    public nonisolated var slowestRequests: [Timeline] { get async { await diagnostics.slowestRequests } }

    /// Moved to `diagnostics`.
    @available(*, unavailable, message: "use diagnostics.audit()")
    public nonisolated func audit() async -> [String] { await diagnostics.audit() }
}

extension Connection {
    /// Renamed to `metrics`.
    @available(*, unavailable, renamed: "metrics")
    public var statistics: Metrics { metrics }

    /// Renamed to `Metrics`.
    @available(*, unavailable, renamed: "Metrics")
    public typealias Statistics = Metrics

    /// Moved to `diagnostics`.
    @available(*, unavailable, message: "use diagnostics.path")
    public nonisolated var path: NetworkPath { get async { await diagnostics.path } }

    /// Moved to `diagnostics`.
    @available(*, unavailable, message: "use diagnostics.paths")
    public nonisolated var paths: AsyncStream<NetworkPath> { diagnostics.paths }

    /// Moved to `diagnostics`.
    @available(*, unavailable, message: "use diagnostics.tlsSession")
    public nonisolated var tlsSession: TLSSession? { get async { await diagnostics.tlsSession } }

    /// Moved to `diagnostics`.
    @available(*, unavailable, message: "use diagnostics.roundTripTime")
    public nonisolated var roundTripTime: RoundTripTime? { get async { await diagnostics.roundTripTime } }

    /// Replaced by `withFrames`.
    @available(*, unavailable, message: "use withFrames { frames in for await frame in frames { … } }")
    public nonisolated var frames: AsyncStream<Frame> { AsyncStream { $0.finish() } }
}

extension Timeline {
    /// Renamed to `Try`.
    @available(*, unavailable, renamed: "Try")
    public typealias Attempt = Try

    /// Renamed to `tries`.
    @available(*, unavailable, renamed: "tries")
    public var attempts: [Try] { tries }

    /// Renamed to `tryCount`.
    @available(*, unavailable, renamed: "tryCount")
    public var attemptCount: Int { tryCount }
}

extension ClientMetrics {
    /// Renamed to `tryDurations`.
    @available(*, unavailable, renamed: "tryDurations")
    public var attemptDurations: LatencyHistogram { tryDurations }
}

extension RetryPolicy {
    /// Renamed to `idempotent(tries:backoff:)`.
    @available(*, unavailable, renamed: "idempotent(tries:backoff:)")
    public static func idempotent(
        attempts: Int,
        backoff: Backoff = Backoff(base: .milliseconds(50), cap: .seconds(1))
    ) -> RetryPolicy { .idempotent(tries: attempts, backoff: backoff) }
}

extension Frame {
    /// Replaced by `linkEnding`.
    @available(*, unavailable, message: "use linkEnding != nil, and markLinkEnding()")
    public var endsLink: Bool { linkEnding != nil }
}
