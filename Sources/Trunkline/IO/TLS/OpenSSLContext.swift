import CTrunkline

/// Keys, certificates, roots and sessions in OpenSSL, shared by any number of connections.
///
/// Safe to share between threads: OpenSSL allows concurrent use of `pointer` once it is set up, and `sessions` has a
/// lock.
@safe
package final class OpenSSLContext: TLSContext, @unchecked Sendable {
    let library: OpenSSL
    let pointer: OpaquePointer
    private let applicationProtocols: [String]
    private let pins: Set<PublicKeyPin>
    private let isServer: Bool
    private let verifies: Bool
    /// The ALPN list in its wire format: each name preceded by its length.
    private let protocols: [UInt8]
    /// The sessions to resume, by server name.
    private let sessions = Lock<[String: SavedSession]>([:])

    /// The maximum number of saved sessions. Servers beyond it are not remembered.
    private static let maximumSessions = 1024

    /// Throws `tls(.libraryMissing)` if there is no OpenSSL, and `tls(.configuration)` for invalid settings.
    package init(_ settings: TLSSettings) throws(TransportError) {
        library = try OpenSSL.system()
        let api = unsafe library.api
        (applicationProtocols, pins) = (settings.applicationProtocols, settings.pins)
        switch settings.role {
        case .client(let verifies): (isServer, self.verifies) = (false, verifies)
        case .server(let verifies): (isServer, self.verifies) = (true, verifies)
        }
        protocols = try Self.encoded(settings.applicationProtocols)
        let method = unsafe isServer ? api.pointee.TLS_server_method() : api.pointee.TLS_client_method()
        guard let pointer = unsafe api.pointee.SSL_CTX_new(method) else {
            throw TransportError(.tls(.configuration), "cannot create an OpenSSL context: \(library.takeErrors().text)")
        }
        unsafe self.pointer = unsafe pointer
        try setUp(settings)
    }

    deinit { unsafe library.api.pointee.SSL_CTX_free(pointer) }

    private func setUp(_ settings: TLSSettings) throws(TransportError) {
        let api = unsafe library.api
        // SSL_CTRL_GET_MIN_PROTO_VERSION: the minimum in the system's configuration, which may be higher than the
        // option.
        let version = max(
            settings.minimumVersion == .tls13 ? 0x0304 : 0x0303,
            unsafe api.pointee.SSL_CTX_ctrl(pointer, 130, 0, nil)
        )
        // SSL_CTRL_SET_MIN_PROTO_VERSION
        guard unsafe api.pointee.SSL_CTX_ctrl(pointer, 123, version, nil) == 1 else {
            library.takeErrors()
            throw TransportError(
                .tls(.configuration),
                "this OpenSSL does not support the minimum TLS version (options.tls.minimumVersion)"
            )
        }
        // SSL_CTRL_MODE: a repeated write may come from other memory (0x02); reading goes on after a renegotiation
        // (0x04); idle connections release their buffers (0x10).
        _ = unsafe api.pointee.SSL_CTX_ctrl(pointer, 33, 0x10 | 0x04 | 0x02, nil)
        // SSL_CTRL_SET_SESS_CACHE_MODE: off, since `sessions` holds them.
        _ = unsafe api.pointee.SSL_CTX_ctrl(pointer, 44, 0, nil)
        _ = unsafe api.pointee.SSL_CTX_set_options(pointer, 1 << 30)  // SSL_OP_NO_RENEGOTIATION
        // SSL_VERIFY_PEER; for a server also SSL_VERIFY_FAIL_IF_NO_PEER_CERT.
        unsafe api.pointee.SSL_CTX_set_verify(pointer, verifies ? (isServer ? 3 : 1) : pins.isEmpty ? 0 : 1, nil)
        // Not retained, here and below: a connection, which makes the callbacks, keeps its context alive.
        let this = unsafe Unmanaged.passUnretained(self).toOpaque()
        if !pins.isEmpty { unsafe api.pointee.SSL_CTX_set_cert_verify_callback(pointer, Self.verify, this) }
        if isServer { unsafe _ = api.pointee.SSL_CTX_set_session_id_context(pointer, Array("trunkline".utf8), 9) }
        if settings.trustsSystem, verifies { unsafe _ = api.pointee.SSL_CTX_set_default_verify_paths(pointer) }
        for text in settings.roots { try addRoots(text) }
        if let identity = settings.identity { try use(identity) }
        guard !protocols.isEmpty else { return }
        if isServer {
            unsafe api.pointee.SSL_CTX_set_alpn_select_cb(pointer, Self.choose, this)
        } else {
            _ = unsafe api.pointee.SSL_CTX_set_alpn_protos(pointer, protocols, UInt32(protocols.count))
        }
    }

    package func makeEngine(for name: String) throws(TransportError) -> any TLSEngine {
        try OpenSSLEngine(self, name: name, isServer: isServer)
    }

    // MARK: Sessions and verdicts

    /// Prepares `ssl` for the server `name`: the name to request, the checks, and the session to resume.
    func prepare(_ ssl: OpaquePointer, for name: String) throws(TransportError) {
        let api = unsafe library.api
        // OpenSSL and the system would read the NUL byte as the end of the name: a certificate for the part before it
        // would pass.
        guard !name.hasZeroByte else {
            throw TransportError(.tls(.configuration), "invalid server name \"\(name)\": contains a NUL byte")
        }
        var isNamed: Int32 = 1
        var isChecked: Int32 = 1
        let parameters = unsafe api.pointee.SSL_get0_param(ssl)
        if let address = literalAddress(name, port: 0)?.ipBytes {
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
        if let session = sessions.withLock({ $0[name] }) { unsafe session.use(for: ssl) }
    }

    /// Saves the session of `ssl` for the next connection to `name`.
    func keep(_ ssl: OpaquePointer, for name: String) {
        guard !isServer, let session = unsafe SavedSession(of: ssl, library) else { return }
        sessions.withLock { sessions in
            if sessions.count < Self.maximumSessions || sessions[name] != nil { sessions[name] = session }
        }
    }

    /// Checks what OpenSSL does not check, after a successful handshake. Returns the agreed parameters.
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
            if !protocols.isEmpty, !applicationProtocols.contains(applicationProtocol ?? "") {
                let message = "\(name) chose no protocol of \(applicationProtocols.joined(separator: ", "))"
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

    /// For a client with pins: runs OpenSSL's verification, then checks the pins.
    ///
    /// This happens within the handshake, so that an unknown server receives an alert and nothing about the client's
    /// identity. A resumed session was established with a chain that had the pin.
    private static let verify: trunkline_verify_callback = { chain, this in
        guard let chain = unsafe chain, let this = unsafe this else { return 0 }
        return unsafe Unmanaged<OpenSSLContext>.fromOpaque(this).takeUnretainedValue().verify(chain) ? 1 : 0
    }

    private func verify(_ found: OpaquePointer) -> Bool {
        let api = unsafe library.api
        let isTrusted = unsafe api.pointee.X509_verify_cert(found) == 1
        if verifies, !isTrusted { return false }
        let chain = unsafe api.pointee.X509_STORE_CTX_get0_chain(found)
        let count = unsafe verifies ? max(0, api.pointee.OPENSSL_sk_num(chain)) : 0
        // Without verification only the first key of the chain is proven, because its owner has to sign.
        var hasPin = unsafe !verifies && isPinned(api.pointee.X509_STORE_CTX_get0_cert(found))
        for index in 0..<count where !hasPin {
            hasPin = unsafe isPinned(OpaquePointer(api.pointee.OPENSSL_sk_value(chain, index)))
        }
        unsafe api.pointee.X509_STORE_CTX_set_error(found, hasPin ? 0 : Self.noPin)
        return hasPin
    }

    /// X509_V_ERR_APPLICATION_VERIFICATION.
    static let noPin: Int32 = 50

    private func isPinned(_ certificate: OpaquePointer?) -> Bool {
        unsafe pin(of: certificate).map(pins.contains) ?? false
    }

    private func pin(of certificate: OpaquePointer?) -> PublicKeyPin? {
        let api = unsafe library.api
        let key = unsafe api.pointee.X509_get_X509_PUBKEY(certificate)
        let count = unsafe api.pointee.i2d_X509_PUBKEY(key, nil)
        guard count > 0 else { return nil }
        var bytes = [UInt8](repeating: 0, count: Int(count))
        var digest = [UInt8](repeating: 0, count: 32)
        unsafe bytes.withUnsafeMutableBufferPointer {
            var end = $0.baseAddress
            _ = unsafe api.pointee.i2d_X509_PUBKEY(key, &end)
        }
        _ = unsafe api.pointee.SHA256(bytes, bytes.count, &digest)
        return PublicKeyPin(sha256: digest)
    }

    // MARK: Application protocols

    private static func encoded(_ protocols: [String]) throws(TransportError) -> [UInt8] {
        var bytes: [UInt8] = []
        for name in protocols {
            guard (1...255).contains(name.utf8.count) else {
                throw TransportError(
                    .tls(.configuration),
                    "invalid application protocol \"\(name)\": must have 1 to 255 bytes"
                )
            }
            bytes.append(UInt8(name.utf8.count))
            bytes += name.utf8
        }
        return bytes
    }

    /// For a server: chooses its first protocol that the client offered.
    private static let choose: trunkline_alpn_callback = { _, chosen, chosenCount, offered, offeredCount, this in
        guard let this = unsafe this, let offered = unsafe offered else { return 2 }
        let context = unsafe Unmanaged<OpenSSLContext>.fromOpaque(this).takeUnretainedValue()
        let memory = unsafe UnsafeBufferPointer(start: offered, count: Int(offeredCount))
        for wanted in context.applicationProtocols {
            var index = 0
            while index < memory.count {
                let end = unsafe index + 1 + Int(memory[index])
                guard end <= memory.count else { return 2 }
                if unsafe memory[(index + 1)..<end].elementsEqual(wanted.utf8) {
                    unsafe chosen?.pointee = unsafe offered + index + 1
                    unsafe chosenCount?.pointee = unsafe memory[index]
                    return 0  // SSL_TLSEXT_ERR_OK
                }
                index = end
            }
        }
        return 2  // SSL_TLSEXT_ERR_ALERT_FATAL: no_application_protocol
    }
}

/// A session that a client resumes on its next connection.
///
/// Safe to share between threads: OpenSSL's sessions have atomic reference counts.
@safe
private final class SavedSession: @unchecked Sendable {
    private let library: OpenSSL
    private let pointer: OpaquePointer

    /// Returns `nil` if there is no session, or none that can be resumed.
    init?(of ssl: OpaquePointer, _ library: OpenSSL) {
        guard let pointer = unsafe library.api.pointee.SSL_get1_session(ssl) else { return nil }
        self.library = library
        unsafe self.pointer = unsafe pointer
        guard unsafe library.api.pointee.SSL_SESSION_is_resumable(pointer) == 1 else { return nil }
    }

    deinit { unsafe library.api.pointee.SSL_SESSION_free(pointer) }

    func use(for ssl: OpaquePointer) { _ = unsafe library.api.pointee.SSL_set_session(ssl, pointer) }
}
