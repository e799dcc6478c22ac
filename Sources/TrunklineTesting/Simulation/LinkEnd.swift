import TrunklineCore

/// The state of one side of a link.
final class LinkEnd {
    enum Phase {
        /// No socket yet. Next state: open.
        case absent
        /// Next states: open, closed.
        case connecting
        /// Next state: closed.
        case open
        case closed
    }

    let address: SocketAddress
    var phase: Phase
    /// The server's side has none before it is accepted.
    weak var handler: (any TransportHandler)?
    var outcome: TransportEvent?
    var isSecuring = false
    var failure: TransportError?
    var isReading = false
    var awaitsWritable = false
    var datagrams = Deque<[UInt8]>()
    /// The other side of datagrams has gone, of which a server learns to clean up.
    var isDeserted = false
    var isListed = false

    init(address: SocketAddress, phase: Phase, handler: (any TransportHandler)? = nil) {
        self.address = address
        self.phase = phase
        self.handler = handler
    }

    var isGone: Bool { phase == .absent || phase == .closed }
}
