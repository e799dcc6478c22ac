import CTrunkline

/// One connection in OpenSSL.
///
/// It reads and writes its records through a BIO of our own (`makeMethod`): it takes them straight out of what was read
/// from the socket, and adds them to `outgoing`.
@safe
final class OpenSSLEngine: TLSEngine {
    private let context: OpenSSLContext
    private let ssl: OpaquePointer
    private let name: String
    private let isServer: Bool
    package var outgoing = CiphertextBuffer()
    private(set) var session: TLSSession?
    /// The server wants to know who we are.
    private var isAskedForCertificate = false
    private(set) var awaitsVerdict = false
    /// What reading ends with. OpenSSL tells once, perhaps in the same call as the last bytes.
    private var ending: TLSReadOutcome?

    /// What is left of the input of the call that is under way; valid within that call only.
    fileprivate var input = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
    /// How often OpenSSL may take from `input` in that call.
    fileprivate var takesLeft = 0

    /// Two for each record: its header and the rest. Decrypting 128 small records takes about 0.3 ms.
    private static let takesAtOnce = 256

    private var api: UnsafePointer<trunkline_openssl> { unsafe context.library.api }

    init(_ context: OpenSSLContext, name: String, isServer: Bool) throws(TransportError) {
        let library = context.library
        guard
            let ssl = unsafe library.api.pointee.SSL_new(context.pointer),
            let bio = unsafe library.api.pointee.BIO_new(library.method)
        else { throw TransportError(.tls(.protocolViolation), "OpenSSL has no memory for a connection") }
        self.context = context
        unsafe self.ssl = unsafe ssl
        self.name = name
        self.isServer = isServer
        // Not retained: the BIO lives no longer than `ssl`, which is freed with this object.
        unsafe api.pointee.BIO_set_data(bio, Unmanaged.passUnretained(self).toOpaque())
        // One BIO for both directions: `ssl` owns it.
        unsafe api.pointee.SSL_set_bio(ssl, bio, bio)
        if isServer {
            unsafe api.pointee.SSL_set_accept_state(ssl)
        } else {
            unsafe api.pointee.SSL_set_connect_state(ssl)
            let this = unsafe Unmanaged.passUnretained(self).toOpaque()
            unsafe api.pointee.SSL_set_cert_cb(ssl, Self.noteQuestion, this)
            try unsafe context.prepare(ssl, for: name)
        }
    }

    deinit {
        // A session counts as broken unless both sides have taken leave, and could not be resumed.
        unsafe api.pointee.SSL_set_shutdown(ssl, 3)
        unsafe api.pointee.SSL_free(ssl)
    }

    /// Calls `body` while the BIO reads from `bytes`.
    private func reading<Result>(_ bytes: inout UnsafeRawBufferPointer, _ body: () -> Result) -> Result {
        unsafe input = unsafe bytes
        takesLeft = Self.takesAtOnce
        // What an earlier call on this thread left would be taken for this one's.
        unsafe api.pointee.ERR_clear_error()
        let result = body()
        unsafe bytes = unsafe input
        unsafe input = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
        return result
    }

    // MARK: The handshake

    func handshake(_ input: inout UnsafeRawBufferPointer) throws(TransportError) -> Bool {
        if session != nil {
            try unsafe hearVerdict(&input)
            return true
        }
        let (result, code) = unsafe reading(&input) {
            let result = unsafe api.pointee.SSL_do_handshake(ssl)
            return (result, unsafe api.pointee.SSL_get_error(ssl, result))
        }
        if result == 1 {
            do throws(TransportError) {
                session = try unsafe context.check(ssl, name: name, isServer: isServer)
            } catch {
                outgoing = CiphertextBuffer()  // with it the server would take the handshake for a good one
                throw error
            }
            awaitsVerdict = isAskedForCertificate && session?.version == "TLSv1.3"
            if awaitsVerdict { try unsafe hearVerdict(&input) }
            return true
        }
        if code == 2 { return false }  // SSL_ERROR_WANT_READ
        throw handshakeFailure
    }

    private var handshakeFailure: TransportError {
        failure("the handshake with \(name.isEmpty ? "the client" : name) failed")
    }

    /// Called by OpenSSL when the server asks for a certificate, whether there is one or not.
    private static let noteQuestion: @convention(c) (OpaquePointer?, UnsafeMutableRawPointer?) -> Int32 = { _, this in
        guard let this = unsafe this else { return 0 }
        unsafe Unmanaged<OpenSSLEngine>.fromOpaque(this).takeUnretainedValue().isAskedForCertificate = true
        return 1
    }

