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

    func check(fieldsIn bytes: Span<UInt8>, _ range: Range<Int>) throws(FrameError) {
        var (lines, count) = (HTTP1FieldLines(range), 0)
        while try lines.next(in: bytes) != nil {
            count += 1
            guard count <= fields else { throw FrameError(.illegalLength, "more than \(fields) fields") }
        }
    }
}
