import CTrunkline

/// An OpenSSL `SSL_CTX`, shared by any number of connections.
///
/// Safe to share between threads: OpenSSL allows concurrent use of `pointer`, and nothing changes once it is set up.
@safe
final class OpenSSLConfiguration: @unchecked Sendable {
    let library: OpenSSL
    let pointer: OpaquePointer
    let applicationProtocols: [String]
    let isServer: Bool
    var ownCertificate: TLSCertificate?
    private let pins: Set<PublicKeyPin>
    private let verifies: Bool
    /// ALPN wire format: each name preceded by its length.
    private let protocols: [UInt8]

    init(_ settings: TLSSettings) throws(TransportError) {
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
        // SSL_CTRL_GET_MIN_PROTO_VERSION: the system's minimum, which may be higher than the option.
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
        // (0x04). Not 0x10, which keeps the buffer that held a session ticket: see `OpenSSLEngine.releaseMemory`.
        _ = unsafe api.pointee.SSL_CTX_ctrl(pointer, 33, 0x04 | 0x02, nil)
        // SSL_CTRL_SET_SESS_CACHE_MODE: off: `OpenSSLContext` holds the sessions.
        _ = unsafe api.pointee.SSL_CTX_ctrl(pointer, 44, 0, nil)
        _ = unsafe api.pointee.SSL_CTX_set_options(pointer, 1 << 30)  // SSL_OP_NO_RENEGOTIATION
        // SSL_VERIFY_PEER; for a server also SSL_VERIFY_FAIL_IF_NO_PEER_CERT.
        let mode: Int32 = verifies ? (isServer ? 3 : 1) : pins.isEmpty ? 0 : 1
        unsafe api.pointee.SSL_CTX_set_verify(pointer, mode, OpenSSLEngine.noteRefused)
        // Not retained, here and below: a connection, which makes the callbacks, keeps this object alive.
        let this = unsafe Unmanaged.passUnretained(self).toOpaque()
        if !pins.isEmpty { unsafe api.pointee.SSL_CTX_set_cert_verify_callback(pointer, Self.verify, this) }
        if isServer { unsafe _ = api.pointee.SSL_CTX_set_session_id_context(pointer, Array("trunkline".utf8), 9) }
        if settings.trustsSystem, settings.needsRoots {
            unsafe _ = api.pointee.SSL_CTX_set_default_verify_paths(pointer)
            // It leaves out a file that it cannot open, and this object may be used for the life of the process.
            if let code = descriptorShortage() { throw transportError(code, "reading the system's roots") }
        }
        for text in settings.roots { try addRoots(text) }
        if let identity = settings.identity { try use(identity) }
        guard !protocols.isEmpty else { return }
        if isServer {
            unsafe api.pointee.SSL_CTX_set_alpn_select_cb(pointer, Self.choose, this)
        } else {
            _ = unsafe api.pointee.SSL_CTX_set_alpn_protos(pointer, protocols, UInt32(protocols.count))
        }
    }

    /// Within the handshake, so that an unknown server receives an alert and nothing about the client's identity. A
    /// resumed session was established with a chain that had the pin.
    private static let verify: trunkline_verify_callback = { chain, this in
        guard let chain = unsafe chain, let this = unsafe this else { return 0 }
        return unsafe Unmanaged<OpenSSLConfiguration>.fromOpaque(this).takeUnretainedValue().verify(chain) ? 1 : 0
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

    private static let choose: trunkline_alpn_callback = { _, chosen, chosenCount, offered, offeredCount, this in
        guard let this = unsafe this, let offered = unsafe offered else { return 2 }
        let configuration = unsafe Unmanaged<OpenSSLConfiguration>.fromOpaque(this).takeUnretainedValue()
        let memory = unsafe UnsafeBufferPointer(start: offered, count: Int(offeredCount))
        for wanted in configuration.applicationProtocols {
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