    /// Takes what the server says first, which is a session to resume, its first bytes or that it refuses us.
    private func hearVerdict(_ input: inout UnsafeRawBufferPointer) throws(TransportError) {
        guard unsafe !input.isEmpty else { return }
        let code = unsafe reading(&input) { () -> Int32 in
            var (byte, count): (UInt8, Int) = (0, 0)
            let result = unsafe api.pointee.SSL_peek_ex(ssl, &byte, 1, &count)
            return result == 1 ? 0 : unsafe api.pointee.SSL_get_error(ssl, result)
        }
        switch code {
        case 0: awaitsVerdict = false  // bytes, which `read` finds where they are
        case 2:
            // The beginning of a record says nothing, and neither does what is left of the input.
            awaitsVerdict = unsafe api.pointee.SSL_has_pending(ssl) == 1 || !input.isEmpty
        case 6: heardEnd()
        default: throw handshakeFailure
        }
    }

    /// The peer writes no more (`close_notify`). OpenSSL has taken that out of the input.
    private func heardEnd() {
        awaitsVerdict = false
        // A server's sessions come after the handshake: the last one is the freshest.
        unsafe context.keep(ssl, for: name)
        ending = .end
    }

    /// What went wrong, by the library's errors of this thread.
    private func failure(_ what: String) -> TransportError {
        let verdict = isServer ? 0 : unsafe api.pointee.SSL_get_verify_result(ssl)
        let (reason, text) = context.library.takeErrors()
        // 134: certificate verify failed.
        if verdict != 0, reason == 134 {
            if verdict == OpenSSLContext.noPin {
                return TransportError(.tls(.pinMismatch), "\(what): none of its public keys is one of the pins")
            }
            let explanation = unsafe swiftString(api.pointee.X509_verify_cert_error_string(verdict))
            return TransportError(.tls(TLSFailure(verification: verdict)), "\(what): \(explanation)")
        }
        return TransportError(.tls(TLSFailure(reason: reason)), "\(what): \(text.isEmpty ? "no reason given" : text)")
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
        switch code {
        case 0, 2: break  // SSL_ERROR_WANT_READ
        case 6: heardEnd()  // SSL_ERROR_ZERO_RETURN
        default: ending = .failed(failure("the link was broken off"))
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
        // SSL_ERROR_WANT_READ: OpenSSL reads a message to its end first. It has taken nothing.
        if code == 2 { return false }
        if code != 0 || written != bytes.count { throw failure("encrypting failed") }
        return true
    }

    /// Goes on with new keys, and asks the peer for the same (RFC 8446 §4.6.3). For tests: OpenSSL does so by itself when it
    /// has to.
    func updateKeys() { _ = unsafe api.pointee.SSL_key_update(ssl, 1) }

    func finishWriting() {
        unsafe context.keep(ssl, for: name)
        var nothing = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
        // A peer that never completed the handshake gets nothing; that is no error here.
        _ = unsafe reading(&nothing) { unsafe api.pointee.SSL_shutdown(ssl) }
        context.library.takeErrors()
    }
}

// MARK: - The BIO

extension OpenSSLEngine {
    /// The table of functions by which OpenSSL reads and writes. Never freed: there is one for the life of the process.
    static func makeMethod(_ api: UnsafePointer<trunkline_openssl>) -> OpaquePointer? {
        // 0x0400: it is a source and a sink.
        let type = unsafe 0x0400 | api.pointee.BIO_get_new_index()
        guard let method = unsafe api.pointee.BIO_meth_new(type, "trunkline") else { return nil }
        _ = unsafe api.pointee.BIO_meth_set_read(method, takeInput)
        _ = unsafe api.pointee.BIO_meth_set_write(method, addOutput)
        _ = unsafe api.pointee.BIO_meth_set_ctrl(method) { _, command, _, _ in
            command == 11 ? 1 : 0  // BIO_CTRL_FLUSH: there is nothing to flush. Nothing else is known.
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

/// The library's `string`; empty where there is none.
func swiftString(_ string: UnsafePointer<CChar>?) -> String {
    unsafe string.map { unsafe String(cString: $0) } ?? ""
}

// MARK: - What the library's numbers mean

extension TLSFailure {
    /// Of a verification error (`X509_V_ERR_` in x509_vfy.h).
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

    /// Of a reason (`SSL_R_` in sslerr.h). Alerts from the peer have reasons of their own from 1000 on.
    init(reason: Int) {
        self =
            switch reason {
            case 1070, 191, 258, 266, 396: .protocolVersion
            case 1120, 235: .noApplicationProtocol
            case 1000..<1256: .alert(UInt8(reason - 1000))
            // A wrong version number, a length that none has, requests of HTTP and to its proxies.
            case 267, 198, 156, 155: .notTLS
            default: .protocolViolation
            }
    }
}
