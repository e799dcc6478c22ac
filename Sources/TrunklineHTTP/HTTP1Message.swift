import TrunklineCore

/// The parts of a message in its frame: `head ++ content ++ trailers`. The head includes its empty line, the trailers
/// do not. The frame's named fields hold the sizes of the head and of the trailers.
struct HTTP1Message {
    let head: Int
    let content: Range<Int>
    let trailers: Range<Int>

    init(in frame: Frame) throws(FrameError) {
        let count = frame.body.count
        if let length = frame[Frame.headLength] {
            guard length <= UInt64(count) else { throw FrameError(.illegalLength, "the head is longer than the frame") }
            head = Int(length)
        } else {
            head = try frame.body.withSpan { bytes throws(FrameError) in
                var section = HTTP1Section()
                guard let end = try section.end(in: bytes) else {
                    throw FrameError(.malformed, "the head does not end with an empty line")
                }
                return end
            }
        }
        // A frame that was cut off has lost its trailers.
        let length = frame.malformedReason == nil ? frame[Frame.trailerLength] ?? 0 : 0
        guard length <= UInt64(count - head) else {
            throw FrameError(.illegalLength, "the trailers are longer than the frame")
        }
        trailers = count - Int(length)..<count
        content = head..<trailers.lowerBound
    }

    func fields(after start: Int) throws(FrameError) -> Range<Int> {
        guard start <= head - 2 else { throw FrameError(.illegalLength, "the head ends within its first line") }
        return start..<head - 2
    }

    static func joined(_ lines: consuming [UInt8], _ content: Bytes) -> Bytes {
        lines.reserveCapacity(lines.count + 2 + content.count)
        lines += [HTTP1Grammar.carriageReturn, HTTP1Grammar.lineFeed]
        lines += content
        return Bytes(lines)
    }
}
