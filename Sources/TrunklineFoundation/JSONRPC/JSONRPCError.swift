public import Foundation
public import TrunklineCore

/// An error of JSON-RPC 2.0 (section 5.1): what a peer answers instead of a result.
///
/// Read it from the error of a call:
///
/// ```swift
/// do {
///     _ = try await client.send(request)
/// } catch {
///     if let failure = JSONRPCError(error), failure.code == .methodNotFound { … }
/// }
/// ```
///
/// Or throw it from a handler of ``JSONRPCCall/serve(_:maximumConcurrent:maximumWaiting:_:)``.
public struct JSONRPCError: Error, Sendable, Hashable, CustomStringConvertible, CustomReflectable {
    /// The number of a kind of error.
    public struct Code: RawRepresentable, Sendable, Hashable, ExpressibleByIntegerLiteral, CustomStringConvertible {
        /// The number.
        public let rawValue: Int

        /// Creates a code.
        public init(rawValue: Int) { self.rawValue = rawValue }

        /// Creates a code from an integer literal.
        public init(integerLiteral rawValue: Int) { self.init(rawValue: rawValue) }

        /// The receiver could not parse the message as JSON.
        public static let parseError: Code = -32700
        /// The message is not a valid request.
        public static let invalidRequest: Code = -32600
        /// The receiver has no such method.
        public static let methodNotFound: Code = -32601
        /// The parameters are invalid.
        public static let invalidParams: Code = -32602
        /// The receiver failed.
        public static let internalError: Code = -32603
        /// The receiver has too many requests. JSON-RPC leaves the codes from -32099 to -32000 to implementations; this
        /// one is what this client answers.
        public static let overloaded: Code = -32000
        /// The request was cancelled. A code of the Language Server Protocol.
        public static let requestCancelled: Code = -32800

        var name: String? {
            switch self {
            case .parseError: "ParseError"
            case .invalidRequest: "InvalidRequest"
            case .methodNotFound: "MethodNotFound"
            case .invalidParams: "InvalidParams"
            case .internalError: "InternalError"
            default: nil
            }
        }

        /// The name and the number, such as `MethodNotFound (-32601)`, or only the number.
        public var description: String { name.map { "\($0) (\(rawValue))" } ?? "\(rawValue)" }
    }

    /// The kind of the error.
    public var code: Code
    /// A short explanation.
    public var message: String
    /// The JSON text of the additional information; `nil` for none.
    public var data: Bytes?

    /// Creates an error.
    ///
    /// - Parameters:
    ///   - code: The kind of the error.
    ///   - message: A short explanation.
    ///   - data: The JSON text of additional information. Default: none.
    public init(_ code: Code, _ message: String, data: Bytes? = nil) {
        (self.code, self.message, self.data) = (code, message, data)
    }

    /// Reads the error with which the server answered a request; `nil` if `error` has another cause.
    public init?(_ error: ClientError) {
        guard error.code == .rejected || error.code == .interrupted, let body = error.response?.body else { return nil }
        self.init(parsing: body)
    }

    /// Reads the JSON text of an error, which is the body of an error response. `nil` if it is not an object with an
    /// integer as its code. A missing message is empty.
    public init?(parsing text: Bytes) { self.init(parsing: text, messageUpTo: .max) }

    init?(parsing text: Bytes, messageUpTo limit: Int) {
        var (code, message, data): (Int?, String?, Range<Int>?)
        do throws(FrameError) {
            try text.withSpan { span throws(FrameError) in
                var scanner = JSONScanner()
                try scanner.members(in: span) { name, value throws(FrameError) in
                    switch JSONRPCName(span, name) {
                    case .code: code = span.integer(ofJSONNumber: value)
                    case .data: data = value
                    case .message where span.isString(value):
                        message = try span.beginning(ofJSONString: value.dropFirst().dropLast(), upTo: limit)
                    default: break
                    }
                }
                try scanner.expectEnd(of: span)
            }
        } catch {
            return nil
        }
        guard let code else { return nil }
        self.init(Code(rawValue: code), message ?? "", data: data.map { text.part($0) })
    }

    /// Decodes ``data``; `nil` if there is none.
    ///
    /// - Throws: The error of the decoder.
    public func data<Value: Decodable>(
        as type: Value.Type,
        decoder: JSONDecoder = JSONDecoder()
    ) throws -> Value? {
        try data.map { try decoder.decode(type, from: Data($0)) }
    }

    var text: Bytes {
        var text: Bytes = "{\"code\":\(code.rawValue),\"message\":\(JSONText.quoted(message))"
        if let data {
            text.append(contentsOf: ",\"data\":".utf8)
            text.append(contentsOf: data)
        }
        text.append(UInt8(ascii: "}"))
        return text
    }

    /// The response that reports this error, to be returned by a handler of
    /// ``/Trunkline/Client/serve(maximumConcurrent:maximumWaiting:_:)``.
    public var response: Frame { Frame(.response, isErrorResponse: true, body: text) }

    /// The code and the message, in one line, escaped. The message comes from the peer. Never the data, which may be
    /// secret.
    public var description: String { "\(code): \(message.escaped(upTo: 256))" }

    /// Empty, so that `dump` shows only the description.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension Span<UInt8> {
    /// `nil` for another value, and for a number of more than 512 bytes.
    func integer<Value: FixedWidthInteger>(ofJSONNumber range: Range<Int>) -> Value? {
        guard range.count <= JSONRPCIDs.maximumSize else { return nil }
        // Safe: the bytes are copied before the closure returns.
        let text = unsafe extracting(range).withUnsafeBufferPointer { unsafe Array($0) }
        return JSONNumber(text)?.integer()
    }

    /// At least the first `limit` bytes. `range` is without the quotation marks.
    fileprivate func beginning(ofJSONString range: Range<Int>, upTo limit: Int) throws(FrameError) -> String {
        guard range.count > limit else { return try jsonString(in: range) }
        // The cut is behind what is shown.
        return bytes(ofJSONString: range, upTo: limit).map { String(decoding: $0, as: UTF8.self) } ?? ""
    }
}
