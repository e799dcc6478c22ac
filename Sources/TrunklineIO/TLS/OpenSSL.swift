import CTrunkline

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The system's OpenSSL (1.1.1 or 3), loaded on the first use of TLS and never unloaded.
///
/// Safe to share between threads: it holds addresses of functions and of one method table, which never change.
@safe
final class OpenSSL: @unchecked Sendable {
    /// macOS terminates a process that loads its own libcrypto by name, hence the paths of package managers.
    static let names: [(ssl: String, crypto: String)] = {
        #if os(macOS)
            ["/opt/homebrew/opt/openssl@3/lib/", "/usr/local/opt/openssl@3/lib/", "/opt/local/lib/"]
                .map { ($0 + "libssl.3.dylib", $0 + "libcrypto.3.dylib") }
        #else
            [("libssl.so.3", "libcrypto.so.3"), ("libssl.so.1.1", "libcrypto.so.1.1")]
        #endif
    }()

    private static let found = LoadedOnce { () throws(TransportError) in try OpenSSL(firstOf: names) }

    static var loaded: OpenSSL? { found.loaded }

    /// Throws `tls(.libraryMissing)`, or `system` if no file descriptor is free: then the next call tries again.
    static func system() throws(TransportError) -> OpenSSL { try found.get() }

    let api: UnsafePointer<trunkline_openssl>
    let method: OpaquePointer
    private let reasonMask: UInt

    init(firstOf names: [(ssl: String, crypto: String)]) throws(TransportError) {
        var problems: [String] = []
        for name in names {
            // The order matters: libssl needs libcrypto, and would not find one that is outside the search path.
            guard let crypto = unsafe dlopen(name.crypto, RTLD_NOW | RTLD_LOCAL) else {
                if let code = shortageWhileLoading() { throw transportError(code, "loading \(name.crypto)") }
                problems.append("\(name.crypto) not found")
                continue
            }
            guard let ssl = unsafe dlopen(name.ssl, RTLD_NOW | RTLD_LOCAL) else {
                if let code = shortageWhileLoading() { throw transportError(code, "loading \(name.ssl)") }
                problems.append("\(name.ssl) not found")
                continue
            }
            // The library would go without the system's configuration for good.
            if let code = descriptorShortage() {
                throw transportError(code, "reading the configuration of \(name.ssl)")
            }
            var missing: UnsafePointer<CChar>?
            guard let functions = unsafe trunkline_openssl_find(ssl, crypto, &missing) else {
                problems.append("\(name.ssl) lacks \(unsafe missing.map { unsafe String(cString: $0) } ?? "")")
                continue
            }
            guard let method = unsafe OpenSSLEngine.makeMethod(functions) else {
                problems.append("creating a BIO with \(name.ssl) failed")
                continue
            }
            // OPENSSL_INIT_NO_ATEXIT: loops may still be decrypting when the process exits.
            unsafe _ = functions.pointee.OPENSSL_init_ssl(0x0008_0000, nil)
            unsafe (api, self.method) = unsafe (UnsafePointer(functions), method)
            // The bits of an error code that hold its reason: OpenSSL 3 has more of them.
            reasonMask = unsafe functions.pointee.OpenSSL_version_num() >> 28 >= 3 ? 0x7F_FFFF : 0xFFF
            return
        }
        let message = "TLS needs OpenSSL 1.1.1 or later: install libssl3 (Debian, Ubuntu), openssl-libs (Fedora), "
        throw TransportError(
            .tls(.libraryMissing),
            message + "libssl3 (Alpine) or openssl@3 (Homebrew); " + problems.joined(separator: ", ")
        )
    }

    @discardableResult
    func takeErrors() -> (reason: Int, text: String) {
        var reason = 0
        var texts: [String] = []
        while true {
            let code = unsafe api.pointee.ERR_get_error()
            if code == 0 { break }
            reason = Int(code & reasonMask)
            var buffer = [CChar](repeating: 0, count: 256)
            unsafe api.pointee.ERR_error_string_n(code, &buffer, buffer.count)
            let text = String(decoding: buffer.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
            // error:0A000086:SSL routines::certificate verify failed
            texts.append(text.split(separator: ":").last.map(String.init) ?? text)
        }
        return (reason, texts.joined(separator: ", "))
    }
}
