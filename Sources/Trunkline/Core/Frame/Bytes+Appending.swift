/// Making bytes of others. A value like an array: what shares its storage with the bytes does not change with them.
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
    public mutating func append(
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
}

/// Reading integers. Nothing here traps, whatever the bytes hold.
extension Bytes {
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
    public func integer(at offset: Int, width: Int, order: ByteOrder = .bigEndian) -> UInt64? {
        guard offset >= 0, width > 0, width <= 8, offset <= count &- width else { return nil }
        var value: UInt64 = 0
        for index in 0..<width {
            value = value &<< 8 | UInt64(self[order == .bigEndian ? offset + index : offset + width - 1 - index])
        }
        return value
    }
}

extension String {
    /// The text of `bytes`, read as UTF-8; invalid sequences become U+FFFD: `String(line.dropFirst(2))`.
    public init(_ bytes: Slice<Bytes>) { self.init(decoding: bytes, as: UTF8.self) }
}
