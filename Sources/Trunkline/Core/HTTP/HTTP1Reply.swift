/// What a server sends for a frame that may know nothing of HTTP, as those of a test server's reactions do.
struct HTTP1Reply {
    private let frame: Frame
    private let limits: HTTP1Limits

    init(_ frame: Frame, _ limits: HTTP1Limits) { (self.frame, self.limits) = (frame, limits) }

    /// 200 unless the frame has one.
    var status: UInt32 { frame.status == 0 ? 200 : frame.status }

    private static let beginning: Bytes = "HTTP/1."

    /// The frame's body if it begins as a message does, otherwise a message around it.
    func message() throws(FrameError) -> Bytes {
        if frame.body.hasPrefix(Self.beginning) { return frame.body }
        return try HTTP1Response(Int(status), body: content()).frame().body
    }

    /// The body; of a request that is sent back, its content.
    private func content() throws(FrameError) -> Bytes {
        guard frame[HTTP1Message.headLength] != nil else { return frame.body }
        return frame.body.part(try HTTP1Message(in: frame).content)
    }

    /// Writes the body as a chunk (RFC 9112 §7.1): behind a head if it is the first, with the end of the content behind it
    /// if it is the last. An empty chunk would be that end.
    func encodePart(
        behind begun: UInt32?,
        isLast: Bool,
        to method: UInt32,
        into output: inout SendBuffer
    ) throws(FrameError) {
        guard !frame.body.hasPrefix(Self.beginning) else {
            throw FrameError(.malformed, "a whole message cannot be a part of a reply")
        }
        if let begun {
            guard status == begun || frame.status == 0 else {
                throw FrameError(.malformed, "the status \(begun) went out with the first part, it cannot be \(status)")
            }
        } else {
            guard (200...999).contains(status), status != 204, status != 304 else {
                throw FrameError(.malformed, "a response \(status) has no content, so no parts")
            }
            guard method != HTTP1Request.Method.connectType else {
                throw FrameError(.malformed, "a tunnel has no content, so no parts")
            }
            output.append(utf8: "HTTP/1.1 \(status) \r\nTransfer-Encoding: chunked\r\n\r\n")
        }
        let content = try content()
        try limits.check(contentLength: content.count)
        guard method != HTTP1Request.Method.headType else { return }
        if !content.isEmpty {
            output.append(utf8: "\(String(content.count, radix: 16))\r\n")
            output.append(content)
            output.append(utf8: "\r\n")
        }
        if isLast { output.append(utf8: "0\r\n\r\n") }
    }
}
