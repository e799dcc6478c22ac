import Testing

@testable import TrunklineCore
@testable import TrunklineIO

@Suite struct CertificateExpiryTests {}

extension CertificateExpiryTests {
    private static func certificate(_ subject: String, until notAfter: Int64) -> TLSCertificate {
        TLSCertificate(subject: subject, issuer: "", names: [], notBefore: 0, notAfter: notAfter, fingerprint: subject)
    }

    /// A cross-signed root that no client needs may have expired for years.
    @Test func expiredCertificatesOfOthersInTheChainDoNotCount() {
        let (leaf, root) = (Self.certificate("CN=a", until: 3000), Self.certificate("CN=root", until: 1000))
        let between = Self.certificate("CN=between", until: 2000)
        let chain = [leaf, between, root]
        #expect(CertificateExpiry.first(of: chain, at: .seconds(500)) == root)
        #expect(CertificateExpiry.first(of: chain, at: .seconds(1500)) == between)
        #expect(CertificateExpiry.first(of: chain, at: .seconds(2500)) == leaf)
        #expect(CertificateExpiry.first(of: chain, at: .seconds(3500)) == leaf)
        #expect(CertificateExpiry.first(of: chain, at: nil) == root)
        #expect(CertificateExpiry.first(of: [], at: .zero) == nil)
    }
}
