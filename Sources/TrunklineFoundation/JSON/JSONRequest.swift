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
/// Its type is 0x402 and its content type `.json`, and `prepare` puts both where the protocol has a place for them. To have
/// another type, or dates and keys as the server writes them, set `type`, `encoder` and `decoder` of a `JSONFormat`:
///
/// ```swift
/// enum Snake: JSONFormat {
///     static var encoder: JSONEncoder {
///         let encoder = JSONEncoder()
///         encoder.keyEncodingStrategy = .convertToSnakeCase
///         encoder.outputFormatting = .sortedKeys
///         return encoder
///     }
///     static var decoder: JSONDecoder {
///         let decoder = JSONDecoder()
///         decoder.keyDecodingStrategy = .convertFromSnakeCase
///         return decoder
///     }
/// }
/// let request = FormattedJSONRequest<Login, Session, Snake>(Login(name: "ada"))
/// ```
///
/// What cannot be encoded is `invalidRequest`, fate `notSent`; a reply that cannot be decoded is `invalidRequest`, fate
/// `answered`, with a `JSONDecodingError` as its cause.
public typealias JSONRequest<Body: Encodable & Sendable, Reply: Decodable & Sendable> =
    FormattedJSONRequest<Body, Reply, PlainJSON>

/// How JSON texts are written and read, and which type of frame carries them.
public protocol JSONFormat: Sendable {
    /// The number of the type of request. Default 0x402, which `.standard` has for JSON.
    static var type: UInt32 { get }
    /// Makes an encoder for one body. Default: Foundation's, with `.sortedKeys`.
    ///
    /// Let one of your own sort keys, too: else equal requests have different bytes, so that none is found in the cache and
    /// none is coalesced with another.
    static var encoder: JSONEncoder { get }
    /// Makes a decoder for one reply. Default: one with the defaults of Foundation.
    static var decoder: JSONDecoder { get }
}

extension JSONFormat {
    /// What `.standard` has for JSON.
    public static var type: UInt32 { 0x402 }
    /// A new one with the defaults of Foundation and `.sortedKeys`.
    public static var encoder: JSONEncoder {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        return encoder
    }
    /// A new one with the defaults of Foundation.
    public static var decoder: JSONDecoder { JSONDecoder() }
}

/// JSON as Foundation writes and reads it when it is told nothing, but with sorted keys.
public enum PlainJSON: JSONFormat {}

/// A request whose body and reply are JSON texts in a format: see `JSONRequest`.
public struct FormattedJSONRequest<Body: Encodable & Sendable, Reply: Decodable & Sendable, Format: JSONFormat>:
    TypedRequest
{
    /// What the reply is read as.
    public typealias Response = Reply

    /// What is asked.
    public var body: Body

    /// A request with `body`, whose reply is a `Reply`.
    public init(_ body: Body, replyingWith reply: Reply.Type = Reply.self) { self.body = body }

    /// The format's.
    public static var type: UInt32 { Format.type }

    /// JSON.
    public static var contentType: ContentType? { .json }

    /// The body as the format's encoder writes it.
    public func encode() throws -> Bytes { Bytes(try Format.encoder.encode(body)) }

    /// The reply as the format's decoder reads it.
    ///
    /// - Throws: `JSONDecodingError`.
    public static func decode(_ response: Frame) throws -> Reply {
        do {
            return try Format.decoder.decode(Reply.self, from: Data(response.body))
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
