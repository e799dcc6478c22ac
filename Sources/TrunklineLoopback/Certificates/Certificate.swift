import CTrunkline
import TrunklineCore

/// The contents of a certificate to be created.
struct CertificateRequest {
    var subject: String
    var names: [String] = []
    var usage: TestAuthority.Usage?
    var isAuthority = false
    var validity: ClosedRange<Duration> = .seconds(-3600) ... .seconds(30 * 86_400)

    init(subject: String) { self.subject = subject }
}

/// A certificate and its key. Unchecked `Sendable`: immutable, and OpenSSL may read it from any thread.
@safe
final class Certificate: @unchecked Sendable {
    private let api: UnsafePointer<trunkline_x509_functions>
    private let certificate: OpaquePointer
    private let key: OpaquePointer
    let pin: PublicKeyPin

    /// The address of the function table, which never changes.
    private static let found: UInt? = {
        guard let crypto = CryptoLibrary.system else { return nil }
        return unsafe trunkline_x509_find(crypto.handle).map { UInt(bitPattern: $0) }
    }()

    init(_ request: CertificateRequest, signedBy authority: Certificate?) throws(TransportError) {
        guard let address = Self.found, let api = unsafe UnsafePointer<trunkline_x509_functions>(bitPattern: address)
        else {
            throw TransportError(
                .tls(.libraryMissing),
                "OpenSSL's libcrypto is not installed; test certificates need it"
            )
        }
        let failure = TransportError(
            .tls(.configuration),
            "OpenSSL could not create a certificate for \(request.subject)"
        )
        // OpenSSL takes all names in one text, separated by commas and ended by a zero byte.
        let isOneName = request.names.allSatisfy { !$0.hasZeroByte && !$0.contains(",") }
        guard isOneName, !request.subject.hasZeroByte else { throw failure }
        guard let key = unsafe Self.makeKey(api) else { throw failure }
        guard let certificate = unsafe api.pointee.X509_new() else {
            unsafe api.pointee.EVP_PKEY_free(key)
            throw failure
        }
        guard let pin = unsafe Self.pin(of: certificate, with: key, api) else { throw failure }
        unsafe (self.api, self.certificate, self.key, self.pin) = unsafe (api, certificate, key, pin)
        guard fill(in: request), sign(by: authority ?? self) else { throw failure }
    }

    deinit {
        unsafe api.pointee.X509_free(certificate)
        unsafe api.pointee.EVP_PKEY_free(key)
    }

    private static func makeKey(_ api: UnsafePointer<trunkline_x509_functions>) -> OpaquePointer? {
        let context = unsafe api.pointee.EVP_PKEY_CTX_new_id(408, nil)  // EVP_PKEY_EC
        defer { unsafe api.pointee.EVP_PKEY_CTX_free(context) }
        var key: OpaquePointer?
        guard
            unsafe api.pointee.EVP_PKEY_keygen_init(context) == 1,
            // EVP_PKEY_OP_PARAMGEN | EVP_PKEY_OP_KEYGEN, EVP_PKEY_CTRL_EC_PARAMGEN_CURVE_NID, NID_X9_62_prime256v1
            unsafe api.pointee.EVP_PKEY_CTX_ctrl(context, 408, 2 | 4, 0x1001, 415, nil) == 1,
            unsafe api.pointee.EVP_PKEY_keygen(context, &key) == 1
        else { return nil }
        return unsafe key
    }

    private static func pin(
        of certificate: OpaquePointer,
        with key: OpaquePointer,
        _ api: UnsafePointer<trunkline_x509_functions>
    ) -> PublicKeyPin? {
        guard unsafe api.pointee.X509_set_pubkey(certificate, key) == 1 else { return nil }
        let publicKey = unsafe api.pointee.X509_get_X509_PUBKEY(certificate)
        var bytes = unsafe [UInt8](repeating: 0, count: max(0, Int(api.pointee.i2d_X509_PUBKEY(publicKey, nil))))
        var digest = [UInt8](repeating: 0, count: 32)
        unsafe bytes.withUnsafeMutableBufferPointer {
            var end = $0.baseAddress
            _ = unsafe api.pointee.i2d_X509_PUBKEY(publicKey, &end)
        }
        _ = unsafe api.pointee.SHA256(bytes, bytes.count, &digest)
        return PublicKeyPin(sha256: digest)
    }

