public import Foundation
public import Trunkline

/// A request of `.standard` whose body and reply are JSON texts (RFC 8259).
///
/// ```swift
/// struct Login: Encodable, Sendable { var name: String }
/// struct Session: Decodable, Sendable { var token: String }
///
/// let session = try await client.send(JSONRequest(Login(name: "ada"), replyingWith: Session.self))
/// ```
///
/// Its type is 0x402 and its content type `.json`, put where the protocol has a place for them. To have another type, or
/// dates and keys as the server writes them, set `type`, `encoder` and `decoder`, best in one place for all requests:
///
/// ```swift
/// extension JSONRequest {
///     static func snakeCase(_ body: Body, replyingWith: Reply.Type) -> JSONRequest {
///         var request = JSONRequest(body)
///         request.type = 0x412
///         request.encoder.keyEncodingStrategy = .convertToSnakeCase
///         request.decoder.keyDecodingStrategy = .convertFromSnakeCase
///         return request
///     }
/// }
/// let session = try await client.send(.snakeCase(Login(name: "ada"), replyingWith: Session.self))
/// ```
///
/// What cannot be encoded is `invalidRequest`, fate `notSent`; a reply that cannot be decoded is `invalidResponse`, fate
/// `answered`, with a `JSONDecodingError` as its cause.
public struct JSONRequest<Body: Encodable & Sendable, Reply: Decodable & Sendable>: TypedRequest {
    /// The body, before it is encoded.
    public var body: Body
    /// The number of the type of request. Default 0x402, which `.standard` has for JSON.
    public var type: UInt32 = 0x402
    /// Writes the body. Default: Foundation's, with `.sortedKeys`; each request has one of its own.
    ///
    /// Let one of your own sort keys, too: else equal requests have different bytes, so that none is found in the cache and
    /// none is coalesced with another.
    public var encoder: JSONEncoder
    /// Reads the reply. Default: one with the defaults of Foundation; each request has one of its own.
    public var decoder = JSONDecoder()

    /// A request with `body`, whose reply is a `Reply`.
    public init(_ body: Body, replyingWith reply: Reply.Type = Reply.self) {
        self.body = body
        encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
    }

    /// What `.standard` has for JSON; `type` takes its place.
    public static var type: UInt32 { 0x402 }

    /// JSON.
    public static var contentType: ContentType { .json }

    /// Sets the type.
    public func prepare(_ request: inout Request) { request.type = type }

    /// The body as `encoder` writes it.
    public func encode() throws -> Bytes { Bytes(try encoder.encode(body)) }

    /// The reply as the request's `decoder` reads it.
    ///
    /// - Throws: `JSONDecodingError`.
    public static func decode(_ response: Response, for request: Self) throws -> Reply {
        do {
            return try request.decoder.decode(Reply.self, from: Data(response.body))
        } catch {
            throw JSONDecodingError(error, in: response.body)
        }
    }
}

/// A JSON text is not what it was expected to be.
public struct JSONDecodingError: Error, CustomStringConvertible {
    /// Where in the text, from the outermost key on: `["user", "addresses", "0", "street"]`. Empty for the whole of it, and
    /// where a decoder throws an error of its own: a `DecodingError` has a path.
    public let codingPath: [String]
    /// What the decoder says is wrong there. It may quote the text: a secret, or what forges lines of a log.
    public let reason: String
    /// How the text begins: at most 256 bytes. They are the server's, and may hold what does not belong in a log: tokens,
    /// names.
    public let excerpt: Bytes
    /// How many bytes it has.
    public let length: Int
    /// The decoder's error.
    public let underlying: any Error

    init(_ error: any Error, in body: Bytes) {
        (excerpt, length, underlying) = (Bytes(body.prefix(256)), body.count, error)
        let context: DecodingError.Context? =
            switch error as? DecodingError {
            case .typeMismatch(_, let context), .valueNotFound(_, let context), .dataCorrupted(let context): context
            case .keyNotFound(_, let context): context
            default: nil
            }
        codingPath = context?.codingPath.map { $0.intValue.map(String.init) ?? $0.stringValue } ?? []
        reason =
            if case .keyNotFound(let key, _) = error as? DecodingError { "there is no “\(key.stringValue)”" } else {
                context?.debugDescription ?? "\(error)"
            }
    }

    /// The place, what is wrong there and how long the text is: in one line, escaped, as it goes into logs by way of
    /// `ClientError.description`. No value of the text: where the decoder's reason may quote one, `reason` alone has it.
    /// Keys of the text are a part of the place.
    public var description: String {
        let place = codingPath.isEmpty ? "the text" : codingPath.joined(separator: ".").escaped()
        return "\(place): \(quotesText ? "the data is invalid (see `reason`)" : reason.escaped()); \(length) bytes"
    }

    /// Whether `reason` may have a value of the text in it: types and keys alone are named by the other errors.
    private var quotesText: Bool {
        switch underlying as? DecodingError {
        case .typeMismatch, .valueNotFound, .keyNotFound: false
        default: true
        }
    }
}
