/// A run of bytes that shares its storage when copied.
///
/// `Bytes` is the type of bodies, heads and named byte fields. It is a random-access collection of `UInt8` whose
/// indices start at 0, and it can be written as a string literal (UTF-8) or an array literal:
///
/// ```swift
/// let line: Bytes = "GET key\r\n"
/// let mark: Bytes = [0xCA, 0xFE]
/// let text = String(line)   // invalid UTF-8 becomes U+FFFD
/// ```
///
/// Received bytes may share memory with those that arrived around them. That memory is at most eight times as large, or
/// 256 bytes if that is more. Limits in bytes count only the bytes themselves. To keep a body for long without the
/// rest, copy it: `Bytes(Array(body))`.
public struct Bytes: Sendable {
    @usableFromInline package let storage: [UInt8]
    /// Invariant: `start + count <= storage.count`.
    @usableFromInline package let start: Int
    /// The number of bytes.
    public let count: Int

    /// Creates an empty run of bytes.
    @inlinable
    public init() { self.init([]) }

    /// Creates bytes that share the storage of `array`, without copying it.
    @inlinable
    public init(_ array: [UInt8]) {
        storage = array
        start = 0
        count = array.count
    }

    /// Creates bytes from a copy of `sequence`.
    @inlinable
    public init(_ sequence: some Sequence<UInt8>) {
        // One copy where the sequence is contiguous: `Array(sequence)` takes most sequences byte by byte.
        self.init(sequence.withContiguousStorageIfAvailable { unsafe Array($0) } ?? Array(sequence))
    }

    /// Creates the UTF-8 bytes of `text`.
    @inlinable
    public init(_ text: String) { self.init(Array(text.utf8)) }

    @usableFromInline
    init(sharing storage: [UInt8], in range: Range<Int>) {
        precondition(range.lowerBound >= 0 && range.upperBound <= storage.count, "range outside the storage")
        self.storage = storage
        start = range.lowerBound
        count = range.count
    }

    package func shared(_ range: Range<Int>) -> Bytes {
        Bytes(sharing: storage, in: start + range.lowerBound..<start + range.upperBound)
    }

    /// Calls `body` with the bytes in memory and returns its result. The pointer is valid only during the call.
    @inlinable
    public func withUnsafeBytes<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try unsafe storage.withUnsafeBufferPointer { all throws(Failure) in
            try unsafe body(UnsafeRawBufferPointer(UnsafeBufferPointer(rebasing: all[start..<start + count])))
        }
    }

    /// `memory` must have room for the bytes.
    @inline(__always)
    package func copy(to memory: UnsafeMutableRawPointer) {
        unsafe storage.withUnsafeBytes { all in
            guard let first = all.baseAddress else { return }
            unsafe memory.copyMemory(from: first + start, byteCount: count)
        }
    }

    /// Calls `body` with the bytes as a span and returns its result.
    @inlinable
    public func withSpan<Result, Failure: Error>(
        _ body: (Span<UInt8>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try body(storage.span.extracting(start..<start + count))
    }

    package func part(_ range: Range<Int>) -> Bytes {
        precondition(range.lowerBound >= 0 && range.upperBound <= count, "range out of bounds")
        let range = start + range.lowerBound..<start + range.upperBound
        return range.count >= storage.count / 8 ? Bytes(sharing: storage, in: range) : Bytes(Array(storage[range]))
    }
}

extension Bytes: RandomAccessCollection {
    /// Always 0.
    @inlinable
    public var startIndex: Int { 0 }

    /// The number of bytes.
    @inlinable
    public var endIndex: Int { count }

    /// The byte at `position`. A position that is out of bounds stops the program.
    @inlinable
    public subscript(position: Int) -> UInt8 {
        precondition(position >= 0 && position < count, "index out of range")
        return storage[start + position]
    }

    /// Gives algorithms of the standard library, such as `Array(bytes)` and `String(decoding:as:)`, direct access to
    /// the bytes.
    @inlinable
    public func withContiguousStorageIfAvailable<Result>(
        _ body: (UnsafeBufferPointer<UInt8>) throws -> Result
    ) rethrows -> Result? {
        try unsafe storage.withUnsafeBufferPointer { all in
            try unsafe body(UnsafeBufferPointer(rebasing: all[start..<start + count]))
        }
    }

