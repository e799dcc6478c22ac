/// The certificates of TLS links: when they expire, and whether that of this client may be why a server closes.
extension Connection {
    /// The certificate of this client; `nil` without one, and before it was read.
    private var ownCertificate: CertificateExpiry? {
        dialMemory.loadedTLS?.context.ownCertificate.map { CertificateExpiry(.client, $0) }
    }

    /// The certificates of a link that expire first: of the server's, and that of this client.
    func certificates(of link: Link) -> [CertificateExpiry] {
        guard let secured = link.secured else { return [] }
        let first = CertificateExpiry.first(of: secured.peerCertificates, at: loop.unixTime)
        return [first.map { CertificateExpiry(.server, $0) }, ownCertificate].compactMap { $0 }
    }

    /// The certificates of the latest link that is or was ready, and the one that this client presents now: a rotation may
    /// have replaced it since.
    var presentCertificates: [CertificateExpiry] {
        guard let ownCertificate else { return memory.certificates }
        return memory.certificates.filter { $0.owner == .server } + [ownCertificate]
    }

    /// Tells when the certificates of a link that is ready expire.
    func noteCertificates(of link: Link) {
        memory.certificates = certificates(of: link)
        guard observation?.wants(.links) == true, let now = loop.unixTime else { return }
        for certificate in memory.certificates {
            observation?.add(
                .links,
                .certificateSeen(link.endpoint, certificate, timeLeft: certificate.timeLeft(at: now))
            )
        }
    }

    /// Why the server may not accept the certificate of this client, although it does not say so; `nil` if it is valid.
    var problemOfOwnCertificate: String? { loop.unixTime.flatMap { ownCertificate?.problem(at: $0) } }
}
