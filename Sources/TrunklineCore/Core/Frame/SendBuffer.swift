/// The bytes of encoded frames that are not written to the socket yet. A codec appends to it.
///
/// Small pieces are copied into one run of memory. ``Bytes`` of 4,096 bytes or more are held by reference and never
/// copied.
public struct SendBuffer: Sendable {
    private enum Segment {
        case gathered(Range<Int>)
        case shared(Bytes)
    }

    @usableFromInline package var gathered: [UInt8] = []
    /// In order. Each follows the first `offset` bytes of `gathered`.
    private var shared: [(offset: Int, bytes: Bytes)] = []
    private var sharedCount = 0
    private var written = 0
    /// The index of the first segment with unwritten bytes, and how many of its bytes were written.
    private var firstUnwritten = 0
    private var writtenOfFirst = 0

    private static let sharingThreshold = 4096

    /// Creates an empty buffer.
    public init() {}

    package var count: Int { appendedCount - written }

    /// Since the buffer was last empty.
    var appendedCount: Int { gathered.count + sharedCount }

    package var isEmpty: Bool { count == 0 }

    /// Appends one byte.
    @inlinable
    public mutating func append(_ byte: UInt8) { gathered.append(byte) }

    /// Appends an unsigned integer. The number of bytes is the size of its type.
    @inlinable
    public mutating func append<Value: FixedWidthInteger & UnsignedInteger>(
        integer value: Value,
        order: ByteOrder = .bigEndian
    ) {
        let ordered = order == .bigEndian ? value.bigEndian : value.littleEndian
        unsafe withUnsafeBytes(of: ordered) { unsafe gathered.append(contentsOf: $0) }
    }

    /// One step takes a quarter of the time of four.
    package mutating func append(integers first: UInt32, _ second: UInt32, _ third: UInt32, then bytes: borrowing Bytes)
    {
        let ordered = (first.bigEndian, second.bigEndian, third.bigEndian)
        let size = MemoryLayout.size(ofValue: ordered)
        let isCopied = bytes.count < Self.sharingThreshold
        unsafe gather(size + (isCopied ? bytes.count : 0)) { memory in
            unsafe memory.storeBytes(of: ordered, as: (UInt32, UInt32, UInt32).self)
            if isCopied { unsafe bytes.copy(to: memory + size) }
        }
        if !isCopied { share(copy bytes) }
    }

    /// Appends the low `width` bytes (0 to 8; other widths are clamped) of `value`; higher bytes are ignored.
    @inlinable
    public mutating func append(integer value: UInt64, width: Int, order: ByteOrder = .bigEndian) {
        let width = Swift.min(Swift.max(width, 0), 8)
        for index in 0..<width {
            let shift = 8 * (order == .bigEndian ? width - 1 - index : index)
            gathered.append(UInt8(truncatingIfNeeded: value >> UInt64(shift)))
        }
    }

    /// Appends `bytes`: by reference if they are 4,096 or more, otherwise as a copy.
    public mutating func append(_ bytes: Bytes) {
        if bytes.count < Self.sharingThreshold {
            unsafe gather(bytes.count) { unsafe bytes.copy(to: $0) }
        } else {
            share(bytes)
        }
    }

    @inline(__always)
    private mutating func gather(_ count: Int, _ fill: (UnsafeMutableRawPointer) -> Void) {
        gathered.append(addingCapacity: count) { output in
            // Safe: the memory has room for `count` bytes, and `fill` writes all of them.
            unsafe output.withUnsafeMutableBufferPointer { memory, filled in
                if let start = memory.baseAddress { unsafe fill(UnsafeMutableRawPointer(start)) }
                filled = count
            }
        }
    }

    private mutating func share(_ bytes: Bytes) {
        shared.append((gathered.count, bytes))
        sharedCount += bytes.count
    }

    /// Appends a copy of `bytes`.
    @inlinable
    public mutating func append(_ bytes: some Collection<UInt8>) { gathered.append(contentsOf: bytes) }

    @inlinable
    package mutating func append(utf8 text: String) { gathered.append(contentsOf: text.utf8) }

    package struct Mark {
        fileprivate var gathered, shared, sharedCount: Int
    }

    package var mark: Mark { Mark(gathered: gathered.count, shared: shared.count, sharedCount: sharedCount) }

    package mutating func rollBack(to mark: Mark) {
        gathered.removeSubrange(mark.gathered...)
        shared.removeSubrange(mark.shared...)
        sharedCount = mark.sharedCount
    }

