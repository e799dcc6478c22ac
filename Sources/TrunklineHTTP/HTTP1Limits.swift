import Trunkline

/// How large messages may be, in both directions.
struct HTTP1Limits: Sendable {
    /// Bytes of a head, the interim responses before it included, and of a trailer section.
    var head: Int
    /// Bytes of content.
    var body: Int
    /// Field lines of each.
    var fields: Int

    init(head: Int, body: Int, fields: Int) {
        // No sum of two of them overflows, nor sixteen times one.
        self.head = min(max(0, head), 1 << 56)
        self.body = min(max(0, body), 1 << 56)
        self.fields = max(0, fields)
    }

    /// Where the head that begins at `start` ends, with the empty line; `nil` when it is not all there. Interim responses
    /// before it count as part of it.
    func endOfHead(_ section: inout HTTP1Section, in bytes: Span<UInt8>) throws(FrameError) -> Int? {
        let end = try section.end(in: bytes)
        guard (end ?? bytes.count) <= head else {
            throw FrameError(.illegalLength, "a head of more than \(head) bytes")
        }
        return end
    }

    func check(contentLength: Int) throws(FrameError) {
        guard contentLength <= body else {
            throw FrameError(.illegalLength, "content of \(contentLength) bytes, the limit is \(body)")
        }
    }

    func framing(of bytes: Span<UInt8>, _ range: Range<Int>, minor: Int) throws(FrameError) -> HTTP1Framing {
        try HTTP1Framing(bytes, range, minor: minor, maximumFields: fields)
    }

    /// What no trailer section may hold.
    private static let misplaced = ["content-length", "transfer-encoding", "host"]

    /// Checks the field lines of a trailer section. What a message's end or its recipient goes by is refused there: a reader
    /// that takes trailers for fields of the head would read another message (RFC 9110 §6.5.1).
    func check(trailersIn bytes: Span<UInt8>, _ range: Range<Int>) throws(FrameError) {
        var (lines, count) = (HTTP1FieldLines(range), 0)
        while let (name, _) = try lines.next(in: bytes) {
            count += 1
            guard count <= fields else { throw FrameError(.illegalLength, "more than \(fields) fields") }
            for field in Self.misplaced where HTTP1Grammar.isEqual(bytes, name, field) {
                throw FrameError(.malformed, "\(field) in a trailer section (RFC 9110 §6.5.1)")
            }
        }
    }
}
