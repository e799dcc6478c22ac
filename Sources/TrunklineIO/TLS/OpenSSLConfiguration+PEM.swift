import CTrunkline

extension OpenSSLConfiguration {
    func addRoots(_ text: Bytes) throws(TransportError) {
        let api = unsafe library.api
        let store = unsafe api.pointee.SSL_CTX_get_cert_store(pointer)
        try unsafe eachCertificate(of: text, "the roots") { certificate in
            unsafe api.pointee.X509_STORE_add_cert(store, certificate) == 1
        }
    }

    func use(_ identity: TLSSettings.Identity) throws(TransportError) {
        let api = unsafe library.api
        var isFirst = true
        try unsafe eachCertificate(of: identity.certificates, "the certificate") { certificate in
            defer { isFirst = false }
            if isFirst {
                ownCertificate = unsafe TLSCertificate(certificate, api)
                return unsafe api.pointee.SSL_CTX_use_certificate(pointer, certificate) == 1
            }
            // SSL_CTRL_CHAIN_CERT; the argument 1 increments the reference count.
            return unsafe api.pointee.SSL_CTX_ctrl(pointer, 89, 1, UnsafeMutableRawPointer(certificate)) == 1
        }
        let privateKey = unsafe withBIO(of: identity.key) { unsafe readKey($0, identity.passphrase) }
        defer { unsafe api.pointee.EVP_PKEY_free(privateKey) }
        guard unsafe privateKey != nil else {
            let (_, text) = library.takeErrors()
            let hint =
                identity.key.isUTF16
                ? "; the PEM is in UTF-16: save it as UTF-8"
                : identity.passphrase == nil
                    ? "; if it is encrypted, it needs a passphrase" : ", or the passphrase is wrong"
            throw TransportError(.tls(.configuration), "the private key cannot be read (\(text))\(hint)")
        }
        guard
            unsafe api.pointee.SSL_CTX_use_PrivateKey(pointer, privateKey) == 1,
            unsafe api.pointee.SSL_CTX_check_private_key(pointer) == 1
        else {
            let text = library.takeErrors().text
            throw TransportError(.tls(.configuration), "the private key does not match the certificate (\(text))")
        }
    }

    private func readKey(_ bio: OpaquePointer?, _ passphrase: String?) -> OpaquePointer? {
        // Without a callback OpenSSL would prompt on the terminal.
        let answer: trunkline_passphrase_callback = { buffer, size, _, data in
            guard let passphrase = unsafe data?.load(as: [UInt8]?.self), passphrase.count <= size else { return -1 }
            for (index, byte) in passphrase.enumerated() { unsafe buffer?[index] = CChar(bitPattern: byte) }
            return Int32(passphrase.count)
        }
        var secret: [UInt8]? = passphrase.map { Array($0.utf8) }
        defer { for index in (secret ?? []).indices { secret?[index] = 0 } }
        return unsafe withUnsafeMutablePointer(to: &secret) {
            unsafe library.api.pointee.PEM_read_bio_PrivateKey(bio, nil, answer, $0)
        }
    }

    private func eachCertificate(
        of pem: Bytes,
        _ what: String,
        _ body: (OpaquePointer) -> Bool
    ) throws(TransportError) {
        let api = unsafe library.api
        let refuse: trunkline_passphrase_callback = { _, _, _, _ in -1 }
        var count = 0
        var isUsable = true
        unsafe withBIO(of: pem) { bio in
            while isUsable, let certificate = unsafe api.pointee.PEM_read_bio_X509(bio, nil, refuse, nil) {
                isUsable = unsafe body(certificate)
                unsafe api.pointee.X509_free(certificate)
                count += 1
            }
        }
        let (reason, text) = library.takeErrors()
        // 108: no further certificate.
        if count > 0, isUsable, reason == 108 { return }
        let absence = pem.isUTF16 ? "the PEM is in UTF-16: save it as UTF-8" : "the PEM contains no certificate"
        let problem = count == 0 && reason == 108 ? absence : text
        throw TransportError(.tls(.configuration), "\(what) cannot be used: \(problem)")
    }

    private func withBIO<Result>(of text: Bytes, _ body: (OpaquePointer?) -> Result) -> Result {
        unsafe text.withoutByteOrderMarks.withUnsafeBytes { memory in
            let bio = unsafe library.api.pointee.BIO_new_mem_buf(memory.baseAddress, Int32(clamping: memory.count))
            defer { unsafe _ = library.api.pointee.BIO_free(bio) }
            return unsafe body(bio)
        }
    }
}

extension Bytes {
    /// Some editors write a mark (U+FEFF) at the beginning of a file, and joined files have it within. OpenSSL 1.1
    /// skips what follows a mark; OpenSSL 3 reads past a mark in the first line only.
    fileprivate var withoutByteOrderMarks: Bytes {
        guard contains(0xEF) else { return self }
        var (rest, text) = (self[...], [UInt8]())
        text.reserveCapacity(count)
        while let byte = rest.first {
            let isMark = rest.starts(with: [0xEF, 0xBB, 0xBF])
            if !isMark { text.append(byte) }
            rest = rest.dropFirst(isMark ? 3 : 1)
        }
        return Bytes(text)
    }

    fileprivate var isUTF16: Bool { starts(with: [0xFF, 0xFE]) || starts(with: [0xFE, 0xFF]) }
}
