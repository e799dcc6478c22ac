import Trunkline

/// Where the parts of a message are in the body of its frame: `head ++ content ++ trailers`. The head ends with its empty
/// line, the trailers without one. How long these two are, the frame says in named fields.
struct HTTP1Message {
    /// With the empty line.
    let head: Int
    let content: Range<Int>
    let trailers: Range<Int>

    /// A frame that does not say where its head ends is searched for it.
    init(in frame: Frame) throws(FrameError) {
        let count = frame.body.count
        if let length = frame[Frame.headLength] {
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
        let length = frame.malformedReason == nil ? frame[Frame.trailerLength] ?? 0 : 0
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
    static func joined(_ lines: consuming [UInt8], _ content: Bytes) -> Bytes {
        lines.reserveCapacity(lines.count + 2 + content.count)
        lines += [HTTP1Grammar.carriageReturn, HTTP1Grammar.lineFeed]
        lines += content
        return Bytes(lines)
    }
}
