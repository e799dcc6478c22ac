/// Options of one call, which replace the options of the client.
///
/// ```swift
/// let reply = try await client.send(read, options: CallOptions(retry: .idempotent(), waitsForReady: false))
/// ```
///
/// `send`, `post`, `start`, `stream` and `open` take call options. `enqueue` and `subscribe` do not, because their
/// messages outlive the call: they use the options of the client.
public struct CallOptions: Sendable, Hashable {
    /// One word, because every suspended call keeps it.
    private enum Storage: Sendable, Hashable {
        case omitted
        indirect case set(Values)
    }

    private struct Values: Sendable, Hashable {
        var timeout = Timeout.default
        var retry = RetryPolicy.default
        var waitsForReady = true
        var recorder: TimelineRecorder?
        var key: RoutingKey?
        var isLarge = false
        var outlivesSession: Bool?
        var isExclusive = false
        var session: SessionID?
        var movableDeadline: MovableDeadline?
    }

    private var storage: Storage

    private var values: Values {
        get { if case .set(let values) = storage { values } else { Values() } }
        set { storage = newValue == Values() ? .omitted : .set(newValue) }
    }

    /// How long the call may take. Default: the timeout of the client's options for this kind of call. A `timeout`
    /// passed to the call itself takes precedence.
    public var timeout: Timeout {
        get { values.timeout }
        set { values.timeout = newValue }
    }

    /// Whether the request is sent again when it fails. Default: `.default`, which means ``TypedRequest/retry`` for a
    /// typed request, and otherwise ``ClientOptions/Requests/retry``.
    public var retry: RetryPolicy {
        get { values.retry }
        set { values.retry = newValue }
    }

    /// Whether the request may wait for a link. Default: true.
    ///
    /// If it is false, the request does not wait but fails, with the fate `notSent`, in these cases:
    ///
    /// - There is no link when the client accepts the request: `unavailable`. The cause is the reason why there is no
    ///   link, if it is known. The client starts to connect nevertheless, so that later calls find a link.
    /// - The link is lost before the first byte of the request is written: `connectionLost`.
    /// - All serial numbers of the link are in use: `overloaded`.
    public var waitsForReady: Bool {
        get { values.waitsForReady }
        set { values.waitsForReady = newValue }
    }

    /// Receives the timeline of each request of the call. Default: none.
    public var recorder: TimelineRecorder? {
        get { values.recorder }
        set { values.recorder = newValue }
    }

    /// The key of the request, which decides the server of a ``Cluster``. Default: none. A ``Client`` ignores it.
    public var key: RoutingKey? {
        get { values.key }
        set { values.key = newValue }
    }

    /// Whether the request or its response is large, about 1 MiB or more. Default: false.
    ///
    /// A ``Cluster`` sends it on a link that small requests do not use, so that it does not delay them: see
    /// ``ClusterOptions/largeLinks``. A ``Client`` ignores it.
    public var isLarge: Bool {
        get { values.isLarge }
        set { values.isLarge = newValue }
    }

    /// Whether the request, while it waits, goes to a new session if the server has lost the one for which it was made.
    /// Default `nil`: the value of ``ClientOptions/Requests/outlivesSession``. A ``Cluster`` ignores it.
    public var outlivesSession: Bool? {
        get { values.outlivesSession }
        set { values.outlivesSession = newValue }
    }

    /// Whether the request is sent alone: when nothing else is in flight on its link, and nothing follows before it has
    /// ended. Default: false.
    ///
    /// For requests that change what later ones mean, such as logging in again or changing the key of a link. The
    /// request waits for its turn as any other. From then on, it waits until the requests that were sent before it have
    /// ended, and those that were made after it wait behind it, within their deadlines. Abandoned requests count as in
    /// flight until the server answers them or their ``ClientOptions/Requests/quarantine`` ends; matched in order, the
    /// link is replaced then. Pings, cancel frames and pieces of uploads that have begun go out meanwhile. If the
    /// exclusive request is abandoned itself, the rules of ``PipeliningCodec`` apply. The last requests on a link that
    /// drains are not waited for.
    ///
    /// A one-way message and a ``Cluster`` ignore it.
    public var isExclusive: Bool {
        get { values.isExclusive }
        set { values.isExclusive = newValue }
    }

    var session: SessionID? {
        get { values.session }
        set { values.session = newValue }
    }

