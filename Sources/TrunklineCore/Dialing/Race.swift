/// The open resources of one dialling: its look-ups, and its sockets, one of which becomes the link.
struct Race {
    var rules: AddressRace
    private var racers: [Racer] = []
    /// They run as long as they are kept.
    var lookups: [AddressFamily: NameLookup] = [:]

    struct Racer {
        let id: AddressRace.AttemptID
        let address: SocketAddress
        let transport: any Transport
        /// The second socket of its attempt: the first one failed and had offered a TLS session.
        var isRepeated = false

        var hasFailedWithSession: Bool { (transport as? SecuredTransport)?.hasFailedWithSession ?? false }
    }

    var transports: [any Transport] { racers.map(\.transport) }

    init(_ policy: AddressRace.Policy) { rules = AddressRace(policy) }

    mutating func add(_ racer: Racer) { racers.append(racer) }

    mutating func take(_ id: AddressRace.AttemptID) -> Racer? {
        racers.firstIndex { $0.id == id }.map { racers.remove(at: $0) }
    }

    func attempt(with id: UInt64) -> AddressRace.AttemptID? { racers.first { $0.transport.id == id }?.id }

    func isSelfConnected(_ id: AddressRace.AttemptID) -> Bool {
        racers.first { $0.id == id }?.transport.isSelfConnected ?? false
    }

    /// Why no look-up has begun; `nil` if one has.
    var obstacle: String? {
        let obstacles = lookups.values.map(\.obstacle)
        return obstacles.contains(nil) ? nil : obstacles.first ?? nil
    }

    var holdsUnread: Bool { racers.contains { ($0.transport as? SecuredTransport)?.hasMore ?? false } }

    func forgetUnansweredSessions() {
        for racer in racers { (racer.transport as? SecuredTransport)?.forgetUnansweredSession() }
    }

    mutating func close() {
        for lookup in lookups.values { lookup.cancel() }
        for racer in racers { racer.transport.close() }
        lookups = [:]
        racers = []
    }
}
