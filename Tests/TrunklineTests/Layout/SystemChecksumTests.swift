import Testing
import Trunkline

@testable import TrunklineIO
@testable import TrunklineLayouts

struct CRC32CTests {
    @Test func checksumHasItsPublishedValues() {
        // CRC-32/ISCSI in Greg Cook's "Catalogue of parametrised CRC algorithms"; RFC 3720, appendix B.4.
        #expect(Checksum.crc32c.value(of: "123456789") == 0xe306_9283)
        #expect(Checksum.crc32c.value(of: "") == 0)
        #expect(Checksum.crc32c.value(of: Bytes([UInt8](repeating: 0, count: 32))) == 0x8a91_36aa)
    }

    @Test(.enabled(if: Checksum.crc32cByInstruction != nil, "the processor has no instruction for it"))
    func instructionAndTableAgreeAtEveryLengthAndAlignment() throws {
        let instruction = try #require(Checksum.crc32cByInstruction)
        var random = SeededGenerator(seed: 3720)
        for length in Array(0...40) + (0..<40).map({ _ in Int.random(in: 41...5000, using: &random) }) {
            let start = Int.random(in: 0...15, using: &random)
            let storage = (0..<start + length + 3).map { _ in UInt8.random(in: 0...255, using: &random) }
            let bytes = Bytes(sharing: storage, in: start..<start + length)
            #expect(instruction.value(of: bytes) == Checksum.crc32cByTable.value(of: bytes), "\(length) from \(start)")
        }
    }
}

@Suite(.tags(.realThreads), .enabled(if: CryptoLibrary.system != nil, "libcrypto is not installed"))
struct DigestTests {}

extension DigestTests {
    private func layout(_ checksum: Checksum, over scope: Checksum.Scope = .body) throws -> FrameLayout {
        try FrameLayout(validating: [
            .length(UInt16.self, counting: .body), .body, .checksum(checksum, over: scope, order: .littleEndian),
        ])
    }

    @Test func digestsHaveTheirPublishedValues() {
        // FIPS 180-2, appendix B, and RFC 1321, appendix A.5.
        #expect(
            Checksum.sha256.bytes(of: "abc")
                == hex("ba7816bf 8f01cfea 414140de 5dae2223 b00361a3 96177a9c b410ff61 f20015ad")
        )
        #expect(
            Checksum.sha256.bytes(of: "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")
                == hex("248d6a61 d20638b8 e5c02693 0c3e6039 a33ce459 64ff2167 f6ecedd4 19db06c1")
        )
        #expect(Checksum.md5.bytes(of: "abc") == hex("900150983cd24fb0d6963f7d28e17f72"))
        #expect(Checksum.md5.bytes(of: "") == hex("d41d8cd98f00b204e9800998ecf8427e"))
        #expect(Checksum.md5Hexadecimal.bytes(of: "abc") == Array("900150983cd24fb0d6963f7d28e17f72".utf8))
    }

    @Test func aDigestIsAFieldLikeAnyOther() throws {
        for (checksum, width) in [(Checksum.sha256, 32), (.md5, 16), (.md5Hexadecimal, 32)] {
            let layout = try layout(checksum)
            let bytes = try layout.encoded(Frame(.request, body: "abc"))
            #expect(bytes == hex("0003 616263") + (checksum.bytes(of: "abc") ?? []))
            #expect(bytes.count == 5 + width)
            #expect(try layout.decoded(bytes).map(\.body) == ["abc"])
            for index in 2..<bytes.count {
                var corrupted = bytes
                corrupted[index] ^= 0x20
                #expect(throws: FrameError.self) { try layout.decoded(corrupted) }
            }
        }
    }

    @Test func headerAndBodyAreDigestedAsOneRunOfBytes() throws {
        let body = Bytes((0..<10_000).map { UInt8(truncatingIfNeeded: $0 &* 7) })
        let layout = try layout(.sha256, over: .headerAndBody)
        let bytes = try layout.encoded(Frame(.request, body: body))
        #expect(Checksum.sha256.bytes(of: Bytes(bytes.dropLast(32))) == bytes.suffix(32))
        #expect(try layout.decoded(bytes).map(\.body) == [body])
    }

    /// The upper-case digits are the same number, but not the bytes that the layout declares.
    @Test func hexadecimalDigitsAreLowerCase() throws {
        let digits = try #require(Checksum.md5Hexadecimal.bytes(of: "abc"))
        let upper = digits.map { (0x61...0x66).contains($0) ? $0 - 0x20 : $0 }
        let error = #expect(throws: FrameError.self) { try layout(.md5Hexadecimal).decoded(hex("0003 616263") + upper) }
        #expect(error?.code == .checksumMismatch)
    }

    /// On many threads, as the event loops of one process compute them.
    @Test func digestsAreComputedConcurrently() async throws {
        let bodies = (0..<64).map { Bytes("body \($0)") }
        let expected = bodies.map { Checksum.sha256.bytes(of: $0) }
        let isSame = await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<8 {
                group.addTask { bodies.map { Checksum.sha256.bytes(of: $0) } == expected }
            }
            return await group.allSatisfy { $0 }
        }
        #expect(isSame)
    }
}

struct MissingLibraryTests {
    @Test func withoutTheLibraryTheLayoutIsInvalidAndTheErrorSaysWhatToInstall() {
        let library = CryptoLibrary(firstOf: ["libcrypto-of-no-system.so.9", "/nowhere/libcrypto.so"])
        #expect(library == nil)
        for isHexadecimal in [false, true] {
            let checksum = Checksum.digest("md5", .md5, isHexadecimal: isHexadecimal, from: library)
            let fields: [Field] = [.length(UInt8.self, counting: .body), .body, .checksum(checksum, over: .body)]
            let error = #expect(throws: LayoutError.self) { try FrameLayout(validating: fields) }
            #expect(error?.field == "field 3, checksum md5 (\(isHexadecimal ? 32 : 16) bytes)")
            #expect(error?.message.contains("libssl3") == true)
            #expect(checksum.bytes(of: "abc") == nil)
        }
    }

    @Test func theExtendedLayoutIsInvalidWithoutItsDigest() {
        let checksum = Checksum.digest("sha256", .sha256, from: nil)
        let error = #expect(throws: LayoutError.self) { try FrameLayout.extendedLayout(checksum: checksum) }
        #expect(error?.field == "field 5, checksum sha256 (32 bytes)")
    }

    /// A library of that name that is not libcrypto must be ignored, not called.
    @Test func aLibraryWithoutTheFunctionsIsNotUsed() {
        #expect(CryptoLibrary(firstOf: ["libc.so.6", "/usr/lib/libSystem.B.dylib"]) == nil)
    }
}
