/// A certificate that a server presented (RFC 5280).
///
/// Texts come from the certificate. Control and format characters in them are escaped, so they are safe to log.
public struct TLSCertificate: Sendable, Hashable {
    /// The distinguished name of the owner, most specific part first (RFC 4514), such as `CN=gateway.example,O=Acme`.
    /// At most 1,024 characters.
    public let subject: String
    /// The distinguished name of the authority that signed the certificate. At most 1,024 characters.
    public let issuer: String
    /// The host names and IP addresses that the certificate is valid for (its subject alternative names). Other kinds
    /// of name are left out. At most 1,000 names, of at most 256 characters.
    public let names: [String]
    /// The time before which the certificate is not valid yet, in seconds since 1970-01-01 00:00 UTC.
    public let notBefore: Int64
    /// The time after which the certificate has expired, in seconds since 1970-01-01 00:00 UTC.
    public let notAfter: Int64
    /// The SHA-256 of the certificate, in 64 hexadecimal digits. It distinguishes a renewed certificate from the former
    /// one.
    public let fingerprint: String
}
