import Synchronization

/// The servers that take requests now, and the rules that choose one. It does not change; the cluster makes a new one
/// whenever a server comes, goes or is ejected.
final class PickTable: Sendable {
    /// A server with at least one ready link. A class, because a copy of a structure with several references costs more
    /// than the choice.
    final class Seat: Sendable {
        let member: ClusterMember
        /// Its first ready link.
        let link: MemberLink
        /// Its other ready links.
        let others: [MemberLink]
        /// Its ready links for large requests.
        let large: [MemberLink]
        let weight: Double
        /// Whether it is in the zone of this process.
        let isLocal: Bool
        /// When its share began to grow; `nil` if it has its whole share.
        let slowStart: Instant?

        init(
            _ member: ClusterMember,
            _ link: MemberLink,
            others: [MemberLink],
            large: [MemberLink],
            weight: Double,
            isLocal: Bool,
            slowStart: Instant?
        ) {
            (self.member, self.link, self.others, self.large) = (member, link, others, large)
            (self.weight, self.isLocal, self.slowStart) = (weight, isLocal, slowStart)
        }
    }

    /// What a caller wants.
    struct Wish {
        let now: Instant
        /// The hash of the key of the request; `nil` without a key.
        var key: UInt64?
        /// The servers that are not to be chosen.
        var excluded: [UInt64] = []
        /// Whether the request wants a link for large ones.
        var isLarge = false
    }

    /// The servers of this zone come first.
    private let seats: [Seat]
    /// The number of servers of this zone, 0 if zones do not matter.
    private let localCount: Int
    /// The share of the requests that stay in this zone.
    private let localShare: Double
    /// The sums of the weights up to each seat; `nil` if all weights are equal.
    private let sums: [Double]?
    private let turns: WeightedTurns?
    private let turn: Atomic<UInt64>
    /// All servers, also those that take no requests now.
    let ring: ClusterRing
    /// For each server of the ring, its place in `seats`; -1 if it has none.
    private let places: [Int]
    /// Servers that wait for a probe.
    private let probes: [Seat]
    private let slowStart: Duration
    /// Whether servers have adaptive limits.
    private let isLimited: Bool
    /// Whether servers may have links for large requests.
    private let hasLargeLinks: Bool

    /// An empty table.
    init() {
        (seats, localCount, localShare, sums, turns, probes) = ([], 0, 1, nil, nil, [])
        turn = Atomic(0)
        (ring, places, slowStart, isLimited, hasLargeLinks) = (ClusterRing([]), [], .zero, false, false)
        only = nil
    }

    /// - Parameters:
    ///   - seats: The servers that take requests.
    ///   - probes: The servers that wait for a probe.
    ///   - localShare: The share of the requests that stay in this zone; `nil` if zones do not matter.
    ///   - ring: All servers.
    ///   - turn: The turn at which round robin goes on.
    init(
        _ seats: [Seat],
        probes: [Seat],
        localShare: Double?,
        _ options: ClusterOptions,
        _ ring: ClusterRing,
        turn: UInt64
    ) {
        let seats = localShare == nil ? seats : seats.filter(\.isLocal) + seats.filter { !$0.isLocal }
        self.seats = seats
        self.probes = probes
        self.localShare = localShare ?? 1
        localCount = localShare == nil ? 0 : seats.count(where: \.isLocal)
        var weights = seats.map { $0.weight > 0 ? $0.weight : 0 }
        if weights.allSatisfy({ $0 == 0 }) { weights = weights.map { _ in 1 } }
        if weights.contains(where: { $0 != weights[0] }) {
            var sum = 0.0
            sums = weights.map { weight in
                sum += weight
                return sum
            }
        } else {
            sums = nil
        }
        turns = options.balancing == .roundRobin ? WeightedTurns(weights) : nil
        self.turn = Atomic(turn)
        self.ring = ring
        let byHash = Dictionary(seats.indices.map { (seats[$0].member.hash, $0) }) { first, _ in first }
        places = ring.members.map { byHash[$0.hash] ?? -1 }
        slowStart = options.slowStart
        isLimited = options.adaptiveLimit != nil
        hasLargeLinks = options.largeLinks > 0
        let mayGrow = options.linksPerEndpoint.upperBound > 1
        let hasChoice = seats.count != 1 || !probes.isEmpty || isLimited || mayGrow
        only = hasChoice ? nil : seats[0].link
    }

    var isEmpty: Bool { seats.isEmpty && probes.isEmpty }

    /// The turn at which round robin goes on.
    var nextTurn: UInt64 { turn.load(ordering: .relaxed) }

    /// The number of servers.
    var count: Int { seats.count }

    // MARK: Choosing

