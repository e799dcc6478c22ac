/// How long a call may take.
///
/// ```swift
/// let reply = try await client.send(request, timeout: .seconds(2))
/// ```
public struct Timeout: Sendable, Hashable {
    enum Limit: Sendable, Hashable {
        case byOptions
        case never
        case after(Duration)
    }

    let limit: Limit

    /// As the options say: the timeout of the `CallOptions` if the call has some that name one, else that of the client's
    /// options for calls of this form, which the call's documentation names.
    public static let `default` = Timeout(limit: .byOptions)

    /// The call has no deadline. It still ends when its task is cancelled, or the client is closed.
    public static let never = Timeout(limit: .never)

    /// `duration`, counted from the call. At zero or below the call fails at once, `timedOut`, fate `notSent`.
    public static func after(_ duration: Duration) -> Timeout { Timeout(limit: .after(duration)) }

    /// `seconds` seconds, counted from the call.
    public static func seconds(_ seconds: Int) -> Timeout { .after(.seconds(seconds)) }

    /// `seconds` seconds, counted from the call.
    public static func seconds(_ seconds: Double) -> Timeout { .after(.seconds(seconds)) }

    /// `milliseconds` milliseconds, counted from the call.
    public static func milliseconds(_ milliseconds: Int) -> Timeout { .after(.milliseconds(milliseconds)) }

    /// This timeout, or `other` where this is the default.
    func or(_ other: Timeout) -> Timeout { limit == .byOptions ? other : self }

    /// The duration, with `fallback` for the default; `nil` for none.
    func duration(orByDefault fallback: Duration?) -> Duration? {
        switch limit {
        case .byOptions: fallback
        case .never: nil
        case .after(let duration): duration
        }
    }
}

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
    /// `notSent`, and the reason why there is none as its cause, if it is known; and with `connectionLost`, fate `notSent`, when the link is
    /// lost before its first byte was written. It asks for a link all the same, so that later calls find one. Nor does it
    /// wait for a serial number: when every one is held it fails at once with `overloaded`, fate `notSent`.
    public var waitsForReady: Bool

    /// Options of a call; what is left out is as the client's options say.
    public init(timeout: Timeout = .default, retry: RetryPolicy = .default, waitsForReady: Bool = true) {
        self.timeout = timeout
        self.retry = retry
        self.waitsForReady = waitsForReady
    }
}
