/// The certificates of TLS links: when they expire, and whether that of this client may be why a server closes.
extension ConnectionDriver {
    private var ownCertificate: CertificateExpiry? {
        dialMemory.loadedTLS?.context.ownCertificate.map { CertificateExpiry(.client, $0) }
    }

    func certificates(of link: Link) -> [CertificateExpiry] {
        guard let secured = link.secured else { return [] }
        let first = CertificateExpiry.first(of: secured.peerCertificates, at: loop.unixTime)
        return [first.map { CertificateExpiry(.server, $0) }, ownCertificate].compactMap { $0 }
    }

    /// A rotation may have replaced the certificate of this client since the latest link.
    var presentCertificates: [CertificateExpiry] {
        guard let ownCertificate else { return memory.certificates }
        return memory.certificates.filter { $0.owner == .server } + [ownCertificate]
    }

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

    var problemOfOwnCertificate: String? { loop.unixTime.flatMap { ownCertificate?.problem(at: $0) } }
}
