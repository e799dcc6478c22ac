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

extension Frame {
    /// Whether a server that sends it does useful work: it answers a request or delivers a push.
    var isWork: Bool {
        switch kind {
        case .response, .part, .push, .request: true
        case .ping, .pong, .cancel, .goAway: false
        }
    }
}
