import CTrunkline

/// The system's libcrypto (OpenSSL 1.1 or 3, or a library with the same functions), loaded on first use.
///
/// Safe to share between threads: it holds addresses of functions, which never change, and a table under a lock.
@safe
package final class CryptoLibrary: @unchecked Sendable {
    package enum Algorithm: Sendable, Hashable, CaseIterable {
        case md5, sha1, sha256, sha512
    }

    /// macOS terminates a process that loads its own libcrypto by name, hence the paths of package managers.
    static let names: [String] = {
        #if os(macOS)
            ["/opt/homebrew/opt/openssl@3/lib", "/usr/local/opt/openssl@3/lib", "/opt/local/lib"]
                .map { $0 + "/libcrypto.3.dylib" }
        #else
            ["libcrypto.so.3", "libcrypto.so.1.1", "libcrypto.so"]
        #endif
    }()

    private static let found = LoadedOnce { () throws(TransportError) in
        if let library = CryptoLibrary(firstOf: names) { return library }
        if let code = shortageWhileLoading() { throw transportError(code, "loading libcrypto") }
        throw TransportError(.tls(.libraryMissing), missing)
    }

    package static var system: CryptoLibrary? { try? found.get() }

    /// Throws an error without an error number if no library was found.
    package static func load() throws(TransportError) -> CryptoLibrary { try found.get() }

    private let library: SharedLibrary
    package var handle: UnsafeMutableRawPointer { unsafe library.handle }
    private let newContext: trunkline_evp_md_ctx_new
    private let freeContext: trunkline_evp_md_ctx_free
    private let start: trunkline_evp_digest_init
    private let update: trunkline_evp_digest_update
    private let finish: trunkline_evp_digest_final
    private let addresses = Lock<[Algorithm: UInt?]>([:])
    private let computeHMAC: trunkline_hmac?
    private let computePBKDF2: trunkline_pbkdf2?

    init?(firstOf names: [String]) {
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
        unsafe computeHMAC = unsafe library.function("HMAC", as: trunkline_hmac.self)
        unsafe computePBKDF2 = unsafe library.function("PKCS5_PBKDF2_HMAC", as: trunkline_pbkdf2.self)
    }

    package func digest(
        _ algorithm: Algorithm
    ) -> (@Sendable (_ header: borrowing RawSpan, _ body: borrowing RawSpan) -> [UInt8]?)? {
        guard let address = address(of: algorithm) else { return nil }
        return { [self] header, body in compute(address, header, body) }
    }

    /// Valid for the life of the process. To be called once for each algorithm.
    func address(of algorithm: Algorithm) -> UInt? {
        guard let method = unsafe method(algorithm) else { return nil }
        let address = UInt(bitPattern: method)
        // OpenSSL 3 returns algorithms that it then refuses to compute.
        return compute(address, RawSpan(), RawSpan()) == nil ? nil : address
    }

    func knownAddress(of algorithm: Algorithm) -> UInt? {
        if let known = addresses.withLock({ $0[algorithm] }) { return known }
        // Two threads may look it up at once; each finds one that is right.
        let found = address(of: algorithm)
        addresses.withLock { _ = $0.updateValue(found, forKey: algorithm) }
        return found
    }

    func hash(_ bytes: [UInt8], _ method: UInt) -> [UInt8]? {
        unsafe compute(method, RawSpan(), bytes.span.bytes)
    }

    func hmac(_ bytes: [UInt8], key: [UInt8], _ method: UInt) -> [UInt8]? {
        guard let computeHMAC = unsafe computeHMAC, let keyCount = Int32(exactly: key.count) else { return nil }
        var code = [UInt8](repeating: 0, count: 64)
        var count: UInt32 = 0
        let result = unsafe computeHMAC(
            UnsafeRawPointer(bitPattern: method),
            key,
            keyCount,
            bytes,
            bytes.count,
            &code,
            &count
        )
        guard unsafe result != nil, count <= 64 else { return nil }
        code.removeLast(64 - Int(count))
        return code
    }

    func pbkdf2(
        _ password: [UInt8],
        salt: [UInt8],
        iterations: Int32,
        count: Int32,
        _ method: UInt
    ) -> [UInt8]? {
        guard let computePBKDF2 = unsafe computePBKDF2, let saltCount = Int32(exactly: salt.count),
            let passwordCount = Int32(exactly: password.count)
        else { return nil }
        var key = [UInt8](repeating: 0, count: Int(count))
        let result = unsafe password.withUnsafeBytes { bytes in
            unsafe computePBKDF2(
                bytes.bindMemory(to: CChar.self).baseAddress,
                passwordCount,
                salt,
                saltCount,
                iterations,
                UnsafeRawPointer(bitPattern: method),
                count,
                &key
            )
        }
        return result == 1 ? key : nil
    }

    private func method(_ algorithm: Algorithm) -> UnsafeRawPointer? {
        let (name, function) =
            switch algorithm {
            case .md5: ("MD5", "EVP_md5")
            case .sha1: ("SHA1", "EVP_sha1")
            case .sha256: ("SHA256", "EVP_sha256")
            case .sha512: ("SHA512", "EVP_sha512")
            }
        // Unless it was fetched, OpenSSL 3 looks it up for every digest. Never freed: there is one per algorithm.
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
        // EVP_MAX_MD_SIZE.
        var digest = [UInt8](repeating: 0, count: 64)
        var count: UInt32 = 0
        guard unsafe finish(context, &digest, &count) == 1, count <= 64 else { return nil }
        digest.removeLast(64 - Int(count))
        return digest
    }
}
