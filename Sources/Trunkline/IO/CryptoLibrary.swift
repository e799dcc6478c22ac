import CTrunkline

/// The system's libcrypto (OpenSSL 1.1 or 3, or a library with the same functions), loaded on first use.
///
/// Safe to share between threads: it holds addresses of functions, which never change.
@safe
package final class CryptoLibrary: @unchecked Sendable {
    /// A digest algorithm.
    package enum Algorithm: Sendable {
        case md5, sha256
    }

    /// The file names to try, the newest version first.
    ///
    /// macOS terminates a process that loads the system's own libcrypto by name. So on macOS these are the paths that
    /// package managers use.
    package static let names: [String] = {
        #if os(macOS)
            ["/opt/homebrew/opt/openssl@3/lib", "/usr/local/opt/openssl@3/lib", "/opt/local/lib"]
                .map { $0 + "/libcrypto.3.dylib" }
        #else
            ["libcrypto.so.3", "libcrypto.so.1.1", "libcrypto.so"]
        #endif
    }()

    /// The system's library, or `nil` if no library was found.
    package static let system = CryptoLibrary(firstOf: names)

    private let library: SharedLibrary
    /// The library handle, for looking up further functions.
    package var handle: UnsafeMutableRawPointer { unsafe library.handle }
    private let newContext: trunkline_evp_md_ctx_new
    private let freeContext: trunkline_evp_md_ctx_free
    private let start: trunkline_evp_digest_init
    private let update: trunkline_evp_digest_update
    private let finish: trunkline_evp_digest_final

    /// Loads the first library of `names` that exists. Returns `nil` if none exists, or if the library lacks a
    /// function.
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

    /// Returns a function that computes the digest of a header followed by a body.
    ///
    /// That function returns `nil` when the library fails. This method returns `nil` if the library does not offer
    /// `algorithm`; in FIPS mode, for example, a library does not offer MD5.
    package func digest(
        _ algorithm: Algorithm
    ) -> (@Sendable (_ header: borrowing RawSpan, _ body: borrowing RawSpan) -> [UInt8]?)? {
        guard let method = unsafe method(algorithm) else { return nil }
        // An address in the library, valid for the life of the process.
        let address = UInt(bitPattern: method)
        // OpenSSL 3 returns algorithms that it then refuses to compute.
        guard compute(address, RawSpan(), RawSpan()) != nil else { return nil }
        return { [self] header, body in compute(address, header, body) }
    }

    /// The library's descriptor of `algorithm`.
    private func method(_ algorithm: Algorithm) -> UnsafeRawPointer? {
        let (name, function) =
            switch algorithm {
            case .md5: ("MD5", "EVP_md5")
            case .sha256: ("SHA256", "EVP_sha256")
            }
        // OpenSSL 3 looks up the algorithm for every digest unless it was fetched. Never freed: there is one per
        // algorithm.
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
        // The length of the longest digest (EVP_MAX_MD_SIZE).
        var digest = [UInt8](repeating: 0, count: 64)
        var count: UInt32 = 0
        guard unsafe finish(context, &digest, &count) == 1, count <= 64 else { return nil }
        digest.removeLast(64 - Int(count))
        return digest
    }
}
