import TrunklineCore

/// Decodes content in chunks (RFC 9112 §7.1) as it arrives. Reads each byte once.
///
///     size ──► data ──► end of data ──► size … size 0 ──► trailers ──► done
struct HTTP1Chunks: Sendable {
    private enum Place {
        case size
        case data(left: Int)
        /// Before the CR LF after the data.
        case dataEnd
        case trailers
        case done
    }

    private var place = Place.size
    /// Not part of `place`, which is copied for each chunk.
    private var section = HTTP1Section()
    /// Decoded bytes, from the front of the input.
    private(set) var offset: Int
    /// How far the line at `offset` has been searched for its end.
    private var scanned: Int
    private var contentCount = 0
    /// Valid after the end of the content was decoded.
    private(set) var trailers = 0..<0

    private static let maximumLine = 256

    init(at offset: Int = 0) { (self.offset, scanned) = (offset, offset) }

    var isDone: Bool { if case .done = place { true } else { false } }

    /// Call after the bytes before `offset` were removed from the input.
    mutating func consume() {
        scanned -= offset
        section.advance(by: offset)
        offset = 0
    }

    mutating func advance(
        in bytes: Span<UInt8>,
        content: inout [UInt8],
        limits: HTTP1Limits
    ) throws(FrameError) {
        while offset < bytes.count {
            switch place {
            case .size:
                guard let line = try takeLine(in: bytes) else { return }
                let size = try Self.size(in: bytes, line, after: contentCount, limits: limits)
                place = size > 0 ? .data(left: size) : .trailers
                if size == 0 { section = HTTP1Section(at: offset) }
            case .data(let left):
                let count = min(left, bytes.count - offset)
                if count < 16 {
                    for index in offset..<offset + count { content.append(bytes[index]) }
                } else {
                    HTTP1Grammar.append(bytes, offset..<offset + count, to: &content)
                }
                contentCount += count
                offset += count
                place = count < left ? .data(left: left - count) : .dataEnd
            case .dataEnd:
                guard bytes[offset] == HTTP1Grammar.carriageReturn else { throw Self.overrun }
                guard offset + 1 < bytes.count else { return }
                guard bytes[offset + 1] == HTTP1Grammar.lineFeed else { throw Self.overrun }
                offset += 2
                scanned = offset
                place = .size
            case .trailers:
                let end = try section.end(in: bytes, mayBeEmpty: true)
                guard (end ?? bytes.count) - offset <= limits.head else {
                    throw FrameError(
                        exceedingLimit:
                            "the trailer section exceeds the limit of \(limits.head) bytes (maximumHeadSize)"
                    )
                }
                guard let end else { return }
                trailers = offset..<end - 2
                try limits.check(trailersIn: bytes, trailers)
                offset = end
                place = .done
            case .done: return
            }
        }
    }

    private static var overrun: FrameError { FrameError(.malformed, "no CR LF after the data of a chunk") }

    private mutating func takeLine(in bytes: Span<UInt8>) throws(FrameError) -> Range<Int>? {
        while scanned < bytes.count, bytes[scanned] != HTTP1Grammar.lineFeed { scanned += 1 }
        guard scanned - offset <= Self.maximumLine else {
            throw FrameError(exceedingLimit: "the size line of a chunk exceeds the limit of \(Self.maximumLine) bytes")
        }
        guard scanned < bytes.count else { return nil }
        guard scanned > offset, bytes[scanned - 1] == HTTP1Grammar.carriageReturn else {
            throw HTTP1Grammar.complaint(about: HTTP1Grammar.lineFeed, in: "the size line of a chunk")
        }
        defer {
            scanned += 1
            offset = scanned
        }
        return offset..<scanned - 1
    }

    /// Hexadecimal digits, then extensions, which are ignored (RFC 9112 §7.1.1).
    private static func size(
        in bytes: Span<UInt8>,
        _ line: Range<Int>,
        after count: Int,
        limits: HTTP1Limits
    ) throws(FrameError) -> Int {
        let maximum = limits.body - count
        var (size, index) = (0, line.lowerBound)
        while index < line.upperBound, let digit = bytes[index].hexadecimalValue {
            size = size * 16 + Int(digit)
            guard size <= maximum else {
                throw FrameError(
                    exceedingLimit: "the chunked content exceeds the limit of \(limits.body) bytes (maximumBodySize)"
                )
            }
            index += 1
        }
        guard index > line.lowerBound else { throw FrameError(.malformed, "a chunk without a size") }
        let end = index
        while index < line.upperBound, HTTP1Grammar.isBlank(bytes[index]) { index += 1 }
        guard index == line.upperBound ? index == end : bytes[index] == HTTP1Grammar.semicolon else {
            throw FrameError(.malformed, "a chunk size that is not a hexadecimal number")
        }
        while index < line.upperBound {
            guard HTTP1Grammar.isText(bytes[index]) else {
                throw HTTP1Grammar.complaint(about: bytes[index], in: "the extension of a chunk")
            }
            index += 1
        }
        return size
    }
}
