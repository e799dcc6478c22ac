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
