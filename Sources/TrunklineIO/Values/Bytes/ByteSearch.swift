private let ones: UInt64 = 0x0101_0101_0101_0101

extension UnsafeRawBufferPointer {
    /// `start..<end` must be within the memory.
    @inline(never)
    func firstOffset(of byte: UInt8, from start: Int, to end: Int) -> Int? {
        let pattern = UInt64(byte) &* ones
        var index = start
        while index &+ 32 <= end {
            let words = unsafe (
                matches(pattern, at: index), matches(pattern, at: index &+ 8),
                matches(pattern, at: index &+ 16), matches(pattern, at: index &+ 24)
            )
            if words.0 | words.1 | words.2 | words.3 != 0 { break }
            index &+= 32
        }
        while index &+ 8 <= end {
            let found = unsafe matches(pattern, at: index)
            if found != 0 { return index &+ found.trailingZeroBitCount &>> 3 }
            index &+= 8
        }
        while index < end {
            if unsafe self[index] == byte { return index }
            index &+= 1
        }
        return nil
    }

    /// The lowest set bit is the top bit of the first match; 0 if there is none. Bits above may be set wrongly.
    @inline(__always)
    private func matches(_ pattern: UInt64, at index: Int) -> UInt64 {
        let word = unsafe UInt64(littleEndian: loadUnaligned(fromByteOffset: index, as: UInt64.self)) ^ pattern
        return (word &- ones) & ~word & (ones &<< 7)
    }

    /// Returns `start` if `pattern` is empty. Up to eight bytes, the time does not depend on what the bytes are.
    func firstOffset(of pattern: UnsafeRawBufferPointer, from start: Int, to end: Int) -> Int? {
        guard let first = unsafe pattern.first else { return start <= end ? start : nil }
        let limit = end &- pattern.count &+ 1
        guard start < limit, let candidate = unsafe firstOffset(of: first, from: start, to: limit) else { return nil }
        if unsafe has(pattern, from: 1, at: candidate) { return candidate }
        return unsafe firstOffset(of: pattern, PatternKey(pattern), from: candidate &+ 1, before: limit)
    }

    @inline(never)
    private func firstOffset(
        of pattern: UnsafeRawBufferPointer,
        _ key: PatternKey,
        from start: Int,
        before limit: Int
    ) -> Int? {
        let first = unsafe pattern[0]
        var index = start
        while index < limit {
            guard let candidate = unsafe firstOffset(of: first, from: index, to: limit) else { return nil }
            // Searching for each occurrence of the first byte would take ten times as long where there are many.
            let pause = Swift.min(limit, candidate &+ 32)
            index = candidate
            while index < pause {
                // Bytes behind the pattern are loaded, too, and not compared.
                if index &+ 8 <= count {
                    let word = unsafe UInt64(littleEndian: loadUnaligned(fromByteOffset: index, as: UInt64.self))
                    if (word ^ key.word) & key.mask == 0, unsafe has(pattern, from: 8, at: index) { return index }
                } else if unsafe has(pattern, from: 0, at: index) {
                    return index
                }
                index &+= 1
            }
        }
        return nil
    }

    /// The first `length` bytes of `pattern` are not compared.
    @inline(__always)
    private func has(_ pattern: UnsafeRawBufferPointer, from length: Int, at index: Int) -> Bool {
        var length = length
        while length < pattern.count {
            guard unsafe self[index &+ length] == pattern[length] else { return false }
            length &+= 1
        }
        return true
    }
}

private struct PatternKey {
    var word: UInt64 = 0
    var mask: UInt64 = 0

    init(_ pattern: UnsafeRawBufferPointer) {
        for index in 0..<min(8, pattern.count) {
            word |= unsafe UInt64(pattern[index]) &<< UInt64(8 &* index)
            mask |= 0xff &<< UInt64(8 &* index)
        }
    }
}

extension Bytes {
    /// Returns whether the bytes begin with those of `prefix`.
    public func hasPrefix(_ prefix: Bytes) -> Bool {
        prefix.count <= count && shared(0..<prefix.count) == prefix
    }

    /// Returns whether the bytes end with those of `suffix`.
    public func hasSuffix(_ suffix: Bytes) -> Bool {
        suffix.count <= count && shared(count - suffix.count..<count) == suffix
    }

    /// Finds `byte` for the standard library's `contains(_:)`.
    public func _customContainsEquatableElement(_ byte: UInt8) -> Bool? { firstOffset(of: byte) != nil }

    /// Finds `byte` for the standard library's `firstIndex(of:)`.
    public func _customIndexOfEquatableElement(_ byte: UInt8) -> Int?? { .some(firstOffset(of: byte)) }

    private func firstOffset(of byte: UInt8) -> Int? {
        unsafe withUnsafeBytes { unsafe $0.firstOffset(of: byte, from: 0, to: count) }
    }

    /// Returns the index of the first occurrence of `pattern` at or after `start`, or `nil` if there is none or `start`
    /// is out of bounds.
    public func firstIndex(of pattern: Bytes, from start: Int = 0) -> Int? {
        guard start >= 0, start <= count else { return nil }
        return unsafe withUnsafeBytes { memory in
            unsafe pattern.withUnsafeBytes { unsafe memory.firstOffset(of: $0, from: start, to: count) }
        }
    }

    /// Splits the bytes at each occurrence of `separator` and returns the parts: one more than there are occurrences. A
    /// part may be empty.
    ///
    /// The search starts at the front, so occurrences do not overlap. With an empty separator, the result is one part
    /// that holds all bytes.
    public func parts(separatedBy separator: Bytes) -> [Bytes] {
        var parts: [Bytes] = []
        var index = 0
        while !separator.isEmpty, let end = firstIndex(of: separator, from: index) {
            parts.append(Bytes(self[index..<end]))
            index = end + separator.count
        }
        parts.append(Bytes(self[index...]))
        return parts
    }

    /// Creates the bytes of `slice`.
    ///
    /// The bytes share the storage if there are at least 4,096 of them and they are at least an eighth of the storage.
    /// Otherwise they are copied.
    public init(_ slice: Slice<Bytes>) {
        let base = slice.base
        if slice.count >= 4096, slice.count >= base.storage.count / 8 {
            self = base.shared(slice.startIndex..<slice.endIndex)
        } else {
            self.init(
                unsafe base.withUnsafeBytes {
                    unsafe Array(UnsafeRawBufferPointer(rebasing: $0[slice.startIndex..<slice.endIndex]))
                }
            )
        }
    }
}

extension UInt8 {
    @inlinable
    package var lowercasedASCII: UInt8 { self &- 0x41 < 26 ? self | 0x20 : self }
}
