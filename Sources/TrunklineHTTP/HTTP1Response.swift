public import Trunkline

/// A response of HTTP/1.1 (RFC 9112).
public struct HTTP1Response: Sendable, Hashable {
    /// The status code, from 100 to 999.
    public var status: Int
    /// What the server says about the status, for people; often empty.
    public var reason: String
    /// The fields, as they came. After content in chunks they still say so, though `body` is the content itself.
    public var headers: HTTP1Headers
    /// The content.
    public var body: Bytes
    /// The fields after content in chunks. They are not those of the head, and are to be trusted less (RFC 9110 §6.5).
    public private(set) var trailers = HTTP1Headers()

    /// A response to be sent by a server. Nothing is checked before it is encoded.
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

    /// Reads a response that `HTTP1Codec` has decoded, joined from its parts if it came in some, or a whole message in a
    /// response's body.
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

    /// Leaves the head alone.
    mutating func empty() { (body, trailers) = (Bytes(), HTTP1Headers()) }

    /// The frame that carries the response, for `LoopbackServer` and its like.
    ///
    /// - Throws: `malformed` for a status, a reason or a field that would not be read as what it is.
    public func frame() throws(FrameError) -> Frame {
        guard (100...999).contains(status) else { throw FrameError(.malformed, "\(status) is no status") }
        guard reason.utf8.allSatisfy({ HTTP1Grammar.isText($0) }) else {
            throw FrameError(.malformed, "a control character in a reason")
        }
        var head = Array("HTTP/1.1 \(status) \(reason)\r\n".utf8)
        try headers.encode(into: &head)
        return Frame(.response, status: UInt32(status), body: HTTP1Message.joined(head, body))
    }
}