    /// `length` is counted from when the buffer was last empty.
    mutating func truncate(to length: Int) {
        var kept = Mark(gathered: 0, shared: 0, sharedCount: 0)
        while kept.shared < shared.count, shared[kept.shared].offset + kept.sharedCount < length {
            kept.sharedCount += shared[kept.shared].bytes.count
            kept.shared += 1
        }
        kept.gathered = length - kept.sharedCount
        let end = kept.shared == 0 ? 0 : shared[kept.shared - 1].offset
        precondition(kept.gathered >= end, "the new end of the buffer is within bytes that are held by reference")
        rollBack(to: kept)
    }

    /// A copy of all bytes that were appended, for tests and checksums. Takes time in proportion to their number.
    public var bytes: [UInt8] {
        var all: [UInt8] = []
        for index in 0...2 * shared.count {
            switch segment(index) {
            case .gathered(let range): all += gathered[range]
            case .shared(let bytes): unsafe bytes.withUnsafeBytes { unsafe all.append(contentsOf: $0) }
            }
        }
        return all
    }

    package func withAllBytes<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        shared.isEmpty ? unsafe gathered.withUnsafeBytes(body) : unsafe bytes.withUnsafeBytes(body)
    }

    /// Even indices are runs of gathered bytes, which may be empty; odd indices are bytes held by reference.
    private func segment(_ index: Int) -> Segment {
        let next = index / 2
        if index % 2 == 1 { return .shared(shared[next].bytes) }
        let start = next == 0 ? 0 : shared[next - 1].offset
        return .gathered(start..<(next < shared.count ? shared[next].offset : gathered.count))
    }

    package func withUnwritten<Result>(limit: Int = 64, _ body: (BytePieces) -> Result) -> Result {
        unsafe gathered.withUnsafeBytes { memory in
            if shared.isEmpty {
                return unsafe BytePieces.with(UnsafeRawBufferPointer(rebasing: memory[written...]), body)
            }
            var pieces: [UnsafeRawBufferPointer] = unsafe []
            return unsafe gather(firstUnwritten, skipping: writtenOfFirst, memory, into: &pieces, limit, body)
        }
    }

    /// Recursion is the only way to keep the pointers of all segments valid at once. Its depth is at most `limit`.
    private func gather<Result>(
        _ index: Int,
        skipping skipped: Int,
        _ memory: UnsafeRawBufferPointer,
        into pieces: inout [UnsafeRawBufferPointer],
        _ limit: Int,
        _ body: (BytePieces) -> Result
    ) -> Result {
        guard index <= 2 * shared.count, unsafe pieces.count < limit else {
            return unsafe pieces.withUnsafeBufferPointer(body)
        }
        switch segment(index) {
        case .gathered(let range):
            if range.count > skipped {
                unsafe pieces.append(UnsafeRawBufferPointer(rebasing: memory[range.dropFirst(skipped)]))
            }
            return unsafe gather(index + 1, skipping: 0, memory, into: &pieces, limit, body)
        case .shared(let bytes):
            return unsafe bytes.withUnsafeBytes { all in
                unsafe pieces.append(UnsafeRawBufferPointer(rebasing: all[skipped...]))
                return unsafe gather(index + 1, skipping: 0, memory, into: &pieces, limit, body)
            }
        }
    }

    package mutating func didWrite(_ length: Int) {
        precondition(length >= 0 && length <= count, "wrote more bytes than the buffer had")
        written += length
        if isEmpty { return reset() }
        writtenOfFirst += length
        while firstUnwritten < 2 * shared.count {
            let size =
                switch segment(firstUnwritten) {
                case .gathered(let range): range.count
                case .shared(let bytes): bytes.count
                }
            guard writtenOfFirst >= size else { return }
            writtenOfFirst -= size
            firstUnwritten += 1
        }
    }

    package mutating func reset() {
        gathered.removeAll(keepingCapacity: gathered.capacity <= 256 * 1024)
        if !shared.isEmpty { shared.removeAll(keepingCapacity: true) }
        sharedCount = 0
        written = 0
        firstUnwritten = 0
        writtenOfFirst = 0
    }
}

extension SendBuffer: CustomStringConvertible, CustomReflectable {
    /// The number of bytes that are not written yet, such as `12 bytes`. Never the bytes themselves, because they may
    /// be secret.
    public var description: String { byteSize(count) }

    /// Empty, so that `dump` does not show the bytes either.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
