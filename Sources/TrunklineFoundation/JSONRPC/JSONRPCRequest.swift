public import Foundation
public import TrunklineCore

/// A request of JSON-RPC 2.0 with typed parameters and a typed result, for a ``JSONRPCCodec``.
///
/// ```swift
/// struct Position: Encodable, Sendable { var line, character: Int }
/// struct Hover: Decodable, Sendable { var contents: String }
///
/// let request = JSONRPCRequest("textDocument/hover", Position(line: 3, character: 7), replyingWith: Hover?.self)
/// let hover = try await client.send(request)
/// ```
///
/// Name the calls of your protocol in one place:
///
/// ```swift
/// extension TypedRequest where Self == JSONRPCRequest<Position, Hover?> {
///     static func hover(_ position: Position) -> Self { Self("textDocument/hover", position) }
/// }
/// let hover = try await client.send(.hover(Position(line: 3, character: 7)))
/// ```
///
/// If the parameters cannot be encoded, or are not encoded as an object or an array, `send` throws `invalidRequest`,
/// fate `notSent`. If the result cannot be decoded, it throws `invalidResponse`, fate `answered`, with a
/// ``JSONDecodingError`` as its cause. If the server answers with an error, it throws `rejected`;
/// ``JSONRPCError/init(_:)`` reads that.
public struct JSONRPCRequest<Params: Encodable & Sendable, Reply: Decodable & Sendable>: TypedRequest {
    /// The name of the method.
    public var method: String
    /// The parameters, which are encoded as an object or an array. A ``JSONRPCVoid`` is not sent.
    public var params: Params
    /// A number of your own for requests of this kind, which appears in the log, in events and in timelines. It is not
    /// sent. Default 0.
    public var type: UInt32 = 0
    /// The encoder of the parameters. Default: a new `JSONEncoder` for each request, with `.sortedKeys` and otherwise
    /// Foundation's defaults.
    public var encoder: JSONEncoder
    /// The decoder of the result. Default: a new `JSONDecoder` for each request, with Foundation's defaults.
    public var decoder = JSONDecoder()

    /// Creates a request.
    ///
    /// - Parameters:
    ///   - method: The name of the method.
    ///   - params: The parameters.
    ///   - reply: The type of the result. Use an optional type for a result that may be null, and ``JSONRPCVoid`` to
    ///     ignore it.
    public init(_ method: String, _ params: Params, replyingWith reply: Reply.Type = Reply.self) {
        (self.method, self.params) = (method, params)
        encoder = .sortingKeys
    }

    /// Creates a request without parameters.
    ///
    /// - Parameters:
    ///   - method: The name of the method.
    ///   - reply: The type of the result.
    public init(_ method: String, replyingWith reply: Reply.Type = Reply.self) where Params == JSONRPCVoid {
        self.init(method, JSONRPCVoid(), replyingWith: reply)
    }

    /// The default number, 0. ``prepare(_:)`` replaces it with ``type-swift.property``.
    public static var type: UInt32 { 0 }

    /// Sets the method and the number of the request.
    public func prepare(_ request: inout Request) {
        request.type = type
        request[bytes: JSONRPCCodec.method] = Bytes(method)
    }

    /// Encodes the parameters with ``encoder``.
    ///
    /// - Throws: The error of the encoder. `send` reports it as `invalidRequest`.
    public func encode() throws -> Bytes { try encoder.params(params) }

    /// Decodes the result with the request's ``decoder``.
    ///
    /// - Throws: ``JSONDecodingError``.
    public static func decode(_ response: Response, for request: Self) throws -> Reply {
        try request.decoder.value(Reply.self, in: response.body)
    }
}

extension JSONRPCRequest: CustomStringConvertible, CustomReflectable {
    /// The name of the method, in one line, escaped. Never the parameters, which may be secret.
    public var description: String { "JSON-RPC request \(method.escaped(upTo: 64))" }

    /// Empty, so that `dump` shows only the description.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// No parameters, no result, or a result that does not matter.
public struct JSONRPCVoid: Codable, Sendable, Hashable {
    /// Creates the value.
    public init() {}

    /// Accepts any value.
    public init(from decoder: any Decoder) {}

    /// Encodes null.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encodeNil()
    }
}

/// A notification of JSON-RPC 2.0, or a request whose result does not matter.
///
/// ``/Trunkline/Client/post(_:timeout:options:)`` sends it as a notification:
///
/// ```swift
/// try await client.post(Request(JSONRPCNotification("initialized")))
/// ```
public typealias JSONRPCNotification<Params: Encodable & Sendable> = JSONRPCRequest<Params, JSONRPCVoid>

extension JSONEncoder {
    /// Equal values have equal bytes.
    static var sortingKeys: JSONEncoder {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        return encoder
    }

    func params(_ params: some Encodable) throws -> Bytes {
        params is JSONRPCVoid ? Bytes() : Bytes(try encode(params))
    }
}

extension JSONDecoder {
    func value<Value: Decodable>(_ type: Value.Type, in text: Bytes) throws -> Value {
        do {
            return try decode(type, from: Data(text))
        } catch {
            throw JSONDecodingError(error, in: text)
        }
    }
}
