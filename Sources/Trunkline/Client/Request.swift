public import TrunklineCore

/// What is asked of a server: a frame without the parts that the client fills in.
public struct Request: Sendable, Hashable {
    /// The frame to send; its serial is given when it goes out.
    private(set) var frame: Frame

    /// A request of type `type` with `body`.
    public init(type: UInt32 = 0, body: Bytes = Bytes()) {
        frame = Frame(.request, type: type, body: body)
    }

    /// The protocol's number for this type of request.
    public var type: UInt32 {
        get { frame.type }
        set { frame.type = newValue }
    }

    /// The message itself.
    public var body: Bytes {
        get { frame.body }
        set { frame.body = newValue }
    }

    /// A named header field that the protocol's layout declares; see `Frame`.
    public subscript(field: String) -> UInt64? {
        get { frame[field] }
        set { frame[field] = newValue }
    }

    /// Named bytes in the header that the protocol's layout declares; see `Frame`.
    public subscript(bytes field: String) -> Bytes? {
        get { frame[bytes: field] }
        set { frame[bytes: field] = newValue }
    }
}

/// A request that knows how its body is made and how its response is read.
///
/// ```swift
/// struct GetUser: TypedRequest {
///     let id: Int
///     static let type: UInt32 = 0x410
///     func encode() -> Bytes { Bytes("\(id)") }
///     static func decode(_ response: Frame) -> User { User(name: String(response.body)) }
/// }
/// let user = try await client.send(GetUser(id: 7))
/// ```
public protocol TypedRequest: Sendable {
    /// What the server's answer becomes.
    associatedtype Response: Sendable

    /// The protocol's number for this type of request.
    static var type: UInt32 { get }

    /// Whether requests of this type are sent again when they fail, for calls that do not say otherwise; `nil`, the
    /// default, for `options.requests.retry`. Reads are idempotent as a rule: `.idempotent()`.
    static var retry: RetryPolicy? { get }

    /// The body. An error thrown here becomes `invalidRequest`, fate `notSent`.
    func encode() throws -> Bytes

    /// Reads the server's answer. An error thrown here becomes `invalidRequest`, fate `answered`.
    static func decode(_ response: Frame) throws -> Response
}

extension TypedRequest {
    /// As the client's options say.
    public static var retry: RetryPolicy? { nil }
}
