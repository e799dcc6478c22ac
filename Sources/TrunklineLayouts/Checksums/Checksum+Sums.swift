import TrunklineCore

// Checksums made of two sums: one of the bytes, and one of the first sum after every byte.

extension Checksum {
    /// Adler-32 (RFC 1950 §9): 4 bytes; 1 for empty input.
    public static let adler32 = Checksum(
        "adler32",
        width: 4,
        .integer { header, body in
            var sums = Sums(modulus: 65521, low: 1)
            sums.add(header)
            sums.add(body)
            return sums.high << 16 | sums.low
        }
    )

    /// Fletcher-16 (RFC 1146, Appendix I, for sums of bytes modulo 255): 2 bytes; 0 for empty input.
    ///
    /// The high byte is the sum of sums, as in most descriptions. The checksum does not distinguish a byte 0xff from a
    /// byte 0.
    public static let fletcher16 = Checksum(
        "fletcher16",
        width: 2,
        .integer { header, body in
            var sums = Sums(modulus: 255, low: 0)
            sums.add(header)
            sums.add(body)
            return sums.high << 8 | sums.low
        }
    )
}

private struct Sums {
    let modulus: UInt64
    var low: UInt64
    var high: UInt64 = 0

    /// Inlined, so that the modulus is a constant and division by it becomes a multiplication.
    @inline(__always)
    mutating func add(_ bytes: borrowing RawSpan) {
        unsafe bytes.withUnsafeBytes { memory in
            var index = 0
            while index &+ 8 <= memory.count {
                let words = min(22, (memory.count &- index) / 8)
                unsafe addWords(UnsafeRawBufferPointer(rebasing: memory[index..<index &+ 8 &* words]))
                index &+= 8 &* words
            }
            while index < memory.count {
                low &+= UInt64(unsafe memory[index])
                high &+= low
                index &+= 1
            }
            low %= modulus
            high %= modulus
        }
    }

    /// Adds 1 to 22 words of eight bytes, each byte in a lane of 16 bits.
    ///
    /// In word k of m, byte j counts 8 (m - k) - j times in `high`. A lane of `sums` holds the sum of its bytes; a lane
    /// of `sumsOfSums` counts each of them m - k times. 22 words are the most for which 255 * m * (m + 1) / 2 fits in
    /// 16 bits.
    @inline(__always)
    private mutating func addWords(_ memory: UnsafeRawBufferPointer) {
        let lanes: UInt64 = 0x00ff_00ff_00ff_00ff
        var sums: (even: UInt64, odd: UInt64) = (0, 0)
        var sumsOfSums: (even: UInt64, odd: UInt64) = (0, 0)
        var offset = 0
        while offset < memory.count {
            let word = UInt64(littleEndian: unsafe memory.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
            sums.even &+= word & lanes
            sums.odd &+= word >> 8 & lanes
            sumsOfSums.even &+= sums.even
            sumsOfSums.odd &+= sums.odd
            offset &+= 8
        }
        let (even, odd) = (total(sums.even), total(sums.odd))
        // Byte j of each word, times j; the even lanes hold bytes 0, 2, 4, 6, the odd lanes 1, 3, 5, 7.
        let behind = 2 &* (weighted(sums.even) &+ weighted(sums.odd)) &+ odd
        let before = total(sumsOfSums.even) &+ total(sumsOfSums.odd)
        high = (high &+ UInt64(memory.count) &* low &+ 8 &* before &- behind) % modulus
        low = (low &+ even &+ odd) % modulus
    }

    private func total(_ lanes: UInt64) -> UInt64 {
        let pairs = (lanes & 0x0000_ffff_0000_ffff) &+ (lanes >> 16 & 0x0000_ffff_0000_ffff)
        return (pairs & 0xffff_ffff) &+ pairs >> 32
    }

    /// Returns the sum of the lanes, the lowest times 0, the highest times 3.
    private func weighted(_ lanes: UInt64) -> UInt64 {
        (lanes >> 16 & 0xffff) &+ 2 &* (lanes >> 32 & 0xffff) &+ 3 &* (lanes >> 48)
    }
}
