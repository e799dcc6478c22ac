import Trunkline

/// One TCP connection of a simulated network: two ends, a pipe in each direction, and what is broken between them.
///
/// Sendable: confined to its loop, see `LoopOwnership`.
final class SimulatedLink: @unchecked Sendable {
    let id: UInt64
    let network: VirtualNetwork
    /// The host of the side that accepts: faults name it.
    let serverHost: HostAddress
    var traits: LinkTraits
    /// By side.
    private let ends: [LinkEnd]
    /// By the side that writes.
    var pipes = [Pipe(), Pipe()]
    /// The server's host is cut off.
    private var isCut = false
    /// The client's host has no way for packets of this link.
    private var isStranded = false
    /// Packets that arrived while the link was cut or stranded.
    private var held: [(packet: Packet, side: Side)] = []
    /// Packets vanish.
    private var isVanished = false

    init(
        id: UInt64,
        network: VirtualNetwork,
        from client: SocketAddress,
        to server: SocketAddress,
        traits: LinkTraits,
        handler: any TransportHandler
    ) {
        self.id = id
        self.network = network
        self.traits = traits
        serverHost = HostAddress(server)
        ends = [
            LinkEnd(address: client, phase: .connecting, handler: handler),
            LinkEnd(address: server, phase: .absent),
        ]
    }

    func end(_ side: Side) -> LinkEnd { ends[side.rawValue] }

    /// Begins to connect.
    func connect() {
        let delay = network.random.number(in: traits.connectDelay) + network.random.number(in: traits.latency)
        let time = Instant(nanoseconds: network.now.nanoseconds + delay)
        network.push(.arrival(.connect, link: id, at: .server), at: time)
    }

    // MARK: Packets

    func send(_ packet: Packet, from side: Side) {
        var count = 0
        if case .data(let size) = packet { count = size }
        let time = pipes[side.rawValue].arrival(of: count, sentAt: network.now, traits, &network.random)
        network.push(.arrival(packet, link: id, at: side.other), at: time)
    }

    /// Sends what may be sent from `side`: bytes as far as the window goes, then the end.
    func pump(_ side: Side) {
        while let count = pipes[side.rawValue].nextPacket(traits, &network.random) {
            send(.data(count), from: side)
        }
        if pipes[side.rawValue].endIsDue() { send(.end, from: side) }
    }

    /// Sends what new conditions allow.
    func pumpBoth() {
        for side in [Side.client, .server] {
            pump(side)
            network.attend(self, side)
        }
    }

    func arrive(_ packet: Packet, at side: Side) {
        guard !isVanished else { return network.note(.lost, id, side.rawValue) }
        guard !isCut, !isStranded else {
            held.append((packet, side))
            return network.note(.held, id, side.rawValue)
        }
        network.note(.packet, id, side.rawValue, detail: "\(packet)")
        switch packet {
        case .connect: connectArrives()
        case .accept:
            guard end(.client).phase == .connecting else { return }
            end(.client).phase = .open
            end(.client).outcome = .connected
        case .refuse(let error): fail(.client, error)
        case .data(let count):
            pipes[side.other.rawValue].arrive(count)
            if end(side).phase == .closed, !end(side.other).isGone { send(.reset, from: side) }
        case .end: pipes[side.other.rawValue].endArrives()
        case .reset: fail(side, TransportError(.reset, errno: 104, "connection reset by peer"))
        }
        network.attend(self, side)
    }

    private func connectArrives() {
        guard end(.client).failure == nil, !network.faults.swallows(serverHost) else { return }
        switch network.answer(to: end(.server).address) {
        case .failure(let error): send(.refuse(error), from: .server)
        case .success(let port):
            end(.server).phase = .open
            port.add(self)
            send(.accept, from: .server)
        }
    }

    /// Breaks `side`: nothing can be read or written there any more, what was under way is discarded.
    func fail(_ side: Side, _ error: TransportError) {
        guard !end(side).isGone, end(side).failure == nil else { return }
        if end(side).phase == .connecting { end(side).outcome = .connectFailed(error) }
        end(side).failure = error
        for pipe in pipes.indices { pipes[pipe].tearDown() }
        network.attend(self, side)
    }

    // MARK: Faults

    /// Lets packets wait (a partition), or lets those that waited set out again.
    func setCut(_ cut: Bool) {
        isCut = cut
        releaseHeld()
    }

    /// As `setCut`, for what keeps packets at the client's host.
    func setStranded(_ stranded: Bool) {
        isStranded = stranded
        releaseHeld()
    }

    private func releaseHeld() {
        guard !isCut, !isStranded else { return }
        for (packet, side) in held {
            // Sent anew, so that a packet still under way may arrive before: a byte's place is not in its packet.
            let time = pipes[side.other.rawValue].arrival(of: 0, sentAt: network.now, traits, &network.random)
            network.push(.arrival(packet, link: id, at: side), at: time)
        }
        held = []
    }

    /// Lets every packet vanish for ever, in both directions.
    func vanish() {
        isVanished = true
        held = []
    }
}

extension SimulatedLink: CustomStringConvertible {
    /// Where to, and what is stuck.
    var description: String {
        var text = "\(end(.server).address)"
        for side in [Side.client, .server] {
            let end = end(side)
            text += side == .client ? " (client " : ", server "
            text += end.failure == nil ? "\(end.phase)" : "broken"
            let pipe = pipes[side.other.rawValue]
            if pipe.arrived > 0 { text += ", \(pipe.arrived) bytes unread" }
            if end.phase == .open, !end.isReading { text += ", not reading" }
        }
        if isStranded { text += ", without a path from \(HostAddress(end(.client).address))" }
        return text + (isCut ? ", partitioned" : "") + (isVanished ? ", half-open" : "") + ")"
    }
}
