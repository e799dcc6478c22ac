import CTrunkline

/// Its own BIO (see `makeMethod`) takes input directly from what was read, and appends output to `outgoing`.
@safe
final class OpenSSLEngine: TLSEngine {
    let context: OpenSSLContext
    let ssl: OpaquePointer
    private let name: String
    private let isServer: Bool
    var outgoing = CiphertextBuffer()
    private(set) var session: TLSSession?
    private var isAskedForCertificate = false
    private(set) var awaitsVerdict = false
    /// Offered or resumed, until the server has declined it, or has sent something after it was resumed.
    private var doubtfulSession: SavedSession?
    private var refusedValidity: String?
    private(set) var hasRefusedRenegotiation = false
    /// OpenSSL reports it once, possibly in the same call as the last bytes.
    private var ending: TLSReadOutcome?

    /// The rest of the input of the current call; valid only within that call.
    fileprivate var input = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
    fileprivate var takesLeft = 0
    fileprivate var record = RecordPosition()
    /// OpenSSL has processed everything that it has taken, and waits for the start of a record.
    fileprivate var isAtRest = false

    /// Two per record: its header and the rest. Decrypting 128 small records takes about 0.3 ms.
    private static let takesAtOnce = 256

    var api: UnsafePointer<trunkline_openssl> { unsafe context.library.api }

    init(_ context: OpenSSLContext, name: String, isServer: Bool) throws(TransportError) {
        let library = context.library
        guard
            let ssl = unsafe library.api.pointee.SSL_new(context.pointer),
            let bio = unsafe library.api.pointee.BIO_new(library.method)
        else { throw TransportError(.tls(.protocolViolation), "OpenSSL failed to allocate a connection") }
        self.context = context
        unsafe self.ssl = unsafe ssl
        self.name = name
        self.isServer = isServer
        // Not retained: the BIO lives no longer than `ssl`, which is freed with this object.
        unsafe api.pointee.BIO_set_data(bio, Unmanaged.passUnretained(self).toOpaque())
        // One BIO for both directions, owned by `ssl`.
        unsafe api.pointee.SSL_set_bio(ssl, bio, bio)
        if isServer {
            unsafe api.pointee.SSL_set_accept_state(ssl)
        } else {
            unsafe api.pointee.SSL_set_connect_state(ssl)
            let this = unsafe Unmanaged.passUnretained(self).toOpaque()
            unsafe api.pointee.SSL_set_cert_cb(ssl, Self.noteQuestion, this)
            unsafe api.pointee.SSL_set_info_callback(ssl, Self.noteAlert)
            doubtfulSession = try unsafe context.prepare(ssl, for: name)
        }
    }

    deinit {
        // Otherwise OpenSSL takes the session for broken unless both sides have sent `close_notify`.
        unsafe api.pointee.SSL_set_shutdown(ssl, 3)
        unsafe api.pointee.SSL_free(ssl)
    }

    /// `body` returns the code of `SSL_get_error`, or 0 for success.
    private func reading(_ bytes: inout UnsafeRawBufferPointer, _ body: () -> Int32) -> Int32 {
        unsafe input = unsafe bytes
        takesLeft = Self.takesAtOnce
        // Errors that an earlier call left on this thread would be reported as errors of this one.
        unsafe api.pointee.ERR_clear_error()
        let code = body()
        if code == 2, record.isAtStart { isAtRest = true }  // SSL_ERROR_WANT_READ
        unsafe bytes = unsafe input
        unsafe input = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
        return code
    }

    // MARK: The handshake

    func handshake(_ input: inout UnsafeRawBufferPointer) throws(TransportError) -> Bool {
        if session != nil {
            try unsafe hearVerdict(&input)
            return true
        }
        let code = unsafe reading(&input) { () -> Int32 in
            let result = unsafe api.pointee.SSL_do_handshake(ssl)
            return result == 1 ? 0 : unsafe api.pointee.SSL_get_error(ssl, result)
        }
        if code == 0 {
            do throws(TransportError) {
                session = try unsafe context.check(ssl, name: name, isServer: isServer)
            } catch {
                outgoing = CiphertextBuffer()  // else the server would treat the handshake as successful
                throw error
            }
            if session?.isResumed != true { forgetSession() }
            awaitsVerdict = isAskedForCertificate && session?.version == "TLSv1.3"
            if awaitsVerdict { try unsafe hearVerdict(&input) }
            return true
        }
        if code == 2 { return false }  // SSL_ERROR_WANT_READ
        throw handshakeFailure
    }

