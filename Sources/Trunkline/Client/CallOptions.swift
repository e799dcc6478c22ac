/// Options of one call, in place of the client's. `send`, `post`, `start`, `stream` and `open` take them; `enqueue` and
/// `subscribe`, whose messages outlive the call, go by the client's.
///
/// ```swift
/// let reply = try await client.send(read, options: CallOptions(retry: .idempotent(), waitsForReady: false))
/// ```
public struct CallOptions: Sendable, Hashable {
    /// How long the call may take. Default: as the client's options say. A `timeout` that is given to the call itself
    /// comes first.
    public var timeout: Timeout

    /// Whether the request is sent again when it fails. Default `.default`: as `TypedRequest.retry` says, or else
    /// `ClientOptions.Requests.retry`.
    public var retry: RetryPolicy

    /// Whether the request may wait for a link. Default true.
    ///
    /// If not, and there is no link when the client takes the request on, it fails at once with `unavailable`, fate
    /// `notSent`; the cause says why there is none, if that is known. It fails with `connectionLost`, fate `notSent`, when the
    /// link is lost before its first byte was written. It asks for a link all the same, so that later calls find one. Nor
    /// does it wait for a serial number: when every one is held it fails at once with `overloaded`, fate `notSent`.
    public var waitsForReady: Bool

    /// Options of a call; what is left out is as the client's options say.
    public init(timeout: Timeout = .default, retry: RetryPolicy = .default, waitsForReady: Bool = true) {
        self.timeout = timeout
        self.retry = retry
        self.waitsForReady = waitsForReady
    }

    /// The same, with `policy` where no retry policy is given: that of a type of requests.
    func retrying(_ policy: RetryPolicy) -> CallOptions {
        var options = self
        options.retry = retry.or(policy)
        return options
    }
}
