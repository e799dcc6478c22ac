/// The longest duration of a call.
///
/// ```swift
/// let reply = try await client.send(request, timeout: .seconds(2))
/// ```
///
/// A timeout counts from the call. It includes connecting, waiting in the queue, retries and the response.
public struct Timeout: Sendable, Hashable {
    enum Limit: Sendable, Hashable {
        case byOptions
        case never
        case after(Duration)
    }

    let limit: Limit

    /// The default timeout: that of the ``CallOptions``, or else the client option that the method's documentation
    /// names, such as ``ClientOptions/Requests/timeout``.
    public static let `default` = Timeout(limit: .byOptions)

    /// No timeout. The call still ends when its task is cancelled or the client is closed.
    public static let never = Timeout(limit: .never)

    /// A timeout of `duration`. If it is zero or negative, the call fails immediately with `timedOut`, fate `notSent`.
    public static func after(_ duration: Duration) -> Timeout { Timeout(limit: .after(duration)) }

    /// A timeout of a whole number of seconds.
    public static func seconds(_ seconds: Int) -> Timeout { .after(.seconds(seconds)) }

    /// A timeout in seconds and fractions of a second. Infinity, and more than a `Duration` can hold, count as its
    /// maximum, which no clock reaches. NaN counts as zero.
    public static func seconds(_ seconds: Double) -> Timeout { .after(Duration(clampingSeconds: seconds)) }

    /// A timeout of a whole number of milliseconds.
    public static func milliseconds(_ milliseconds: Int) -> Timeout { .after(.milliseconds(milliseconds)) }

    /// Returns this timeout, or `other` if this is the default.
    func or(_ other: Timeout) -> Timeout { limit == .byOptions ? other : self }

    /// Returns the duration, or `fallback` for the default; `nil` means no timeout.
    func duration(orByDefault fallback: Duration?) -> Duration? {
        switch limit {
        case .byOptions: fallback
        case .never: nil
        case .after(let duration): duration
        }
    }
}