    /// Copies the bytes in one step, where the standard library would copy one byte at a time
    /// (`array.append(contentsOf: bytes)`).
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
    /// Returns whether `a` and `b` contain the same bytes.
    public static func == (a: Bytes, b: Bytes) -> Bool {
        guard a.count == b.count else { return false }
        return unsafe a.withUnsafeBytes { a in
            unsafe b.withUnsafeBytes { b in
                if unsafe a.baseAddress == b.baseAddress { return true }
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
    /// Creates the UTF-8 bytes of a string literal, which may have interpolations.
    public init(stringLiteral text: String) { self.init(Array(text.utf8)) }

    /// Creates bytes from an array literal.
    public init(arrayLiteral bytes: UInt8...) { self.init(bytes) }

    /// Only for `compacted`: the capacity of an array of the same size differs from run to run.
    var heldBytes: Int { storage.capacity }

    package var compacted: Bytes { heldBytes <= count + count / 8 + 64 ? self : Bytes(Array(self)) }
}

extension Bytes: CustomStringConvertible {
    /// The number of bytes, such as `12 bytes`. Never the bytes themselves, because descriptions end up in logs and the
    /// bytes may be secret.
    public var description: String { count == 1 ? "1 byte" : "\(count) bytes" }
}

extension Bytes: CustomReflectable {
    /// Empty, so that `dump` and failed expectations show neither the bytes nor others that share their memory.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension String {
    /// Creates the text of `bytes`, decoded as UTF-8. Invalid sequences become U+FFFD.
    public init(_ bytes: Bytes) { self.init(decoding: bytes, as: UTF8.self) }

    /// Creates the text of a slice of bytes, as in `String(line.dropFirst(2))`, decoded as UTF-8. Invalid sequences
    /// become U+FFFD.
    public init(_ bytes: Slice<Bytes>) { self.init(decoding: bytes, as: UTF8.self) }
}

// MARK: - Building bytes

extension Bytes {
    /// Creates `count` bytes that all have the value `byte`. A negative count counts as 0.
    public init(repeating byte: UInt8, count: Int) { self.init([UInt8](repeating: byte, count: Swift.max(0, count))) }

    /// Appends one byte.
    @inlinable
    public mutating func append(_ byte: UInt8) { append(contentsOf: CollectionOfOne(byte)) }

    /// Appends a copy of `bytes`.
    ///
    /// If no other value shares the storage, it grows in place, as an array does. Otherwise everything is copied.
    @inlinable
    public mutating func append(contentsOf bytes: some Sequence<UInt8>) {
        var all = count == storage.count ? storage : Array(self)
        self = Bytes()  // otherwise `all` would share the storage with `self`
        all.append(contentsOf: bytes)
        self = Bytes(all)
    }

    /// Appends an unsigned integer. The number of bytes is the size of its type.
    @inlinable
    public mutating func append<Value: FixedWidthInteger & UnsignedInteger>(
        integer value: Value,
        order: ByteOrder = .bigEndian
    ) {
        let ordered = order == .bigEndian ? value.bigEndian : value.littleEndian
        unsafe Swift.withUnsafeBytes(of: ordered) { unsafe append(contentsOf: $0) }
    }

    /// Ignores the higher bytes of `value`. A `width` other than 1 to 8 stops the program.
    @inlinable
    package mutating func append(
        integer value: UInt64,
        width: Int,
        order: ByteOrder = .bigEndian,
        file: StaticString = #fileID,
        line: UInt = #line
    ) {
        require((1...8).contains(width), "Bytes: an integer has 1 to 8 bytes, not \(width)", file, line)
        let shift = UInt64(8 * (8 - width))
        // The bytes to append are the last ones in big-endian order and the first ones in little-endian order.
        let ordered = order == .bigEndian ? (value << shift).bigEndian : value.littleEndian
        unsafe Swift.withUnsafeBytes(of: ordered) { unsafe append(contentsOf: $0.prefix(width)) }
    }

    /// Returns the bytes of `a` followed by those of `b`, as in `"$3\r\n" + body + "\r\n"`.
    public static func + (a: Bytes, b: Bytes) -> Bytes {
        var all: [UInt8] = []
        all.reserveCapacity(a.count + b.count)
        all.append(contentsOf: a)
        all.append(contentsOf: b)
        return Bytes(all)
    }

    /// Appends `more` to `bytes`; see ``append(contentsOf:)``.
    public static func += (bytes: inout Bytes, more: Bytes) { bytes.append(contentsOf: more) }

    // MARK: Reading integers. These methods never trap, whatever the bytes hold.

    /// Returns the unsigned integer of type `Value` at `offset`, or `nil` if it is not entirely within the bytes.
    @inlinable
    public func integer<Value: FixedWidthInteger & UnsignedInteger>(
        at offset: Int,
        as type: Value.Type,
        order: ByteOrder = .bigEndian
    ) -> Value? {
        guard offset >= 0, offset <= count &- MemoryLayout<Value>.size else { return nil }
        let value = unsafe withUnsafeBytes { unsafe $0.loadUnaligned(fromByteOffset: offset, as: Value.self) }
        return order == .bigEndian ? Value(bigEndian: value) : Value(littleEndian: value)
    }

    @inlinable
    package func integer(at offset: Int, width: Int, order: ByteOrder = .bigEndian) -> UInt64? {
        guard offset >= 0, width > 0, width <= 8, offset <= count &- width else { return nil }
        var value: UInt64 = 0
        for index in 0..<width {
            value = value &<< 8 | UInt64(self[order == .bigEndian ? offset + index : offset + width - 1 - index])
        }
        return value
    }
}

extension [UInt8] {
    /// In one step where `sequence` is contiguous: `Array(sequence)` takes most sequences byte by byte.
    package init(copying sequence: some Sequence<UInt8>) {
        self = sequence.withContiguousStorageIfAvailable { unsafe Array($0) } ?? Array(sequence)
    }
}

/// Runs of bytes that are written together.
package typealias BytePieces = UnsafeBufferPointer<UnsafeRawBufferPointer>

extension BytePieces {
    package static func with<Result>(_ piece: UnsafeRawBufferPointer, _ body: (BytePieces) -> Result) -> Result {
        unsafe withUnsafePointer(to: piece) { unsafe body(BytePieces(start: $0, count: 1)) }
    }
}
