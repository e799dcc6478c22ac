/// Why a request, or the client itself, failed, and what became of the request.
public struct ClientError: Error, Sendable {
    /// Who failed, and how. There may be more in a later version: a `switch` over them has an `@unknown default`.
    @nonexhaustive
    public enum Code: Sendable, Hashable {
        /// The caller's task, or its handle, was cancelled.
        case cancelled
        /// The deadline passed.
        case timedOut
        /// The link was lost before the response.
        case connectionLost
        /// No server could be reached.
        case unavailable
        /// The client was closed by us. Of a piece of an `OpenRequest` also: its reply has ended.
        case closed
        /// The server answered with an error: see `response`.
        case rejected
        /// The server broke the protocol. The link is replaced, unless only the one response is malformed (fate
        /// `answered`).
        case protocolViolation
        /// The request cannot be encoded, or cannot be sent as asked; of a `Connection`, `frames` has a consumer. Fate `notSent`.
        case invalidRequest
        /// The response cannot be decoded: `TypedRequest.decode` threw `cause`. Fate `answered`; it is in `response`.
        case invalidResponse
        /// An invalid argument: an unknown endpoint, a field that the layout does not declare. Fate `notSent`.
        case invalidArgument
        /// A limit of this client is reached.
        case overloaded
        /// TLS could not be established.
        case tlsFailed
        /// No response is cached, and the call asked for nothing else: `CachePolicy.returnCacheElseFail`.
        case notCached
    }

    /// What became of a request.
    public enum Fate: Sendable, Hashable {
        /// No byte of it reached the socket: it is safe to send it again.
        case notSent
        /// Some or all of it was written and no answer came: the server may have carried it out, or not.
        case unknown
        /// The server answered it.
        case answered
    }

    /// One failed attempt to connect.
    public struct Attempt: Sendable {
        /// Where to.
        public let endpoint: Endpoint
        /// Why it failed.
        public let cause: any Error

        /// An attempt of your own, for tests and fakes.
        public init(endpoint: Endpoint, cause: any Error) {
            self.endpoint = endpoint
            self.cause = cause
        }
    }

    struct Content: Sendable {
        var code: Code
        var fate: Fate
        var message: String
        var endpoint: Endpoint?
        var attempts: [Attempt] = []
        var response: Response?
        var cause: (any Error)?
    }

    /// Boxed, so that a result is no larger for the errors it rarely holds.
    private final class Storage: Sendable {
        let content: Content
        init(_ content: Content) { self.content = content }
    }

    private let storage: Storage

    /// Makes an error: for fakes of a client, and for code of your own that fails as a client does.
    ///
    /// Control and format characters in `message` are escaped.
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

    /// The same error but for what `change` changes.
    func changed(_ change: (inout Content) -> Void) -> ClientError {
        var content = storage.content
        change(&content)
        return ClientError(content)
    }

    private init(_ content: Content) { storage = Storage(content) }

    /// The same error with another fate.
    func withFate(_ fate: Fate) -> ClientError { changed { $0.fate = fate } }

    /// Who failed, and how.
    public var code: Code { storage.content.code }
    /// What became of the request.
    public var fate: Fate { storage.content.fate }
    /// What happened, for people: one line, in which control and format characters are escaped.
    public var message: String { storage.content.message }
    /// The server it happened with; `nil` where there was none, and for what a response says.
    public var endpoint: Endpoint? { storage.content.endpoint }
    /// The latest failed attempts to connect since the last link, oldest first, at most eight.
    public var attempts: [Attempt] { storage.content.attempts }
    /// The server's answer, with its status and body: the error response when `code` is `rejected`, what cannot be decoded when
    /// it is `invalidResponse`.
    public var response: Response? { storage.content.response }
    /// The error underneath: a `TransportError`, a `FrameError`, or one that your own code threw.
    public var cause: (any Error)? { storage.content.cause }
}

extension ClientError: CustomStringConvertible {
    /// Code, fate, message, endpoint and cause in one line. Of an error response also how many bytes the body of the
    /// server's answer has, and none of them: they are in `response`.
    ///
    /// The cause may be an error of your own: what it says of itself is escaped and shown.
    public var description: String {
        var text = "\(code) (\(fate)): \(message)"
        if code == .rejected, let count = response?.frame.contentCount, count > 0 {
            text += ", body of \(count == 1 ? "1 byte" : "\(count) bytes")"
        }
        if let endpoint { text += " [\(endpoint)]" }
        if let cause { text += "; \("\(cause)".asMessage)" }
        return text
    }
}
