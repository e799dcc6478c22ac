/// A type of request that encodes its body and decodes its response.
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
    /// The type of the decoded response.
    ///
    /// The compiler infers it from `decode`. Within the request type, the name `Reply` means this type and hides any
    /// other type of that name outside.
    associatedtype Reply: Sendable

    /// The protocol's number for this type of request; 0 in protocols that have none.
    static var type: UInt32 { get }

    /// The name of requests of this type in the errors of their calls: ``ClientError/requestName``. It applies where
    /// the codec gives them no name (``NamingCodec``), which the log shows too. Default: `nil`.
    static var name: String? { get }

    /// The format of the body. Default: `.bytes`. The client sends it in the field "contentType"; a layout without that
    /// field ignores it.
    static var contentType: ContentType { get }

    /// Whether requests of this type are sent again when they fail, for calls whose options do not specify it. Default:
    /// `.default`, which means ``ClientOptions/Requests/retry``. Requests that only read are usually `.idempotent()`.
    static var retry: RetryPolicy { get }

    /// Returns the body of the request.
    ///
    /// - Throws: Any error. The call fails with `invalidRequest`, fate `notSent`, and the error is the cause.
    func encode() throws -> Bytes

    /// Sets further fields of the request, such as `request["keyLength"] = 3`. Default: sets nothing.
    ///
    /// - Parameter request: The request, which already has its type, body and content type.
    /// - Throws: Any error. The call fails with `invalidRequest`, fate `notSent`, and the error is the cause.
    func prepare(_ request: inout Request) throws

    /// Decodes the response, or each element of a streamed reply.
    ///
    /// Implement this method, or ``TypedRequest/decode(_:for:)`` if decoding needs the request. If a type implements
    /// neither, every response fails. ``ContentTypedRequest`` implements this method by content type.
    ///
    /// - Parameter response: The response or a part of it. It is not an error response: that is thrown as `rejected`.
    /// - Returns: The decoded response.
    /// - Throws: Any error. A ``FrameError`` means that the server broke the protocol: the call fails with
    ///   `protocolViolation`. With any other error, it fails with `invalidResponse`. In both cases the fate is
    ///   `answered`, the error is the cause, and the link stays.
    static func decode(_ response: Response) throws -> Reply

    /// Decodes the response to a request, or each element of a streamed reply. Default: calls
    /// ``TypedRequest/decode(_:)``.
    ///
    /// The client calls this method. Implement it if decoding needs the request, for example to check that the response
    /// belongs to it, as in the Modbus example of <doc:DescribingYourProtocol>.
    ///
    /// - Parameters:
    ///   - response: The response or a part of it.
    ///   - request: The request that it answers.
    /// - Returns: The decoded response.
    /// - Throws: Any error, with the same effect as for ``TypedRequest/decode(_:)``.
    static func decode(_ response: Response, for request: Self) throws -> Reply
}

extension TypedRequest {
    /// The default, `.bytes`.
    public static var contentType: ContentType { .bytes }

    /// The default, `nil`: the codec names requests.
    public static var name: String? { nil }

    /// The default, `.default`: the policy of the client's options.
    public static var retry: RetryPolicy { .default }

    /// The default implementation: sets nothing.
    public func prepare(_ request: inout Request) throws {}

    /// The default implementation: calls `decode(_:)`, without the request.
    public static func decode(_ response: Response, for request: Self) throws -> Reply { try decode(response) }

    /// The default implementation: throws an error, because the type must implement `decode(_:)` or `decode(_:for:)`.
    public static func decode(_ response: Response) throws -> Reply {
        throw UnreadableResponse(request: "\(Self.self)")
    }
}

/// A request type implements neither `decode` method, or only `decode(_:for:)`, and the other one was called.
struct UnreadableResponse: Error, CustomStringConvertible {
    let request: String

    var description: String { "\(request) does not implement decode(_:)" }
}

/// A type of request whose response is decoded according to the content type of the response.
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
    // Repeated so that the compiler can infer it from the decoders.
    associatedtype Reply

    /// The decoders of the body, by the content type of the response.
    ///
    /// If a response has no content type, the `contentType` of the request is used. This also holds for a response
    /// whose field is 0 (`.bytes`) if there is no decoder for `.bytes`.
    ///
    /// If a decoder throws a ``FrameError``, the call fails with `protocolViolation`. If it throws any other error, or
    /// if there is no decoder for the content type (the cause is then an ``UnknownContentType``), the call fails with
    /// `invalidResponse`. The fate is `answered`.
    static var decoders: [ContentType: @Sendable (Bytes) throws -> Reply] { get }
}

