/// The error that a client throws: what failed, and what became of the request.
///
/// ```swift
/// do {
///     _ = try await client.send(request)
/// } catch {
///     switch error.code {
///     case .rejected: print("the server answered: \(error)")
///     case .timedOut where error.fate == .notSent: print("not sent in time, safe to send again")
///     default: print(error)
///     }
/// }
/// ```
public struct ClientError: Error, Sendable {
    /// The kind of failure. Later versions may add codes, so a `switch` over them needs `@unknown default`.
    @nonexhaustive
    public enum Code: Sendable, Hashable {
        /// The caller's task or its handle was cancelled. Fate `notSent`, or `unknown` if any byte was written.
        case cancelled
        /// The deadline passed. Fate `notSent`, or `unknown` if any byte was written. The link stays.
        case timedOut
        /// The link was lost before the response arrived. Fate `unknown`, or `notSent` if no byte was written and the
        /// request may not wait for another link, for example because ``CallOptions/waitsForReady`` is false or the
        /// retry policy is `.never`.
        case connectionLost
        /// No server could be reached, or there is no link and ``CallOptions/waitsForReady`` is false.
        ///
        /// The fate is `notSent`, or `unknown` if an earlier try of the request was written.
        case unavailable
        /// The client was closed or deallocated. Fate `notSent`, or `unknown` if any byte was written.
        ///
        /// Also thrown for a piece of an ``OpenRequest`` whose reply has ended.
        case closed
        /// The server answered with an error, which is in ``ClientError/response``. Fate `answered`.
        case rejected
        /// The server has ended the request without saying whether it was processed (``Frame/isFateUnknown``), and the
        /// link stays. Fate `unknown`; the error response is in ``ClientError/response``.
        case interrupted
        /// The server does not know the session any more for which the request was made, and
        /// ``CallOptions/outlivesSession`` or ``ClientOptions/Requests/outlivesSession`` is false. Fate `notSent`, or
        /// `unknown` if an earlier try was written.
        case sessionLost
        /// The server violated the protocol. Fate `unknown`, and the link is replaced.
        ///
        /// If only one response is malformed, the fate is `answered` and the link stays. A response that exceeds a
        /// limit of this client is not a violation: see ``overloaded``.
        case protocolViolation
        /// The request cannot be encoded, or the protocol does not allow this kind of call for it: for example, `post`
        /// with a message that the server answers. Fate `notSent`.
        ///
        /// Also thrown by ``Connection/withFrames(_:)`` while another call is in progress.
        case invalidRequest
        /// The response cannot be decoded: `TypedRequest.decode` threw `cause`. Fate `answered`; the response is in
        /// ``ClientError/response``.
        case invalidResponse
        /// An argument is invalid, such as an unknown endpoint or a field that the layout does not declare. Fate
        /// `notSent`.
        case invalidArgument
        /// A limit of this client is reached; the message names it.
        ///
        /// The fate is `notSent` if the request was not accepted. If the reply is too large, the fate is `unknown`, or
        /// `answered` after the last part. If one frame of it is too large for the client, the link is replaced, and
        /// the cause is a ``FrameError`` that ``FrameError/exceedsLimit``. Such a request is never sent again.
        case overloaded
        /// TLS could not be established, or the server refused the client's certificate. Fate `notSent`; `unknown` if
        /// the server refused after requests were written.
        case tlsFailed
        /// No response is cached, and the cache policy of the call does not allow a request
        /// (``CachePolicy/returnCacheElseFail``). Fate `notSent`.
        case notCached
    }

    /// The outcome of a failed request: whether the server may have processed it.
    public enum Fate: Sendable, Hashable {
        /// No byte of the request was written, so it is safe to send it again.
        case notSent
        /// At least one byte was written and no answer came. The server may have processed the request.
        case unknown
        /// The server answered the request.
        case answered
    }

    /// One failed attempt to connect.
    public struct Attempt: Sendable {
        /// The endpoint of the attempt.
        public let endpoint: Endpoint
        /// The error that ended the attempt.
        public let cause: any Error

        /// Creates an attempt, for tests and fakes.
        public init(endpoint: Endpoint, cause: any Error) {
            self.endpoint = endpoint
            self.cause = cause
        }
    }

    package struct Content: Sendable {
        package var code: Code
        var fate: Fate
        /// Without the number of the try.
        package var message: String
        package var tries = 1
        var endpoint: Endpoint?
        var attempts: [Attempt] = []
        var response: Response?
        var cause: (any Error)?
        package var timeline: Timeline?
        var request: Request?
        var requestName: String?
        /// Why there was no link; `nil` if there was one.
        var linkObstacle: LinkObstacle?
    }

