import Testing
import Trunkline

@testable import TrunklineIO
@testable import TrunklineLayouts

struct ChecksumTests {
    /// Inputs and their published checksums.
    static let published: [(checksum: Checksum, input: Bytes, value: UInt64)] = [
        // RFC 1950 defines it; the value is that of the Wikipedia article "Adler-32".
        (.adler32, "Wikipedia", 0x11e6_0398),
        (.adler32, "", 1),
        // The check values of Greg Cook's "Catalogue of parametrised CRC algorithms": CRC-32/ISO-HDLC and CRC-32/ISCSI.
        (.crc32, "123456789", 0xcbf4_3926),
        (.crc32, "", 0),
        (.crc32cByTable, "123456789", 0xe306_9283),
        (.crc32cByTable, "", 0),
        // RFC 3720, appendix B.4, its bytes read as a little-endian number: zeros, ones, up, down, a SCSI read command.
        (.crc32cByTable, Bytes([UInt8](repeating: 0, count: 32)), 0x8a91_36aa),
        (.crc32cByTable, Bytes([UInt8](repeating: 0xff, count: 32)), 0x62a8_ab43),
        (.crc32cByTable, Bytes(0..<32), 0x46dd_794e),
        (.crc32cByTable, Bytes((0..<32).reversed()), 0x113f_db5c),
        (
            .crc32cByTable,
            Bytes(
                hex(
                    """
                    01c00000 00000000 00000000 00000000 14000000 00000400
                    00000014 00000018 28000000 00000000 02000000 00000000
                    """
                )
            ), 0xd996_3a56
        ),
        // The Wikipedia article "Fletcher's checksum".
        (.fletcher16, "abcde", 0xc8f0),
        (.fletcher16, "abcdef", 0x2057),
        (.fletcher16, "abcdefgh", 0x0627),
        (.fletcher16, "", 0),
    ]

    @Test(arguments: published.indices)
    func checksumHasItsPublishedValue(index: Int) {
        let (checksum, input, value) = Self.published[index]
        #expect(checksum.value(of: input) == value)
    }

    /// The definitions, byte by byte.
    private static func slow(_ checksum: Checksum, _ bytes: Bytes) -> UInt64 {
        func sums(_ modulus: UInt64, _ low: UInt64, _ shift: UInt64) -> UInt64 {
            let sums = bytes.reduce(into: (low: low, high: UInt64(0))) { sums, byte in
                sums.low = (sums.low + UInt64(byte)) % modulus
                sums.high = (sums.high + sums.low) % modulus
            }
            return sums.high << shift | sums.low
        }
        func crc(_ polynomial: UInt32) -> UInt64 {
            let state = bytes.reduce(~UInt32(0)) { state, byte in
                (0..<8).reduce(state ^ UInt32(byte)) { state, _ in
                    state & 1 == 1 ? polynomial ^ state >> 1 : state >> 1
                }
            }
            return UInt64(~state)
        }
        switch checksum {
        case .adler32: return sums(65521, 1, 16)
        case .fletcher16: return sums(255, 0, 8)
        case .crc32: return crc(0xedb8_8320)
        default: return crc(0x82f6_3b78)
        }
    }

    @Test(arguments: [Checksum.adler32, .fletcher16, .crc32, .crc32cByTable])
    func processingSeveralBytesAtATimeMatchesTheDefinition(checksum: Checksum) {
        var random = SeededGenerator(seed: 7)
        // The sums process at most 176 bytes at a time. Bytes of all ones come closest to an overflow.
        let lengths = Array(0...40) + [175, 176, 177, 351, 352, 353, 1000, 5600]
        for length in lengths {
            let noise = Bytes((0..<length).map { _ in UInt8.random(in: 0...255, using: &random) })
            let ones = Bytes([UInt8](repeating: 0xff, count: length))
            for bytes in [noise, ones] {
                #expect(checksum.value(of: bytes) == Self.slow(checksum, bytes), "\(length) bytes")
                let part = Bytes(sharing: Array(bytes) + [1, 2, 3], in: min(3, length)..<length)
                #expect(checksum.value(of: part) == Self.slow(checksum, part), "\(length) bytes, from the third on")
            }
        }
    }

    @Test(arguments: [Checksum.adler32, .fletcher16, .crc32, .crc32cByTable])
    func aChecksumTreatsHeaderAndBodyAsOneSequence(checksum: Checksum) throws {
        for padding in 1...20 {
            let layout = try FrameLayout(validating: [
                .reserved(padding), .length(UInt16.self, counting: .body), .body,
                .checksum(checksum, over: .headerAndBody),
            ])
            let bytes = try layout.encoded(Frame(.request, body: "hello, header"))
            let covered = Bytes(bytes.prefix(padding + 2 + 13))
            #expect(checksum.bytes(of: covered) == Array(bytes.dropFirst(padding + 2 + 13)))
            #expect(try layout.decoded(bytes).frames.map(\.body) == ["hello, header"])
            var corrupted = bytes
            // Not all bits at once: for Fletcher's sums, 0xff equals 0.
            corrupted[0] ^= 1
            #expect(layout.refusal(of: corrupted) == .checksumMismatch)
        }
    }
}

