// Digests, computed by the system's libcrypto. The field's byte order does not matter to them.

extension Checksum {
    /// SHA-256 (FIPS 180-4): 32 bytes.
    ///
    /// Computed by the system's libcrypto (OpenSSL). Where that is missing, a layout with this checksum is refused with a
    /// `LayoutError` that says what to install: use `FrameLayout(validating:)` to handle it.
    public static let sha256 = digest("sha256", .sha256, from: .system)

    /// MD5 (RFC 1321): 16 bytes. Against accidents, not against people.
    ///
    /// Computed by the system's libcrypto (OpenSSL). Where that is missing, or refuses MD5 (FIPS mode), a layout with this
    /// checksum is refused with a `LayoutError`: use `FrameLayout(validating:)` to handle it.
    public static let md5 = digest("md5", .md5, from: .system)

    /// MD5 (RFC 1321) written out in 32 lower-case hexadecimal digits; otherwise like `md5`.
    public static let md5Hexadecimal = digest("md5Hexadecimal", .md5, isHexadecimal: true, from: .system)

    /// The checksum that `library` computes, or one that says why it cannot.
    package static func digest(
        _ name: String,
        _ algorithm: CryptoLibrary.Algorithm,
        isHexadecimal: Bool = false,
        from library: CryptoLibrary?
    ) -> Checksum {
        let width =
            switch algorithm {
            case .md5: isHexadecimal ? 32 : 16
            case .sha256: isHexadecimal ? 64 : 32
            }
        guard let library else {
            let packages = "Debian, Ubuntu: libssl3; Fedora: openssl-libs; Alpine: libcrypto3; Homebrew: openssl@3"
            return Checksum(name, width: width, .unavailable("it needs OpenSSL's libcrypto; install it (\(packages))"))
        }
        guard let compute = library.digest(algorithm) else {
            let reason = "the system's libcrypto does not compute it; in FIPS mode it knows approved digests only"
            return Checksum(name, width: width, .unavailable(reason))
        }
        guard isHexadecimal else { return Checksum(name, width: width, .bytes(compute)) }
        return Checksum(name, width: width, .bytes { compute($0, $1)?.flatMap { twoDigits($0).utf8 } })
    }
}
