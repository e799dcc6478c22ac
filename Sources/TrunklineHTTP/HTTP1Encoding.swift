import Trunkline

/// A message on its way out: checked as strictly as one that comes in, and completed.
struct HTTP1Encoding {
    private let body: Bytes
    private let limits: HTTP1Limits
    private let host: String?

    init(_ body: Bytes, _ limits: HTTP1Limits, host: String? = nil) {
        (self.body, self.limits, self.host) = (body, limits, host)
    }

    /// What is to be written between the parts of the message.
    private struct Additions {
        /// Behind the first line.
        var lineEnd = 0
        var host = ""
        /// Behind the last field; where the empty line begins.
        var fieldsEnd = 0
        var length = ""
        /// Where the content begins, and whether it is left out.
        var contentStart = 0
        var omitsContent = false
    }

    func encode(requestOf type: UInt32, into output: inout SendBuffer) throws(FrameError) {
        write(
            try body.withSpan { bytes throws(FrameError) in
                let line = try HTTP1RequestLine(in: bytes)
                return try additions(toRequest: bytes, line, type)
            },
            into: &output
        )
    }

    func encode(responseTo method: UInt32, into output: inout SendBuffer) throws(FrameError) {
        write(
            try body.withSpan { bytes throws(FrameError) in
                try additions(toResponse: bytes, try HTTP1StatusLine(in: bytes), to: method)
            },
            into: &output
        )
    }

    // MARK: Rules

    private func additions(
        toRequest bytes: Span<UInt8>,
        _ line: HTTP1RequestLine,
        _ type: UInt32
    ) throws(FrameError) -> Additions {
        let (end, framing) = try head(bytes, line.end, minor: line.minor)
        guard line.minor == 1 else { throw FrameError(.malformed, "a request of another version than HTTP/1.1") }
        let method = HTTP1Request.Method(HTTP1Grammar.text(bytes, line.method))
        let expected = method.type
        guard type == expected || !Self.isSpecial(type) && !Self.isSpecial(expected) else {
            throw FrameError(.unknownType, "a \(method) request has the frame type \(expected), not \(type)")
        }
        var additions = Additions(lineEnd: line.end, fieldsEnd: end - 2, contentStart: end)
        let count = try checkContent(bytes, from: end, framing)
        if method == .trace || method == .connect {
            guard count == 0 else { throw FrameError(.malformed, "a \(method) request has no content") }
        }
        if !framing.hasHost {
            guard let host else { throw FrameError(.malformed, "a request without Host (RFC 9112 §3.2)") }
            guard HTTP1Grammar.isHost(host) else {
                throw FrameError(.malformed, "“\(host.withoutCredentials.escaped())” is no host")
            }
            additions.host = "Host: \(host)\r\n"
        }
        let isUsual = method == .post || method == .put || method == .patch
        if !framing.isChunked, framing.contentLength == nil, count > 0 || isUsual {
            additions.length = "Content-Length: \(count)\r\n"
        }
        return additions
    }

    /// Whether responses to this type of request have no content: the codec must not be wrong about that.
    private static func isSpecial(_ type: UInt32) -> Bool {
        type == HTTP1Request.Method.headType || type == HTTP1Request.Method.connectType
    }

    private func additions(
        toResponse bytes: Span<UInt8>,
        _ line: HTTP1StatusLine,
        to method: UInt32
    ) throws(FrameError) -> Additions {
        let (end, framing) = try head(bytes, line.end, minor: line.minor)
        var additions = Additions(lineEnd: line.end, fieldsEnd: end - 2, contentStart: end)
        let isHead = method == HTTP1Request.Method.headType
        if isHead || line.status == 304, bytes.count == end {
            // The length is that of the content that the response to another request would have had.
            additions.omitsContent = true
            return additions
        }
        let count = try checkContent(bytes, from: end, framing)
        additions.omitsContent = isHead
        if line.status < 200 || line.status == 204 || line.status == 304 {
            guard count == 0, !framing.isChunked, framing.contentLength == nil else {
                throw FrameError(.malformed, "a response \(line.status) has no content")
            }
        } else if !framing.isChunked, framing.contentLength == nil {
            additions.length = "Content-Length: \(count)\r\n"
        }
        return additions
    }

    private func head(
        _ bytes: Span<UInt8>,
        _ lineEnd: Int,
        minor: Int
    ) throws(FrameError) -> (end: Int, framing: HTTP1Framing) {
        var section = HTTP1Section()
        guard let end = try limits.endOfHead(&section, in: bytes) else {
            throw FrameError(.malformed, "a head without an end")
        }
        return (end, try limits.framing(of: bytes, lineEnd..<end - 2, minor: minor))
    }

    /// Returns how many bytes follow the head, which must be as many as it says.
    private func checkContent(_ bytes: Span<UInt8>, from end: Int, _ framing: HTTP1Framing) throws(FrameError) -> Int {
        let count = bytes.count - end
        if framing.isChunked {
            var (chunks, content) = (HTTP1Chunks(at: end), [UInt8]())
            try chunks.advance(in: bytes, content: &content, limits: limits)
            guard chunks.isDone, chunks.offset == bytes.count else {
                throw FrameError(.illegalLength, "content that is not in whole chunks, to the last")
            }
            return content.count
        }
        try limits.check(contentLength: count)
        if let length = framing.contentLength, length != count {
            throw FrameError(.illegalLength, "a Content-Length of \(length) before \(count) bytes")
        }
        return count
    }

    // MARK: Bytes

    private func write(_ additions: Additions, into output: inout SendBuffer) {
        output.append(body[..<additions.lineEnd])
        output.append(utf8: additions.host)
        output.append(body[additions.lineEnd..<additions.fieldsEnd])
        output.append(utf8: additions.length + "\r\n")
        if !additions.omitsContent { output.append(body.part(additions.contentStart..<body.count)) }
    }
}
