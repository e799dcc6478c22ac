import TrunklineCore

/// The state of a simulated network. Unchecked `Sendable`: confined to its loop, see `LoopOwnership`.
final class VirtualNetwork: @unchecked Sendable {
    private let time: VirtualTime
    var random: SeededGenerator
    var trace = Trace()
    var names = NameTable()
    var faults: HostFaults
    private(set) var interfaces = HostInterfaces()
    var hidesPaths = false
    /// In nanoseconds, until clients learn of a change.
    var newsDelay: ClosedRange<Int64> = 0...5_000_000
    private var observers = PathObservers()
    var bytesDelivered = 0
    private(set) var linksMade: UInt64 = 0

    private var packets = PacketQueue()
    private var links: [UInt64: SimulatedLink] = [:]
    private var ports: [Port: ListeningPort] = [:]
    private var freePort: UInt16 = 49_152

    private struct Port: Hashable {
        var address: SocketAddress
        var receivesDatagrams: Bool
    }

    enum Listed {
        case end(SimulatedLink, Side)
        case port(ListeningPort)
    }
    private var listed: [Listed] = []

    init(seed: UInt64, time: VirtualTime, conditions: NetworkConditions) {
        self.time = time
        random = SeededGenerator(seed: seed ^ 0x6e65_7477_6f72_6b00)
        faults = HostFaults(LinkTraits(conditions))
    }

    var now: Instant { time.now }

    func note(_ kind: Trace.Kind, _ subject: UInt64 = 0, _ amount: Int = 0, detail: @autoclosure () -> String = "") {
        trace.note(kind, subject, amount, at: now, detail: detail())
    }

    var openLinks: Int { links.count }

    func links(to hosts: [HostAddress]? = nil) -> [SimulatedLink] {
        links.keys.sorted().compactMap { links[$0] }.filter { hosts?.contains($0.serverHost) ?? true }
    }

    func connect(
        to address: SocketAddress,
        from source: SocketAddress?,
        datagrams: Bool,
        handler: any TransportHandler
    ) -> SimulatedLink {
        linksMade += 1
        let host = HostAddress(address)
        let local = interfaces.localAddress(to: host, from: source.map { HostAddress($0) })
        let link = SimulatedLink(
            id: linksMade,
            network: self,
            from: ((try? local.get()) ?? host.wildcard).socketAddress(port: UInt16(32_768 + linksMade % 16_384)),
            to: address,
            traits: faults.traits(of: host),
            carriesDatagrams: datagrams,
            handler: handler
        )
        link.setCut(faults.isCut(host))
        link.middlebox = faults.middlebox(before: host)
        links[link.id] = link
        note(.connect, link.id, detail: "\(address)")
        switch local {
        case .success(let local):
            link.setStranded(!interfaces.carries(local, to: host))
            link.connect()
        case .failure(var error):
            error.message = "connecting to \(address): \(error.message)"
            let delay = random.number(in: 1_000...50_000)
            push(.connectFailed(error, link: link.id), at: now.advanced(by: .nanoseconds(delay)))
        }
        return link
    }

    func remove(_ link: SimulatedLink) { links[link.id] = nil }

    func changeInterfaces(_ description: String, isVisible: Bool, _ change: (inout HostInterfaces) -> Void) {
        var changed = interfaces
        change(&changed)
        guard changed != interfaces else { return }
        interfaces = changed
        note(.fault, detail: description)
        for link in links() {
            link.setStranded(!interfaces.carries(HostAddress(link.end(.client).address), to: link.serverHost))
        }
        if isVisible { announce(.paths) }
    }

    func observe(_ observer: any PathObserver) -> Bool {
        guard !hidesPaths else { return false }
        observers.add(observer)
        return true
    }

    /// Notifies the observers a little later, once for all changes until then.
    func announce(_ change: NetworkChange) {
        guard !hidesPaths, observers.begin(change) else { return }
        push(.change(change), at: now.advanced(by: .nanoseconds(random.number(in: newsDelay))))
    }

