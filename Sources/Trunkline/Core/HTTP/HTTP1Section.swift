/// Finds the empty line that ends a head or a trailer section, and looks at no byte twice, in however many pieces it
/// comes. Offsets count from the front of the input.
struct HTTP1Section: Sendable {
    /// Where the line at hand begins.
    private var line: Int
    private var scanned: Int
    private var isEmpty = true

    init(at offset: Int = 0) {
        line = offset
        scanned = offset
    }

    /// Where the section ends, behind its empty line; `nil` when that has not come.
    mutating func end(in bytes: Span<UInt8>, mayBeEmpty: Bool = false) throws(FrameError) -> Int? {
        while scanned < bytes.count {
            let byte = bytes[scanned]
            scanned += 1
            guard byte == HTTP1Grammar.lineFeed else { continue }
            guard scanned - line >= 2, bytes[scanned - 2] == HTTP1Grammar.carriageReturn else {
                throw HTTP1Grammar.complaint(about: byte, in: "a head")
            }
            let isLast = scanned - line == 2
            line = scanned
            if isLast {
                guard !isEmpty || mayBeEmpty else { throw FrameError(.malformed, "an empty line in place of a head") }
                isEmpty = true
                return scanned
            }
            isEmpty = false
        }
        return nil
    }

    /// The bytes before `offset` are gone from the input.
    mutating func advance(by offset: Int) {
        line -= offset
        scanned -= offset
    }
}