    enum LinkObstacle: Sendable {
        case notConnected, isSuspended, noRoute

        var text: String {
            switch self {
            case .notConnected: "not connected"
            case .isSuspended: "the client is suspended"
            case .noRoute: "no route leads to any endpoint"
            }
        }
    }

    /// Boxed, so that a result is no larger because of the errors that it rarely holds.
    private final class Storage: Sendable {
        let content: Content
        init(_ content: Content) { self.content = content }
    }

    private let storage: Storage

    /// Creates an error, for fakes and wrappers of a client.
    ///
    /// - Parameters:
    ///   - code: The kind of failure.
    ///   - fate: What became of the request.
    ///   - message: A human-readable description of what happened. Control and format characters are escaped.
    ///   - endpoint: The endpoint of the server concerned, or `nil`.
    ///   - attempts: The latest failed attempts to connect.
    ///   - response: The server's answer, or `nil`.
    ///   - cause: The underlying error, or `nil`.
    public init(
        _ code: Code,
        _ fate: Fate,
        _ message: String,
        endpoint: Endpoint? = nil,
        attempts: [Attempt] = [],
        response: Response? = nil,
        cause: (any Error)? = nil
    ) {
        var content = Content(code: code, fate: fate, message: message.asMessage, endpoint: endpoint)
        (content.attempts, content.response, content.cause) = (attempts, response, cause)
        storage = Storage(content)
    }

    package func changed(_ change: (inout Content) -> Void) -> ClientError {
        var content = storage.content
        change(&content)
        return ClientError(content)
    }

    private init(_ content: Content) { storage = Storage(content) }

    package func with(_ timeline: Timeline) -> ClientError { changed { $0.timeline = timeline } }

    package func with(_ endpoint: Endpoint) -> ClientError { changed { $0.endpoint = endpoint } }

    func with(_ request: Request, number: Int, of count: Int) -> ClientError {
        changed {
            $0.request = request
            let place = count > 1 ? "request \(number) of \(count)" : "the request"
            $0.message += "; \(place) has type \(hexadecimal(request.type)) and a body of \(request.frame.body)"
        }
    }

    package func named(_ name: String?) -> ClientError {
        guard let name, requestName == nil else { return self }
        return changed {
            $0.requestName = name
            $0.timeline?.name = name
        }
    }

    package var unnamed: ClientError {
        requestName == nil
            ? self
            : changed {
                $0.requestName = nil
                $0.timeline?.name = nil
            }
    }

    var linkObstacle: LinkObstacle? { storage.content.linkObstacle }

    func withFate(_ fate: Fate) -> ClientError { changed { $0.fate = fate } }

    /// The error of the whole call. `earlier` is the fate of its earlier sends; `answered` includes success.
    package func after(_ earlier: Fate) -> ClientError {
        let fate = fate.after(earlier)
        return fate == self.fate ? self : withFate(fate)
    }

    /// The kind of failure.
    public var code: Code { storage.content.code }
    /// The outcome of the request: whether the server may have processed it.
    public var fate: Fate { storage.content.fate }
    /// A human-readable description of what happened: one line of at most 2,048 scalars, with control and format
    /// characters escaped. After a retry it ends with the number of the last try: `(try 3)`.
    public var message: String {
        let content = storage.content
        return content.tries > 1 ? "\(content.message) (try \(content.tries))" : content.message
    }
    /// The endpoint of the server concerned. `nil` if there was none, or if the server reported the error in a
    /// response.
    public var endpoint: Endpoint? { storage.content.endpoint }
    /// The latest failed attempts to connect since the last link, oldest first; at most eight. Of a ``Cluster`` without
    /// a server that is ready: why servers are not; at most eight.
    public var attempts: [Attempt] { storage.content.attempts }
    /// The server's answer, with its status and body: the error response if ``code-swift.property`` is `rejected`, or
    /// the response that cannot be decoded if it is `invalidResponse`.
    public var response: Response? { storage.content.response }
    /// Why the server answered with an error, ended the link, or rejected a request of the handshake, in its own words,
    /// if the codec decodes them (``Frame/reason``); otherwise `nil`.
    public var reason: ServerReason? { response?.frame.reason ?? cause.flatMap { ServerReason(statedBy: $0) } }
    /// The underlying error: a ``TransportError``, a ``FrameError``, or an error that your own code threw.
    public var cause: (any Error)? { storage.content.cause }
    /// The request of the handshake that failed, for example a subscription that the server did not restore. `nil` for
    /// errors of other calls, whose callers know the request.
    public var request: Request? { storage.content.request }
    /// The name of the request that failed, such as a JSON-RPC method (``NamingCodec``, ``TypedRequest/name``). `nil`
    /// if it has none. For handles and streams of untyped requests it is known only if the client has a log or another
    /// observer of failures, or if the type number decides it.
    public var requestName: String? { storage.content.requestName ?? timeline?.name }
    /// When and where the request was on its way. `nil` if the request was not accepted, or if the error is not that of
    /// a request.
    public var timeline: Timeline? { storage.content.timeline }
}

