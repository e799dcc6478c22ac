/// The certificates of TLS links: when they expire, and whether that of this client may be why a server closes.
/// Confined to the event loop of its connection.
final class CertificateView {
    private let context: ConnectionContext
    private let dialMemory: DialMemory
    private var latest: [CertificateExpiry] = []

    init(_ context: ConnectionContext, _ dialMemory: DialMemory) {
        (self.context, self.dialMemory) = (context, dialMemory)
    }

    private var own: CertificateExpiry? {
        dialMemory.loadedTLS?.context.ownCertificate.map { CertificateExpiry(.client, $0) }
    }

    /// Those of the latest link. A rotation may have replaced the certificate of this client since.
    var present: [CertificateExpiry] {
        guard let own else { return latest }
        return latest.filter { $0.owner == .server } + [own]
    }

    func note(of link: Link) {
        guard let secured = link.secured else { return }
        let unixTime = context.loop.unixTime
        let first = CertificateExpiry.first(of: secured.peerCertificates, at: unixTime)
        latest = [first.map { CertificateExpiry(.server, $0) }, own].compactMap { $0 }
        guard let observation = context.observation, observation.wants(.links), let now = unixTime else { return }
        for certificate in latest {
            observation.add(
                .links,
                .certificateSeen(link.endpoint, certificate, timeLeft: certificate.timeLeft(at: now))
            )
        }
    }

    var problemOfOwn: String? { context.loop.unixTime.flatMap { own?.problem(at: $0) } }
}
