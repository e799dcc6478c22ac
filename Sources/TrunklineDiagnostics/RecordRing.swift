import TrunklineCore

/// Records of varying length in fixed memory. When it is full, the oldest are overwritten.
///
/// The segments are filled in turn. The next one is emptied as a whole, so no record has to be found by its age, and at
/// least 15 of 16 parts of the memory hold the latest records.
///
/// Safe: the memory is accessed only here, within its bounds, and freed with the ring.
@safe
struct RecordRing: ~Copyable {
    private let memory: UnsafeMutablePointer<UInt64>
    private let segmentSize: Int
    /// In words, of all segments but the one that is being filled.
    private var used = [Int](repeating: 0, count: Self.segmentCount)
    private var segment = 0
    private var next = 0
    private var end: Int
    /// In words.
    private(set) var overwrittenCount = 0

    private static let segmentCount = 16

    init(byteCount: Int) {
        segmentSize = max(64, byteCount / MemoryLayout<UInt64>.size / Self.segmentCount)
        let count = segmentSize * Self.segmentCount
        unsafe memory = .allocate(capacity: count)
        // The pages are touched when first used.
        end = segmentSize
    }

    deinit { unsafe memory.deallocate() }

    var maximumRecordSize: Int { segmentSize }

    /// `body` must initialize all `count` words, at most `maximumRecordSize`.
    @inline(__always)
    mutating func append(_ count: Int, _ body: (UnsafeMutablePointer<UInt64>) -> Void) {
        if next + count > end { turn() }
        precondition(next + count <= end, "the record is longer than a segment")
        // Safe: `next` up to `next + count` lies within the segment, and so within the memory.
        unsafe body(memory + next)
        next += count
    }

    @inline(never)
    private mutating func turn() {
        used[segment] = next - segment * segmentSize
        segment = (segment + 1) % Self.segmentCount
        overwrittenCount += exchange(&used[segment], with: 0)
        next = segment * segmentSize
        end = next + segmentSize
    }

    var words: [UInt64] {
        var words: [UInt64] = []
        for step in 1...Self.segmentCount {
            let index = (segment + step) % Self.segmentCount
            let start = index * segmentSize
            let count = index == segment ? next - start : used[index]
            // Safe: the first `count` words of the segment are initialized.
            unsafe words.append(contentsOf: UnsafeBufferPointer(start: memory + start, count: count))
        }
        return words
    }
}
