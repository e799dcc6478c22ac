import TrunklineCore

extension Checksum {
    /// CRC-32 as in Ethernet, gzip and PNG (CRC-32/ISO-HDLC): 4 bytes; 0 for empty input.
    public static let crc32 = Checksum("crc32", width: 4, .integer { crc32Tables.checksum($0, $1) })

    /// CRC-32C (RFC 3720 §12.1) without help from the processor.
    static let crc32cByTable = Checksum("crc32c", width: 4, .integer { crc32cTables.checksum($0, $1) })
}

private let crc32Tables = CRCTables(polynomial: 0xedb8_8320)
private let crc32cTables = CRCTables(polynomial: 0x82f6_3b78)

/// Tables for reflected CRCs of 32 bits, eight bytes at a time ("slicing by eight").
private struct CRCTables: Sendable {
    /// Table k of eight, each of 256 entries, holds the effect of a byte that is followed by k more.
    let entries: [UInt32]

    init(polynomial: UInt32) {
        var entries = (0..<256).map { byte in
            (0..<8).reduce(UInt32(byte)) { state, _ in state & 1 == 1 ? polynomial ^ state >> 1 : state >> 1 }
        }
        for index in 256..<8 * 256 {
            let state = entries[index - 256]
            entries.append(entries[Int(state & 0xff)] ^ state >> 8)
        }
        self.entries = entries
    }

    func checksum(_ header: borrowing RawSpan, _ body: borrowing RawSpan) -> UInt64 {
        var state = ~UInt32(0)
        update(&state, with: header)
        update(&state, with: body)
        return UInt64(~state)
    }

    private func update(_ state: inout UInt32, with bytes: borrowing RawSpan) {
        unsafe entries.withUnsafeBufferPointer { table in
            unsafe bytes.withUnsafeBytes { memory in
                var index = 0
                while index &+ 8 <= memory.count {
                    var word = UInt64(littleEndian: unsafe memory.loadUnaligned(fromByteOffset: index, as: UInt64.self))
                    word ^= UInt64(state)
                    let first = unsafe table[1792 &+ Int(word & 0xff)] ^ table[1536 &+ Int(word >> 8 & 0xff)]
                    let second = unsafe table[1280 &+ Int(word >> 16 & 0xff)] ^ table[1024 &+ Int(word >> 24 & 0xff)]
                    let third = unsafe table[768 &+ Int(word >> 32 & 0xff)] ^ table[512 &+ Int(word >> 40 & 0xff)]
                    let fourth = unsafe table[256 &+ Int(word >> 48 & 0xff)] ^ table[Int(word >> 56)]
                    state = first ^ second ^ third ^ fourth
                    index &+= 8
                }
                while index < memory.count {
                    state = unsafe table[Int(UInt8(truncatingIfNeeded: state) ^ memory[index])] ^ state >> 8
                    index &+= 1
                }
            }
        }
    }
}
