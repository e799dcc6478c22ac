/// A checksum that a `FrameLayout` puts into frames and verifies.
public struct Checksum: Sendable, Hashable, CustomStringConvertible {
    /// The part of the frame that a checksum is computed over.
    public enum Scope: Sendable, Hashable {
        /// The body alone.
        case body
        /// Everything before the body, and the body. The checksum itself comes after the body.
        case headerAndBody
    }

    enum Algorithm: Sendable, Hashable {
        case adler32, crc32
    }

    let algorithm: Algorithm

    /// Adler-32 (RFC 1950, section 9): 4 bytes, 1 for no bytes at all.
    public static let adler32 = Checksum(algorithm: .adler32)
    /// CRC-32 as in Ethernet, gzip and PNG (CRC-32/ISO-HDLC): 4 bytes, 0 for no bytes at all.
    public static let crc32 = Checksum(algorithm: .crc32)

    /// The number of bytes it takes in a frame.
    var width: Int { 4 }

    /// The algorithm's name.
    public var description: String {
        switch algorithm {
        case .adler32: "adler32"
        case .crc32: "crc32"
        }
    }

    /// The checksum of `bytes`.
    public func value(of bytes: Bytes) -> UInt64 {
        var state = initial
        update(&state, with: bytes)
        return final(state)
    }
}

// MARK: - Piece by piece

extension Checksum {
    /// The state before the first byte.
    var initial: UInt32 {
        switch algorithm {
        case .adler32: 1
        case .crc32: ~0
        }
    }

    /// Takes `bytes` into account.
    func update(_ state: inout UInt32, with bytes: Bytes) {
        let all = unsafe bytes.storage.span.bytes
        update(&state, with: all.extracting(bytes.start..<bytes.start + bytes.count))
    }

    /// Takes `bytes` into account.
    func update(_ state: inout UInt32, with bytes: borrowing RawSpan) {
        switch algorithm {
        case .adler32: Checksum.updateAdler32(&state, with: bytes)
        case .crc32: Checksum.updateCRC32(&state, with: bytes)
        }
    }

    /// The checksum of all bytes up to `state`.
    func final(_ state: UInt32) -> UInt64 {
        switch algorithm {
        case .adler32: UInt64(state)
        case .crc32: UInt64(~state)
        }
    }

    private static func updateAdler32(_ state: inout UInt32, with bytes: borrowing RawSpan) {
        var low = state & 0xffff
        var high = state >> 16
        unsafe bytes.withUnsafeBytes { memory in
            var index = 0
            while index < memory.count {
                // 5552 is the most bytes for which `high` cannot overflow before it is reduced (zlib's NMAX).
                let end = min(memory.count, index &+ 5552)
                while index < end {
                    low &+= UInt32(unsafe memory[index])
                    high &+= low
                    index &+= 1
                }
                low %= 65521
                high %= 65521
            }
        }
        state = high << 16 | low
    }

    private static func updateCRC32(_ state: inout UInt32, with bytes: borrowing RawSpan) {
        unsafe crc32Table.withUnsafeBufferPointer { table in
            unsafe bytes.withUnsafeBytes { memory in
                for index in 0..<memory.count {
                    let byte = unsafe memory[index]
                    state = unsafe table[Int(UInt8(truncatingIfNeeded: state) ^ byte)] ^ state >> 8
                }
            }
        }
    }

    /// What each byte does to the state: eight steps of division by the reflected polynomial.
    private static let crc32Table: [UInt32] = (0..<256).map { byte in
        (0..<8).reduce(UInt32(byte)) { state, _ in state & 1 == 1 ? 0xedb8_8320 ^ state >> 1 : state >> 1 }
    }
}
