/// The order in which endpoints are tried.
public enum EndpointOrder: Sendable, Hashable {
    /// As given: the first is preferred.
    case ordered
    /// In an order of each client's own, drawn once.
    case shuffled
    /// Drawn once, the heavier (`Endpoint.weight`) the likelier to come early.
    case weighted
}

/// Which endpoint the next attempt goes to: an order, and a memory of what happened that fades.
///
/// Every endpoint has one turn in a round. Within a round come first those with the least remembered failure, among
/// these the one that worked last (a client stays where it works), then in order. An endpoint that failed is tried
/// after the others; none is excluded for good.
package struct EndpointRing: Sendable {
    struct Entry: Sendable {
        var endpoint: Endpoint
        /// Failures as they counted at `failedAt`; they count less as they age.
        var failures = 0.0
        var failedAt = Instant.distantPast
        /// The server asked not to be tried before.
        var heldUntil = Instant.distantPast
        /// It failed for a cause that time does not mend: passed over until its failure is forgotten.
        var isRefused = false
        /// Whether it was tried since the round began.
        var hadTurn = false
    }

    /// More failures than this are not remembered, so that the memory of the worst fades within minutes too.
    private static let mostFailures = 4.0
    /// What is left of a failure after three half-lives counts no more.
    private static let forgotten = 0.125

    /// In the order of preference.
    var entries: [Entry] = []
    /// The endpoint that worked last and was not left since.
    package private(set) var current: Endpoint?
    /// The next attempt goes there, whatever speaks against it.
    private var selected: Endpoint?
    let order: EndpointOrder
    private let halfLife: Duration
    let seed: UInt64

    package init(
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

    package var endpoints: [Endpoint] { entries.map(\.endpoint) }
    package var isEmpty: Bool { entries.isEmpty }
    /// The first in order.
    package var preferred: Endpoint? { entries.first?.endpoint }
    package func contains(_ endpoint: Endpoint) -> Bool { index(of: endpoint) != nil }

    // MARK: Whose turn it is

    /// The endpoint of an attempt that begins now; it has had its turn thereby. `nil` if there are no endpoints.
    package mutating func next(at now: Instant) -> Endpoint? {
        guard let index = nextIndex(at: now) else { return nil }
        entries[index].hadTurn = true
        selected = nil
        return entries[index].endpoint
    }

    /// Whether there is an endpoint that may be tried now and has not been since the round began.
    package func hasTurnLeft(at now: Instant) -> Bool {
        selected != nil || entries.contains { !$0.hadTurn && mayBeTried($0, at: now) }
    }

    /// Everybody has a turn again.
    package mutating func beginRound() {
        for index in entries.indices { entries[index].hadTurn = false }
    }

    /// Before this instant every server asked not to be tried.
    package func earliestStart(at now: Instant) -> Instant {
        let open = entries.lazy.filter { !isRefused($0, at: now) }.map(\.heldUntil).min()
        return open ?? entries.lazy.map(\.heldUntil).min() ?? .distantPast
    }

    /// Before this instant the server at `endpoint` asked not to be tried.
    package func earliestStart(of endpoint: Endpoint) -> Instant {
        index(of: endpoint).map { entries[$0].heldUntil } ?? .distantPast
    }

    /// Whether all failed for causes that time does not mend.
    package func areAllRefused(at now: Instant) -> Bool {
        entries.allSatisfy { isRefused($0, at: now) }
    }

    /// Whether nothing speaks against `endpoint`.
    package func isHealthy(_ endpoint: Endpoint, at now: Instant) -> Bool {
        index(of: endpoint).map { isHealthy(entries[$0], at: now) } ?? false
    }

    /// Whether there is an endpoint other than `endpoint` that nothing speaks against.
    package func hasHealthyAlternative(to endpoint: Endpoint, at now: Instant) -> Bool {
        entries.contains { $0.endpoint != endpoint && isHealthy($0, at: now) }
    }

    // MARK: What happened

    /// There was no link to `endpoint`, or it did not last.
    ///
    /// - Parameter isPermanent: Time does not mend it: the endpoint is passed over until the failure is forgotten, or
    ///   `pardon()`.
    package mutating func failed(_ endpoint: Endpoint, at now: Instant, isPermanent: Bool = false) {
        guard let index = index(of: endpoint) else { return }
        entries[index].failures = min(Self.mostFailures, decayed(entries[index], at: now) + 1)
        entries[index].failedAt = now
        if isPermanent { entries[index].isRefused = true }
    }

    /// The link to `endpoint` is ready.
    package mutating func succeeded(_ endpoint: Endpoint) {
        guard let index = index(of: endpoint) else { return }
        entries[index].failures = 0
        entries[index].isRefused = false
        entries[index].heldUntil = .distantPast
        current = endpoint
    }

    /// The server at `endpoint` asks not to be tried before `instant`.
    package mutating func hold(_ endpoint: Endpoint, until instant: Instant) {
        guard let index = index(of: endpoint) else { return }
        entries[index].heldUntil = max(entries[index].heldUntil, instant)
    }

    /// `endpoint` is left although it works: all others come first.
    package mutating func leave(_ endpoint: Endpoint, at now: Instant) {
        failed(endpoint, at: now)
        if let index = index(of: endpoint) { entries[index].hadTurn = true }
        if current == endpoint { current = nil }
    }

    /// Forgets who failed for causes that time does not mend: somebody asks anew.
    package mutating func pardon() {
        for index in entries.indices { entries[index].isRefused = false }
    }

    // MARK: What somebody wants

    /// Makes `endpoint` the next to be tried. False when it is none of the ring's, and nothing changes: a ring holds
    /// what it was given, by `replace(with:)` if need be.
    package mutating func select(_ endpoint: Endpoint) -> Bool {
        guard contains(endpoint) else { return false }
        selected = endpoint
        return true
    }

    /// Has these endpoints from now on, in the round that is under way. Those that stay keep their memory, and in a
    /// drawn order their places relative to each other. Of equal endpoints the first counts.
    package mutating func replace(with endpoints: [Endpoint]) {
        var replaced: [Entry] = []
        var known = Set<Endpoint>()
        for endpoint in endpoints where known.insert(endpoint).inserted {
            var entry = index(of: endpoint).map { entries[$0] } ?? Entry(endpoint: endpoint)
            entry.endpoint = endpoint  // its weight may be another
            replaced.append(entry)
        }
        entries = replaced
        if order != .ordered { draw() }
        if let current, !contains(current) { self.current = nil }
        if let selected, !contains(selected) { self.selected = nil }
    }

    // MARK: Rules

    private func index(of endpoint: Endpoint) -> Int? {
        entries.firstIndex { $0.endpoint == endpoint }
    }

    private func nextIndex(at now: Instant) -> Int? {
        entries.indices.min { rank($0, at: now) < rank($1, at: now) }
    }

    /// The least goes first.
    private func rank(_ index: Int, at now: Instant) -> (Int, Int64, Double, Int, Int) {
        let entry = entries[index]
        if entry.endpoint == selected { return (-1, 0, 0, 0, 0) }
        let isHeld = entry.heldUntil > now
        let obstacles = (entry.hadTurn ? 4 : 0) + (isRefused(entry, at: now) ? 2 : 0) + (isHeld ? 1 : 0)
        let hold = isHeld ? entry.heldUntil.nanoseconds : 0
        return (obstacles, hold, remembered(entry, at: now), entry.endpoint == current ? 0 : 1, index)
    }

    private func mayBeTried(_ entry: Entry, at now: Instant) -> Bool {
        entry.heldUntil <= now && !isRefused(entry, at: now)
    }

    private func isHealthy(_ entry: Entry, at now: Instant) -> Bool {
        mayBeTried(entry, at: now) && remembered(entry, at: now) == 0
    }

    private func isRefused(_ entry: Entry, at now: Instant) -> Bool {
        entry.isRefused && remembered(entry, at: now) > 0
    }

    private func remembered(_ entry: Entry, at now: Instant) -> Double {
        let failures = decayed(entry, at: now)
        return failures < Self.forgotten ? 0 : failures
    }

    /// Halved with every half-life; in a straight line between, which needs no exponential function.
    private func decayed(_ entry: Entry, at now: Instant) -> Double {
        guard entry.failures > 0 else { return 0 }
        let period = halfLife.clampedNanoseconds
        guard period > 0 else { return 0 }
        let age = max(0, now.since(entry.failedAt).clampedNanoseconds)
        guard age / period < 64 else { return 0 }
        let rest = Double(age % period) / Double(period)
        return entry.failures * Double(sign: .plus, exponent: -Int(age / period), significand: 1 - rest / 2)
    }

    // MARK: An order of each client's own

    /// Puts the entries in the order that the seed draws.
    ///
    /// A race: each endpoint arrives after a time drawn from the exponential distribution whose rate is its weight, so
    /// that of any two the one with twice the weight is first twice as often. The draw depends on nothing but the seed
    /// and the endpoint (weighted rendezvous hashing), so that those that stay when others come and go keep their
    /// places relative to each other.
    mutating func draw() {
        let arrivals = entries.enumerated().map { index, entry in (arrival(of: entry.endpoint), index, entry) }
        entries = arrivals.sorted { ($0.0, $0.1) < ($1.0, $1.1) }.map(\.2)
    }

    private func arrival(of endpoint: Endpoint) -> Double {
        // FNV-1a, as the standard library's hashes differ from process to process.
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in endpoint.description.utf8 { hash = (hash ^ UInt64(byte)) &* 0x0100_0000_01b3 }
        var generator = SeededGenerator(seed: seed ^ hash)
        // Above zero, whose logarithm is none.
        let uniform = 1 - generator.nextUnit()
        let weight = order == .weighted ? endpoint.weight : 1
        return weight > 0 ? -Self.logarithm(uniform) / weight : .infinity
    }

    /// The natural logarithm of a positive number, to about eight digits: this module imports no library that has it.
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
    /// Draws evenly from 0 up to, not including, 1.
    package mutating func nextUnit() -> Double { Double(next() >> 11) * 0x1p-53 }
}