    // A server that requests a certificate does not resume a session (RFC 8446 §4.3.2).
    var offersSession: Bool { doubtfulSession != nil && session == nil && !isAskedForCertificate }

    func forgetSession() {
        guard let session = doubtfulSession.take() else { return }
        context.forget(session, of: name)
    }

    private var handshakeFailure: TransportError {
        failure("the TLS handshake with \(name.isEmpty ? "the client" : name) failed")
    }

    /// Called when the server requests a certificate, whether the client has one or not.
    private static let noteQuestion: @convention(c) (OpaquePointer?, UnsafeMutableRawPointer?) -> Int32 = { _, this in
        guard let this = unsafe this else { return 0 }
        unsafe Unmanaged<OpenSSLEngine>.fromOpaque(this).takeUnretainedValue().isAskedForCertificate = true
        return 1
    }

    private static let noteAlert: trunkline_info_callback = { ssl, event, value in
        // SSL_CB_WRITE_ALERT; no_renegotiation (RFC 5246 §7.2.2).
        guard event == 0x4008, value & 0xFF == 100, let api = unsafe OpenSSL.loaded?.api,
            let engine = unsafe engine(of: api.pointee.SSL_get_rbio(ssl), api)
        else { return }
        engine.hasRefusedRenegotiation = true
    }

    /// Called for each certificate. Notes the validity of a refused one, because OpenSSL keeps no such certificate.
    static let noteRefused: trunkline_certificate_callback = { isAccepted, store in
        guard isAccepted == 0, let library = OpenSSL.loaded else { return isAccepted }
        let api = unsafe library.api
        let index = unsafe api.pointee.SSL_get_ex_data_X509_STORE_CTX_idx()
        let ssl = unsafe OpaquePointer(api.pointee.X509_STORE_CTX_get_ex_data(store, index))
        guard let ssl = unsafe ssl, let engine = unsafe engine(of: api.pointee.SSL_get_rbio(ssl), api),
            engine.refusedValidity == nil
        else { return isAccepted }
        engine.refusedValidity = unsafe library.validity(of: api.pointee.X509_STORE_CTX_get_current_cert(store))
        return isAccepted
    }

    private func hearVerdict(_ input: inout UnsafeRawBufferPointer) throws(TransportError) {
        guard unsafe !input.isEmpty else { return }
        let code = unsafe reading(&input) { () -> Int32 in
            var (byte, count): (UInt8, Int) = (0, 0)
            let result = unsafe api.pointee.SSL_peek_ex(ssl, &byte, 1, &count)
            return result == 1 ? 0 : unsafe api.pointee.SSL_get_error(ssl, result)
        }
        switch code {
        case 0: awaitsVerdict = false  // application bytes, which `read` will return
        case 2:
            // Part of a record, or input that is left over, decides nothing.
            awaitsVerdict = unsafe api.pointee.SSL_has_pending(ssl) == 1 || !input.isEmpty
        case 6: heardEnd()
        default: throw handshakeFailure
        }
    }

    private func heardEnd() {
        awaitsVerdict = false
        // The last session is the newest. One that was resumed for nothing may be why the server ended the link.
        unsafe context.keep(ssl, for: name, unless: doubtfulSession)
        doubtfulSession = nil
        ending = .end
    }

    private func failure(_ what: String) -> TransportError {
        let verdict = isServer ? 0 : unsafe api.pointee.SSL_get_verify_result(ssl)
        let (reason, text) = context.library.takeErrors()
        // 134: certificate verify failed.
        if verdict != 0, reason == 134 { return verificationFailure(verdict, what) }
        let failure = TLSFailure(reason: reason)
        var message = "\(what): \(text.isEmpty ? "no reason given" : text.withoutOldVersion)"
        // Alerts about the certificate of this side (RFC 8446 §6.2).
        if case .alert(42...49) = failure,
            let validity = unsafe context.library.validity(of: api.pointee.SSL_get_certificate(ssl))
        {
            let (peer, side) = isServer ? ("client", "server") : ("server", "client")
            message += "; the \(peer) refused the certificate of this \(side): \(validity)"
        }
        if hasRefusedRenegotiation { message += "; \(String.refusedRenegotiation)" }
        return TransportError(.tls(failure), message)
    }

