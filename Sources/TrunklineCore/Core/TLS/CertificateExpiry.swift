/// When a certificate of a TLS link expires.
public struct CertificateExpiry: Sendable, Hashable {
    /// Whose certificate it is.
    @nonexhaustive
    public enum Owner: String, Sendable, Hashable {
        /// The server, whose certificate or one of those that lead to a root expires first.
        case server
        /// This client (``ClientOptions/TLS-swift.struct/identity``).
        case client
    }

    /// Whose certificate it is.
    public let owner: Owner
    /// The distinguished name of the owner (RFC 4514), escaped.
    public let subject: String
    /// The time after which the certificate has expired, in seconds since 1970-01-01 00:00 UTC.
    public let notAfter: Int64
    /// In seconds since 1970-01-01 00:00 UTC.
    let notBefore: Int64

    package init(_ owner: Owner, _ certificate: TLSCertificate) {
        self.owner = owner
        (subject, notBefore, notAfter) = (certificate.subject, certificate.notBefore, certificate.notAfter)
    }

    /// The first of the chain is that of the server. Others do not count if they have expired at `now`, the time since
    /// 1970: servers also present certificates that no client needs, such as a cross-signed root.
    static func first(of chain: [TLSCertificate], at now: Duration?) -> TLSCertificate? {
        let others = chain.dropFirst().filter { certificate in now.map { .seconds(certificate.notAfter) > $0 } ?? true }
        return (chain.prefix(1) + others).min { $0.notAfter < $1.notAfter }
    }

    func timeLeft(at now: Duration) -> Duration { .seconds(notAfter) - now }

    package func problem(at now: Duration) -> String? {
        let left = timeLeft(at: now)
        if left < .zero { return "\(subject) expired \(Quantity.time(.zero - left)) ago" }
        let wait = .seconds(notBefore) - now
        return wait > .zero ? "\(subject) is not valid for another \(Quantity.time(wait))" : nil
    }
}
