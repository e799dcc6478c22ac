/// The open resources of one dialling: its look-ups, and its sockets, one of which becomes the link.
struct Race {
    var rules: AddressRace
    /// The connecting sockets, in the order of their start.
    private var racers: [Racer] = []
    /// The look-ups. They run as long as they are kept.
    var lookups: [AddressFamily: NameLookup] = [:]

    /// A connecting socket.
    struct Racer {
        let id: AddressRace.AttemptID
        let address: SocketAddress
        let transport: any Transport
        /// Whether it is the second of its attempt: the first one failed and had offered a TLS session.
        var isRepeated = false

        /// Whether it failed, and may have failed because it offered a TLS session.
        var hasFailedWithSession: Bool { (transport as? SecuredTransport)?.hasFailedWithSession ?? false }
    }

    var transports: [any Transport] { racers.map(\.transport) }

    init(_ policy: AddressRace.Policy) { rules = AddressRace(policy) }

    mutating func add(_ racer: Racer) { racers.append(racer) }

    /// Removes the socket of `id` and returns it.
    mutating func take(_ id: AddressRace.AttemptID) -> Racer? {
        racers.firstIndex { $0.id == id }.map { racers.remove(at: $0) }
    }

    /// The attempt whose socket has the loop's number `id`.
    func attempt(with id: UInt64) -> AddressRace.AttemptID? { racers.first { $0.transport.id == id }?.id }

    /// Whether the socket of `id` is connected to itself.
    func isSelfConnected(_ id: AddressRace.AttemptID) -> Bool {
        racers.first { $0.id == id }?.transport.isSelfConnected ?? false
    }

    /// Why no look-up has begun; `nil` if one has.
    var obstacle: String? {
        let obstacles = lookups.values.map(\.obstacle)
        return obstacles.contains(nil) ? nil : obstacles.first ?? nil
    }

    /// Whether TLS holds bytes of a socket that it has not handled yet.
    var holdsUnread: Bool { racers.contains { ($0.transport as? SecuredTransport)?.hasMore ?? false } }

    /// Forgets the TLS sessions that were offered and not answered in time.
    func forgetUnansweredSessions() {
        for racer in racers { (racer.transport as? SecuredTransport)?.forgetUnansweredSession() }
    }

    /// Closes everything that was not handed over.
    mutating func close() {
        for lookup in lookups.values { lookup.cancel() }
        for racer in racers { racer.transport.close() }
        lookups = [:]
        racers = []
    }
}
