import CTrunkline

package final class OpenSSLContext: TLSContext {
    private let configuration: OpenSSLConfiguration
    /// By server name. Not in the shared configuration: a session identifies its client to the server.
    private let sessions = Lock<[String: SavedSession]>([:])

    package var ownCertificate: TLSCertificate? { configuration.ownCertificate }
    var library: OpenSSL { configuration.library }
    var pointer: OpaquePointer { unsafe configuration.pointer }

    private static let maximumSessions = 1024

    package init(_ settings: TLSSettings) throws(TransportError) {
        configuration = try .shared(by: settings)
    }

    package func makeEngine(for name: String) throws(TransportError) -> any TLSEngine {
        try OpenSSLEngine(self, name: name, isServer: configuration.isServer)
    }

    func prepare(_ ssl: OpaquePointer, for name: String) throws(TransportError) -> SavedSession? {
        let api = unsafe library.api
        // OpenSSL would read the NUL byte as the end of the name: a certificate for the part before it would pass.
        guard !name.hasZeroByte else {
            throw TransportError(.tls(.configuration), "invalid server name \"\(name)\": contains a NUL byte")
        }
        var isNamed: Int32 = 1
        var isChecked: Int32 = 1
        let parameters = unsafe api.pointee.SSL_get0_param(ssl)
        // A certificate has an address without a zone, and no name is sent for an address (RFC 6066 §3).
        if let address = literalBytes(name) {
            isChecked = unsafe api.pointee.X509_VERIFY_PARAM_set1_ip(parameters, address, address.count)
        } else {
            // The dot of the root is not part of a name in TLS (RFC 6066 §3).
            var name = name.hasSuffix(".") ? String(name.dropLast()) : name
            guard !name.hasPrefix("."), !name.contains("..") else {
                // OpenSSL takes a leading dot to mean any name that ends in this way.
                throw TransportError(.tls(.configuration), "invalid server name \"\(name)\": it has an empty label")
            }
            isNamed = name.withUTF8 { utf8 in
                isChecked = unsafe api.pointee.X509_VERIFY_PARAM_set1_host(
                    parameters,
                    UnsafeRawPointer(utf8.baseAddress)?.assumingMemoryBound(to: CChar.self),
                    utf8.count
                )
                var text = unsafe Array(utf8) + [0]
                // SSL_CTRL_SET_TLSEXT_HOSTNAME
                return unsafe Int32(api.pointee.SSL_ctrl(ssl, 55, 0, &text))
            }
            // No wildcards within a label, and no common names (RFC 9525 §6.3, §6.1).
            unsafe api.pointee.X509_VERIFY_PARAM_set_hostflags(parameters, 0x04 | 0x20)
        }
        guard isNamed == 1, isChecked == 1 else {
            library.takeErrors()
            throw TransportError(.tls(.configuration), "invalid server name \"\(name)\": OpenSSL does not accept it")
        }
        let session = sessions.withLock { $0[name] }
        if let session { unsafe session.use(for: ssl) }
        return session
    }

    /// `doubtful` is the session that the connection has resumed, and after which the server has sent nothing.
    func keep(_ ssl: OpaquePointer, for name: String, unless doubtful: SavedSession?) {
        if let doubtful, unsafe doubtful.isUsed(by: ssl) { return forget(doubtful, of: name) }
        guard !configuration.isServer, let session = unsafe SavedSession(of: ssl, library) else { return }
        sessions.withLock { sessions in
            if sessions.count < Self.maximumSessions || sessions[name] != nil { sessions[name] = session }
        }
    }

    func forget(_ session: SavedSession, of name: String) {
        sessions.withLock { sessions in
            if sessions[name] === session { sessions[name] = nil }
        }
    }

    func check(_ ssl: OpaquePointer, name: String, isServer: Bool) throws(TransportError) -> TLSSession {
        let api = unsafe library.api
        var chosen: UnsafePointer<UInt8>?
        var count: UInt32 = 0
        unsafe api.pointee.SSL_get0_alpn_selected(ssl, &chosen, &count)
        let applicationProtocol = unsafe chosen.map {
            unsafe String(decoding: UnsafeBufferPointer(start: $0, count: Int(count)), as: UTF8.self)
        }
        let isResumed = unsafe api.pointee.SSL_session_reused(ssl) == 1
        if !isServer {
            // Old libraries accept a protocol that was not offered.
            let offered = configuration.applicationProtocols
            if !offered.isEmpty, !offered.contains(applicationProtocol ?? "") {
                let message = "\(name) chose no protocol of \(offered.joined(separator: ", "))"
                throw TransportError(.tls(.noApplicationProtocol), message)
            }
        }
        return TLSSession(
            version: unsafe swiftString(api.pointee.SSL_get_version(ssl)),
            cipherSuite: unsafe swiftString(api.pointee.SSL_CIPHER_get_name(api.pointee.SSL_get_current_cipher(ssl))),
            applicationProtocol: applicationProtocol,
            isResumed: isResumed
        )
    }
}

/// Safe to share between threads: OpenSSL's sessions have atomic reference counts.
@safe
final class SavedSession: @unchecked Sendable {
    private let library: OpenSSL
    private let pointer: OpaquePointer

    fileprivate init?(of ssl: OpaquePointer, _ library: OpenSSL) {
        guard let pointer = unsafe library.api.pointee.SSL_get1_session(ssl) else { return nil }
        self.library = library
        unsafe self.pointer = unsafe pointer
        guard unsafe library.api.pointee.SSL_SESSION_is_resumable(pointer) == 1 else { return nil }
    }

    deinit { unsafe library.api.pointee.SSL_SESSION_free(pointer) }

    fileprivate func isUsed(by ssl: OpaquePointer) -> Bool {
        guard let other = unsafe library.api.pointee.SSL_get1_session(ssl) else { return false }
        defer { unsafe library.api.pointee.SSL_SESSION_free(other) }
        return unsafe other == pointer
    }

    fileprivate func use(for ssl: OpaquePointer) { _ = unsafe library.api.pointee.SSL_set_session(ssl, pointer) }
}