extension ClientError.Fate {
    /// `notSent` means that it is safe to send the request again, so nothing may have been written in any of its sends.
    /// An answer to the latest send stays an answer.
    package func after(_ earlier: ClientError.Fate) -> ClientError.Fate {
        self == .notSent && earlier != .notSent ? .unknown : self
    }
}

extension ClientError: CustomStringConvertible {
    /// The code, fate, name of the request, message, timeline, endpoint and cause, in one line. An error response has
    /// no timeline in its description.
    ///
    /// ```
    /// timedOut (fate unknown): deadline exceeded after 8 s: written on session 4 to 10.0.0.8:7000 after 0.3 ms; no frame
    /// completed on that link for 7.9 s; ping unanswered; 3 other requests in flight [gateway.example:7000]
    /// ```
    ///
    /// For an error response without a ``reason`` it also has the number of bytes of the body, but never the bytes:
    /// they are in ``response``. The description of the cause is included, with control and format characters escaped,
    /// even if the cause is an error of your own. Of the cause, phrases are left out that the text before already
    /// contains.
    public var description: String { text(of: cause.map { "\($0)".asMessage }) }

    func text(of cause: String?) -> String {
        var text = "\(code) (\(fate.text)): \(requestName.map { "\($0): " } ?? "")\(message)"
        // What is wrong with a request or a response comes before when and where.
        let isMistake = code == .invalidRequest || code == .invalidResponse || code == .invalidArgument
        let saysCauseFirst = isMistake && timeline != nil
        if saysCauseFirst, let cause { text = [text, cause].joinedPhrases }
        if code == .rejected, reason == nil, let count = response?.frame.contentCount, count > 0 {
            text += ", body of \(count == 1 ? "1 byte" : "\(count) bytes")"
        }
        if code == .timedOut, let timeline, timeline.isWaitForLink, message.hasPrefix(Self.deadlinePrefix) {
            // "Not connected" would only say in other words that it waited for a link.
            let reason = message.dropFirst(Self.deadlinePrefix.count)
            text = "\(code) (\(fate.text)): deadline exceeded \(timeline)"
            if reason != "not connected" { text += "; \(reason)" }
        } else if fate != .answered, let timeline, !isMistake || timeline.tries.last?.link != nil {
            let isTime = (code == .timedOut || code == .cancelled) && !message.contains(";")
            text += (isTime ? " " : "; ended ") + "\(timeline)"
        }
        if let endpoint { text += " [\(endpoint)]" }
        guard let cause, !saysCauseFirst, !message.contains(cause) else { return text }
        return [text, cause].joinedPhrases
    }

    private static let deadlinePrefix = "deadline exceeded; "
}

extension ClientError.Fate {
    /// The name `unknown` alone would read as an unknown error.
    var text: String {
        switch self {
        case .notSent: "not sent"
        case .unknown: "fate unknown"
        case .answered: "answered"
        }
    }
}

extension ServerReason {
    init?(statedBy error: any Error) {
        let refusal = error as? HandshakeRefusal
        let reason = (error as? TransportError)?.reason ?? (error as? ClientError)?.reason ?? refusal?.serverReason
        guard let reason else { return nil }
        self = reason
    }
}

extension ClientError {
    /// Whether the reason of a failure lies with the link, or there was none.
    package var mayBeRetried: Bool {
        switch code {
        case .connectionLost, .interrupted, .protocolViolation, .unavailable: true
        case .cancelled, .timedOut, .closed, .rejected, .invalidRequest, .invalidResponse, .invalidArgument,
            .overloaded, .tlsFailed, .notCached, .sessionLost:
            false
        }
    }

    /// Whether the reason that a request was not sent lies with the link or the server.
    package var mayBeSentElsewhere: Bool {
        switch code {
        case .connectionLost, .unavailable, .tlsFailed, .closed, .overloaded, .protocolViolation: true
        case .cancelled, .timedOut, .rejected, .interrupted, .invalidRequest, .invalidResponse, .invalidArgument,
            .notCached, .sessionLost:
            false
        }
    }
}