    /// Chooses a link and counts a request on it. Returns `nil` if no server can take a request.
    @inline(__always)
    func pick(_ wish: Wish, using generator: inout SeededGenerator) -> MemberLink? {
        if !probes.isEmpty, let link = probe(wish) {
            link.begin()
            return link
        }
        guard let seat = choose(wish, using: &generator) else { return nil }
        guard let link = wish.isLarge && hasLargeLinks ? seat.linkForLarge : seat.leastLoadedLink else { return nil }
        link.begin()
        return link
    }

    /// The only link of the only server; `nil` if there is a choice. Its requests are not counted or measured, because
    /// nothing depends on it.
    private let only: MemberLink?

    /// Whether there is only one link, so that nothing is chosen or measured.
    var hasNoChoice: Bool { only != nil }

    /// Returns the only link of the only server, without counting a request; `nil` if there is another choice, or none.
    @inline(__always)
    func pickOnly() -> MemberLink? {
        guard let only, only.isReady else { return nil }
        return only
    }

    private func probe(_ wish: Wish) -> MemberLink? {
        for probe in probes where !wish.excluded.contains(probe.member.id) {
            if let link = probe.leastLoadedLink, probe.member.takeProbe(at: wish.now) { return link }
        }
        return nil
    }

    private func choose(_ wish: Wish, using generator: inout SeededGenerator) -> Seat? {
        guard seats.count > 1 else {
            return seats.first.flatMap { isUsable($0, wish) ? $0 : nil }
        }
        if let key = wish.key { return choose(wish, byKey: key) }
        let range = drawRange(using: &generator)
        if let turns { return choose(wish, by: turns, in: range, using: &generator) }
        let (first, second) = drawTwo(in: range, using: &generator)
        let chosen = better(of: seats[first], seats[second], wish)
        return chosen ?? scan(from: first, wish)
    }

    /// Whether a server may be chosen.
    @inline(__always)
    private func isUsable(_ seat: Seat, _ wish: Wish) -> Bool {
        if isLimited, seat.inFlight >= seat.member.maximumInFlight { return false }
        return (wish.excluded.isEmpty || !wish.excluded.contains(seat.member.id)) && seat.isReady
    }

    /// Returns the one of two servers that gets the request; `nil` if neither may be chosen.
    private func better(of a: Seat, _ b: Seat, _ wish: Wish) -> Seat? {
        guard isUsable(a, wish) else { return isUsable(b, wish) ? b : nil }
        guard isUsable(b, wish) else { return a }
        let (x, y) = (a.member.average, b.member.average)
        let (inFlightA, inFlightB) = (a.inFlight, b.inFlight)
        // A server that was slow would never be chosen again as long as the other one is idle.
        let (isStaleA, isStaleB) = (
            inFlightA == 0 && x.isStale(at: wish.now), inFlightB == 0 && y.isStale(at: wish.now)
        )
        if isStaleA != isStaleB { return isStaleA ? a : b }
        var (loadA, loadB) = (Float(inFlightA + 1) * x.microseconds, Float(inFlightB + 1) * y.microseconds)
        if let since = a.slowStart { loadA /= share(since, wish.now) }
        if let since = b.slowStart { loadB /= share(since, wish.now) }
        return loadA <= loadB ? a : b
    }

    private func share(_ since: Instant, _ now: Instant) -> Float {
        Float(SlowStart.share(since: since, at: now, over: slowStart))
    }

    /// Returns the first server from an index on that may be chosen, in this zone and then in the others.
    private func scan(from first: Int, _ wish: Wish) -> Seat? {
        for offset in seats.indices {
            let seat = seats[(first + offset) % seats.count]
            if isUsable(seat, wish) { return seat }
        }
        return nil
    }

    private func choose(
        _ wish: Wish,
        by turns: WeightedTurns,
        in range: Range<Int>,
        using generator: inout SeededGenerator
    ) -> Seat? {
        // A server that starts slowly lets turns pass. After a few turns, the last one that did is good.
        var passed: Seat?
        var last = generator.nextIndex(below: seats.count)
        for _ in 0..<2 * seats.count {
            let turn = turn.wrappingAdd(1, ordering: .relaxed).oldValue
            guard let index = turns[turn] else { continue }
            last = index
            guard range.contains(index), isUsable(seats[index], wish) else { continue }
            guard let since = seats[index].slowStart, Float(generator.nextUnit()) > share(since, wish.now) else {
                return seats[index]
            }
            passed = seats[index]
        }
        if let passed { return passed }
        // In this zone, if it was drawn and one of its servers can be chosen.
        return scan(from: range.contains(last) ? last : range.lowerBound + last % range.count, wish)
    }

