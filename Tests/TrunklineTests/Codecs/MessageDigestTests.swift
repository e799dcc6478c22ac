import Testing

@testable import TrunklineCore
@testable import TrunklineIO

/// Hash functions, message authentication codes and derived keys, with the values that their specifications publish.
@Suite(.tags(.realThreads), .enabled(if: CryptoLibrary.system != nil, "libcrypto is not installed"))
struct MessageDigestTests {}

extension MessageDigestTests {
    private func hex(_ text: String) -> [UInt8] {
        let digits = text.filter { $0 != " " }.compactMap(\.hexDigitValue)
        return stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
    }

    @Test func hashesHaveTheirPublishedValues() throws {
        // RFC 1321, appendix A.5.
        #expect(try MessageDigest.md5.hash(of: "".utf8) == hex("d41d8cd98f00b204e9800998ecf8427e"))
        #expect(try MessageDigest.md5.hash(of: "message digest".utf8) == hex("f96b697d7cb7938d525a2f31aaf161d0"))
        // FIPS 180-2, appendices A, B and C.
        let long = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"
        #expect(try MessageDigest.sha1.hash(of: "abc".utf8) == hex("a9993e364706816aba3e25717850c26c9cd0d89d"))
        #expect(try MessageDigest.sha1.hash(of: long.utf8) == hex("84983e441c3bd26ebaae4aa1f95129e5e54670f1"))
        #expect(
            try MessageDigest.sha256.hash(of: "abc".utf8)
                == hex("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
        )
        let sha512 =
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
            + "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"
        #expect(try MessageDigest.sha512.hash(of: "abc".utf8) == hex(sha512))
        for digest in [MessageDigest.md5, .sha1, .sha256, .sha512] {
            #expect(try digest.hash(of: Bytes("x")).count == digest.size)
        }
    }

    @Test func authenticationCodesHaveTheirPublishedValues() throws {
        let (jefe, question) = ("Jefe".utf8, "what do ya want for nothing?".utf8)
        // RFC 2202, test cases 1 and 2, and 6: a key of more than a block.
        let sixteen = [UInt8](repeating: 0x0b, count: 16)
        #expect(
            try MessageDigest.md5.hmac(of: "Hi There".utf8, key: sixteen) == hex("9294727a3638bb1c13f48ef8158bfc9d")
        )
        #expect(try MessageDigest.md5.hmac(of: question, key: jefe) == hex("750c783e6ab0b503eaa86e310a5db738"))
        #expect(try MessageDigest.sha1.hmac(of: question, key: jefe) == hex("effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"))
        let long = [UInt8](repeating: 0xaa, count: 80)
        let text = "Test Using Larger Than Block-Size Key - Hash Key First".utf8
        #expect(try MessageDigest.sha1.hmac(of: text, key: long) == hex("aa4ae5e15272d00e95705637ce8a3b55ed402112"))
        // RFC 4231, test cases 1 and 2.
        let twenty = [UInt8](repeating: 0x0b, count: 20)
        #expect(
            try MessageDigest.sha256.hmac(of: "Hi There".utf8, key: twenty)
                == hex("b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7")
        )
        #expect(
            try MessageDigest.sha256.hmac(of: question, key: jefe)
                == hex("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
        )
        let sha512 =
            "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554"
            + "9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737"
        #expect(try MessageDigest.sha512.hmac(of: question, key: jefe) == hex(sha512))
    }

    @Test func derivedKeysHaveTheirPublishedValues() throws {
        // RFC 6070, and RFC 7914 §11.
        let (password, salt) = ("password".utf8, "salt".utf8)
        let once = try MessageDigest.sha1.pbkdf2(password: password, salt: salt, iterations: 1)
        #expect(once == hex("0c60c80f961f0e71f3a9b524af6012062fe037a6"))
        let often = try MessageDigest.sha1.pbkdf2(password: password, salt: salt, iterations: 4096)
        #expect(often == hex("4b007901b765489abead49d926f721d065a429c1"))
        let sha256 = try MessageDigest.sha256.pbkdf2(password: "passwd".utf8, salt: salt, iterations: 1, count: 64)
        let expected =
            "55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc"
            + "49ca9cccf179b645991664b39d77ef317c71b845b1e30bd509112041d3a19783"
        #expect(sha256 == hex(expected))
    }

    /// The exchange of RFC 7677 §3: SCRAM-SHA-256.
    @Test func aSCRAMProofIsComputed() throws {
        let sha = MessageDigest.sha256
        let salt = hex("5b6d99689d1235 8eeca04b14 1236fa81")
        let salted = try sha.pbkdf2(password: "pencil".utf8, salt: salt, iterations: 4096)
        let clientKey = try sha.hmac(of: "Client Key".utf8, key: salted)
        let nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
        let message = "n=user,r=rOprNGfwEbeRWgbNEkqO,r=\(nonce),s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r=\(nonce)"
        let signature = try sha.hmac(of: message.utf8, key: try sha.hash(of: clientKey))
        let proof = zip(clientKey, signature).map { $0 ^ $1 }
        // dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ= in base 64.
        #expect(proof == hex("747cdb65aa56224e2352137e52d7bdcad6a0f738df30782caa69a2cfb0277554"))
    }

    /// A server chooses the number of iterations, so no number of them may stop the program, or occupy it for minutes.
    @Test(arguments: [0, -1, .min, 10_000_001, .max]) func numbersOutOfRangeAreRefused(_ number: Int) {
        let error = #expect(throws: DigestError.self) {
            try MessageDigest.sha1.pbkdf2(password: "a".utf8, salt: "b".utf8, iterations: number)
        }
        #expect(error?.code == .invalidArgument && error?.message.contains("10000000") == true)
        let count = #expect(throws: DigestError.self) {
            try MessageDigest.sha1.pbkdf2(password: "a".utf8, salt: "b".utf8, iterations: 1, count: number)
        }
        #expect(count?.code == .invalidArgument)
    }

    @Test func emptyKeysAndMessagesAreAllowed() throws {
        let code = try MessageDigest.sha256.hmac(of: [], key: [])
        #expect(code == hex("b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad"))
    }

    @Test func codesAreCompared() {
        let code: [UInt8] = [1, 2, 3]
        #expect(MessageDigest.areEqual(code, Bytes([1, 2, 3])))
        #expect(!MessageDigest.areEqual(code, [1, 2, 4]) && !MessageDigest.areEqual(code, [1, 2]))
        #expect(!MessageDigest.areEqual(code, [0, 2, 3]) && MessageDigest.areEqual([], []))
    }

    @Test func aMissingLibraryIsATypedError() {
        let error = #expect(throws: DigestError.self) {
            try MessageDigest.compute(.sha256, with: CryptoLibrary(firstOf: ["libnone.so"])) { $0.hash([], $1) }
        }
        #expect(error?.code == .libraryMissing && error?.message.contains("libssl3") == true)
        let failed = #expect(throws: DigestError.self) {
            try MessageDigest.compute(.sha256, with: .system) { _, _ in nil }
        }
        #expect(failed?.code == .unavailable)
    }
}
