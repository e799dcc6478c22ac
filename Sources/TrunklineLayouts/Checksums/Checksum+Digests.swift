import TrunklineCore

extension Checksum {
    /// SHA-256 (FIPS 180-4): 32 bytes.
    ///
    /// Computed by the system's libcrypto (OpenSSL). If it is missing, `FrameLayout { … }` with this checksum stops the
    /// program with a message that says what to install. To handle the error, use
    /// ``FrameLayout/init(validating:response:)``, which throws a ``LayoutError``.
    public static var sha256: Checksum { digest("sha256", .sha256) }

    /// MD5 (RFC 1321): 16 bytes. It detects accidents, not attacks.
    ///
    /// Computed by the system's libcrypto (OpenSSL). If it is missing, or rejects MD5 (FIPS mode), `FrameLayout { … }`
    /// with this checksum stops the program. To handle the error, use ``FrameLayout/init(validating:response:)``, which
    /// throws a ``LayoutError``.
    public static var md5: Checksum { digest("md5", .md5) }

    /// MD5 (RFC 1321) as 32 lower-case hexadecimal digits; otherwise like ``md5``.
    public static var md5Hexadecimal: Checksum { digest("md5Hexadecimal", .md5, isHexadecimal: true) }

    /// Loads the library on each use: if no file descriptor was free to load it, the next use tries again.
    static func digest(
        _ name: String,
        _ algorithm: CryptoLibrary.Algorithm,
        isHexadecimal: Bool = false,
        loading load: () throws(TransportError) -> CryptoLibrary = { () throws(TransportError) in try .load() }
    ) -> Checksum {
        do throws(TransportError) {
            return digest(name, algorithm, isHexadecimal: isHexadecimal, from: try load())
        } catch {
            guard error.errno != 0 else { return digest(name, algorithm, isHexadecimal: isHexadecimal, from: nil) }
            let width = algorithm.size * (isHexadecimal ? 2 : 1)
            return Checksum(name, width: width, .unavailable("it is not available now: \(error.message)"))
        }
    }

    static func digest(
        _ name: String,
        _ algorithm: CryptoLibrary.Algorithm,
        isHexadecimal: Bool = false,
        from library: CryptoLibrary?
    ) -> Checksum {
        let width = algorithm.size * (isHexadecimal ? 2 : 1)
        guard let library else {
            return Checksum(name, width: width, .unavailable("it \(CryptoLibrary.missing)"))
        }
        guard let compute = library.digest(algorithm) else {
            return Checksum(name, width: width, .unavailable(CryptoLibrary.refusal))
        }
        guard isHexadecimal else { return Checksum(name, width: width, .bytes(compute)) }
        return Checksum(name, width: width, .bytes { compute($0, $1)?.flatMap { twoDigits($0).utf8 } })
    }
}