/// Custom checksums.
struct CustomChecksumTests {
    private static let xor = Checksum("xor") { bytes in bytes.reduce(0 as UInt8, ^) }
    private static let ends = Checksum("ends", width: 20) { bytes in
        Array(bytes.prefix(10)) + Array(bytes.suffix(10))
    }

    private static func layout(_ checksum: Checksum, _ order: ByteOrder = .bigEndian) throws -> FrameLayout {
        try FrameLayout(validating: [
            .length(UInt8.self, counting: .body), .body, .checksum(checksum, over: .body, order: order),
        ])
    }

    @Test func aClosureThatReturnsAnIntegerMakesAFieldOfItsWidthAndOrder() throws {
        let one = try Self.layout(Self.xor)
        #expect(try one.encoded(Frame(.request, body: [1, 2, 4])) == hex("03 010204 07"))
        #expect(try one.decoded(hex("03 010204 07")).frames.map(\.body) == [[1, 2, 4]])
        #expect(one.refusal(of: hex("03 010204 06")) == .checksumMismatch)

        let sum = Checksum("sum") { bytes in bytes.reduce(0 as UInt16) { $0 &+ UInt16($1) } }
        #expect(try Self.layout(sum).encoded(Frame(.request, body: [255, 3])) == hex("02 ff03 0102"))
        #expect(try Self.layout(sum, .littleEndian).encoded(Frame(.request, body: [255, 3])) == hex("02 ff03 0201"))
    }

    @Test func aClosureThatReturnsBytesMakesAFieldOfAnyWidth() throws {
        let layout = try Self.layout(Self.ends)
        let bytes = hex("0c") + Array("hello, world".utf8) + Array("hello, worllo, world".utf8)
        #expect(try layout.encoded(Frame(.request, body: "hello, world")) == bytes)
        #expect(try layout.decoded(bytes).frames.map(\.body) == ["hello, world"])
        #expect(layout.refusal(of: replacing(13, in: bytes)) == .checksumMismatch)
        #expect(layout.refusal(of: replacing(32, in: bytes)) == .checksumMismatch)
    }

    /// A closure that returns another number of bytes than its width must not overwrite the fields around it, nor trap.
    @Test func aClosureThatReturnsTooFewOrTooManyBytesIsRefused() throws {
        let layout = try Self.layout(Self.ends)
        #expect(layout.refusal(of: Frame(.request, body: "short")) == .malformed)
        #expect(layout.refusal(of: hex("00") + [UInt8](repeating: 0, count: 20)) == .checksumMismatch)
        let many = try Self.layout(Checksum("many", width: 1) { _ in [1, 2] })
        #expect(many.refusal(of: Frame(.request)) == .malformed)
        #expect(many.refusal(of: hex("00 01")) == .checksumMismatch)
    }

    @Test func theErrorShowsBothChecksums() throws {
        #expect(throws: FrameError(.checksumMismatch, "xor is 0x6, computed 0x7")) {
            try Self.layout(Self.xor).decoded(hex("03 010204 06"))
        }
        let pair = Checksum("pair", width: 2) { _ in [0x0a, 0xff] }
        #expect(throws: FrameError(.checksumMismatch, "pair is 0001, computed 0aff")) {
            try Self.layout(pair).decoded(hex("00 0001"))
        }
    }

    @Test func invalidWidthsAreRefused() {
        let mistakes: [(Checksum, String)] = [
            (Checksum("none", width: 0) { _ in [] }, "field 3, checksum none (0 bytes)"),
            (Checksum("less", width: -1) { _ in [] }, "field 3, checksum less (-1 bytes)"),
            (Checksum("wide") { _ in 1 as UInt128 }, "field 3, checksum wide (16 bytes)"),
            (Checksum("not here", width: 4, .unavailable("install it")), "field 3, checksum not here (4 bytes)"),
        ]
        for (checksum, field) in mistakes {
            let error = #expect(throws: LayoutError.self) { try Self.layout(checksum) }
            #expect(error?.field == field)
        }
    }

    @Test func onlyIntegersHaveAValueAndOnlyAvailableChecksumsHaveBytes() {
        #expect(Self.ends.value(of: "hello") == nil)
        #expect(Self.ends.bytes(of: "hello") == Array("hellohello".utf8))
        #expect(Checksum.crc32.bytes(of: "123456789") == hex("cbf43926"))
        #expect(Checksum("not here", width: 4, .unavailable("install it")).bytes(of: "") == nil)
    }

    @Test func checksumsAreEqualByNameAndWidth() {
        #expect(Self.xor == Checksum("xor") { _ in 0 as UInt8 })
        #expect(Self.xor != Checksum("xor") { _ in 0 as UInt16 })
        #expect(Set([Checksum.crc32, .crc32, .adler32]).count == 2)
    }
}
