import TrunklineCore

/// One TCP connection of a simulated network, or the datagrams between two addresses, with its faults.
///
/// Unchecked `Sendable`: confined to its loop, see `LoopOwnership`.
final class SimulatedLink: @unchecked Sendable {
    let id: UInt64
    let network: VirtualNetwork
    /// The host of the accepting side, to which faults refer.
    let serverHost: HostAddress
    var traits: LinkTraits
    let carriesDatagrams: Bool
    private let ends: [LinkEnd]
    var pipes = [Pipe(), Pipe()]
    /// The server's host is partitioned.
    private(set) var isCut = false
    /// The client's host has no path for packets of this link.
    private(set) var isStranded = false
    private var held: [(packet: Packet, side: Side)] = []
    private var isReflected = false
    private(set) var isVanished = false
    /// Of the child process that the server's side plays; `nil` before its end, and for other links.
    private(set) var exit: ProcessExit?
    var middlebox: Middlebox?
    private var isForgotten = false
    private var latestPacketAt: Instant
    private var scripted: ScriptedConnect?

    init(
        id: UInt64,
        network: VirtualNetwork,
        from client: SocketAddress,
        to server: SocketAddress,
        traits: LinkTraits,
        carriesDatagrams: Bool,
        handler: any TransportHandler
    ) {
        self.carriesDatagrams = carriesDatagrams
        self.id = id
        self.network = network
        self.traits = traits
        latestPacketAt = network.now
        serverHost = HostAddress(server)
        ends = [
            LinkEnd(address: client, phase: .connecting, handler: handler),
            LinkEnd(address: server, phase: .absent),
        ]
    }

    func end(_ side: Side) -> LinkEnd { ends[side.rawValue] }

    func peer(of side: Side) -> Side { isReflected ? side : side.other }

    func address(_ side: Side) -> SocketAddress { end(isReflected ? .server : side).address }

    func connect() {
        if carriesDatagrams { return openDatagrams() }
        scripted = network.faults.nextConnect(to: serverHost)
        var time = network.now
        switch scripted {
        case .accept(let delay)?, .refuse(_, _, let delay)?: time = time.advanced(by: max(.zero, delay))
        case .swallow?, nil:
            time = time.advanced(by: .nanoseconds(network.random.number(in: traits.connectDelay)))
            time = time.advanced(by: .nanoseconds(network.random.number(in: traits.latency)))
        }
        network.push(.arrival(.connect, link: id, at: .server), at: time)
    }

    func send(_ packet: Packet, from side: Side) {
        var count = 0
        if case .data(let size) = packet { count = size }
        let time = pipes[side.rawValue].arrival(of: count, sentAt: network.now, traits, &network.random)
        guard passesMiddlebox(from: side) else {
            network.note(.lost, id, side.rawValue)
            if middlebox?.resets == true { network.push(.arrival(.reset, link: id, at: side), at: time) }
            return
        }
        network.push(.arrival(packet, link: id, at: peer(of: side)), at: time)
    }

    func passesMiddlebox(from side: Side) -> Bool {
        let isLate = middlebox.map { network.now.since(latestPacketAt) > $0.patience } ?? false
        if carriesDatagrams {
            // Datagrams of the client open the way again.
            if isLate, side == .server { return false }
        } else if isLate {
            isForgotten = true
        }
        latestPacketAt = network.now
        return !isForgotten
    }

    func pump(_ side: Side) {
        while let count = pipes[side.rawValue].nextPacket(traits, &network.random) {
            send(.data(count), from: side)
        }
        if pipes[side.rawValue].endIsDue() { send(.end, from: side) }
    }

    func pumpBoth() {
        for side in [Side.client, .server] {
            pump(side)
            network.attend(self, side)
        }
    }

    func arrive(_ packet: Packet, at side: Side) {
        if carriesDatagrams { return arriveAsDatagram(packet, at: side) }
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
            pipes[peer(of: side).rawValue].arrive(count)
            if end(side).phase == .closed, !end(side.other).isGone { send(.reset, from: side) }
        case .end:
            pipes[peer(of: side).rawValue].endArrives()
            if side == .client, serverHost.isCommand { exit = exit ?? .status(0) }
        case .datagram, .unreachable: break  // see `arriveAsDatagram`
        case .reset where side == .client && serverHost.isCommand: crash(.signal(9))
        case .reset: fail(side, TransportError(.reset, errno: 104, "connection reset by peer"))
        }
        network.attend(self, side)
    }

    private func connectArrives() {
        switch scripted {
        case .swallow(let isSecuring)?:
            if isSecuring { beginSecuring() }
            return
        case .refuse(let error, let isSecuring, _)?:
            if isSecuring { beginSecuring() }
            return send(.refuse(error), from: .server)
        case .accept?, nil: break
        }
        guard end(.client).failure == nil, !network.faults.swallows(serverHost) else { return }
        if network.faults.reflects(serverHost) {
            isReflected = true
            return send(.accept, from: .client)
        }
        switch network.answer(to: end(.server).address) {
        case .failure(let error): send(.refuse(error), from: .server)
        case .success(let port):
            end(.server).phase = .open
            port.add(self)
            send(.accept, from: .server)
        }
    }

    private func beginSecuring() {
        guard end(.client).phase == .connecting else { return }
        end(.client).isSecuring = true
        network.attend(self, .client)
    }

    /// Reads and writes fail from now on, and bytes in transit are discarded.
    func fail(_ side: Side, _ error: TransportError) {
        guard !end(side).isGone, end(side).failure == nil else { return }
        if end(side).phase == .connecting { end(side).outcome = .connectFailed(error) }
        end(side).failure = error
        // If a middlebox has forgotten the link, the other side does not know, and can still write.
        for pipe in pipes.indices where !isForgotten || pipe == side.rawValue { pipes[pipe].tearDown() }
        network.attend(self, side)
    }

    func crash(_ exit: ProcessExit) {
        let exit = self.exit ?? exit
        self.exit = exit
        fail(.client, .exited(exit))
        fail(.server, TransportError(.reset, errno: 104, "connection reset by peer"))
    }

    func setCut(_ cut: Bool) {
        isCut = cut
        releaseHeld()
    }

    func setStranded(_ stranded: Bool) {
        isStranded = stranded
        releaseHeld()
    }

    private func releaseHeld() {
        guard !isCut, !isStranded else { return }
        for (packet, side) in held {
            // Sent again, so a packet still in transit may arrive first. That is harmless: packets do not carry bytes.
            let time = pipes[side.other.rawValue].arrival(of: 0, sentAt: network.now, traits, &network.random)
            network.push(.arrival(packet, link: id, at: side), at: time)
        }
        held = []
    }

    func vanish() {
        isVanished = true
        held = []
    }
}

extension SimulatedLink: CustomStringConvertible {
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
        return text + (isCut ? ", partitioned" : "") + (isVanished || isForgotten ? ", half-open" : "") + ")"
    }
}