extension ContentTypedRequest {
    /// Decodes the response with the decoder for its content type.
    ///
    /// - Parameter response: The response.
    /// - Returns: The decoded response.
    /// - Throws: ``UnknownContentType`` if there is no decoder for the content type, or what the decoder throws.
    public static func decode(_ response: Response) throws -> Reply {
        var found = response.contentType
        // A field of a layout is never absent: it is 0 if the server did not set it.
        if found == nil || (found == .bytes && decoders[.bytes] == nil) { found = contentType }
        guard let found, let decoder = decoders[found] else {
            throw UnknownContentType(found: found, known: decoders.keys.sorted { $0.rawValue < $1.rawValue })
        }
        return try decoder(response.body)
    }
}

/// The response has a content type for which the request has no decoder.
public struct UnknownContentType: Error, Hashable, Sendable, CustomStringConvertible {
    /// The content type of the response; `nil` if neither the response nor the request specifies one.
    public let found: ContentType?
    /// The content types that the request can decode.
    public let known: [ContentType]

    init(found: ContentType?, known: [ContentType]) { (self.found, self.known) = (found, known) }

    /// The content type of the response and those that the request can decode.
    public var description: String {
        let expected = known.isEmpty ? "none" : known.map(\.description).joined(separator: ", ")
        return "the content type of the response is \(found?.description ?? "not specified"), expected: \(expected)"
    }
}

extension Request {
    /// Creates the untyped form of a typed request, for calls that take a `Request`.
    ///
    /// - Parameter typed: The typed request.
    /// - Throws: `invalidRequest`, fate `notSent`, if `encode` or `prepare` throws. The error is the cause.
    public init<Typed: TypedRequest>(_ typed: Typed) throws(ClientError) {
        do {
            self.init(type: Typed.type, body: try typed.encode())
            if Typed.contentType != .bytes { contentType = Typed.contentType }
            try typed.prepare(&self)
        } catch {
            let message = "\(Typed.self) cannot be encoded"
            throw ClientError(.invalidRequest, .notSent, message, cause: error).named(Typed.errorName)
        }
    }
}

extension TypedRequest {
    package static var errorName: String? { name?.escaped(upTo: 64) }

    /// A failure is counted by the client or the cluster. A sender of another module counts nothing.
    package func read(_ response: Response, for sender: (any RequestSender)?) throws(ClientError) -> Reply {
        do throws(ClientError) {
            return try read(response)
        } catch {
            (sender as? any RoutingSender)?.noteUndecodable(error)
            throw error
        }
    }

    package func read(_ response: Response) throws(ClientError) -> Reply {
        do {
            return try Self.decode(response, for: self)
        } catch let error as FrameError {
            let message = "the response to \(Self.self) violates the protocol"
            throw ClientError(.protocolViolation, .answered, message, response: response, cause: error)
                .named(Self.errorName)
        } catch {
            let place = (error as? DecodingError).map { ": \($0.finding)" } ?? ""
            let message = "the response to \(Self.self) cannot be decoded as \(Reply.self)\(place)"
            throw ClientError(.invalidResponse, .answered, message, response: response, cause: error)
                .named(Self.errorName)
        }
    }
}

extension DecodingError {
    /// The path to the value and the type that was expected there: no value of the response.
    fileprivate var finding: String {
        let (context, what): (Context, String)
        switch self {
        case .typeMismatch(let type, let found): (context, what) = (found, "a value of the type \(type) is expected")
        case .valueNotFound(let type, let found): (context, what) = (found, "a value of the type \(type) is missing")
        case .keyNotFound(let key, let found):
            (context, what) = (found, "the key \(key.stringValue.escaped()) is missing")
        default:
            guard case .dataCorrupted(let found) = self else { return "it is invalid" }
            (context, what) = (found, "the value is invalid")
        }
        let path = context.codingPath.map { $0.intValue.map(String.init) ?? $0.stringValue }.joined(separator: ".")
        return "\(path.isEmpty ? "the whole" : path.escaped()): \(what)"
    }
}
