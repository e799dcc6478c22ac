import Trunkline

/// What one side of a link knows and wants.
final class LinkEnd {
    enum Phase {
        /// There is no socket on this side yet. → open
        case absent
        /// → open, closed
        case connecting
        /// → closed
        case open
        case closed
    }

    let address: SocketAddress
    var phase: Phase
    /// Who hears of this side; the server's side has nobody before it is accepted.
    weak var handler: (any TransportHandler)?
    /// How the attempt to connect ended, until the handler has heard it.
    var outcome: TransportEvent?
    /// Why nothing can be read or written any more.
    var failure: TransportError?
    var isReading = false
    var awaitsWritable = false
    /// Whether this side is in the network's list of those to be told something.
    var isListed = false

    init(address: SocketAddress, phase: Phase, handler: (any TransportHandler)? = nil) {
        self.address = address
        self.phase = phase
        self.handler = handler
    }

    /// Whether nobody holds a socket on this side.
    var isGone: Bool { phase == .absent || phase == .closed }
}
