import TrunklineCore

/// Records of varying length in fixed memory. When it is full, the oldest are overwritten.
///
/// The memory is divided into segments, which are filled in turn. The segment that comes next is emptied as a whole: no
/// record has to be found by its age. So at least 15 of 16 parts of the memory hold the latest records.
///
///     segments:  [ older … | newest, being filled ▲    | oldest … | … ]
///
/// Safe: the memory is accessed only here, within its bounds, and freed with the ring.
@safe
struct RecordRing: ~Copyable {
    private let memory: UnsafeMutablePointer<UInt64>
    private let segmentSize: Int
    /// The number of words in use of each segment, except the one that is being filled.
    private var used = [Int](repeating: 0, count: Self.segmentCount)
    private var segment = 0
    /// The place of the next word, and the end of the segment that is being filled.
    private var next = 0
    private var end: Int
    /// The number of words that were overwritten.
    private(set) var overwrittenCount = 0

    private static let segmentCount = 16

    init(byteCount: Int) {
        segmentSize = max(64, byteCount / MemoryLayout<UInt64>.size / Self.segmentCount)
        let count = segmentSize * Self.segmentCount
        unsafe memory = .allocate(capacity: count)
        // The pages are touched when they are first used.
        end = segmentSize
    }

    deinit { unsafe memory.deallocate() }

    /// The maximum number of words of one record.
    var maximumRecordSize: Int { segmentSize }

    /// Makes room for a record of `count` words, at most `maximumRecordSize`, and calls `body` with its memory, of which
    /// it must initialize all words.
    @inline(__always)
    mutating func append(_ count: Int, _ body: (UnsafeMutablePointer<UInt64>) -> Void) {
        if next + count > end { turn() }
        precondition(next + count <= end, "the record is longer than a segment")
        // Safe: `next` up to `next + count` lies within the segment, and so within the memory.
        unsafe body(memory + next)
        next += count
    }

    /// Goes on to the next segment, and forgets what it holds.
    @inline(never)
    private mutating func turn() {
        used[segment] = next - segment * segmentSize
        segment = (segment + 1) % Self.segmentCount
        overwrittenCount += exchange(&used[segment], with: 0)
        next = segment * segmentSize
        end = next + segmentSize
    }

    /// A copy of all words, from the oldest record on.
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
