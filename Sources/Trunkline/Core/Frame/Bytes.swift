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

    /// The bytes in `range`, shared, not copied.
    func shared(_ range: Range<Int>) -> Bytes {
        Bytes(sharing: storage, in: start + range.lowerBound..<start + range.upperBound)
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

    /// Calls `body` with the bytes as a span.
    @inlinable
    public func withSpan<Result, Failure: Error>(
        _ body: (Span<UInt8>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try body(storage.span.extracting(start..<start + count))
    }

    /// The bytes in `range`, which must be within them: shared if they are an eighth of the storage or more, else copied.
    package func part(_ range: Range<Int>) -> Bytes {
        precondition(range.lowerBound >= 0 && range.upperBound <= count, "range out of bounds")
        let range = start + range.lowerBound..<start + range.upperBound
        return range.count >= storage.count / 8 ? Bytes(sharing: storage, in: range) : Bytes(Array(storage[range]))
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

    /// How many bytes of memory are kept alive by these. Not to be acted on but by `compacted`: how much an array takes
    /// for as many bytes differs from run to run.
    package var heldBytes: Int { storage.capacity }

    /// The same bytes; a copy of them where they are a part of something larger.
    package var compacted: Bytes { heldBytes <= count + count / 8 + 64 ? self : Bytes(Array(self)) }
}

extension Bytes: CustomStringConvertible {
    /// The number of bytes, and none of them: they may be secrets, and descriptions end up in logs.
    public var description: String { count == 1 ? "1 byte" : "\(count) bytes" }
}

extension String {
    /// The text of `bytes`, read as UTF-8; invalid sequences become U+FFFD.
    public init(_ bytes: Bytes) { self.init(decoding: bytes, as: UTF8.self) }

    /// The text of `bytes`, read as UTF-8; invalid sequences become U+FFFD: `String(line.dropFirst(2))`.
    public init(_ bytes: Slice<Bytes>) { self.init(decoding: bytes, as: UTF8.self) }
}

// MARK: - Making bytes of others

/// A value like an array: what shares its storage with the bytes does not change with them.
extension Bytes {
    /// `byte`, `count` times.
    public init(repeating byte: UInt8, count: Int) { self.init([UInt8](repeating: byte, count: count)) }

    /// Adds `byte` at the end.
    @inlinable
    public mutating func append(_ byte: UInt8) { append(contentsOf: CollectionOfOne(byte)) }

    /// Adds a copy of `bytes` at the end.
    ///
    /// In place, as an array does it, when nobody shares the storage; otherwise everything is copied.
    @inlinable
    public mutating func append(contentsOf bytes: some Sequence<UInt8>) {
        var all = count == storage.count ? storage : Array(self)
        self = Bytes()  // or the storage would be shared, with itself
        all.append(contentsOf: bytes)
        self = Bytes(all)
    }

    /// Appends an unsigned integer in as many bytes as its type has.
    @inlinable
    public mutating func append<Value: FixedWidthInteger & UnsignedInteger>(
        integer value: Value,
        order: ByteOrder = .bigEndian
    ) {
        let ordered = order == .bigEndian ? value.bigEndian : value.littleEndian
        unsafe Swift.withUnsafeBytes(of: ordered) { unsafe append(contentsOf: $0) }
    }

    /// Appends the low `width` bytes of `value`; higher bytes of the value are dropped.
    ///
    /// - Parameters:
    ///   - width: 1 to 8; another width stops the program.
    ///   - file, line: Named when the program is stopped.
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
        // The wanted bytes are the last ones in network order, and the first ones in the other.
        let ordered = order == .bigEndian ? (value << shift).bigEndian : value.littleEndian
        unsafe Swift.withUnsafeBytes(of: ordered) { unsafe append(contentsOf: $0.prefix(width)) }
    }

    /// The bytes of `a` and then those of `b`: `"$3\r\n" + body + "\r\n"`.
    public static func + (a: Bytes, b: Bytes) -> Bytes {
        var all: [UInt8] = []
        all.reserveCapacity(a.count + b.count)
        all.append(contentsOf: a)
        all.append(contentsOf: b)
        return Bytes(all)
    }

    /// Adds `more` at the end of `bytes`; see `append(contentsOf:)`.
    public static func += (bytes: inout Bytes, more: Bytes) { bytes.append(contentsOf: more) }

    // MARK: Reading integers. Nothing here traps, whatever the bytes hold.

    /// The unsigned integer of type `Value` at `offset`; `nil` when it is not all within the bytes.
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

    /// The unsigned integer of `width` bytes (1 to 8) at `offset`; `nil` when it is not all within the bytes.
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
