import TrunklineCore

/// The size limits of messages, in both directions. `head` and `body` are in bytes.
struct HTTP1Limits: Sendable {
    /// In bytes: a head with the interim responses before it, or a trailer section.
    var head: Int
    var body: Int
    var fields: Int

    init(head: Int, body: Int, fields: Int) {
        // Neither the sum of two limits nor sixteen times one overflows.
        self.head = min(max(1, head), 1 << 56)
        self.body = min(max(0, body), 1 << 56)
        self.fields = max(1, fields)
    }

    /// Interim responses before the head count as part of it.
    func endOfHead(_ section: inout HTTP1Section, in bytes: Span<UInt8>) throws(FrameError) -> Int? {
        let end = try section.end(in: bytes)
        try check(headLength: end ?? bytes.count)
        return end
    }

    func check(headLength: Int) throws(FrameError) {
        guard headLength <= head else {
            throw FrameError(exceedingLimit: "the head exceeds the limit of \(head) bytes (maximumHeadSize)")
        }
    }

    func check(contentLength: Int) throws(FrameError) {
        guard contentLength <= body else {
            throw FrameError(
                exceedingLimit:
                    "content of \(contentLength) bytes exceeds the limit of \(body) bytes (maximumBodySize)"
            )
        }
    }

    func framing(of bytes: Span<UInt8>, _ range: Range<Int>, minor: Int) throws(FrameError) -> HTTP1Framing {
        try HTTP1Framing(bytes, range, minor: minor, maximumFields: fields)
    }

    /// Their names have 14, 17 and 4 bytes.
    private static let misplaced = ["content-length", "transfer-encoding", "host"]

    /// Fields that determine where a message ends or who receives it are rejected: a reader that merges trailers into
    /// the head would see a different message (RFC 9110 §6.5.1).
    func check(trailersIn bytes: Span<UInt8>, _ range: Range<Int>) throws(FrameError) {
        var (lines, count) = (HTTP1FieldLines(range), 0)
        while let (name, _) = try lines.next(in: bytes) {
            count += 1
            guard count <= fields else {
                throw FrameError(
                    exceedingLimit:
                        "the trailer section exceeds the limit of \(fields) fields (maximumFields)"
                )
            }
            guard name.count == 4 || name.count == 14 || name.count == 17 else { continue }
            for field in Self.misplaced where HTTP1Grammar.isEqual(bytes, name, field) {
                throw FrameError(.malformed, "\(field) in a trailer section (RFC 9110 §6.5.1)")
            }
        }
    }
}
