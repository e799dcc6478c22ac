/// One side of a TLS connection without a socket: received bytes go in, bytes to send come out.
///
/// `SecuredTransport` connects it with the socket. Implemented with OpenSSL; another library can take its place.
/// Confined to a loop.
package protocol TLSEngine: AnyObject {
    /// Advances the handshake with the bytes in `input`, and removes those that it uses, for a bounded number of
    /// records. Returns whether the handshake is done and the peer passed all checks.
    func handshake(_ input: inout UnsafeRawBufferPointer) throws(TransportError) -> Bool

    /// Whether the peer has yet to accept or refuse this side's certificate, or its absence.
    ///
    /// A server of TLS 1.3 does so after the handshake is done for its client (RFC 8446 §4.4.2.4). `handshake`
    /// processes that, and whatever else arrives.
    var awaitsVerdict: Bool { get }

    /// Whether this side of a handshake that is not done has offered the session of an earlier connection, so that the
    /// failure of the handshake may be due to it.
    var offersSession: Bool { get }

    /// Forgets the session that was offered or resumed, unless the server has sent something after it was resumed: the next
    /// connection makes a full handshake.
    func forgetSession()

    /// Decrypts from `input` into `output` as much as fits, and removes the bytes that it uses.
    ///
    /// The number of records is bounded, since each may hold one byte or none. If there is more to decrypt, some of
    /// `input` is left. Returns `needsInput` if there is nothing for the owner yet.
    func read(_ input: inout UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer) -> TLSReadOutcome

    /// Whether a read can return something without more input: bytes that did not fit, or the end directly after the
    /// bytes.
    var hasMore: Bool { get }

    /// Encrypts all of `bytes` and returns true. Encrypts nothing and returns false while a TLS message of the peer has
    /// arrived only in part: writing can go on when more was read. If it throws, `outgoing` may hold some of the bytes.
    func write(_ bytes: UnsafeRawBufferPointer) throws(TransportError) -> Bool

    /// Sends `close_notify`: nothing more is written.
    func finishWriting()

    /// Whether this side has refused a renegotiation. The peer may end the connection because of that.
    var hasRefusedRenegotiation: Bool { get }

    /// Frees memory that is allocated again for the next read or write.
    func releaseMemory()

    /// The bytes to send, in order. The sender removes them.
    var outgoing: CiphertextBuffer { get set }

    /// The agreed parameters, without the certificates; `nil` until the handshake is done.
    var session: TLSSession? { get }

    /// The certificates that the peer presented, its own first. Empty before the handshake is done.
    var peerCertificates: [TLSCertificate] { get }

    /// Why the peer's certificate chain does not pass verification; `nil` if it does. Of interest where the connection
    /// goes on nevertheless: see `TLSSettings.examines`.
    var verificationFailure: TransportError? { get }
}

package enum TLSReadOutcome {
    /// The number of bytes decrypted, at least one.
    case bytes(Int)
    /// More input is needed.
    case needsInput
    /// The peer has sent `close_notify`.
    case end
    case failed(TransportError)
}

/// Creates engines that share what is expensive: keys, certificates, roots and saved sessions.
package protocol TLSContext: AnyObject, Sendable {
    /// The certificate of this side; `nil` if it has none.
    var ownCertificate: TLSCertificate? { get }

    /// Creates the engine for a new connection. For a client, `name` is the name of the server; servers ignore it.
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
    /// The certificates that the server presented: its own first, then those that lead to a root, as far as it sent them.
    /// A resumed session has the certificates of the link that established it.
    public internal(set) var certificates: [TLSCertificate] = []
}

/// Encrypted bytes on their way to the socket.
package struct CiphertextBuffer {
    private var bytes: [UInt8] = []
    private var start = 0

    /// Sent bytes are removed when there are more of them than this, and more than of the others.
    private static let maximumSent = 128 * 1024
    /// The capacity that is kept when the buffer is empty: enough for a small request. More would be the memory of idle
    /// connections; allocating it again costs nothing that can be measured beside the encryption.
    private static let keptCapacity = 512

    package init() {}

    package var count: Int { bytes.count - start }
    package var isEmpty: Bool { count == 0 }
    /// The allocated memory, in bytes.
    package var memory: Int { bytes.capacity }

    package mutating func append(_ more: UnsafeRawBufferPointer) {
        // Otherwise a socket that never accepts everything would let this grow without bound.
        if start > Self.maximumSent, start > count {
            bytes.removeFirst(start)
            start = 0
        }
        unsafe bytes.append(contentsOf: more)
    }

    /// Removes the bytes at the end that are more than `count`.
    package mutating func truncate(to count: Int) { bytes.removeLast(max(0, self.count - count)) }

    /// Removes and returns everything.
    package mutating func takeAll() -> [UInt8] {
        defer { self = CiphertextBuffer() }
        return start == 0 ? bytes : Array(bytes[start...])
    }

    /// Lets `write` send from the front, and removes the bytes that it reports as sent.
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
