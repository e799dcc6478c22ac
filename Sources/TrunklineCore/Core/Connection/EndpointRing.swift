/// The order in which endpoints are tried.
public enum EndpointOrder: Sendable, Hashable {
    /// The order of the list. The first endpoint is the preferred one.
    case ordered
    /// A random order, drawn once for each client. The first endpoint in that order is the preferred one.
    case shuffled
    /// A random order, drawn once for each client, in which endpoints with a greater weight (``Endpoint/weighing(_:)``)
    /// are more likely to come early.
    case weighted
}

/// Chooses the endpoint of the next attempt. Every endpoint has one turn in a round, those with the least remembered
/// failure first. Among equals, the endpoint that worked last comes first (a client stays where it works), then the
/// order decides. No endpoint is excluded for good.
struct EndpointRing: Sendable {
    struct Entry: Sendable {
        var endpoint: Endpoint
        var failures = 0.0
        var failedAt = Instant.distantPast
        /// Before this instant the endpoint is tried after all others, because its server asked for that.
        var heldUntil = Instant.distantPast
        /// At most `heldUntil`. Before this instant the endpoint is not tried at all.
        var closedUntil = Instant.distantPast
        /// The last failure was permanent: the endpoint is skipped until the failure is forgotten.
        var isRefused = false
        var hadTurn = false
    }

    /// Even the worst memory fades within minutes.
    private static let mostFailures = 4.0
    /// One failure is forgotten after three half-lives.
    private static let forgotten = 0.125

    var entries: [Entry] = []
    /// The endpoint that worked last, unless the client has left it since.
    private(set) var current: Endpoint?
    /// The next endpoint, regardless of its failures.
    private var selected: Endpoint?
    let order: EndpointOrder
    private let halfLife: Duration
    let seed: UInt64

    init(
        _ endpoints: [Endpoint],
        order: EndpointOrder = .ordered,
        halfLife: Duration = .seconds(30),
        seed: UInt64 = 0
    ) {
        self.order = order
        self.halfLife = halfLife
        self.seed = seed
        replace(with: endpoints)
    }

    var endpoints: [Endpoint] { entries.map(\.endpoint) }
    var isEmpty: Bool { entries.isEmpty }
    var preferred: Endpoint? { entries.first?.endpoint }
    func contains(_ endpoint: Endpoint) -> Bool { index(of: endpoint) != nil }

    /// Also counts the turn of the endpoint.
    mutating func next(at now: Instant) -> Endpoint? {
        guard let index = nextIndex(at: now) else { return nil }
        entries[index].hadTurn = true
        selected = nil
        return entries[index].endpoint
    }

    func upcoming(at now: Instant) -> Endpoint? { nextIndex(at: now).map { entries[$0].endpoint } }

    func hasTurnLeft(at now: Instant) -> Bool {
        selected != nil || entries.contains { !$0.hadTurn && mayBeTried($0, at: now) }
    }

    mutating func beginRound() {
        for index in entries.indices { entries[index].hadTurn = false }
    }

    /// Endpoints with a permanent failure do not count, unless all have one.
    func earliestStart(at now: Instant) -> Instant {
        let open = entries.lazy.filter { !isRefused($0, at: now) }.map(\.closedUntil).min()
        return open ?? entries.lazy.map(\.closedUntil).min() ?? .distantPast
    }

    func earliestStart(of endpoint: Endpoint) -> Instant {
        index(of: endpoint).map { entries[$0].closedUntil } ?? .distantPast
    }

    func areAllRefused(at now: Instant) -> Bool {
        entries.allSatisfy { isRefused($0, at: now) }
    }

    func isHealthy(_ endpoint: Endpoint, at now: Instant) -> Bool {
        index(of: endpoint).map { isHealthy(entries[$0], at: now) } ?? false
    }

    func hasHealthyAlternative(to endpoint: Endpoint, at now: Instant) -> Bool {
        entries.contains { $0.endpoint != endpoint && isHealthy($0, at: now) }
    }

    mutating func failed(_ endpoint: Endpoint, at now: Instant, isPermanent: Bool = false) {
        guard let index = index(of: endpoint) else { return }
        entries[index].failures = min(Self.mostFailures, decayed(entries[index], at: now) + 1)
        entries[index].failedAt = now
        if isPermanent { entries[index].isRefused = true }
    }

    mutating func succeeded(_ endpoint: Endpoint) {
        guard let index = index(of: endpoint) else { return }
        entries[index].failures = 0
        entries[index].isRefused = false
        entries[index].heldUntil = .distantPast
        entries[index].closedUntil = .distantPast
        current = endpoint
    }

    /// From `opening` on, the endpoint is tried if the others fail.
    mutating func hold(
        _ endpoint: Endpoint,
        until instant: Instant,
        closedUntil opening: Instant = .distantFuture
    ) {
        guard let index = index(of: endpoint) else { return }
        entries[index].heldUntil = max(entries[index].heldUntil, instant)
        entries[index].closedUntil = max(entries[index].closedUntil, min(opening, instant))
    }

