public import TrunklineCore

/// An HTTP/1.1 response (RFC 9112).
public struct HTTP1Response: Sendable, Hashable {
    /// The status code, 100 to 999.
    public var status: Int
    /// The reason phrase: the server's description of the status. Often empty.
    public var reason: String
    /// The header fields as received. If the content came in chunks, `Transfer-Encoding` is still present, although
    /// ``body`` holds the decoded content.
    public var headers: HTTP1Headers
    /// The content.
    public var body: Bytes
    /// The trailer fields, after content that came in chunks. Do not merge them with the header fields, and trust them
    /// less than the header fields (RFC 9110 §6.5).
    public private(set) var trailers = HTTP1Headers()

    /// Creates a response for a server to send. It is checked when it is encoded: see ``frame()``.
    public init(
        _ status: Int = 200,
        reason: String = "",
        headers: HTTP1Headers = HTTP1Headers(),
        body: Bytes = Bytes()
    ) {
        self.status = status
        self.reason = reason
        self.headers = headers
        self.body = body
    }

    /// Reads a response that ``HTTP1Codec`` decoded, or a whole message in a response's body.
    ///
    /// A response that arrived in parts must be complete: `send` joins the parts. To read the parts one by one, use
    /// ``HTTP1ReplyStream``.
    ///
    /// - Throws: `malformed` or `illegalLength` if the body does not contain a valid response.
    public init(_ response: Response) throws(FrameError) { try self.init(response.frame) }

    package init(_ frame: Frame) throws(FrameError) {
        let message = try HTTP1Message(in: frame)
        (status, reason, headers, trailers) = try frame.body.withSpan { bytes throws(FrameError) in
            let line = try HTTP1StatusLine(in: bytes)
            return (
                line.status,
                HTTP1Grammar.text(bytes, line.reason),
                try HTTP1Headers(bytes, message.fields(after: line.end)),
                try HTTP1Headers(bytes, message.trailers)
            )
        }
        body = frame.body.part(message.content)
    }

    mutating func empty() { (body, trailers) = (Bytes(), HTTP1Headers()) }

    /// Returns the frame that carries the response, for `LoopbackServer` and other servers in tests.
    ///
    /// - Throws: `malformed` if the status is not 100 to 999, or if the reason or a field contains bytes that would
    ///   change the meaning of the message.
    public func frame() throws(FrameError) -> Frame {
        guard (100...999).contains(status) else {
            throw FrameError(.malformed, "the status \(status) is not within 100...999")
        }
        guard reason.utf8.allSatisfy({ HTTP1Grammar.isText($0) }) else {
            throw FrameError(.malformed, "a control character in the reason phrase")
        }
        var head = Array("HTTP/1.1 \(status) \(reason)\r\n".utf8)
        try headers.encode(into: &head)
        return Frame(.response, status: UInt32(status), body: HTTP1Message.joined(head, body))
    }
}
