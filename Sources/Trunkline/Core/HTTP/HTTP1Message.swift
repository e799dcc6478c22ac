/// Where the parts of a message are in the body of its frame: `head ++ content ++ trailers`. The head ends with its empty
/// line, the trailers without one. How long these two are, the frame says in named fields.
struct HTTP1Message {
    static let headLength = "headLength"
    static let trailerLength = "trailerLength"

    /// With the empty line.
    let head: Int
    let content: Range<Int>
    let trailers: Range<Int>

    /// A frame that does not say where its head ends is searched for it.
    init(in frame: Frame) throws(FrameError) {
        let count = frame.body.count
        if let length = frame[Self.headLength] {
            guard length <= UInt64(count) else { throw FrameError(.illegalLength, "a head longer than its frame") }
            head = Int(length)
        } else {
            head = try frame.body.withSpan { bytes throws(FrameError) in
                var section = HTTP1Section()
                guard let end = try section.end(in: bytes) else {
                    throw FrameError(.malformed, "a head without an end")
                }
                return end
            }
        }
        // Of a message that was cut off, the trailers are gone.
        let length = frame.malformedReason == nil ? frame[Self.trailerLength] ?? 0 : 0
        guard length <= UInt64(count - head) else {
            throw FrameError(.illegalLength, "trailers longer than their frame")
        }
        trailers = count - Int(length)..<count
        content = head..<trailers.lowerBound
    }

    /// The field lines of the head, whose first line ends at `start`.
    func fields(after start: Int) throws(FrameError) -> Range<Int> {
        guard start <= head - 2 else { throw FrameError(.illegalLength, "a head that ends in its first line") }
        return start..<head - 2
    }

    /// A message of `lines` and `content`.
    static func joined(_ lines: [UInt8], _ content: Bytes) -> Bytes {
        var all = lines
        all.reserveCapacity(lines.count + 2 + content.count)
        all += [HTTP1Grammar.carriageReturn, HTTP1Grammar.lineFeed]
        all += content
        return Bytes(all)
    }
}

extension Frame {
    /// How many bytes the body has without the head and the trailers of an HTTP message.
    package var contentCount: Int {
        let head = Int(clamping: self[HTTP1Message.headLength] ?? 0)
        let trailers = Int(clamping: self[HTTP1Message.trailerLength] ?? 0)
        // Named fields of that name in another protocol are somebody else's: they may say anything.
        return head <= body.count && trailers <= body.count - head ? body.count - head - trailers : body.count
    }
}

extension Bytes {
    /// Calls `body` with the bytes.
    func withSpan<Result>(_ body: (Span<UInt8>) throws(FrameError) -> Result) throws(FrameError) -> Result {
        try body(storage.span.extracting(start..<start + count))
    }

    /// The bytes in `range`: shared if they are many enough to be worth keeping the rest for.
    func part(_ range: Range<Int>) -> Bytes {
        let range = start + range.lowerBound..<start + range.upperBound
        return range.count >= storage.count / 8
            ? Bytes(sharing: storage, in: range) : Bytes(Array(storage[range]))
    }
}

extension ReceiveBuffer {
    /// Calls `body` with the bytes that are there.
    func withSpan<Result>(_ body: (Span<UInt8>) throws(FrameError) -> Result) throws(FrameError) -> Result {
        try body(storage.span.extracting(lower..<upper))
    }
}
