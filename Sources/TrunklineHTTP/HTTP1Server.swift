import Trunkline

/// HTTP/1.1 as a server speaks it: requests in, whole responses out. For tests.
struct HTTP1Server: FrameCodec, SentFrameCodec {
    let limits: HTTP1Limits
    /// The types of the requests that have no response yet.
    private var unanswered = Deque<UInt32>()
    /// The status of the reply of which parts have gone out, and not yet the last.
    private var statusInParts: UInt32?
    private var section = HTTP1Section()
    private var place = Place.head

    private enum Place: Sendable {
        case head
        /// What is known of the request at hand: its type, the length of its head and that of its content.
        case content(UInt32, head: Int, length: Int)
        case chunks(UInt32, head: Int, HTTP1Chunks)
    }

    /// So many requests may wait for their responses: a client that sends more has nothing to gain.
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
        default: throw FrameError(.malformed, "a server sends nothing but responses, and no \(frame.kind)")
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
                // Without either, a request has no content (RFC 9112 §6.3).
                let length = framing.contentLength ?? 0
                try limits.check(contentLength: length)
                place = .content(type, head: end, length: length)
            }
        }
    }

    /// Walks on through the chunks, and when it is at their end, through all of them for the content.
    private func walk(
        _ chunks: inout HTTP1Chunks,
        _ bytes: Span<UInt8>,
        head: Int
    ) throws(FrameError) -> [UInt8]? {
        var body: [UInt8] = []
        try chunks.advance(in: bytes, content: &body, limits: limits)
        // Bytes around the content are not content: they have a limit of their own.
        guard chunks.offset - head <= 2 * limits.body + limits.head else {
            throw FrameError(.illegalLength, "chunks of hardly any content")
        }
        guard chunks.isDone else { return nil }
        body = []
        HTTP1Grammar.append(bytes, 0..<head, to: &body)
        var again = HTTP1Chunks(at: head)
        try again.advance(in: bytes, content: &body, limits: limits)
        HTTP1Grammar.append(bytes, chunks.trailers, to: &body)
        return body
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
        guard frame[Frame.headLength] != nil else { return frame.body }
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
