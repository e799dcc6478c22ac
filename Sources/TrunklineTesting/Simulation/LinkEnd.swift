import TrunklineCore

/// The state of one side of a link.
final class LinkEnd {
    enum Phase {
        /// There is no socket on this side yet. Next state: open.
        case absent
        /// Next states: open, closed.
        case connecting
        /// Next state: closed.
        case open
        case closed
    }

    let address: SocketAddress
    var phase: Phase
    /// Receives the events of this side. The server's side has none before it is accepted.
    weak var handler: (any TransportHandler)?
    /// The outcome of connecting, until the handler has received it.
    var outcome: TransportEvent?
    /// Whether the handler has to be told that TLS begins.
    var isSecuring = false
    /// Why reading and writing fail from now on.
    var failure: TransportError?
    var isReading = false
    var awaitsWritable = false
    /// Datagrams: those that have arrived and were not read.
    var datagrams = Deque<[UInt8]>()
    /// Datagrams: whether the other side has gone, of which a server learns to clean up.
    var isDeserted = false
    /// Whether this side is in the network's list of sides with events.
    var isListed = false

    init(address: SocketAddress, phase: Phase, handler: (any TransportHandler)? = nil) {
        self.address = address
        self.phase = phase
        self.handler = handler
    }

    /// Whether there is no socket on this side.
    var isGone: Bool { phase == .absent || phase == .closed }
}
