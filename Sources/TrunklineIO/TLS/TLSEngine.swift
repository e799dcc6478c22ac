/// One side of a TLS connection without a socket, confined to a loop: bytes go in, bytes to send come out.
package protocol TLSEngine: AnyObject {
    /// Removes the `input` that it uses, for a bounded number of records. Returns whether the handshake is done.
    func handshake(_ input: inout UnsafeRawBufferPointer) throws(TransportError) -> Bool

    /// A server of TLS 1.3 accepts or refuses the certificate after the handshake is done for its client (RFC 8446
    /// §4.4.2.4). `handshake` processes that, and whatever else arrives.
    var awaitsVerdict: Bool { get }

    /// The handshake is not done, and its failure may be due to the session of an earlier connection.
    var offersSession: Bool { get }

    /// Does nothing if the server has sent something after the session was resumed.
    func forgetSession()

    /// Leaves some `input` if there is more to decrypt: the number of records is bounded, since each may be empty.
    func read(_ input: inout UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer) -> TLSReadOutcome

    /// A read can return bytes that did not fit, or the end directly after the bytes.
    var hasMore: Bool { get }

    /// Returns false while a TLS message of the peer has arrived only in part. If it throws, `outgoing` may hold a
    /// part.
    func write(_ bytes: UnsafeRawBufferPointer) throws(TransportError) -> Bool

    func finishWriting()

    var hasRefusedRenegotiation: Bool { get }

    func releaseMemory()

    var outgoing: CiphertextBuffer { get set }

    var session: TLSSession? { get }

    var peerCertificates: [TLSCertificate] { get }

    /// Why the certificate chain does not pass. The connection may go on nevertheless: see `TLSSettings.examines`.
    var verificationFailure: TransportError? { get }
}

package enum TLSReadOutcome {
    case bytes(Int)
    case needsInput
    case end
    case failed(TransportError)
}

/// Shares what is expensive: keys, certificates, roots and saved sessions.
package protocol TLSContext: AnyObject, Sendable {
    var ownCertificate: TLSCertificate? { get }

    func makeEngine(for name: String) throws(TransportError) -> any TLSEngine
}

/// The parameters that client and server agreed on in the TLS handshake.
public struct TLSSession: Sendable, Hashable {
    /// The TLS version, for example `TLSv1.3`.
    public let version: String
    /// The cipher suite, for example `TLS_AES_256_GCM_SHA384`.
    public let cipherSuite: String
    /// The application protocol that the server chose by ALPN (RFC 7301), or `nil` if none was negotiated.
    public let applicationProtocol: String?
    /// Whether the TLS session of an earlier link was resumed. The handshake then needs no certificates and signatures.
    public let isResumed: Bool
    /// The certificates that the server presented: its own first, then those that lead to a root, as far as it sent
    /// them. A resumed session has the certificates of the link that established it.
    public internal(set) var certificates: [TLSCertificate] = []
}

package struct CiphertextBuffer {
    private var bytes: [UInt8] = []
    private var start = 0

    /// Sent bytes are removed when there are more of them than this, and more than of the others.
    private static let maximumSent = 128 * 1024
    /// Enough for a small request. More would be the memory of idle connections.
    private static let keptCapacity = 512

    init() {}

    var count: Int { bytes.count - start }
    package var isEmpty: Bool { count == 0 }
    var memory: Int { bytes.capacity }

    mutating func append(_ more: UnsafeRawBufferPointer) {
        // Otherwise a socket that never accepts everything would let this grow without bound.
        if start > Self.maximumSent, start > count {
            bytes.removeFirst(start)
            start = 0
        }
        unsafe bytes.append(contentsOf: more)
    }

    mutating func truncate(to count: Int) { bytes.removeLast(max(0, self.count - count)) }

    package mutating func takeAll() -> [UInt8] {
        defer { self = CiphertextBuffer() }
        return start == 0 ? bytes : Array(bytes[start...])
    }

    package mutating func withUnwritten(_ write: (UnsafeRawBufferPointer) -> WriteOutcome) -> WriteOutcome {
        let outcome = unsafe bytes.withUnsafeBytes { unsafe write(UnsafeRawBufferPointer(rebasing: $0[start...])) }
        if case .bytes(let sent) = outcome { start += sent }
        if isEmpty {
            bytes.removeAll(keepingCapacity: bytes.capacity <= Self.keptCapacity)
            start = 0
        }
        return outcome
    }
}