    private func tell(of change: NetworkChange) {
        var told = observers.end(change)
        guard !hidesPaths else { return }
        note(.networkChange, change == .wake ? 1 : 0, told.count, detail: "\(change)")
        while !told.isEmpty {
            told.swapAt(random.below(told.count), told.count - 1)
            told.removeLast().networkChanged(change)
        }
    }

    func resolve(
        _ host: String,
        port: UInt16,
        family: AddressFamily,
        completion: @escaping NameLookup.Completion
    ) -> NameLookup {
        let lookup = NameLookup(completion)
        let (answer, delay) = names.answer(host, port: port, family: family, faults.resolutionDelay, &random)
        note(.resolved, family == .ipv6 ? 6 : 4, (try? answer.get().count) ?? 0, detail: host)
        if let delay {
            push(
                .resolved { [weak lookup] in lookup?.finish(answer) },
                at: now.advanced(by: .nanoseconds(delay))
            )
        }
        return lookup
    }

    var listeners: Int { ports.count }

    func listen(
        on address: SocketAddress,
        datagrams: Bool,
        handler: any ListenerHandler
    ) throws(TransportError) -> ListeningPort {
        var address = address
        if address.port == 0 {
            freePort = freePort == .max ? 49_152 : freePort + 1
            address = HostAddress(address).socketAddress(port: freePort)
        }
        let key = Port(address: address, receivesDatagrams: datagrams)
        guard ports[key] == nil else { throw TransportError(.system, errno: 98, "address in use: \(address)") }
        let port = ListeningPort(address, receivesDatagrams: datagrams, network: self, handler: handler)
        ports[key] = port
        note(.listen, 0, Int(address.port ?? 0), detail: "\(address)")
        return port
    }

    func remove(_ port: ListeningPort) -> Bool {
        let key = Port(address: port.address, receivesDatagrams: port.receivesDatagrams)
        guard ports[key] === port else { return false }
        ports[key] = nil
        note(.stopListening, 0, Int(port.address.port ?? 0), detail: "\(port.address)")
        return true
    }

    func answer(to address: SocketAddress, datagrams: Bool = false) -> Result<ListeningPort, TransportError> {
        let host = HostAddress(address)
        if let refusal = faults.refusal(of: host) { return .failure(refusal) }
        let anywhere = host.wildcard.socketAddress(port: address.port ?? 0)
        let found = [address, anywhere].lazy.compactMap { self.ports[Port(address: $0, receivesDatagrams: datagrams)] }
        guard let port = found.first else {
            if host.isCommand {
                let message = "starting \(address): the executable does not exist"
                return .failure(TransportError(.invalidAddress, errno: 2, message))
            }
            if case .descriptors = address {
                return .failure(TransportError(.invalidAddress, "\(address): a simulated network has no descriptors"))
            }
            return .failure(TransportError(.refused, errno: 111, "connection refused: \(address)"))
        }
        return .success(port)
    }

    var nextArrival: Instant? { packets.next }

    func push(_ event: NetworkEvent, at time: Instant) { packets.push(event, at: time) }

    /// Bounded, in case events cause each other. Returns the number of events.
    func deliverDue() -> Int {
        var count = 0
        while count < 10_000, let event = packets.popDue(at: now) {
            count += 1
            switch event {
            case .arrival(let packet, let id, let side): links[id]?.arrive(packet, at: side)
            case .resolved(let answer): answer()
            case .connectFailed(let error, let id): links[id]?.fail(.client, error)
            case .change(let change): tell(of: change)
            }
        }
        return count
    }

    func attend(_ link: SimulatedLink, _ side: Side) {
        guard !link.end(side).isListed, link.hasNews(for: side) else { return }
        link.end(side).isListed = true
        listed.append(.end(link, side))
    }

    func attend(_ port: ListeningPort) {
        guard !port.isListed else { return }
        port.isListed = true
        listed.append(.port(port))
    }

    var hasNews: Bool { !listed.isEmpty }

    /// Entries that still have events must be listed again.
    func takeListed() -> [Listed] {
        defer { listed = [] }
        for entry in listed {
            switch entry {
            case .end(let link, let side): link.end(side).isListed = false
            case .port(let port): port.isListed = false
            }
        }
        return listed
    }
}
