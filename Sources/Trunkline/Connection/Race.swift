/// An attempt to connect that has no link yet.
///
/// A class, so that a connection without an attempt has no memory for one.
final class Attempt {
    let attempt: ReconnectMachine.Attempt
    /// When it began.
    let startedAt: Instant
    /// The end of its time, handshake included.
    var deadline: Instant
    /// Whether it was given its time again after the process was stopped.
    var isProlonged = false
    /// Its phase: resolving, connecting or securing; `nil` before it has opened anything.
    var phase: DisconnectReport.Phase?
    /// Reads what TLS needs.
    var preparing: Task<Void, Never>?
    /// Its look-ups and sockets.
    var race: Race?
    /// The first address that it tried, and the path at that time.
    var firstPath: (address: SocketAddress, path: NetworkPath)?
    /// The path to its endpoint when it began, as far as addresses were known.
    let initialPath: NetworkPath
    var path: NetworkPath { firstPath?.path ?? initialPath }
    /// The paths to its endpoint when it began, or when the name was resolved.
    var paths: [NetworkPath] = []
    /// Whether this host had a network at that time.
    var hadNetwork = true
    /// Whether it waits for other links to close, because it must not overlap them.
    var isHeld = false

    init(_ attempt: ReconnectMachine.Attempt, startedAt: Instant, deadline: Instant, initialPath: NetworkPath) {
        (self.attempt, self.startedAt, self.deadline) = (attempt, startedAt, deadline)
        self.initialPath = initialPath
    }
}

/// The open resources of one attempt: its look-ups, and its sockets, one of which becomes the link.
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
    }

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
    var holdsUnread: Bool { racers.contains { $0.transport.hasMore } }

    /// Closes everything that was not handed over.
    mutating func close() {
        for lookup in lookups.values { lookup.cancel() }
        for racer in racers { racer.transport.close() }
        lookups = [:]
        racers = []
    }
}
