/// Sees every call of a client, before it is sent and when it has ended. May change it, refuse it or answer it.
///
/// Uses are authentication tokens, trace contexts, deadlines that the server must know, measurements, and tests:
///
/// ```swift
/// struct Authenticating: ClientInterceptor {
///     let token: @Sendable () -> String
///
///     func intercept(_ call: inout ClientCall) -> Completion? {
///         call.request[bytes: "token"] = Bytes(token().utf8)
///         return nil
///     }
/// }
/// ```
///
/// The interceptors of ``ClientOptions/interceptors`` are called in their order, and their completions in the reverse
/// order. Every call form passes through them: `send`, `send(all:)` (once for each request), `post`, `enqueue`,
/// `start`, `stream`, `open` and `subscribe`, with typed requests too. Requests of the handshake, the restoring of
/// subscriptions, and the pieces of an ``OpenRequest`` do not.
public protocol ClientInterceptor: Sendable {
    /// What to do when a call has ended.
    ///
    /// It receives the result of the call, which it may replace, and the timeline of the request if
    /// ``ClientCall/recordsTimeline`` was set and the request was accepted. There is no timeline for `enqueue`. The
    /// result of a one-way message is an empty response.
    ///
    /// It runs in the caller's task, before the call returns. The completion of `start`, `stream` and `open`, which
    /// return earlier, runs on the event loop when the request ends: it must not block. If it enters the client
    /// with `assumeIsolated`, the program may end. The completion of `enqueue` runs
    /// when the message is accepted.
    typealias Completion = @Sendable (inout Result<Response, ClientError>, Timeline?) -> Void

    /// Called once for each call, in the caller's task, before its request is accepted.
    ///
    /// Calls with a timeout that is not positive are not intercepted. Neither are `send` and `post` in a task that is
    /// already cancelled.
    ///
    /// - Parameter call: The call. Changes apply to the interceptors that follow, and to the request that is sent.
    /// - Returns: What to do when the call has ended, or `nil`.
    /// - Throws: A ``ClientError`` to refuse the call, which fails with it. Use the fate `notSent`.
    func intercept(_ call: inout ClientCall) throws(ClientError) -> Completion?
}

/// A call on its way to the server, for a ``ClientInterceptor``.
public struct ClientCall: Sendable {
    /// The method of the client that was called.
    @nonexhaustive
    public enum Form: String, Sendable, Hashable {
        /// `send`, or one of the requests of `send(all:)`.
        case send
        /// `post`, or one of the messages of `post(all:)`.
        case post
        /// `enqueue` or `tryEnqueue`.
        case enqueue
        /// `start`.
        case start
        /// `stream`.
        case stream
        /// `open`.
        case open
        /// `subscribe`.
        case subscribe
    }

    /// The method of the client that was called.
    public let form: Form
    /// The request to be sent.
    public var request: Request
    /// The time that is left for the call; `nil` for no limit, and for a request of a ``CachingSender``, which further
    /// callers may join. It cannot be changed.
    public let timeLeft: Duration?
    /// If this is set, the call ends at once with this response: nothing is sent, and the interceptors that follow are
    /// not called. For a one-way message the content is ignored. For `stream` and `open` it is the only element.
    public var answer: Response?
    /// Whether completions receive the timeline of the request. Default false.
    public var recordsTimeline = false
    let codec: ProtocolCodec

    /// The name of ``request``, as the codec gives it (``NamingCodec``), such as a JSON-RPC method: for spans and
    /// metrics by method. `nil` if it has none. It is made by each access, with control characters escaped, and at most
    /// 64 characters.
    public var requestName: String? { codec.name(of: request.frame) }
}

/// A call that has passed the interceptors.
struct InterceptedCall: Sendable {
    private var call: ClientCall
    private let original: Frame
    private var completions: [ClientInterceptor.Completion] = []
    private(set) var ending: Outcome?

    init(_ call: ClientCall, by interceptors: [any ClientInterceptor]) {
        self.call = call
        original = call.request.frame
        for interceptor in interceptors {
            do throws(ClientError) {
                if let completion = try interceptor.intercept(&self.call) { completions.append(completion) }
            } catch {
                ending = .failure(error)
                return
            }
            if let answer = self.call.answer {
                ending = .success(answer)
                return
            }
        }
    }

    var frame: Frame {
        var frame = call.request.frame
        (frame.kind, frame.serial) = (original.kind, original.serial)  // an interceptor may have made a new request
        return frame
    }

    var recordsTimeline: Bool { call.recordsTimeline }

    func end(_ outcome: Outcome, _ timeline: Timeline? = nil) -> Outcome {
        var outcome = outcome
        for completion in completions.reversed() { completion(&outcome, timeline) }
        return outcome
    }
}
