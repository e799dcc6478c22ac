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

extension String {
    /// The text of `bytes`, read as UTF-8; invalid sequences become U+FFFD: `String(line.dropFirst(2))`.
    public init(_ bytes: Slice<Bytes>) { self.init(decoding: bytes, as: UTF8.self) }
}
