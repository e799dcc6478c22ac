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
}

/// Everything that one attempt has open: look-ups and sockets, of which one becomes the link.
struct Race {
    var rules: AddressRace
    /// Connecting, in the order they were started.
    private var transports: [(id: AddressRace.AttemptID, transport: any Transport)] = []
    /// Under way, as long as they are kept.
    var lookups: [NameLookup] = []

    init(_ policy: AddressRace.Policy) { rules = AddressRace(policy) }

    mutating func add(_ transport: any Transport, _ id: AddressRace.AttemptID) { transports.append((id, transport)) }

    /// Hands the socket of `id` over.
    mutating func take(_ id: AddressRace.AttemptID) -> (any Transport)? {
        transports.firstIndex { $0.id == id }.map { transports.remove(at: $0).transport }
    }

    /// Which of its attempts has the socket with the loop's number `id`.
    func attempt(with id: UInt64) -> AddressRace.AttemptID? { transports.first { $0.transport.id == id }?.id }

    /// Closes what was not handed over.
    mutating func close() {
        for lookup in lookups { lookup.cancel() }
        for (_, transport) in transports { transport.close() }
        lookups = []
        transports = []
    }
}
