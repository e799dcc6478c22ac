/// A run of bytes that shares its storage when copied.
///
/// A body that arrived as a small part of a larger read has storage of its own; a large one may share the buffer
/// it was read into, never more than eight times its size. Indices start at zero.
public struct Bytes: Sendable {
    @usableFromInline let storage: [UInt8]
    /// Offset of the first byte within `storage`. `start + count <= storage.count` always holds.
    @usableFromInline let start: Int
    /// The number of bytes.
    public let count: Int

    /// No bytes.
    @inlinable
    public init() { self.init([]) }

    /// The bytes of `array`, shared with it, not copied.
    @inlinable
    public init(_ array: [UInt8]) {
        storage = array
        start = 0
        count = array.count
    }

    /// A copy of the bytes of `sequence`.
    @inlinable
    public init(_ sequence: some Sequence<UInt8>) {
        // In one piece where it can be: an array takes any sequence but its own kind byte by byte.
        self.init(sequence.withContiguousStorageIfAvailable { unsafe Array($0) } ?? Array(sequence))
    }

    /// The UTF-8 bytes of `text`.
    @inlinable
    public init(_ text: String) { self.init(Array(text.utf8)) }

    /// The bytes of `storage` in `range`, shared, not copied.
    @usableFromInline
    package init(sharing storage: [UInt8], in range: Range<Int>) {
        precondition(range.lowerBound >= 0 && range.upperBound <= storage.count, "range outside the storage")
        self.storage = storage
        start = range.lowerBound
        count = range.count
    }

    /// Calls `body` with the bytes in memory; the pointer is valid only within the call.
    @inlinable
    public func withUnsafeBytes<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try unsafe storage.withUnsafeBufferPointer { all throws(Failure) in
            try unsafe body(UnsafeRawBufferPointer(UnsafeBufferPointer(rebasing: all[start..<start + count])))
        }
    }
}

extension Bytes: RandomAccessCollection {
    /// Always zero.
    @inlinable
    public var startIndex: Int { 0 }

    /// The number of bytes.
    @inlinable
    public var endIndex: Int { count }

    /// The byte at `position`, which must be within the bytes.
    @inlinable
    public subscript(position: Int) -> UInt8 {
        precondition(position >= 0 && position < count, "index out of range")
        return storage[start + position]
    }

    /// Gives the bytes in memory to algorithms of the standard library (`Array(bytes)`, `String(decoding:as:)`).
    @inlinable
    public func withContiguousStorageIfAvailable<Result>(
        _ body: (UnsafeBufferPointer<UInt8>) throws -> Result
    ) rethrows -> Result? {
        try unsafe storage.withUnsafeBufferPointer { all in
            try unsafe body(UnsafeBufferPointer(rebasing: all[start..<start + count]))
        }
    }

    /// Copies in one go what the standard library would copy byte by byte (`array.append(contentsOf: bytes)`).
    @inlinable
    public func _copyContents(
        initializing memory: UnsafeMutableBufferPointer<UInt8>
    ) -> (IndexingIterator<Bytes>, Int) {
        let copied = Swift.min(memory.count, count)
        unsafe storage.withUnsafeBufferPointer { all in
            _ = unsafe memory.initialize(fromContentsOf: all[start..<start + copied])
        }
        let rest = Bytes(sharing: storage, in: start + copied..<start + count)
        return (IndexingIterator(_elements: rest), copied)
    }
}

extension Bytes: Hashable {
    /// Whether both hold the same bytes.
    public static func == (a: Bytes, b: Bytes) -> Bool {
        guard a.count == b.count else { return false }
        return unsafe a.withUnsafeBytes { a in
            unsafe b.withUnsafeBytes { b in
                if unsafe a.baseAddress == b.baseAddress { return true }
                // Eight bytes at a time, then the rest.
                let words = a.count / 8
                for word in 0..<words {
                    let (x, y) = unsafe (
                        a.loadUnaligned(fromByteOffset: word &* 8, as: UInt64.self),
                        b.loadUnaligned(fromByteOffset: word &* 8, as: UInt64.self)
                    )
                    if x != y { return false }
                }
                for index in words &* 8..<a.count where unsafe a[index] != b[index] { return false }
                return true
            }
        }
    }

    /// Feeds the bytes to `hasher`.
    public func hash(into hasher: inout Hasher) {
        unsafe withUnsafeBytes { unsafe hasher.combine(bytes: $0) }
    }
}

extension Bytes: ExpressibleByStringInterpolation, ExpressibleByArrayLiteral {
    /// The UTF-8 bytes of a literal, with interpolation or without.
    public init(stringLiteral text: String) { self.init(Array(text.utf8)) }

    /// The bytes of a literal.
    public init(arrayLiteral bytes: UInt8...) { self.init(bytes) }
}

extension Bytes: CustomStringConvertible {
    /// The number of bytes, and none of them: they may be secrets, and descriptions end up in logs.
    public var description: String { count == 1 ? "1 byte" : "\(count) bytes" }
}

extension String {
    /// The text of `bytes`, read as UTF-8; invalid sequences become U+FFFD.
    public init(_ bytes: Bytes) { self.init(decoding: bytes, as: UTF8.self) }
}
