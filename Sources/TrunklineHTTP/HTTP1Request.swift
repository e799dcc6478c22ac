public import TrunklineCore

/// An HTTP/1.1 request (RFC 9112), to be sent by a client whose codec is ``HTTP1Codec``.
///
/// It is a `TypedRequest` whose response is an ``HTTP1Response`` of any status. `send` throws `rejected` only for the
/// statuses in ``HTTP1Codec/rejected``. A request that cannot be encoded (for example, with a line break in a field, or
/// a `Content-Length` that differs from the size of the content) fails with `invalidRequest`, fate `notSent`.
public struct HTTP1Request: Sendable, Hashable {
    /// The method of a request. Any token is a method; names are case-sensitive.
    public struct Method: Sendable, Hashable, ExpressibleByStringLiteral, CustomStringConvertible {
        /// The method's name.
        public let name: String

        /// Creates the method `name`. The name is checked when the request is encoded.
        public init(_ name: String) { self.name = name }

        /// Creates a method from a string literal.
        public init(stringLiteral name: String) { self.name = name }

        /// The method's name, escaped for logs.
        public var description: String { name.escaped() }

        /// The method that reads the target.
        public static let get: Method = "GET"
        /// The method that reads only the head of the response that `get` would have.
        public static let head: Method = "HEAD"
        /// The method that lets the target process the content. Not idempotent.
        public static let post: Method = "POST"
        /// The method that replaces the target with the content.
        public static let put: Method = "PUT"
        /// The method that removes the target.
        public static let delete: Method = "DELETE"
        /// The method that requests a tunnel. The codec does not carry the tunnel's traffic: see ``HTTP1Codec``. Not
        /// idempotent.
        public static let connect: Method = "CONNECT"
        /// The method that requests the communication options of the target.
        public static let options: Method = "OPTIONS"
        /// The method that requests that the server sends the request back.
        public static let trace: Method = "TRACE"
        /// The method that applies the content to the target as a partial change. Not idempotent.
        public static let patch: Method = "PATCH"

        private static let known: [Method] = [
            .get, .head, .post, .put, .delete, .connect, .options, .trace, .patch,
        ]

        static let headType: UInt32 = 2
        static let connectType: UInt32 = 6

        /// The `type` of frames with this method: 1 to 9 in the order `get`, `head`, `post`, `put`, `delete`,
        /// `connect`, `options`, `trace`, `patch`; 0 for other methods. The codec needs the type to recognize `head`
        /// and `connect`, whose responses have no content.
        public var type: UInt32 { Self.known.firstIndex(of: self).map { UInt32($0) + 1 } ?? 0 }

        static func method(ofType type: UInt32) -> Method? {
            type >= 1 && type <= known.count ? known[Int(type) - 1] : nil
        }

        /// All known methods except `post`, `connect` and `patch` (RFC 9110 §9.2.2).
        static func isIdempotent(_ type: UInt32) -> Bool {
            switch type {
            case 1, 2, 4, 5, 7, 8: true
            default: false
            }
        }
    }

    /// The method.
    public var method: Method
    /// The target, percent-encoded: usually a path with a query.
    public var target: String
    /// The header fields. The codec adds `Host` if ``HTTP1Codec/host`` is set, and `Content-Length`, where they are
    /// missing.
    public var headers: HTTP1Headers
    /// The content. If the fields contain `Transfer-Encoding: chunked`, it must already be encoded in chunks.
    public var body: Bytes
    /// The trailer fields of a received request whose content came in chunks; empty in a request to be sent.
    public private(set) var trailers = HTTP1Headers()

    /// Creates a request. It is checked when it is sent: an invalid request fails with `invalidRequest`.
    public init(
        _ method: Method,
        _ target: String,
        headers: HTTP1Headers = HTTP1Headers(),
        body: Bytes = Bytes()
    ) {
        self.method = method
        self.target = target
        self.headers = headers
        self.body = body
    }

    /// Reads a request from a frame that the codec's server side (``HTTP1Codec/serverSide()``) decoded, or from a whole
    /// message in a frame's body.
    ///
    /// - Throws: `malformed` or `illegalLength` if the frame does not contain a valid request.
    public init(_ frame: Frame) throws(FrameError) {
        let message = try HTTP1Message(in: frame)
        (method, target, headers, trailers) = try frame.body.withSpan { bytes throws(FrameError) in
            let line = try HTTP1RequestLine(in: bytes)
            return (
                Method(HTTP1Grammar.text(bytes, line.method)),
                HTTP1Grammar.text(bytes, line.target),
                try HTTP1Headers(bytes, message.fields(after: line.end)),
                try HTTP1Headers(bytes, message.trailers)
            )
        }
        body = frame.body.part(message.content)
    }

    /// No other request follows one with `Connection: close` on its link.
    static func isLast(_ message: Bytes) -> Bool {
        let closes = try? message.withSpan { bytes throws(FrameError) -> Bool in
            let line = try HTTP1RequestLine(in: bytes)
            var section = HTTP1Section()
            guard let end = try section.end(in: bytes), line.end <= end - 2 else { return false }
            return try HTTP1Framing(bytes, line.end..<end - 2, minor: line.minor, maximumFields: .max).closes
        }
        return closes ?? false  // an invalid message: encoding it fails
    }

    /// Returns the frame that carries the request.
    ///
    /// - Throws: `malformed` if the method, the target or a field contains bytes that would change the meaning of the
    ///   message, such as a line break, a zero byte or a space where none is allowed.
    public func frame() throws(FrameError) -> Frame {
        if let error = HTTP1Grammar.tokenError(method.name, "the method") { throw error }
        guard !target.isEmpty else { throw FrameError(.malformed, "the target is empty") }
        // The target may contain secrets, so no message quotes it.
        if let (index, byte) = target.utf8.enumerated().first(where: { !HTTP1Grammar.isTarget($0.element) }) {
            let place = "a target of \(target.utf8.count) bytes, at offset \(index); targets must be percent-encoded"
            throw HTTP1Grammar.complaint(about: byte, in: place)
        }
        var head = Array("\(method.name) \(target) HTTP/1.1\r\n".utf8)
        try headers.encode(into: &head)
        return Frame(.request, type: method.type, body: HTTP1Message.joined(head, body))
    }
}

extension HTTP1Request: TypedRequest {
    /// A placeholder, 0. ``prepare(_:)`` replaces it with the type of the method.
    public static var type: UInt32 { 0 }

    /// Returns the request as the bytes of an HTTP/1.1 message: head and body.
    ///
    /// - Throws: The errors of ``frame()``.
    public func encode() throws -> Bytes { try frame().body }

    /// Sets the frame type to the ``HTTP1Request/Method-swift.struct/type`` of the method.
    public func prepare(_ request: inout Request) { request.type = method.type }

    /// Decodes the response. Does not throw because of its status: see ``HTTP1Codec/rejected``.
    ///
    /// - Throws: The errors of ``HTTP1Response/init(_:)``.
    public static func decode(_ response: Response) throws -> HTTP1Response { try HTTP1Response(response) }
}

extension HTTP1Request: CustomReflectable {
    /// The parts of the request, for `print` and `dump`. The query of the target is replaced by `(redacted)`, and so
    /// are a user name and password, because they may be secret. Of the content only the size is shown.
    public var customMirror: Mirror {
        let path = target.prefix { $0 != "?" }
        let shown = String(path).withoutCredentials.escaped() + (path.count < target.count ? "?(redacted)" : "")
        return Mirror(
            self,
            children: ["method": method, "target": shown, "headers": headers, "body": body, "trailers": trailers],
            displayStyle: .struct
        )
    }
}
