import TrunklineCore

/// The server side of HTTP/1.1, for tests.
struct HTTP1Server: FrameCodec, SentFrameCodec {
    let limits: HTTP1Limits
    private var unanswered = Deque<UInt32>()
    /// `nil` before the first part and after the last.
    private var statusInParts: UInt32?
    private var section = HTTP1Section()
    private var place = Place.head
    private var body: [UInt8] = []

    private enum Place: Sendable {
        case head
        case content(UInt32, head: Int, length: Int)
        case chunks(UInt32, head: Int, HTTP1Chunks)
    }

    private static let maximumUnanswered = 65_536

    init(limits: HTTP1Limits) { self.limits = limits }

    var matching: ResponseMatching { .inOrder }

    mutating func noteSent(_ frame: Frame) {
        if frame.kind == .part { return statusInParts = statusInParts ?? HTTP1Reply(frame, limits).status }
        if !(100..<200).contains(frame.status) { _ = unanswered.popFirst() }
        statusInParts = nil
    }

    func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        let (reply, method) = (HTTP1Reply(frame, limits), unanswered.first ?? 0)
        switch (frame.kind, statusInParts) {
        case (.response, nil): try HTTP1Encoding(reply.message(), limits).encode(responseTo: method, into: &output)
        case (.response, let status), (.part, let status):
            try reply.encodePart(behind: status, isLast: frame.kind == .response, to: method, into: &output)
        default:
            throw FrameError(.malformed, "an HTTP/1.1 server sends only responses, not a frame of kind \(frame.kind)")
        }
    }

    mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        if case .head = place { try readHead(input) }
        switch place {
        case .head: return nil
        case .content(let type, let head, let length):
            guard let body = input.readBytes(head + length) else {
                input.await(head + length)
                return nil
            }
            return finish(type, body, head: head)
        case .chunks(let type, let head, var chunks):
            let body = try input.withSpan { bytes throws(FrameError) in try walk(&chunks, bytes, head: head) }
            place = .chunks(type, head: head, chunks)
            guard let body else { return nil }
            input.skip(chunks.offset)
            return finish(type, Bytes(body), head: head, trailers: chunks.trailers.count)
        }
    }

    private mutating func readHead(_ input: ReceiveBuffer) throws(FrameError) {
        try input.withSpan { bytes throws(FrameError) in
            guard let end = try limits.endOfHead(&section, in: bytes) else { return }
            let line = try HTTP1RequestLine(in: bytes)
            let framing = try limits.framing(of: bytes, line.end..<end - 2, minor: line.minor)
            guard framing.hasHost || line.minor == 0 else {
                throw FrameError(.malformed, "a request without Host (RFC 9112 §3.2)")
            }
            guard unanswered.count < Self.maximumUnanswered else {
                throw FrameError(.illegalLength, "more than \(Self.maximumUnanswered) requests without a response")
            }
            let type = HTTP1Request.Method(HTTP1Grammar.text(bytes, line.method)).type
            if framing.isChunked {
                place = .chunks(type, head: end, HTTP1Chunks(at: end))
            } else {
                // Without Content-Length and chunks, a request has no content (RFC 9112 §6.3).
                let length = framing.contentLength ?? 0
                try limits.check(contentLength: length)
                place = .content(type, head: end, length: length)
            }
        }
    }

    private mutating func walk(
        _ chunks: inout HTTP1Chunks,
        _ bytes: Span<UInt8>,
        head: Int
    ) throws(FrameError) -> [UInt8]? {
        if body.isEmpty { HTTP1Grammar.append(bytes, 0..<head, to: &body) }
        try chunks.advance(in: bytes, content: &body, limits: limits)
        // The overhead of chunks is not content, so it has its own limit.
        guard chunks.offset - head <= 2 * limits.body + limits.head else {
            throw FrameError(.illegalLength, "the chunks' overhead exceeds \(2 * limits.body + limits.head) bytes")
        }
        guard chunks.isDone else { return nil }
        HTTP1Grammar.append(bytes, chunks.trailers, to: &body)
        return exchange(&body, with: [])
    }

    private mutating func finish(_ type: UInt32, _ body: Bytes, head: Int, trailers: Int = 0) -> Frame {
        var frame = Frame(.request, type: type, body: body)
        frame[Frame.headLength] = UInt64(head)
        frame[Frame.trailerLength] = UInt64(trailers)
        unanswered.append(type)
        (place, section) = (.head, HTTP1Section())
        return frame
    }
}

/// A reply whose frame may not be an HTTP message: a test server's reactions can contain any bytes.
struct HTTP1Reply {
    private let frame: Frame
    private let limits: HTTP1Limits

    init(_ frame: Frame, _ limits: HTTP1Limits) { (self.frame, self.limits) = (frame, limits) }

    var status: UInt32 { frame.status == 0 ? 200 : frame.status }

    private static let beginning: Bytes = "HTTP/1."

    func message() throws(FrameError) -> Bytes {
        if frame.body.hasPrefix(Self.beginning) { return frame.body }
        return try HTTP1Response(Int(status), body: content()).frame().body
    }

    private func content() throws(FrameError) -> Bytes {
        guard frame[Frame.headLength] != nil else { return frame.body }
        return frame.body.part(try HTTP1Message(in: frame).content)
    }

    /// Writes a head before the first part and the last chunk after the last part. An empty body is not written as a
    /// chunk, because an empty chunk would end the content (RFC 9112 §7.1).
    func encodePart(
        behind begun: UInt32?,
        isLast: Bool,
        to method: UInt32,
        into output: inout SendBuffer
    ) throws(FrameError) {
        guard !frame.body.hasPrefix(Self.beginning) else {
            throw FrameError(.malformed, "the part begins with \"HTTP/1.\"; a part must contain only content")
        }
        if let begun {
            guard status == begun || frame.status == 0 else {
                throw FrameError(.malformed, "the status cannot change from \(begun) to \(status) after the first part")
            }
        } else {
            guard (200...999).contains(status), status != 204, status != 304 else {
                throw FrameError(
                    .malformed,
                    "a response with status \(status) has no content and cannot be sent in parts"
                )
            }
            guard method != HTTP1Request.Method.connectType else {
                throw FrameError(.malformed, "the response to CONNECT has no content and cannot be sent in parts")
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