    private func choose(_ wish: Wish, byKey key: UInt64) -> Seat? {
        let total = seats.reduce(0) { $0 + $1.inFlight }
        let whole = sums?.last ?? Double(seats.count)
        let place = ring.ring.member(for: key) { place in
            let index = places[place]
            guard index >= 0 else { return false }
            let seat = seats[index]
            guard isUsable(seat, wish) else { return false }
            let inFlight = seat.inFlight
            if inFlight == 0 { return true }
            var share = weight(of: index) / whole
            if let since = seat.slowStart { share *= Double(self.share(since, wish.now)) }
            return inFlight < HashRing.bound(total: total, share: share, factor: 1.25)
        }
        // If all servers have more than their share, the first one on the ring that takes requests.
        let chosen = place.flatMap { isUsable(at: places[$0], wish) ? $0 : nil }
        let index = chosen ?? ring.ring.member(for: key) { isUsable(at: places[$0], wish) }
        if let index, isUsable(at: places[index], wish) { return seats[places[index]] }
        // A server without weight is not on the ring.
        return scan(from: Int(key % UInt64(seats.count)), wish)
    }

    private func isUsable(at index: Int, _ wish: Wish) -> Bool { index >= 0 && isUsable(seats[index], wish) }

    private func weight(of index: Int) -> Double {
        guard let sums else { return 1 }
        return index == 0 ? sums[0] : sums[index] - sums[index - 1]
    }

    // MARK: Drawing

    /// Draws whether the request stays in this zone.
    private func drawRange(using generator: inout SeededGenerator) -> Range<Int> {
        guard localCount > 0, localCount < seats.count else { return seats.indices }
        if localShare >= 1 || generator.nextUnit() < localShare { return 0..<localCount }
        return localCount..<seats.count
    }

    private func drawTwo(in range: Range<Int>, using generator: inout SeededGenerator) -> (Int, Int) {
        let count = range.count
        guard count > 1 else { return (range.lowerBound, range.lowerBound) }
        guard sums == nil else {
            let first = drawByWeight(in: range, using: &generator)
            var second = first
            // Another one, unless almost all of the weight is that of the first.
            for _ in 0..<4 where second == first { second = drawByWeight(in: range, using: &generator) }
            return (first, second)
        }
        let first = generator.nextIndex(below: count)
        let second = generator.nextIndex(below: count - 1)
        return (range.lowerBound + first, range.lowerBound + (second < first ? second : second + 1))
    }

    private func drawByWeight(in range: Range<Int>, using generator: inout SeededGenerator) -> Int {
        guard let sums else { return range.lowerBound }
        let before = range.lowerBound == 0 ? 0 : sums[range.lowerBound - 1]
        let drawn = before + generator.nextUnit() * (sums[range.upperBound - 1] - before)
        var (low, high) = (range.lowerBound, range.upperBound - 1)
        while low < high {
            let middle = (low + high) / 2
            if sums[middle] > drawn { high = middle } else { low = middle + 1 }
        }
        return low
    }
}

extension PickTable.Seat {
    /// The number of requests on all ready links.
    @inline(__always)
    var inFlight: Int {
        var sum = link.inFlight
        if others.isEmpty { return sum }
        for link in others { sum += link.inFlight }
        return sum
    }

    /// Whether a link is still ready: the table is a little older than the links.
    @inline(__always)
    var isReady: Bool { link.isReady || others.contains(where: \.isReady) }

    /// The ready link with the fewest requests. Tells the cluster if all are at their limit.
    @inline(__always)
    var leastLoadedLink: MemberLink? {
        guard !others.isEmpty else {
            guard link.isReady else { return nil }
            if link.inFlight >= link.capacity { member.noteFull(ofLarge: false) }
            return link
        }
        return leastLoadedOfSeveral
    }

    private var leastLoadedOfSeveral: MemberLink? {
        var best = link.isReady ? link : nil
        for other in others where other.isReady && other.inFlight < best?.inFlight ?? .max { best = other }
        if let best, best.inFlight >= best.capacity { member.noteFull(ofLarge: false) }
        return best
    }

    /// The link for large requests with the fewest of them. Tells the cluster if all are in use. Before the first one is
    /// ready, this is an ordinary link.
    fileprivate var linkForLarge: MemberLink? {
        var best: MemberLink?
        for link in large where link.isReady && link.inFlight < best?.inFlight ?? .max { best = link }
        if best.map({ $0.inFlight >= $0.capacity }) ?? true { member.noteFull(ofLarge: true) }
        return best ?? leastLoadedLink
    }
}

extension SeededGenerator {
    /// Returns an index from 0 to `count` - 1. `count` must be positive.
    @inline(__always)
    mutating func nextIndex(below count: Int) -> Int {
        Int(truncatingIfNeeded: next().multipliedFullWidth(by: UInt64(count)).high)
    }
}
