/// An attempt to connect that has no link yet.
struct Attempt {
    let attempt: ReconnectMachine.Attempt
    /// The end of its time, its handshake included.
    let deadline: Instant
    /// How far it has come: resolving, connecting or securing; `nil` before anything is open.
    var phase: DisconnectReport.Phase?
    /// Reads what TLS needs.
    var preparing: Task<Void, Never>?
    /// Its sockets.
    var race: Race?
    /// The first address that it has gone to, and its path then.
    var firstPath: (address: SocketAddress, path: NetworkPath)?
    /// The path to its endpoint when it began, as far as addresses were known then.
    let initialPath: NetworkPath
    var path: NetworkPath { firstPath?.path ?? initialPath }
    /// The paths to its endpoint when it began, or was resolved.
    var paths: [NetworkPath] = []
    /// Whether this host had a network then.
    var hadNetwork = true
    /// Whether its endpoint's name has been resolved.
    var isResolved = false
    /// It begins when no link is left that it must not overlap.
    var isHeld = false
}

/// Everything that one attempt has open: look-ups and sockets, of which one becomes the link.
struct Race {
    var rules: AddressRace
    /// Connecting, in the order they were started.
    private var racers: [Racer] = []
    /// Under way, as long as they are kept.
    var lookups: [NameLookup] = []

    /// A socket that connects.
    struct Racer {
        let id: AddressRace.AttemptID
        let address: SocketAddress
        let transport: any Transport
    }

    init(_ policy: AddressRace.Policy) { rules = AddressRace(policy) }

    mutating func add(_ racer: Racer) { racers.append(racer) }

    /// Hands the socket of `id` over.
    mutating func take(_ id: AddressRace.AttemptID) -> Racer? {
        racers.firstIndex { $0.id == id }.map { racers.remove(at: $0) }
    }

    /// Which of its attempts has the socket with the loop's number `id`.
    func attempt(with id: UInt64) -> AddressRace.AttemptID? { racers.first { $0.transport.id == id }?.id }

    /// Closes what was not handed over.
    mutating func close() {
        for lookup in lookups { lookup.cancel() }
        for racer in racers { racer.transport.close() }
        lookups = []
        racers = []
    }
}