    var verificationFailure: TransportError? {
        let verdict = unsafe api.pointee.SSL_get_verify_result(ssl)
        return verdict == 0 ? nil : verificationFailure(verdict, "the certificate of \(name) is not valid")
    }

    private func verificationFailure(_ verdict: Int, _ what: String) -> TransportError {
        if verdict == OpenSSLConfiguration.noPin {
            return TransportError(.tls(.pinMismatch), "\(what): no public key of the chain matches a pin")
        }
        // OpenSSL takes a root in the system's directory that it cannot open for missing.
        if TLSFailure(verification: verdict) == .untrusted, let code = descriptorShortage() {
            return transportError(code, "\(what): reading the system's roots")
        }
        let explanation = unsafe swiftString(api.pointee.X509_verify_cert_error_string(verdict))
        let validity = refusedValidity.map { " (\($0))" } ?? ""
        return TransportError(.tls(TLSFailure(verification: verdict)), "\(what): \(explanation)\(validity)")
    }

    // MARK: Bytes

    func read(_ input: inout UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer) -> TLSReadOutcome {
        if let ending { return ending }
        guard let start = output.baseAddress else { return .needsInput }
        var total = 0
        let code = unsafe reading(&input) { () -> Int32 in
            while total < output.count {
                var count = 0
                let rest = unsafe start + total
                let result = unsafe api.pointee.SSL_read_ex(ssl, rest, output.count - total, &count)
                if result != 1 { return unsafe api.pointee.SSL_get_error(ssl, result) }
                total += count
            }
            return 0
        }
        if total > 0, doubtfulSession != nil { doubtfulSession = nil }
        switch code {
        case 0, 2: break  // SSL_ERROR_WANT_READ
        case 6: heardEnd()  // SSL_ERROR_ZERO_RETURN
        default: ending = .failed(failure("the TLS connection failed"))
        }
        return total > 0 ? .bytes(total) : ending ?? .needsInput
    }

    var hasMore: Bool { unsafe ending != nil || api.pointee.SSL_pending(ssl) > 0 }

    func write(_ bytes: UnsafeRawBufferPointer) throws(TransportError) -> Bool {
        var nothing = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
        var written = 0
        let code = unsafe reading(&nothing) { () -> Int32 in
            let result = unsafe api.pointee.SSL_write_ex(ssl, bytes.baseAddress, bytes.count, &written)
            return result == 1 ? 0 : unsafe api.pointee.SSL_get_error(ssl, result)
        }
        // SSL_ERROR_WANT_READ: OpenSSL has to read a complete message first. It has taken nothing.
        if code == 2 { return false }
        if code != 0 || written != bytes.count { throw failure("encrypting over TLS failed") }
        return true
    }

    func releaseMemory() {
        // OpenSSL allocates its buffers, 16.6 KB for each direction, again. Versions before 1.1.1y, 3.0.14, 3.1.6,
        // 3.2.2 and 3.3.1 also free a record that was read only in part, and go on to use it (CVE-2024-4741): hence
        // `isAtRest`. A server's first message may be no record (SSLv2): then the position is unknown.
        if isAtRest, !isServer { _ = unsafe api.pointee.SSL_free_buffers(ssl) }
    }

    /// For tests: OpenSSL does so when it has to. Requests the same from the peer (RFC 8446 §4.6.3).
    func updateKeys() { _ = unsafe api.pointee.SSL_key_update(ssl, 1) }

    func finishWriting() {
        unsafe context.keep(ssl, for: name, unless: doubtfulSession)
        var nothing = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
        // Nothing is sent to a peer that never completed the handshake. That is not an error here.
        _ = unsafe reading(&nothing) {
            _ = unsafe api.pointee.SSL_shutdown(ssl)
            return 0
        }
        context.library.takeErrors()
    }
}

// MARK: - The BIO

extension OpenSSLEngine {
    /// Never freed: there is one for the life of the process.
    static func makeMethod(_ api: UnsafePointer<trunkline_openssl>) -> OpaquePointer? {
        // 0x0400: a source and a sink.
        let type = unsafe 0x0400 | api.pointee.BIO_get_new_index()
        guard let method = unsafe api.pointee.BIO_meth_new(type, "trunkline") else { return nil }
        _ = unsafe api.pointee.BIO_meth_set_read(method, takeInput)
        _ = unsafe api.pointee.BIO_meth_set_write(method, addOutput)
        _ = unsafe api.pointee.BIO_meth_set_ctrl(method) { _, command, _, _ in
            command == 11 ? 1 : 0  // BIO_CTRL_FLUSH: nothing to flush. No other command is supported.
        }
        return unsafe method
    }

