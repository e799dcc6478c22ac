public import Foundation
public import TrunklineCore

/// A typed request whose body and response are JSON (RFC 8259), for `.standard` and other codecs.
///
/// ```swift
/// struct Login: Encodable, Sendable { var name: String }
/// struct Session: Decodable, Sendable { var token: String }
///
/// let session = try await client.send(JSONRequest(Login(name: "ada"), replyingWith: Session.self))
/// ```
///
/// Its frame type is 0x402. Its content type is `.json`, which is sent if the protocol has a field for it. To use
/// another type, or another format of dates and keys, set ``type-swift.property``, ``encoder`` and ``decoder``. It is
/// best to do this in one place for all requests:
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
/// If the body cannot be encoded, `send` throws `invalidRequest`, fate `notSent`. If the response cannot be decoded, it
/// throws `invalidResponse`, fate `answered`, with a ``JSONDecodingError`` as its cause.
public struct JSONRequest<Body: Encodable & Sendable, Reply: Decodable & Sendable>: TypedRequest {
    /// The value to encode as the body.
    public var body: Body
    /// The frame type. Default 0x402, the type of JSON requests in `.standard`.
    public var type: UInt32 = 0x402
    /// The encoder of the body. Default: a new `JSONEncoder` for each request, with `.sortedKeys` and otherwise
    /// Foundation's defaults, for example dates as seconds since 1 January 2001.
    ///
    /// Set `.sortedKeys` for a custom encoder, too. Otherwise equal requests may have different bytes, so they are not
    /// coalesced and their responses are not found in the cache.
    public var encoder: JSONEncoder
    /// The decoder of the response. Default: a new `JSONDecoder` for each request, with Foundation's defaults.
    public var decoder = JSONDecoder()

    /// Creates a request with `body`, whose response is decoded as `Reply`.
    public init(_ body: Body, replyingWith reply: Reply.Type = Reply.self) {
        self.body = body
        encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
    }

    /// The default frame type, 0x402. ``prepare(_:)`` replaces it with ``type-swift.property``.
    public static var type: UInt32 { 0x402 }

    /// The format of the body: `.json`.
    public static var contentType: ContentType { .json }

    /// Sets the frame type to ``type-swift.property``.
    public func prepare(_ request: inout Request) { request.type = type }

    /// Encodes the body with ``encoder``.
    ///
    /// - Throws: The error of the encoder. `send` reports it as `invalidRequest`.
    public func encode() throws -> Bytes { Bytes(try encoder.encode(body)) }

    /// Decodes the response with the request's ``decoder``.
    ///
    /// - Throws: ``JSONDecodingError``.
    public static func decode(_ response: Response, for request: Self) throws -> Reply {
        do {
            return try request.decoder.decode(Reply.self, from: Data(response.body))
        } catch {
            throw JSONDecodingError(error, in: response.body)
        }
    }
}

extension JSONRequest: CustomStringConvertible, CustomReflectable {
    /// The type of the request. Never the body, which may be secret.
    public var description: String { "JSON request of type 0x\(String(type, radix: 16))" }

    /// Empty, so that `dump` shows only the description.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// The error for a response that is not the expected JSON.
public struct JSONDecodingError: Error, CustomStringConvertible, CustomReflectable {
    /// The path to the invalid value, from the outermost key: `["user", "addresses", "0", "street"]`. Empty if the text
    /// as a whole is invalid, or if the decoder threw an error other than `DecodingError`.
    public let codingPath: [String]
    /// The decoder's description of the problem. It may quote values of the text, so it may contain secrets, or line
    /// breaks that imitate log lines. Do not log it.
    public let reason: String
    /// The first 256 bytes of the text, or fewer. They come from the server and may contain secrets: do not log them.
    public let excerpt: Bytes
    /// The length of the received text in bytes.
    public let length: Int
    /// The error that the decoder threw.
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
            if case .keyNotFound(let key, _) = error as? DecodingError {
                "the key “\(key.stringValue)” is missing"
            } else {
                context?.debugDescription ?? "\(error)"
            }
    }

    /// The path, the problem and the length of the text, in one line, escaped. `ClientError.description` contains it,
    /// so it is safe to log: it quotes keys of the text, but no values. If ``reason`` may quote a value, the
    /// description omits it.
    public var description: String {
        let place = codingPath.isEmpty ? "the text" : codingPath.joined(separator: ".").escaped()
        return "\(place): \(quotesText ? "the data is invalid (see `reason`)" : reason.escaped()); \(length) bytes"
    }

    /// Empty, so that `dump` shows only the description: the other properties may quote the text.
    public var customMirror: Mirror { Mirror(self, children: []) }

    /// The cases that quote no value name only types and keys.
    private var quotesText: Bool {
        switch underlying as? DecodingError {
        case .typeMismatch, .valueNotFound, .keyNotFound: false
        default: true
        }
    }
}
