import TrunklineCore

/// Checks an outbound message as strictly as an inbound one, and adds missing fields.
struct HTTP1Encoding {
    private let body: Bytes
    private let limits: HTTP1Limits
    private let host: String?

    init(_ body: Bytes, _ limits: HTTP1Limits, host: String? = nil) {
        (self.body, self.limits, self.host) = (body, limits, host)
    }

    /// The text to insert into the message, and where.
    private struct Additions {
        var lineEnd = 0
        var host = ""
        var fieldsEnd = 0
        var length = ""
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

    private func additions(
        toRequest bytes: Span<UInt8>,
        _ line: HTTP1RequestLine,
        _ type: UInt32
    ) throws(FrameError) -> Additions {
        let (end, framing) = try head(bytes, line.end, minor: line.minor)
        guard line.minor == 1 else { throw FrameError(.malformed, "the version of the request is not HTTP/1.1") }
        let method = HTTP1Request.Method(HTTP1Grammar.text(bytes, line.method))
        let expected = method.type
        guard type == expected || !Self.isSpecial(type) && !Self.isSpecial(expected) else {
            throw FrameError(.unknownType, "a \(method) request must have the frame type \(expected), not \(type)")
        }
        var additions = Additions(lineEnd: line.end, fieldsEnd: end - 2, contentStart: end)
        let count = try checkContent(bytes, from: end, framing)
        if method == .trace || method == .connect {
            guard count == 0 else { throw FrameError(.malformed, "a \(method) request must not have content") }
        }
        if !framing.hasHost {
            guard let host else {
                throw FrameError(
                    .malformed,
                    "a request without Host (RFC 9112 §3.2); set the codec's host or the field"
                )
            }
            guard HTTP1Grammar.isHost(host) else {
                throw FrameError(.malformed, "“\(host.withoutCredentials.escaped())” is not a valid host")
            }
            additions.host = "Host: \(host)\r\n"
        }
        let isUsual = method == .post || method == .put || method == .patch
        if !framing.isChunked, framing.contentLength == nil, count > 0 || isUsual {
            additions.length = "Content-Length: \(count)\r\n"
        }
        return additions
    }

    /// Whether responses to requests of this type have no content, which the codec must know for certain.
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
            // `Content-Length`, if present, is the length that the response to a GET would have.
            additions.omitsContent = true
            return additions
        }
        let count = try checkContent(bytes, from: end, framing)
        additions.omitsContent = isHead
        if line.status < 200 || line.status == 204 || line.status == 304 {
            guard count == 0, !framing.isChunked, framing.contentLength == nil else {
                throw FrameError(.malformed, "a response with status \(line.status) must not have content")
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
            throw FrameError(.malformed, "the head has no end")
        }
        return (end, try limits.framing(of: bytes, lineEnd..<end - 2, minor: minor))
    }

    private func checkContent(_ bytes: Span<UInt8>, from end: Int, _ framing: HTTP1Framing) throws(FrameError) -> Int {
        let count = bytes.count - end
        if framing.isChunked {
            var (chunks, content) = (HTTP1Chunks(at: end), [UInt8]())
            try chunks.advance(in: bytes, content: &content, limits: limits)
            guard chunks.isDone, chunks.offset == bytes.count else {
                throw FrameError(.illegalLength, "the content is not a complete sequence of chunks")
            }
            return content.count
        }
        try limits.check(contentLength: count)
        if let length = framing.contentLength, length != count {
            throw FrameError(.illegalLength, "Content-Length is \(length), but the size of the content is \(count)")
        }
        return count
    }

    private func write(_ additions: Additions, into output: inout SendBuffer) {
        output.append(body[..<additions.lineEnd])
        output.append(utf8: additions.host)
        output.append(body[additions.lineEnd..<additions.fieldsEnd])
        output.append(utf8: additions.length + "\r\n")
        if !additions.omitsContent { output.append(body.part(additions.contentStart..<body.count)) }
    }
}
