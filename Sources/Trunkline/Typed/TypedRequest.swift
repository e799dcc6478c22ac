/// A request that knows how its body is made and how its response is read.
///
/// ```swift
/// struct GetUser: TypedRequest {
///     let id: Int
///     static let type: UInt32 = 0x410
///     func encode() -> Bytes { Bytes("\(id)") }
///     static func decode(_ response: Response) -> User { User(name: String(response.body)) }
/// }
/// let user = try await client.send(GetUser(id: 7))
/// ```
public protocol TypedRequest: Sendable {
    /// What the server's response becomes.
    associatedtype Reply: Sendable

    /// The protocol's number for this type of request; 0 in protocols that have none.
    static var type: UInt32 { get }

    /// What the body's bytes are, put into the field "contentType". Default `.bytes`. A layout without that field has no
    /// place for it: there it is left out.
    static var contentType: ContentType { get }

    /// Whether requests of this type are sent again when they fail, for calls that do not say otherwise. Default
    /// `.default`, for `ClientOptions.Requests.retry`. Reads are idempotent as a rule: `.idempotent()`.
    static var retry: RetryPolicy { get }

    /// The body. An error thrown here becomes `invalidRequest`, fate `notSent`.
    func encode() throws -> Bytes

    /// Sets what a frame of this protocol has beside type and body: `request["keyLength"] = 3`. `request` has both
    /// already. Default: nothing. An error thrown here becomes `invalidRequest`, fate `notSent`.
    func prepare(_ request: inout Request) throws

    /// Reads the server's answer; of a stream, each of its elements. `ContentTypedRequest` has it done by content type.
    ///
    /// Implement this, or `decode(_:for:)` if the request is needed to read the answer or to check that it belongs to it.
    /// Without either, every answer fails. A `FrameError` thrown here says that the server has broken the protocol: it
    /// becomes `protocolViolation`, any other error `invalidResponse`, both with fate `answered` and the error as the
    /// cause. The link stays.
    static func decode(_ response: Response) throws -> Reply

    /// Reads the server's answer to `request`; of a stream, each of its elements. Default: `decode(_:)`. This is the one
    /// that the client calls. Errors are those of `decode(_:)`.
    ///
    /// ```swift
    /// static func decode(_ response: Response, for request: ReadRegisters) throws -> [UInt16] {
    ///     guard response.body.count == 1 + 2 * request.count else {
    ///         throw FrameError(.responseMismatch, "\(response.body.count) bytes for \(request.count) registers")
    ///     }
    ///     …
    /// }
    /// ```
    static func decode(_ response: Response, for request: Self) throws -> Reply
}

extension TypedRequest {
    /// Bytes.
    public static var contentType: ContentType { .bytes }

    /// As the client's options say.
    public static var retry: RetryPolicy { .default }

    /// Nothing more is set.
    public func prepare(_ request: inout Request) throws {}

    /// The answer as it is read without the request.
    public static func decode(_ response: Response, for request: Self) throws -> Reply { try decode(response) }

    /// Throws: the type reads its answers with their requests, or not at all.
    public static func decode(_ response: Response) throws -> Reply {
        throw UnreadableResponse(request: "\(Self.self)")
    }
}

/// A type of request implements neither `decode(_:)` nor `decode(_:for:)`, or only the latter and the former was called.
struct UnreadableResponse: Error, CustomStringConvertible {
    let request: String

    var description: String { "\(request) does not implement decode(_:)" }
}

/// A request whose response is read according to the content type that the server gives it.
///
/// ```swift
/// struct GetUser: ContentTypedRequest {
///     let id: Int
///     static let type: UInt32 = 0x410
///     static let contentType = ContentType.json
///     static let decoders: [ContentType: @Sendable (Bytes) throws -> User] = [.json: User.init(json:), .protobuf: …]
///     func encode() throws -> Bytes { … }
/// }
/// ```
public protocol ContentTypedRequest: TypedRequest {
    // Said again so that the compiler finds it by the decoders.
    associatedtype Reply

    /// What makes a response out of a body, by the body's content type. A response that does not say what it is counts
    /// as being what the request is (`contentType`): one without the field, and one with 0 in it where there is no decoder
    /// for `bytes`. An error thrown in one becomes `invalidResponse`, fate `answered`, as does a content type that is not
    /// here, with an `UnknownContentType` as the cause. A `FrameError` becomes `protocolViolation`.
    static var decoders: [ContentType: @Sendable (Bytes) throws -> Reply] { get }
}

extension ContentTypedRequest {
    /// Has the decoder for the response's content type read it.
    ///
    /// - Throws: `UnknownContentType`, or what the decoder throws.
    public static func decode(_ response: Response) throws -> Reply {
        var found = response.contentType
        // A layout's field is never absent: 0 is also what a server leaves in it that sets nothing.
        if found == nil || (found == .bytes && decoders[.bytes] == nil) { found = contentType }
        guard let found, let decoder = decoders[found] else {
            throw UnknownContentType(found: found, known: decoders.keys.sorted { $0.rawValue < $1.rawValue })
        }
        return try decoder(response.body)
    }
}

/// A response has a content type for which its request has no decoder.
public struct UnknownContentType: Error, Hashable, Sendable, CustomStringConvertible {
    /// What the response is; `nil` when neither it nor the request says so.
    public let found: ContentType?
    /// What the request can read.
    public let known: [ContentType]

    package init(found: ContentType?, known: [ContentType]) { (self.found, self.known) = (found, known) }

    /// Both in words.
    public var description: String {
        let expected = known.isEmpty ? "nothing can be read" : known.map(\.description).joined(separator: ", ")
        return "the response is \(found?.description ?? "of no content type"), expected: \(expected)"
    }
}

// MARK: - Frames

extension Request {
    /// The request that `typed` is encoded as, for calls that know nothing of its type.
    ///
    /// - Throws: `invalidRequest`, fate `notSent`, for what `encode` or `prepare` throws.
    public init<Typed: TypedRequest>(_ typed: Typed) throws(ClientError) {
        do {
            self.init(type: Typed.type, body: try typed.encode())
            if Typed.contentType != .bytes { contentType = Typed.contentType }
            try typed.prepare(&self)
        } catch {
            throw ClientError(.invalidRequest, .notSent, "\(Typed.self) cannot be encoded", cause: error)
        }
    }
}

extension TypedRequest {
    /// The server's answer as the request reads it.
    func read(_ response: Response) throws(ClientError) -> Reply {
        do {
            return try Self.decode(response, for: self)
        } catch let error as FrameError {
            let message = "the response breaks the protocol of \(Self.self)"
            throw ClientError(.protocolViolation, .answered, message, response: response, cause: error)
        } catch {
            let message = "the response to \(Self.self) cannot be decoded as \(Reply.self)"
            throw ClientError(.invalidResponse, .answered, message, response: response, cause: error)
        }
    }
}
