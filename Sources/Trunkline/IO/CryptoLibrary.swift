import CTrunkline

/// The system's libcrypto (OpenSSL 1.1 or 3, or one that has the same functions), found when it is first asked for.
///
/// Sendable although the compiler can't see it: what it holds are addresses of functions, which never change.
@safe
package final class CryptoLibrary: @unchecked Sendable {
    /// A digest algorithm.
    package enum Algorithm: Sendable {
        case md5, sha256
    }

    /// The names to look for, the newest version first.
    ///
    /// macOS ends a program that loads its own libcrypto by name, so there it is the package managers' by path.
    package static let names: [String] = {
        #if os(macOS)
            ["/opt/homebrew/opt/openssl@3/lib", "/usr/local/opt/openssl@3/lib", "/opt/local/lib"]
                .map { $0 + "/libcrypto.3.dylib" }
        #else
            ["libcrypto.so.3", "libcrypto.so.1.1", "libcrypto.so"]
        #endif
    }()

    /// The system's; `nil` when it has none.
    package static let system = CryptoLibrary(firstOf: names)

    private let library: SharedLibrary
    /// For those who look other functions up.
    package var handle: UnsafeMutableRawPointer { unsafe library.handle }
    private let newContext: trunkline_evp_md_ctx_new
    private let freeContext: trunkline_evp_md_ctx_free
    private let start: trunkline_evp_digest_init
    private let update: trunkline_evp_digest_update
    private let finish: trunkline_evp_digest_final

    /// Loads the first of `names` that there is; `nil` when there is none, or when it lacks a function.
    package init?(firstOf names: [String]) {
        guard
            let library = SharedLibrary(firstOf: names),
            let newContext = unsafe library.function("EVP_MD_CTX_new", as: trunkline_evp_md_ctx_new.self),
            let freeContext = unsafe library.function("EVP_MD_CTX_free", as: trunkline_evp_md_ctx_free.self),
            let start = unsafe library.function("EVP_DigestInit_ex", as: trunkline_evp_digest_init.self),
            let update = unsafe library.function("EVP_DigestUpdate", as: trunkline_evp_digest_update.self),
            let finish = unsafe library.function("EVP_DigestFinal_ex", as: trunkline_evp_digest_final.self)
        else { return nil }
        self.library = library
        unsafe self.newContext = unsafe newContext
        unsafe self.freeContext = unsafe freeContext
        unsafe self.start = unsafe start
        unsafe self.update = unsafe update
        unsafe self.finish = unsafe finish
    }

    /// A function that computes the digest of a header and a body, as if they were one run of bytes, and returns `nil`
    /// when the library fails; `nil` when the library does not offer `algorithm`, as one in FIPS mode does not offer MD5.
    package func digest(
        _ algorithm: Algorithm
    ) -> (@Sendable (_ header: borrowing RawSpan, _ body: borrowing RawSpan) -> [UInt8]?)? {
        guard let method = unsafe method(algorithm) else { return nil }
        // An address of the library's, for the life of the process.
        let address = UInt(bitPattern: method)
        // Version 3 names algorithms that it then refuses to compute.
        guard compute(address, RawSpan(), RawSpan()) != nil else { return nil }
        return { [self] header, body in compute(address, header, body) }
    }

    /// The library's own description of `algorithm`.
    private func method(_ algorithm: Algorithm) -> UnsafeRawPointer? {
        let (name, function) =
            switch algorithm {
            case .md5: ("MD5", "EVP_md5")
            case .sha256: ("SHA256", "EVP_sha256")
            }
        // Version 3 looks an algorithm up for every digest unless it was fetched. Never freed: there is one of each.
        if let fetch = unsafe library.function("EVP_MD_fetch", as: trunkline_evp_md_fetch.self) {
            return unsafe fetch(nil, name, nil)
        }
        return unsafe library.function(function, as: trunkline_evp_md.self)?()
    }

    private func compute(_ method: UInt, _ header: borrowing RawSpan, _ body: borrowing RawSpan) -> [UInt8]? {
        guard let context = unsafe newContext() else { return nil }
        defer { unsafe freeContext(context) }
        guard
            unsafe start(context, UnsafeRawPointer(bitPattern: method), nil) == 1,
            unsafe header.withUnsafeBytes({ unsafe update(context, $0.baseAddress, $0.count) }) == 1,
            unsafe body.withUnsafeBytes({ unsafe update(context, $0.baseAddress, $0.count) }) == 1
        else { return nil }
        // As many bytes as the longest digest has (EVP_MAX_MD_SIZE).
        var digest = [UInt8](repeating: 0, count: 64)
        var count: UInt32 = 0
        guard unsafe finish(context, &digest, &count) == 1, count <= 64 else { return nil }
        digest.removeLast(64 - Int(count))
        return digest
    }
}
