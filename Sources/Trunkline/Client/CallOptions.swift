/// Options of one call, which replace the options of the client.
///
/// ```swift
/// let reply = try await client.send(read, options: CallOptions(retry: .idempotent(), waitsForReady: false))
/// ```
///
/// `send`, `post`, `start`, `stream` and `open` take call options. `enqueue` and `subscribe` do not, because their
/// messages outlive the call: they use the options of the client.
public struct CallOptions: Sendable, Hashable {
    /// How long the call may take. Default: the timeout of the client's options for this kind of call. A `timeout`
    /// passed to the call itself takes precedence.
    public var timeout: Timeout

    /// Whether the request is sent again when it fails. Default: `.default`, which means ``TypedRequest/retry`` for a
    /// typed request, and otherwise ``ClientOptions/Requests/retry``.
    public var retry: RetryPolicy

    /// Whether the request may wait for a link. Default: true.
    ///
    /// If it is false, the request does not wait but fails, with the fate `notSent`, in these cases:
    ///
    /// - There is no link when the client accepts the request: `unavailable`. The cause is the reason why there is no
    ///   link, if it is known. The client starts to connect nevertheless, so that later calls find a link.
    /// - The link is lost before the first byte of the request is written: `connectionLost`.
    /// - All serial numbers of the link are in use: `overloaded`.
    public var waitsForReady: Bool

    /// Receives the timeline of each request of the call. Default: none.
    ///
    /// There is no timeline for a call that is answered from the cache or shares the request of an earlier call.
    public var recorder: TimelineRecorder?

    /// Creates call options. An omitted option has the value of the client's options.
    ///
    /// - Parameters:
    ///   - timeout: How long the call may take. Default: the timeout of the client's options.
    ///   - retry: Whether the request is sent again when it fails. Default: the policy of the request type or of the
    ///     client.
    ///   - waitsForReady: Whether the request may wait for a link. Default: true.
    ///   - recorder: Receives the timeline of each request of the call. Default: none.
    public init(
        timeout: Timeout = .default,
        retry: RetryPolicy = .default,
        waitsForReady: Bool = true,
        recorder: TimelineRecorder? = nil
    ) {
        self.timeout = timeout
        self.retry = retry
        self.waitsForReady = waitsForReady
        self.recorder = recorder
    }

    /// Returns the same options, with `policy` (that of a request type) in place of a default retry policy.
    func retrying(_ policy: RetryPolicy) -> CallOptions {
        var options = self
        options.retry = retry.or(policy)
        return options
    }
}
