public import Trunkline

/// A request of HTTP/1.1 (RFC 9112), to be sent over `HTTP1Codec`: a `TypedRequest`, whose response is an `HTTP1Response`,
/// whatever its status. `rejected` is thrown for the statuses only that the codec was told to reject. One that cannot be sent
/// (a line break in a field, a length that is not the content's) fails with `invalidRequest`, fate `notSent`.
public struct HTTP1Request: Sendable, Hashable {
    /// What is to be done with the target. Any token is a method; letters have a size.
    public struct Method: Sendable, Hashable, ExpressibleByStringLiteral, CustomStringConvertible {
        /// The method's name.
        public let name: String

        /// The method called `name`.
        public init(_ name: String) { self.name = name }

        /// The method of a literal.
        public init(stringLiteral name: String) { self.name = name }

        /// The method's name, escaped.
        public var description: String { name.escaped() }

        /// Reads.
        public static let get: Method = "GET"
        /// Reads the head of what `get` would read.
        public static let head: Method = "HEAD"
        /// Has the target process the content.
        public static let post: Method = "POST"
        /// Replaces the target by the content.
        public static let put: Method = "PUT"
        /// Removes the target.
        public static let delete: Method = "DELETE"
        /// Asks for a tunnel. There is none on these links: see `HTTP1Codec`.
        public static let connect: Method = "CONNECT"
        /// Asks what may be asked.
        public static let options: Method = "OPTIONS"
        /// Has the request sent back.
        public static let trace: Method = "TRACE"
        /// Changes the target.
        public static let patch: Method = "PATCH"

        private static let known: [Method] = [
            .get, .head, .post, .put, .delete, .connect, .options, .trace, .patch,
        ]

        static let headType: UInt32 = 2
        static let connectType: UInt32 = 6

        /// The `type` of frames with this method: 1 to 9 in the order above, 0 for others. The codec must know `head` and
        /// `connect`, whose responses have no content.
        public var type: UInt32 { Self.known.firstIndex(of: self).map { UInt32($0) + 1 } ?? 0 }

        /// Whether to do it twice is to do it once (RFC 9110 §9.2.2), by type: not `post`, `connect` and `patch`, nor what
        /// is not known.
        static func isIdempotent(_ type: UInt32) -> Bool {
            switch type {
            case 1, 2, 4, 5, 7, 8: true
            default: false
            }
        }
    }

    /// What is to be done.
    public var method: Method
    /// To what: a path with a query, as a rule; percent-encoded.
    public var target: String
    /// The fields. The codec adds `Host` when it knows it, and `Content-Length`.
    public var headers: HTTP1Headers
    /// The content. With `Transfer-Encoding: chunked` among the fields, what you have put into chunks yourself.
    public var body: Bytes
    /// The fields after content in chunks; empty in requests to be sent.
    public private(set) var trailers = HTTP1Headers()

    /// A request for `target`. Nothing is checked before it is encoded.
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

    /// Reads a frame that `HTTP1Codec`'s server side has decoded, or a whole message in a frame's body.
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

    /// Whether a request's message says that nothing follows it on its link: `Connection: close`.
    static func isLast(_ message: Bytes) -> Bool {
        let closes = try? message.withSpan { bytes throws(FrameError) -> Bool in
            let line = try HTTP1RequestLine(in: bytes)
            var section = HTTP1Section()
            guard let end = try section.end(in: bytes), line.end <= end - 2 else { return false }
            return try HTTP1Framing(bytes, line.end..<end - 2, minor: line.minor, maximumFields: .max).closes
        }
        return closes ?? false  // it cannot be encoded
    }

    /// The frame that carries the request.
    ///
    /// - Throws: `malformed` for a method, a target or a field that would not be read as what it is: one with a line
    ///   break, a zero byte or a blank in the wrong place.
    public func frame() throws(FrameError) -> Frame {
        if let error = HTTP1Grammar.tokenError(method.name, "a method") { throw error }
        guard !target.isEmpty else { throw FrameError(.malformed, "a target that is empty") }
        // The target itself may hold tokens, so it is in no message.
        if let (index, byte) = target.utf8.enumerated().first(where: { !HTTP1Grammar.isTarget($0.element) }) {
            let place = "a target of \(target.utf8.count) bytes, at offset \(index): it must be percent-encoded"
            throw HTTP1Grammar.complaint(about: byte, in: place)
        }
        var head = Array("\(method.name) \(target) HTTP/1.1\r\n".utf8)
        try headers.encode(into: &head)
        return Frame(.request, type: method.type, body: HTTP1Message.joined(head, body))
    }
}

extension HTTP1Request: TypedRequest {
    /// That of the method takes its place.
    public static var type: UInt32 { 0 }

    /// The message.
    ///
    /// - Throws: What `frame()` throws.
    public func encode() throws -> Bytes { try frame().body }

    /// Sets the type to that of the method.
    public func prepare(_ request: inout Request) { request.type = method.type }

    /// Reads the response, whatever its status.
    public static func decode(_ response: Response) throws -> HTTP1Response { try HTTP1Response(response) }
}
