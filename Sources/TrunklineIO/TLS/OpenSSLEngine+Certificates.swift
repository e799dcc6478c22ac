import CTrunkline

extension OpenSSLEngine {
    /// The peer's own is the first. Those that OpenSSL cannot describe are left out.
    var peerCertificates: [TLSCertificate] {
        // Borrowed: the chain belongs to the connection.
        let chain = unsafe api.pointee.SSL_get_peer_cert_chain(ssl)
        let count = unsafe max(0, api.pointee.OPENSSL_sk_num(chain))
        return (0..<count).compactMap { index in
            let certificate = unsafe OpaquePointer(api.pointee.OPENSSL_sk_value(chain, index))
            return unsafe certificate.flatMap { unsafe TLSCertificate($0, api) }
        }
    }
}

extension TLSCertificate {
    private static let maximumNames = 1_000

    init?(_ certificate: OpaquePointer, _ api: UnsafePointer<trunkline_openssl>) {
        guard
            let notBefore = unsafe Self.seconds(api.pointee.X509_get0_notBefore(certificate), api),
            let notAfter = unsafe Self.seconds(api.pointee.X509_get0_notAfter(certificate), api),
            let fingerprint = unsafe Self.fingerprint(certificate, api)
        else { return nil }
        self.init(
            subject: unsafe Self.text(api.pointee.X509_get_subject_name(certificate), api),
            issuer: unsafe Self.text(api.pointee.X509_get_issuer_name(certificate), api),
            names: unsafe Self.names(certificate, api),
            notBefore: notBefore,
            notAfter: notAfter,
            fingerprint: fingerprint
        )
    }

    private static func seconds(_ time: UnsafeRawPointer?, _ api: UnsafePointer<trunkline_openssl>) -> Int64? {
        guard let time = unsafe time, let epoch = unsafe api.pointee.ASN1_TIME_set(nil, 0) else { return nil }
        defer { unsafe api.pointee.ASN1_TIME_free(epoch) }
        var (days, seconds): (Int32, Int32) = (0, 0)
        guard unsafe api.pointee.ASN1_TIME_diff(&days, &seconds, epoch, time) == 1 else { return nil }
        return Int64(days) * 86_400 + Int64(seconds)
    }

    private static func text(_ name: UnsafeRawPointer?, _ api: UnsafePointer<trunkline_openssl>) -> String {
        guard let name = unsafe name, let bio = unsafe api.pointee.BIO_new(api.pointee.BIO_s_mem()) else { return "" }
        defer { _ = unsafe api.pointee.BIO_free(bio) }
        // XN_FLAG_RFC2253 without ASN1_STRFLGS_ESC_MSB.
        guard unsafe api.pointee.X509_NAME_print_ex(bio, name, 0, 0x0111_0313) >= 0 else { return "" }
        var memory: UnsafePointer<UInt8>?
        let count = unsafe api.pointee.BIO_ctrl(bio, 3, 0, &memory)  // BIO_CTRL_INFO
        let bytes = unsafe UnsafeBufferPointer(start: memory, count: max(0, count))
        return unsafe String(decoding: bytes, as: UTF8.self).escaped(upTo: 1_024)
    }

    private static func names(_ certificate: OpaquePointer, _ api: UnsafePointer<trunkline_openssl>) -> [String] {
        // NID_subject_alt_name
        guard let all = unsafe api.pointee.X509_get_ext_d2i(certificate, 85, nil, nil) else { return [] }
        defer { unsafe api.pointee.GENERAL_NAMES_free(all) }
        let count = unsafe min(max(0, Int(api.pointee.OPENSSL_sk_num(all))), maximumNames)
        return (0..<count).compactMap { index in
            var type: Int32 = -1
            let value = unsafe api.pointee.GENERAL_NAME_get0_value(
                api.pointee.OPENSSL_sk_value(all, Int32(index)),
                &type
            )
            // GEN_DNS and GEN_IPADD, whose values are ASN.1 strings.
            guard type == 2 || type == 7, let value = unsafe value else { return nil }
            let length = unsafe max(0, Int(api.pointee.ASN1_STRING_length(value)))
            let data = unsafe api.pointee.ASN1_STRING_get0_data(value)
            let bytes = unsafe Array(UnsafeBufferPointer(start: data, count: data == nil ? 0 : length))
            if type == 2 { return String(decoding: bytes, as: UTF8.self).escaped() }
            switch bytes.count {
            case 4: return SocketAddress.ipv4(bytes, port: 0).host
            case 16: return SocketAddress.ipv6(bytes, port: 0, scope: 0).host
            default: return nil
            }
        }
    }

    private static func fingerprint(
        _ certificate: OpaquePointer,
        _ api: UnsafePointer<trunkline_openssl>
    ) -> String? {
        let count = unsafe api.pointee.i2d_X509(certificate, nil)
        guard count > 0 else { return nil }
        var bytes = [UInt8](repeating: 0, count: Int(count))
        var digest = [UInt8](repeating: 0, count: 32)
        unsafe bytes.withUnsafeMutableBufferPointer {
            var end = $0.baseAddress
            _ = unsafe api.pointee.i2d_X509(certificate, &end)
        }
        _ = unsafe api.pointee.SHA256(bytes, bytes.count, &digest)
        return HexText.text(of: digest)
    }
}