    mutating func leave(_ endpoint: Endpoint, at now: Instant) {
        failed(endpoint, at: now)
        if let index = index(of: endpoint) { entries[index].hadTurn = true }
        if current == endpoint { current = nil }
    }

    mutating func forgetPermanentFailures() {
        for index in entries.indices { entries[index].isRefused = false }
    }

    /// Returns false, and changes nothing, if the endpoint is not in the ring.
    mutating func select(_ endpoint: Endpoint) -> Bool {
        guard contains(endpoint) else { return false }
        selected = endpoint
        return true
    }

    /// Endpoints that stay keep their memory and, in a random order, their relative places.
    mutating func replace(with endpoints: [Endpoint]) {
        var replaced: [Entry] = []
        var known = Set<Endpoint>()
        // A server may supply the list, so the work must be proportional to its length.
        let before = Dictionary(entries.map { ($0.endpoint, $0) }) { first, _ in first }
        for endpoint in endpoints where known.insert(endpoint).inserted {
            var entry = before[endpoint] ?? Entry(endpoint: endpoint)
            entry.endpoint = endpoint  // its weight may have changed
            replaced.append(entry)
        }
        entries = replaced
        if order != .ordered { draw() }
        if let current, !contains(current) { self.current = nil }
        if let selected, !contains(selected) { self.selected = nil }
    }

    private func index(of endpoint: Endpoint) -> Int? {
        entries.firstIndex { $0.endpoint == endpoint }
    }

    private func nextIndex(at now: Instant) -> Int? {
        entries.indices.min { rank($0, at: now) < rank($1, at: now) }
    }

    private func rank(_ index: Int, at now: Instant) -> (Int, Int64, Double, Int, Int) {
        let entry = entries[index]
        if entry.endpoint == selected { return (-1, 0, 0, 0, 0) }
        let isHeld = entry.heldUntil > now
        let obstacles = (entry.hadTurn ? 4 : 0) + (isRefused(entry, at: now) ? 2 : 0) + (isHeld ? 1 : 0)
        let hold = isHeld ? entry.closedUntil.nanoseconds : 0
        return (obstacles, hold, remembered(entry, at: now), entry.endpoint == current ? 0 : 1, index)
    }

    private func mayBeTried(_ entry: Entry, at now: Instant) -> Bool {
        entry.closedUntil <= now && !isRefused(entry, at: now)
    }

    private func isHealthy(_ entry: Entry, at now: Instant) -> Bool {
        entry.heldUntil <= now && mayBeTried(entry, at: now) && remembered(entry, at: now) == 0
    }

    private func isRefused(_ entry: Entry, at now: Instant) -> Bool {
        entry.isRefused && remembered(entry, at: now) > 0
    }

    private func remembered(_ entry: Entry, at now: Instant) -> Double {
        let failures = decayed(entry, at: now)
        return failures < Self.forgotten ? 0 : failures
    }

    /// Halved with every half-life, and interpolated linearly between: that needs no exponential function.
    private func decayed(_ entry: Entry, at now: Instant) -> Double {
        guard entry.failures > 0 else { return 0 }
        let period = halfLife.clampedNanoseconds
        guard period > 0 else { return 0 }
        let age = max(0, now.since(entry.failedAt).clampedNanoseconds)
        guard age / period < 64 else { return 0 }
        let rest = Double(age % period) / Double(period)
        return entry.failures * Double(sign: .plus, exponent: -Int(age / period), significand: 1 - rest / 2)
    }

    /// A race: each endpoint arrives after an exponentially distributed time whose rate is its weight, so of any two,
    /// the one with twice the weight is first twice as often. The time depends only on the seed and the endpoint
    /// (weighted rendezvous hashing), so endpoints that stay keep their relative places.
    mutating func draw() {
        let arrivals = entries.enumerated().map { index, entry in (arrival(of: entry.endpoint), index, entry) }
        entries = arrivals.sorted { ($0.0, $0.1) < ($1.0, $1.1) }.map(\.2)
    }

    private func arrival(of endpoint: Endpoint) -> Double {
        // The hashes of the standard library differ from process to process.
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in endpoint.description.utf8 { hash = (hash ^ UInt64(byte)) &* 0x0100_0000_01b3 }
        var generator = SeededGenerator(seed: seed ^ hash)
        // Greater than zero, which has no logarithm.
        let uniform = 1 - generator.nextUnit()
        let weight = order == .weighted ? endpoint.weight : 1
        return weight > 0 ? -Self.logarithm(uniform) / weight : .infinity
    }

    /// To about eight digits. `Core` imports no library that has a logarithm.
    static func logarithm(_ value: Double) -> Double {
        let z = (value.significand - 1) / (value.significand + 1)  // at most a third
        var (sum, power) = (0.0, z)
        for denominator in stride(from: 1.0, through: 15, by: 2) {
            sum += power / denominator
            power *= z * z
        }
        return 2 * sum + Double(value.exponent) * 0.693_147_180_559_945_3
    }
}

extension SeededGenerator {
    package mutating func nextUnit() -> Double { Double(next() >> 11) * 0x1p-53 }
}
