/// A cryptographic hash function, and what protocols make of it: message authentication codes (HMAC) and keys derived
/// from passwords (PBKDF2). Computed by the system's libcrypto (OpenSSL).
///
/// For the credentials of protocols such as SCRAM, STUN, RADIUS and MySQL:
///
/// ```swift
/// let salted = try MessageDigest.sha256.pbkdf2(password: "pencil".utf8, salt: salt, iterations: 4096)
/// let clientKey = try MessageDigest.sha256.hmac(of: "Client Key".utf8, key: salted)
/// let storedKey = try MessageDigest.sha256.hash(of: clientKey)
/// ```
///
/// MD5 and SHA-1 are broken as hash functions. Use them only where a protocol demands it.
///
/// A checksum of frames is a ``Checksum``, a field of a layout.
public struct MessageDigest: Sendable, Hashable, CustomStringConvertible {
    /// MD5 (RFC 1321), 16 bytes.
    public static let md5 = MessageDigest(.md5)
    /// SHA-1 (FIPS 180-4), 20 bytes.
    public static let sha1 = MessageDigest(.sha1)
    /// SHA-256 (FIPS 180-4), 32 bytes.
    public static let sha256 = MessageDigest(.sha256)
    /// SHA-512 (FIPS 180-4), 64 bytes.
    public static let sha512 = MessageDigest(.sha512)

    let algorithm: CryptoLibrary.Algorithm

    private init(_ algorithm: CryptoLibrary.Algorithm) { self.algorithm = algorithm }

    /// The number of bytes of a hash, and of an authentication code.
    public var size: Int { algorithm.size }

    /// Returns the hash of `bytes`, of ``size`` bytes.
    ///
    /// - Throws: ``DigestError`` if the system's libcrypto is missing or does not compute it.
    public func hash(of bytes: some Sequence<UInt8>) throws(DigestError) -> [UInt8] {
        try compute { $0.hash(Array(bytes), $1) }
    }

    /// Returns the message authentication code of `bytes` (HMAC, RFC 2104), of ``size`` bytes. Compare it with a
    /// received one by ``areEqual(_:_:)``.
    ///
    /// - Parameters:
    ///   - bytes: The message.
    ///   - key: The secret key, of any size.
    /// - Throws: ``DigestError`` if the system's libcrypto is missing or does not compute it. In FIPS mode it may
    ///   reject keys of less than 14 bytes.
    public func hmac(of bytes: some Sequence<UInt8>, key: some Sequence<UInt8>) throws(DigestError) -> [UInt8] {
        try compute { $0.hmac(Array(bytes), key: Array(key), $1) }
    }

    /// Returns a key that is derived from a password (PBKDF2 with HMAC, RFC 8018 §5.2): with ``size`` bytes, the
    /// function `Hi` of SCRAM (RFC 5802 §2.2).
    ///
    /// It takes the processor for a while, about 1 ms for 4,096 iterations with SHA-256. Do not call it in a codec,
    /// which runs on the event loop.
    ///
    /// - Parameters:
    ///   - password: The password, prepared as the protocol demands (SASLprep, RFC 4013).
    ///   - salt: The salt, which is not secret.
    ///   - iterations: The number of iterations, 1 to 10,000,000. A server that chooses it can occupy the client:
    ///     reject what the protocol does not need.
    ///   - count: The number of bytes of the key, 1 to 65,536; ``size`` by default.
    /// - Throws: ``DigestError``: `invalidArgument` for a number out of range; otherwise as ``hash(of:)``.
    public func pbkdf2(
        password: some Sequence<UInt8>,
        salt: some Sequence<UInt8>,
        iterations: Int,
        count: Int? = nil
    ) throws(DigestError) -> [UInt8] {
        let count = count ?? size
        guard (1...10_000_000).contains(iterations) else {
            throw DigestError(.invalidArgument, "iterations is \(iterations), but can be 1 to 10000000")
        }
        guard (1...65_536).contains(count) else {
            throw DigestError(.invalidArgument, "count is \(count), but can be 1 to 65536")
        }
        return try compute {
            $0.pbkdf2(Array(password), salt: Array(salt), iterations: Int32(iterations), count: Int32(count), $1)
        }
    }

    /// Returns whether two hashes or authentication codes are equal, in a time that does not depend on where they
    /// differ, so that a peer cannot find out the right one byte by byte.
    ///
    /// It depends on their sizes only. Those of different sizes are not equal.
    public static func areEqual(_ a: some Sequence<UInt8>, _ b: some Sequence<UInt8>) -> Bool {
        let (a, b) = (Array(a), Array(b))
        guard a.count == b.count else { return false }
        var difference: UInt8 = 0
        for index in a.indices { difference |= a[index] ^ b[index] }
        return difference == 0
    }

    /// The name of the hash function: `sha256`, for example.
    public var description: String { "\(algorithm)" }

    private func compute(_ body: (CryptoLibrary, UInt) -> [UInt8]?) throws(DigestError) -> [UInt8] {
        var library: CryptoLibrary?
        do throws(TransportError) { library = try CryptoLibrary.load() } catch {
            if error.errno != 0 { throw DigestError(.unavailable, "\(algorithm): \(error.message)") }
        }
        return try Self.compute(algorithm, with: library, body)
    }

    static func compute(
        _ algorithm: CryptoLibrary.Algorithm,
        with library: CryptoLibrary?,
        _ body: (CryptoLibrary, UInt) -> [UInt8]?
    ) throws(DigestError) -> [UInt8] {
        guard let library else { throw DigestError(.libraryMissing, "\(algorithm) \(CryptoLibrary.missing)") }
        guard let address = library.knownAddress(of: algorithm) else {
            throw DigestError(.unavailable, "\(algorithm): \(CryptoLibrary.refusal)")
        }
        guard let result = body(library, address) else {
            throw DigestError(.unavailable, "\(algorithm): the system's libcrypto refuses the computation")
        }
        return result
    }
}

/// The reason why a hash or a key was not computed.
public struct DigestError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of a digest error. Later versions may add cases.
    @nonexhaustive
    public enum Code: Sendable, Hashable {
        /// The system's libcrypto (OpenSSL) was not found. The message says what to install.
        case libraryMissing
        /// The library does not compute it. In FIPS mode, for example, there is no MD5, and keys have a minimum size.
        /// Or there is no free file descriptor to load the library with; the next call tries again.
        case unavailable
        /// A number is out of its range.
        case invalidArgument
    }

    /// The kind of the error.
    public let code: Code
    /// What is missing or wrong, and what to do: one line, for logs.
    public let message: String

    init(_ code: Code, _ message: String) { (self.code, self.message) = (code, message) }

    /// The code and the message.
    public var description: String { .labelled("\(code)", message) }
}

extension CryptoLibrary {
    package static let missing =
        "needs OpenSSL's libcrypto; install it"
        + " (Debian, Ubuntu: libssl3; Fedora: openssl-libs; Alpine: libcrypto3; Homebrew: openssl@3)"
    package static let refusal = "the system's libcrypto does not compute it; in FIPS mode it has only approved digests"
}

extension CryptoLibrary.Algorithm {
    package var size: Int {
        switch self {
        case .md5: 16
        case .sha1: 20
        case .sha256: 32
        case .sha512: 64
        }
    }
}
