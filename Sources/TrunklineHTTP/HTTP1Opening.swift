package import TrunklineCore

/// The first part of a message in frames: the whole head, and the beginning of the content.
///
/// A transfer coding is not allowed, and a `Content-Length` must agree with the frames: a reader of the frames and a
/// reader of the fields must see the same message (RFC 9112 §11).
package struct HTTP1Opening {
    package static let maximumHead = 64 * 1024
    private static let limits = HTTP1Limits(head: maximumHead, body: .max, fields: 256)

    package let contentLength: Int?

    package static func request(_ piece: Bytes) throws(FrameError) -> (HTTP1Request, HTTP1Opening) {
        let opening = try HTTP1Opening(piece) { bytes throws(FrameError) in
            let line = try HTTP1RequestLine(in: bytes)
            return (line.end, line.minor, needsHost: true)
        }
        return (try HTTP1Request(Frame(.request, body: piece)), opening)
    }

    package static func response(_ piece: Bytes) throws(FrameError) -> (HTTP1Response, HTTP1Opening) {
        let opening = try HTTP1Opening(piece) { bytes throws(FrameError) in
            let line = try HTTP1StatusLine(in: bytes)
            guard line.status >= 200 else {
                throw FrameError(
                    .malformed,
                    "an interim response (status \(line.status)) is not allowed in a framed message"
                )
            }
            return (line.end, line.minor, needsHost: false)
        }
        return (try HTTP1Response(Frame(.response, body: piece)), opening)
    }

    private init(
        _ piece: Bytes,
        firstLine: (Span<UInt8>) throws(FrameError) -> (end: Int, minor: Int, needsHost: Bool)
    ) throws(FrameError) {
        contentLength = try piece.withSpan { bytes throws(FrameError) in
            var section = HTTP1Section()
            guard let end = try Self.limits.endOfHead(&section, in: bytes) else {
                throw FrameError(.malformed, "the first part does not contain the whole head")
            }
            let line = try firstLine(bytes)
            guard line.minor == 1 else { throw FrameError(.malformed, "the version is not HTTP/1.1") }
            guard line.end <= end - 2 else { throw FrameError(.malformed, "the head ends within its first line") }
            let framing = try Self.limits.framing(of: bytes, line.end..<end - 2, minor: line.minor)
            guard !framing.isChunked else {
                throw FrameError(.malformed, "Transfer-Encoding is not allowed in a framed message")
            }
            guard framing.hasHost || !line.needsHost else {
                throw FrameError(.malformed, "a request without Host (RFC 9112 §3.2)")
            }
            return framing.contentLength
        }
    }
}

extension HTTP1Headers {
    /// Omits the fields that concern only one connection (RFC 9110 §7.6.1).
    package var endToEnd: HTTP1Headers {
        var dropped = Set([
            "connection", "keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization", "te",
            "trailer", "transfer-encoding", "upgrade",
        ])
        for value in values(of: "Connection") {
            HTTP1Grammar.forEachElement(of: value) { option in
                if option.allSatisfy({ $0 < 0x80 }) { dropped.insert(String(decoding: option, as: UTF8.self)) }
            }
        }
        return filtering { !dropped.contains($0) }
    }

    package func filtering(_ predicate: (String) -> Bool) -> HTTP1Headers {
        var kept = HTTP1Headers()
        for (name, value) in self where predicate(name.lowercased()) { kept.append(name, value) }
        return kept
    }
}