    private static func engine(of bio: OpaquePointer?, _ api: UnsafePointer<trunkline_openssl>) -> OpenSSLEngine? {
        unsafe api.pointee.BIO_get_data(bio).map { unsafe Unmanaged.fromOpaque($0).takeUnretainedValue() }
    }

    private static let takeInput: @convention(c) (OpaquePointer?, UnsafeMutablePointer<CChar>?, Int32) -> Int32 = {
        bio,
        memory,
        count in
        guard let api = unsafe OpenSSL.loaded?.api, let engine = unsafe engine(of: bio, api), count > 0 else {
            return -1
        }
        unsafe api.pointee.BIO_clear_flags(bio, 0x0F)
        let taken = unsafe min(Int(count), engine.input.count)
        guard taken > 0, engine.takesLeft > 0, let memory = unsafe memory, let start = unsafe engine.input.baseAddress
        else {
            unsafe api.pointee.BIO_set_flags(bio, 0x09)  // BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY
            return -1
        }
        engine.takesLeft -= 1
        engine.isAtRest = false
        unsafe engine.record.advance(over: engine.input[..<taken])
        unsafe UnsafeMutableRawPointer(memory).copyMemory(from: start, byteCount: taken)
        unsafe engine.input = unsafe UnsafeRawBufferPointer(rebasing: engine.input[taken...])
        return Int32(taken)
    }

    private static let addOutput: @convention(c) (OpaquePointer?, UnsafePointer<CChar>?, Int32) -> Int32 = {
        bio,
        memory,
        count in
        guard let api = unsafe OpenSSL.loaded?.api, let engine = unsafe engine(of: bio, api), count > 0 else {
            return -1
        }
        unsafe api.pointee.BIO_clear_flags(bio, 0x0F)
        unsafe engine.outgoing.append(UnsafeRawBufferPointer(start: memory, count: Int(count)))
        return count
    }
}

/// Record boundaries (RFC 8446 §5.1): five bytes, the last two of which are the length of the rest.
struct RecordPosition {
    private var headerCount = 0
    private var rest = 0

    var isAtStart: Bool { headerCount == 0 }

    mutating func advance(over bytes: Slice<UnsafeRawBufferPointer>) {
        var bytes = unsafe bytes
        while unsafe !bytes.isEmpty {
            if headerCount < 5 {
                let byte = unsafe bytes.removeFirst()
                if headerCount >= 3 { rest = rest << 8 | Int(byte) }
                headerCount += 1
            } else {
                let part = unsafe min(rest, bytes.count)
                unsafe bytes.removeFirst(part)
                rest -= part
            }
            if headerCount == 5, rest == 0 { self = RecordPosition() }
        }
    }
}

func swiftString(_ string: UnsafePointer<CChar>?) -> String {
    unsafe string.map { unsafe String(cString: $0) } ?? ""
}

extension String {
    static var refusedRenegotiation: String {
        "before that, the server began a renegotiation (TLS 1.2), which this client refuses"
    }

    /// The version in which TLS introduced an alert (`sslv3 alert certificate expired`) reads as that of the link.
    fileprivate var withoutOldVersion: String {
        for version in ["sslv3 ", "tlsv1 ", "tlsv13 "] where hasPrefix(version + "alert") {
            return String(dropFirst(version.count))
        }
        return self
    }
}

// MARK: - What the library's numbers mean

extension TLSFailure {
    /// `X509_V_ERR_` in x509_vfy.h.
    init(verification error: Int) {
        self =
            switch error {
            case 10: .expired
            case 9: .notYetValid
            case 62, 64: .nameMismatch  // of the host, of the IP address
            case 26: .wrongPurpose
            case 23: .revoked
            default: .untrusted
            }
    }

    /// `SSL_R_` in sslerr.h. Alerts from the peer have their own reasons, from 1000 on.
    init(reason: Int) {
        self =
            switch reason {
            case 1070, 191, 258, 266, 396: .protocolVersion
            case 1120, 235: .noApplicationProtocol
            case 1000..<1256: .alert(UInt8(reason - 1000))
            // A wrong version number, an impossible record length, an HTTP request, an HTTP proxy request.
            case 267, 198, 156, 155: .notTLS
            default: .protocolViolation
            }
    }
}
