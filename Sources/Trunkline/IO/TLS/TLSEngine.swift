/// One side of one TLS connection without any socket: what was received goes in, what is to be sent comes out.
///
/// `SecuredTransport` stands between it and the socket. OpenSSL is behind it; another library can be. Confined to a loop.
package protocol TLSEngine: AnyObject {
    /// Goes on with the handshake with what is in `input`, and takes from it what it needs, but no more than a bounded number
    /// of records. Returns whether it is over, and everything about the peer was found to be right.
    func handshake(_ input: inout UnsafeRawBufferPointer) throws(TransportError) -> Bool

    /// Whether the peer has yet to say what it thinks of our certificate, or of our having none: a server of TLS 1.3 says so
    /// when the handshake is over for its client (RFC 8446 §4.4.2.4). `handshake` hears it, and whatever else comes.
    var awaitsVerdict: Bool { get }

    /// Decrypts from `input`, from which it takes what it needs, into `output` as much as fits, but no more than a bounded
    /// number of records: what they hold may be a byte each, or none. With more to decrypt it leaves some of `input`, and
    /// says `needsInput` if it has nothing for the owner yet.
    func read(_ input: inout UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer) -> TLSReadOutcome

    /// Whether reading has something without more input: what did not fit, or the end that came right behind the bytes.
    var hasMore: Bool { get }

    /// Encrypts all of `bytes`; or none of them, and returns false, while a message of TLS' own has come only in part: it can
    /// go on when more was read.
    func write(_ bytes: UnsafeRawBufferPointer) throws(TransportError) -> Bool

    /// Says that nothing more is written (`close_notify`).
    func finishWriting()

    /// What is to be sent, in order. Whoever sends it takes it out.
    var outgoing: CiphertextBuffer { get set }

    /// What was agreed; `nil` until the handshake is over.
    var session: TLSSession? { get }
}

package enum TLSReadOutcome {
    /// So many bytes were decrypted, at least one.
    case bytes(Int)
    /// It takes more input.
    case needsInput
    /// The peer has said that it writes no more.
    case end
    case failed(TransportError)
}

/// Makes engines that share what is expensive: keys, certificates, roots and the sessions to resume.
package protocol TLSContext: AnyObject, Sendable {
    /// The engine for a new connection: of the client, to the server `name`; of a server, whatever the name.
    func makeEngine(for name: String) throws(TransportError) -> any TLSEngine
}

/// What two sides agreed on.
public struct TLSSession: Sendable, Hashable {
    /// The version, as in `TLSv1.3`.
    public let version: String
    /// The cipher suite, as in `TLS_AES_256_GCM_SHA384`.
    public let cipherSuite: String
    /// What ALPN chose (RFC 7301); `nil` where nobody asked for any.
    public let applicationProtocol: String?
    /// Whether a session of an earlier link was taken up, which costs neither certificates nor signatures.
    public let isResumed: Bool
}

/// Encrypted bytes on their way to the socket.
package struct CiphertextBuffer {
    private var bytes: [UInt8] = []
    private var start = 0

    /// Memory beyond this is given back when it is empty.
    private static let keptCapacity = 128 * 1024

    package init() {}

    package var count: Int { bytes.count - start }
    package var isEmpty: Bool { count == 0 }
    /// What it takes, in bytes.
    package var memory: Int { bytes.capacity }

    package mutating func append(_ more: UnsafeRawBufferPointer) {
        // What was sent goes when it is the larger part: a socket that never takes all would make this grow for ever.
        if start > Self.keptCapacity, start > count {
            bytes.removeFirst(start)
            start = 0
        }
        unsafe bytes.append(contentsOf: more)
    }

    /// Takes everything out.
    package mutating func takeAll() -> [UInt8] {
        defer { self = CiphertextBuffer() }
        return start == 0 ? bytes : Array(bytes[start...])
    }

    /// Lets `write` send from the front, and takes out what it reports.
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
