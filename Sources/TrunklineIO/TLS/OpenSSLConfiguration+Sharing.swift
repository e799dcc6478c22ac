import CTrunkline

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Clients with the same settings share: a configuration takes 15 KB, and far more if the system's roots are one file.
extension OpenSSLConfiguration {
    private struct Weak { weak var configuration: OpenSSLConfiguration? }

    private static let known = Lock<[Key: Weak]>([:])

    static func shared(by settings: TLSSettings) throws(TransportError) -> OpenSSLConfiguration {
        guard let key = Key(settings, try OpenSSL.system()) else { return try OpenSSLConfiguration(settings) }
        if let configuration = known.withLock({ $0[key]?.configuration }) { return configuration }
        // Not under the lock: it reads files.
        let created = try OpenSSLConfiguration(settings)
        return known.withLock { known in
            // Another thread may have created the same.
            if let other = known[key]?.configuration { return other }
            known = known.filter { $0.value.configuration != nil }
            known[key] = Weak(configuration: created)
            return created
        }
    }

    private struct Key: Hashable {
        private let verifies: Bool
        private let minimumVersion: TLSVersion
        private let systemRoots: SystemRoots?
        private let roots: [Bytes]
        private let applicationProtocols: [String]
        private let pins: Set<PublicKeyPin>

        /// `nil` for a server, whose clients could resume sessions with others, and for a private key, which a key
        /// would keep.
        init?(_ settings: TLSSettings, _ library: OpenSSL) {
            guard case .client(let verifies) = settings.role, settings.identity == nil else { return nil }
            self.verifies = verifies
            minimumVersion = settings.minimumVersion
            systemRoots = settings.trustsSystem && settings.needsRoots ? SystemRoots(library) : nil
            roots = settings.roots
            applicationProtocols = settings.applicationProtocols
            pins = settings.pins
        }
    }

    /// Versioned: a client that is created after a change must not trust what an earlier client has loaded.
    private struct SystemRoots: Hashable {
        private let paths: [String]
        private let versions: [FileVersion?]

        init(_ library: OpenSSL) {
            let api = unsafe library.api
            // All of them, because OpenSSL ignores the variables in a process with additional privileges.
            let defaultFile = unsafe swiftString(api.pointee.X509_get_default_cert_file())
            let defaultDirectories = unsafe swiftString(api.pointee.X509_get_default_cert_dir())
            let file = unsafe swiftString(getenv("SSL_CERT_FILE"))
            let directories = unsafe swiftString(getenv("SSL_CERT_DIR"))
            let lists = [defaultDirectories, directories]
            paths = [defaultFile, file] + lists.flatMap { $0.split(separator: ":").map(String.init) }
            versions = paths.map { FileVersion(ofFile: $0) }
        }
    }
}