    /// In whole seconds, at most 20,000 years: a certificate cannot show a year beyond 9999.
    private static func seconds(_ duration: Duration) -> Int {
        let limit = Int128(20_000 * 365 * 86_400)
        return Int(min(max(duration.attoseconds / 1_000_000_000_000_000_000, -limit), limit))
    }

    private func fill(in request: CertificateRequest) -> Bool {
        let now = wallClockSeconds()
        let subject = unsafe api.pointee.X509_get_subject_name(certificate)
        let text = Array(request.subject.utf8)
        guard
            unsafe api.pointee.X509_set_version(certificate, 2) == 1,
            unsafe api.pointee.ASN1_INTEGER_set_uint64(
                api.pointee.X509_get_serialNumber(certificate),
                UInt64.random(in: 1...UInt64(Int64.max))
            ) == 1,
            unsafe api.pointee.ASN1_TIME_set(
                api.pointee.X509_getm_notBefore(certificate),
                now + Self.seconds(request.validity.lowerBound)
            ) != nil,
            unsafe api.pointee.ASN1_TIME_set(
                api.pointee.X509_getm_notAfter(certificate),
                now + Self.seconds(request.validity.upperBound)
            ) != nil,
            // MBSTRING_UTF8
            unsafe api.pointee.X509_NAME_add_entry_by_txt(subject, "CN", 0x1000, text, Int32(text.count), -1, 0) == 1
        else { return false }
        // NID_basic_constraints, NID_key_usage, NID_ext_key_usage, NID_subject_alt_name
        var extensions = [(87, request.isAuthority ? "critical,CA:TRUE" : "critical,CA:FALSE")]
        if request.isAuthority { extensions.append((83, "critical,keyCertSign,cRLSign")) }
        if let usage = request.usage { extensions.append((126, usage.extensionValue)) }
        if !request.names.isEmpty {
            let names = request.names.map { name in
                guard let bytes = literalBytes(name) else { return "DNS:" + name }
                let address: SocketAddress =
                    bytes.count == 4 ? .ipv4(bytes, port: 0) : .ipv6(bytes, port: 0, scope: 0)
                return "IP:" + address.host
            }
            extensions.append((85, names.joined(separator: ",")))
        }
        return extensions.allSatisfy { add($0.0, $0.1) }
    }

    private func add(_ number: Int, _ value: String) -> Bool {
        guard let item = unsafe api.pointee.X509V3_EXT_conf_nid(nil, nil, Int32(number), value) else { return false }
        defer { unsafe api.pointee.X509_EXTENSION_free(item) }
        return unsafe api.pointee.X509_add_ext(certificate, item, -1) == 1
    }

    private func sign(by authority: Certificate) -> Bool {
        let issuer = unsafe api.pointee.X509_get_subject_name(authority.certificate)
        return unsafe api.pointee.X509_set_issuer_name(certificate, issuer) == 1
            && api.pointee.X509_sign(certificate, authority.key, api.pointee.EVP_sha256()) > 0
    }

    func text() throws(TransportError) -> String {
        try unsafe written { bio in unsafe api.pointee.PEM_write_bio_X509(bio, certificate) == 1 }
    }

    func keyText(passphrase: String?) throws(TransportError) -> String {
        let cipher = unsafe passphrase == nil ? nil : api.pointee.EVP_aes_256_cbc()
        let secret = passphrase ?? ""
        return try unsafe written { bio in
            let count = Int32(secret.utf8.count)
            return unsafe api.pointee.PEM_write_bio_PKCS8PrivateKey(bio, key, cipher, secret, count, nil, nil) == 1
        }
    }

    private func written(_ write: (OpaquePointer?) -> Bool) throws(TransportError) -> String {
        let bio = unsafe api.pointee.BIO_new(api.pointee.BIO_s_mem())
        defer { _ = unsafe api.pointee.BIO_free(bio) }
        var memory: UnsafePointer<UInt8>?
        guard unsafe write(bio) else { throw TransportError(.tls(.configuration), "OpenSSL could not write PEM") }
        let count = unsafe api.pointee.BIO_ctrl(bio, 3, 0, &memory)  // BIO_CTRL_INFO
        return unsafe String(decoding: UnsafeBufferPointer(start: memory, count: count), as: UTF8.self)
    }
}