    package var movableDeadline: MovableDeadline? {
        get { values.movableDeadline }
        set { values.movableDeadline = newValue }
    }

    var marks: ResolvedOptions.Marks {
        guard case .set(let values) = storage else { return [] }
        var marks: ResolvedOptions.Marks = []
        if !values.waitsForReady { marks.insert(.mayNotWait) }
        if let outlives = values.outlivesSession { marks.insert(outlives ? .outlivesSession : .endsWithSession) }
        if values.isExclusive { marks.insert(.isExclusive) }
        return marks
    }

    package var areOmitted: Bool { if case .omitted = storage { true } else { false } }

    /// Creates call options in which all options are omitted: they have the values of the client's options.
    ///
    /// Apart from the other initializer, because it is called for every request without options.
    public init() { storage = .omitted }

    /// Creates call options. An omitted option has the value of the client's options.
    ///
    /// - Parameters:
    ///   - timeout: How long the call may take. Default: the timeout of the client's options.
    ///   - retry: Whether the request is sent again when it fails. Default: the policy of the request type or of the
    ///     client.
    ///   - waitsForReady: Whether the request may wait for a link. Default: true.
    ///   - recorder: Receives the timeline of each request of the call. Default: none.
    ///   - key: The key of the request, which decides the server of a cluster. Default: none.
    ///   - isLarge: Whether a cluster sends the request on a link for large transfers. Default: false.
    ///   - isExclusive: Whether the request is sent alone. Default: false.
    ///   - outlivesSession: Whether the request, while it waits, goes to a new session. Default: that of the client.
    public init(
        timeout: Timeout = .default,
        retry: RetryPolicy = .default,
        waitsForReady: Bool = true,
        recorder: TimelineRecorder? = nil,
        key: RoutingKey? = nil,
        isLarge: Bool = false,
        isExclusive: Bool = false,
        outlivesSession: Bool? = nil
    ) {
        storage = .omitted
        values = Values(
            timeout: timeout,
            retry: retry,
            waitsForReady: waitsForReady,
            recorder: recorder,
            key: key,
            isLarge: isLarge,
            outlivesSession: outlivesSession,
            isExclusive: isExclusive
        )
    }

    package func retrying(_ policy: RetryPolicy) -> CallOptions {
        var options = self
        options.retry = retry.or(policy)
        return options
    }
}

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

    package func or(_ other: Timeout) -> Timeout { limit == .byOptions ? other : self }

    package func duration(orByDefault fallback: Duration?) -> Duration? {
        switch limit {
        case .byOptions: fallback
        case .never: nil
        case .after(let duration): duration
        }
    }
}

/// The `CallOptions` of one request or message, with the client's options in place of the defaults.
struct ResolvedOptions: Sendable {
    var retry = RetryPolicy.ifUnsent
    let accepted: Instant
    var marks: Marks = []
    var deadline: Instant?
    var expectsResponse = true
    var session: SessionID?
    var recorder: TimelineRecorder?
    var movableDeadline: MovableDeadline?
    /// The fate of what the same call has sent before this request. See `ClientError.after(_:)`.
    var earlierFate = ClientError.Fate.notSent

    /// In one value, so that `areTracked` checks them all at once.
    struct Marks: OptionSet {
        let rawValue: UInt8

        static let mayNotWait = Marks(rawValue: 1)
        static let outlivesSession = Marks(rawValue: 2)
        static let endsWithSession = Marks(rawValue: 4)
        static let isExclusive = Marks(rawValue: 8)
        /// The server may wait for it in the middle of a request.
        static let isAnswer = Marks(rawValue: 16)
    }

    var waitsForReady: Bool { !marks.contains(.mayNotWait) }

    var outlivesSession: Bool? {
        if marks.contains(.outlivesSession) { return true }
        return marks.contains(.endsWithSession) ? false : nil
    }

    var latestEnd: Instant? { deadline ?? movableDeadline?.instant }

    var endsWithItsLink: Bool { retry == .never || !waitsForReady }

    /// Whether a request with these options needs a `TrackedCall`.
    @inline(__always)
    var areTracked: Bool {
        guard case .ifUnsent = retry, marks.isEmpty, session == nil, recorder == nil, movableDeadline == nil else {
            return true
        }
        return false
    }
}
