import TrunklineCore
import TrunklineIO

/// One established socket, from the greeting to its end. A new link is a new value: nothing of the old one survives.
struct Link {
    /// The number of the attempt, and of the session when it succeeds.
    let session: UInt64
    /// The number of the attempt that made it: see `ReconnectMachine.Attempt`.
    let attempt: Int
    let endpoint: Endpoint
    /// Another one from where the greeting has switched to TLS.
    var transport: any Transport
    /// Encodes and decodes for this link alone.
    var codec: any FrameCodec
    /// Whether `codec` wants to hear what goes out. Asked once: hardly any does.
    let notesSent: Bool
    var received = ReceiveBuffer()
    /// `received` may hold complete frames, which come before anything that the socket has.
    var holdsFrames = false
    /// Who wants to hear that the kernel has their last byte, which TLS has encrypted and the socket has not taken yet, and
    /// the `sentMark` at which it has.
    var heldWrites = Deque<(ticket: Ticket, mark: Int)>()
    /// Set when a write has failed because the peer is gone: nothing more is written, and what it said before is read to its
    /// end, a share in every turn.
    var lastWords: LastWords?
    /// Where its first request is in the outbound order.
    var firstPosition: OutboundPosition = 1

    init(session: UInt64, attempt: Int, endpoint: Endpoint, transport: any Transport, codec: any FrameCodec) {
        self.session = session
        self.attempt = attempt
        self.endpoint = endpoint
        self.transport = transport
        self.codec = codec
        notesSent = codec.notesSent
    }
}

extension Link {
    /// Reading a link that cannot be written to any more.
    struct LastWords {
        /// That of the write.
        let failure: TransportError
        /// When reading ends at the latest: the peer may be there after all, and speak without end.
        let deadline: Instant
        /// How many bytes have been read since.
        var byteCount = 0
    }

    /// Writing has failed: nothing more is written.
    mutating func startLastWords(_ failure: TransportError, until deadline: Instant) {
        lastWords = LastWords(failure: failure, deadline: deadline)
    }

    /// Whether the server has closed a TLS link between two frames and without TLS' own goodbye, as many servers do.
    func isCutShort(by cause: any Error) -> Bool {
        (cause as? TransportError)?.code == .tls(.truncated) && received.isEmpty
    }
}

extension Frame {
    /// Whether the server sent it on its own account, and not to keep the link alive or to end it.
    var isPush: Bool { kind == .push || kind == .request }
}
