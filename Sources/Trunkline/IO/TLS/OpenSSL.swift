import CTrunkline

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The system's OpenSSL (1.1.1 or 3), loaded when TLS is first asked for and kept.
///
/// Sendable although the compiler can't see it: what it holds are addresses of functions and of one method table, which
/// never change.
@safe
final class OpenSSL: @unchecked Sendable {
    /// Pairs of libssl and libcrypto of one version, the newest first.
    ///
    /// macOS ends a program that loads its own libcrypto by name, so there it is the package managers' by path.
    static let names: [(ssl: String, crypto: String)] = {
        #if os(macOS)
            ["/opt/homebrew/opt/openssl@3/lib/", "/usr/local/opt/openssl@3/lib/", "/opt/local/lib/"]
                .map { ($0 + "libssl.3.dylib", $0 + "libcrypto.3.dylib") }
        #else
            [("libssl.so.3", "libcrypto.so.3"), ("libssl.so.1.1", "libcrypto.so.1.1")]
        #endif
    }()

    private static let found = Result { () throws(TransportError) in try OpenSSL(firstOf: names) }

    /// The system's, where it has been found.
    static var loaded: OpenSSL? { try? found.get() }

    /// The system's. Throws `tls(.libraryMissing)` when it has none.
    static func system() throws(TransportError) -> OpenSSL { try found.get() }

    /// The functions, by their own names.
    let api: UnsafePointer<trunkline_openssl>
    /// How the library reads and writes its records: see `OpenSSLEngine`.
    let method: OpaquePointer
    private let reasonMask: UInt

    init(firstOf names: [(ssl: String, crypto: String)]) throws(TransportError) {
        var problems: [String] = []
        for name in names {
            // The order matters: libssl needs libcrypto, and by a path of our own it finds no other.
            guard let crypto = unsafe dlopen(name.crypto, RTLD_NOW | RTLD_LOCAL) else {
                problems.append("no \(name.crypto)")
                continue
            }
            guard let ssl = unsafe dlopen(name.ssl, RTLD_NOW | RTLD_LOCAL) else {
                problems.append("no \(name.ssl)")
                continue
            }
            var missing: UnsafePointer<CChar>?
            guard let functions = unsafe trunkline_openssl_find(ssl, crypto, &missing) else {
                problems.append("\(name.ssl) has no \(unsafe missing.map { unsafe String(cString: $0) } ?? "")")
                continue
            }
            guard let method = unsafe OpenSSLEngine.makeMethod(functions) else {
                problems.append("\(name.ssl) makes no BIO")
                continue
            }
            // OPENSSL_INIT_NO_ATEXIT: loops may still be decrypting when the process ends.
            unsafe _ = functions.pointee.OPENSSL_init_ssl(0x0008_0000, nil)
            unsafe (api, self.method) = unsafe (UnsafePointer(functions), method)
            // Where an error's reason is: OpenSSL 3 has more bits for it.
            reasonMask = unsafe functions.pointee.OpenSSL_version_num() >> 28 >= 3 ? 0x7F_FFFF : 0xFFF
            return
        }
        let message = "TLS needs OpenSSL 1.1.1 or later: install libssl3 (Debian, Ubuntu), openssl-libs (Fedora), "
        throw TransportError(
            .tls(.libraryMissing),
            message + "libssl3 (Alpine) or openssl@3 (Homebrew); " + problems.joined(separator: ", ")
        )
    }

    /// What the library says went wrong last on this thread, and nothing of it stays.
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
