import Synchronization
import TrunklineCore

/// The servers that take requests now, and the rules that choose one. It does not change; the cluster makes a new one
/// whenever a server comes, goes or is ejected.
final class PickTable: Sendable {
    /// A server with at least one ready link. A class, because a copy of a structure with several references costs more
    /// than the choice.
    final class Seat: Sendable {
        let member: ClusterMember
        let link: MemberLink
        let others: [MemberLink]
        let large: [MemberLink]
        let weight: Double
        let isLocal: Bool
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

    struct Wish {
        /// Whether a request may be the probe of a server that is left out.
        enum Probing {
            case never
            /// If no other was, for a while.
            case last
            /// At once: it may be performed twice.
            case first
        }

        let now: Instant
        var key: UInt64?
        var excluded: [UInt64] = []
        var isLarge = false
        var probing = Probing.last
    }

    /// The servers of this zone come first. Servers without weight are left out if another one is ready.
    private let seats: [Seat]
    private let localCount: Int
    private let localShare: Double
    /// The sums of the weights up to each seat; `nil` if all weights are equal.
    private let sums: [Double]?
    private let turns: WeightedTurns?
    private let turn: Atomic<UInt64>
    /// All servers, also those that take no requests now.
    let ring: ClusterRing
    /// For each server of the ring, its place in `seats`; -1 if it has none.
    private let places: [Int]
    private let probes: [Seat]
    private let slowStart: Duration
    private let isStarting: Bool
    private let isLimited: Bool
    private let hasLargeLinks: Bool
    private let load = LoadSum()

    init() {
        (seats, localCount, localShare, sums, turns, probes) = ([], 0, 1, nil, nil, [])
        turn = Atomic(0)
        (ring, places, slowStart, isStarting) = (ClusterRing([]), [], .zero, false)
        (isLimited, hasLargeLinks) = (false, false)
        only = nil
    }

    init(
        _ seats: [Seat],
        probes: [Seat],
        localShare: Double?,
        _ options: ClusterOptions,
        _ ring: ClusterRing,
        turn: UInt64
    ) {
        let hasWeight = seats.contains { $0.weight > 0 }
        var seats = hasWeight ? seats.filter { $0.weight > 0 } : seats
        if localShare != nil { seats = seats.filter(\.isLocal) + seats.filter { !$0.isLocal } }
        self.seats = seats
        self.probes = hasWeight ? probes.filter { $0.weight > 0 } : probes
        self.localShare = localShare ?? 1
        localCount = localShare == nil ? 0 : seats.count(where: \.isLocal)
        let weights = seats.map { hasWeight ? $0.weight : 1 }
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
        isStarting = seats.contains { $0.slowStart != nil }
        isLimited = options.adaptiveLimit != nil
        hasLargeLinks = options.largeLinks > 0
        let mayGrow = options.linksPerEndpoint.upperBound > 1
        let hasChoice = seats.count != 1 || !self.probes.isEmpty || isLimited || mayGrow
        only = hasChoice ? nil : seats[0].link
    }

    var isEmpty: Bool { seats.isEmpty && probes.isEmpty }

    var nextTurn: UInt64 { turn.load(ordering: .relaxed) }

    var count: Int { seats.count }

    var totalWeight: Double { sums?.last ?? Double(seats.count) }

    var room: Int? {
        if seats.isEmpty { return probes.count }
        guard isLimited else { return nil }
        return seats.reduce(probes.count) {
            $0.addingClamped(max(0, $1.member.maximumInFlight - $1.member.inFlight))
        }
    }

    @inline(__always)
    func pick(_ wish: Wish, using generator: inout SeededGenerator) -> MemberLink? {
        if !probes.isEmpty, let link = probe(wish) {
            link.beginProbe()
            return link
        }
        while let seat = choose(wish, using: &generator) {
            let link = wish.isLarge && hasLargeLinks ? seat.linkForLarge : seat.leastLoadedLink
            guard let link else { return nil }
            if !isLimited {
                link.begin()
                return link
            }
            // Another thread may have taken the last place meanwhile.
            if link.begin(upTo: 1) > 0 { return link }
        }
        return nil
    }

    /// `nil` if there is a choice. Its requests are not counted or measured, because nothing depends on it.
    private let only: MemberLink?

    var hasNoChoice: Bool { only != nil }

    @inline(__always)
    func pickOnly() -> MemberLink? {
        guard let only, only.isReady else { return nil }
        return only
    }

    private func probe(_ wish: Wish) -> MemberLink? {
        guard wish.probing != .never else { return nil }
        let isRepeatable = wish.probing == .first
        for probe in probes where probe.member.mayTakeProbe(at: wish.now, isRepeatable: isRepeatable) {
            if !wish.excluded.contains(probe.member.id), let link = probe.leastLoadedLink,
                probe.member.takeProbe(at: wish.now, isRepeatable: isRepeatable)
            {
                return link
            }
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
        if isStarting || seats[first].member.errors != .none || seats[second].member.errors != .none {
            return chooseByShares(wish, first, second, in: range, using: &generator)
        }
        if let chosen = better(of: seats[first], seats[second], wish) { return chosen }
        return drawUsable(from: range, wish, using: &generator)
    }

    @inline(__always)
    private func isUsable(_ seat: Seat, _ wish: Wish) -> Bool {
        if isLimited, seat.member.inFlight >= seat.member.maximumInFlight { return false }
        return (wish.excluded.isEmpty || !wish.excluded.contains(seat.member.id)) && seat.isReady
    }

    private func better(of a: Seat, _ b: Seat, _ wish: Wish) -> Seat? {
        guard isUsable(a, wish) else { return isUsable(b, wish) ? b : nil }
        guard isUsable(b, wish) else { return a }
        if a.member.errors == .none, b.member.errors == .none,
            let x = a.member.average.freshMicroseconds(at: wish.now),
            let y = b.member.average.freshMicroseconds(at: wish.now)
        {
            return Float(a.inFlight + 1) * x <= Float(b.inFlight + 1) * y ? a : b
        }
        return lessLoaded(a, b, at: wish.now)
    }

    @inline(never)
    private func lessLoaded(_ a: Seat, _ b: Seat, at now: Instant) -> Seat {
        let (x, y) = (a.member.average, b.member.average)
        let (inFlightA, inFlightB) = (a.inFlight, b.inFlight)
        var (loadA, loadB) = (Float(inFlightA + 1), Float(inFlightB + 1))
        if x.isMeasured, y.isMeasured {
            // A server that was slow would never be chosen again as long as the other one is idle.
            let (isStaleA, isStaleB) = (
                inFlightA == 0 && x.isStale(at: now), inFlightB == 0 && y.isStale(at: now)
            )
            if isStaleA != isStaleB { return isStaleA ? a : b }
        }
        let (timeA, timeB) = LatencyAverage.compare(x, y, at: now)
        loadA *= timeA
        loadB *= timeB
        let (errorsA, errorsB) = (a.member.errors, b.member.errors)
        if errorsA != .none { loadA /= 1 - errorsA.share(at: now) }
        if errorsB != .none { loadB /= 1 - errorsB.share(at: now) }
        return loadA <= loadB ? a : b
    }

    /// Leaves a server out of as many draws as its share says: one that starts slowly, or that answers with errors.
    /// Otherwise, of one that has only errors and one that hangs, the latter would always be chosen, and in the end all
    /// callers would wait for it.
    private func chooseByShares(
        _ wish: Wish,
        _ first: Int,
        _ second: Int,
        in range: Range<Int>,
        using generator: inout SeededGenerator
    ) -> Seat? {
        // One number for all draws: further ones are no further chances.
        let number = Float(generator.nextUnit())
        func takesPart(_ seat: Seat) -> Bool {
            let errors = seat.member.errors
            if errors != .none, number >= 1 - errors.share(at: wish.now) { return false }
            return seat.slowStart.map { number < share($0, wish.now) } ?? true
        }
        var (first, second) = (first, second)
        for _ in 0..<3 where !takesPart(seats[first]) || !takesPart(seats[second]) {
            (first, second) = drawTwo(in: range, using: &generator)
        }
        if takesPart(seats[first]), takesPart(seats[second]),
            let chosen = better(of: seats[first], seats[second], wish)
        {
            return chosen
        }
        return drawUsable(in: range, wish, where: takesPart, using: &generator)
            ?? drawUsable(from: range, wish, using: &generator)
    }

    private func share(_ since: Instant, _ now: Instant) -> Float {
        Float(SlowStart.share(since: since, at: now, over: slowStart))
    }

    /// From `range`, or else from the other zones. Looks at every server, for the rare case that those that were drawn
    /// may not be chosen: the neighbor of a server that is full would get its share, too.
    private func drawUsable(from range: Range<Int>, _ wish: Wish, using generator: inout SeededGenerator) -> Seat? {
        if let seat = drawUsable(in: range, wish, using: &generator) { return seat }
        let before = drawUsable(in: 0..<range.lowerBound, wish, using: &generator)
        return before ?? drawUsable(in: range.upperBound..<seats.count, wish, using: &generator)
    }

    private func drawUsable(
        in range: Range<Int>,
        _ wish: Wish,
        where takesPart: (Seat) -> Bool = { _ in true },
        using generator: inout SeededGenerator
    ) -> Seat? {
        func draw(besides other: Int?) -> Int? {
            var (sum, drawn) = (0.0, Int?.none)
            for index in range where index != other && isUsable(seats[index], wish) && takesPart(seats[index]) {
                let weight = weight(of: index)
                sum += weight
                // Each replaces the earlier ones with the share that it has of their sum, so that all have their share
                // at the end.
                if drawn == nil || generator.nextUnit() * sum < weight { drawn = index }
            }
            return drawn
        }
        guard let first = draw(besides: nil) else { return nil }
        guard let second = draw(besides: first) else { return seats[first] }
        return better(of: seats[first], seats[second], wish) ?? seats[first]
    }

    private func choose(
        _ wish: Wish,
        by turns: WeightedTurns,
        in range: Range<Int>,
        using generator: inout SeededGenerator
    ) -> Seat? {
        // A server that starts slowly lets turns pass. After a few turns, the last one that did is good.
        var passed: Seat?
        for _ in 0..<2 * seats.count {
            let turn = turn.wrappingAdd(1, ordering: .relaxed).oldValue
            guard let index = turns[turn] else { continue }
            guard range.contains(index), isUsable(seats[index], wish) else { continue }
            guard let since = seats[index].slowStart, Float(generator.nextUnit()) > share(since, wish.now) else {
                return seats[index]
            }
            passed = seats[index]
        }
        return passed ?? drawUsable(from: range, wish, using: &generator)
    }

    private func choose(_ wish: Wish, byKey key: UInt64) -> Seat? {
        // Added up only if a server is in use: most keys belong to one that is not, if there are many servers.
        var sum: Int?
        let place = ring.ring.member(for: key) { place in
            let index = places[place]
            guard index >= 0 else { return false }
            let seat = seats[index]
            guard isUsable(seat, wish) else { return false }
            // Of a server that starts slowly, the same keys at first, and more of them later.
            if let since = seat.slowStart {
                var generator = SeededGenerator(seed: key ^ seat.member.hash)
                if Float(generator.nextUnit()) >= self.share(since, wish.now) { return false }
            }
            let inFlight = seat.inFlight
            if inFlight == 0 { return true }
            let share = weight(of: index) / totalWeight
            let total = sum ?? load.value(at: wish.now, of: seats)
            sum = total
            return inFlight < HashRing.bound(total: total, share: share, factor: 1.25)
        }
        load.countPick(of: seats)
        // If all servers have more than their share, the first one on the ring that takes requests.
        let chosen = place.flatMap { isUsable(at: places[$0], wish) ? $0 : nil }
        let index = chosen ?? ring.ring.member(for: key) { isUsable(at: places[$0], wish) }
        if let index, isUsable(at: places[index], wish) { return seats[places[index]] }
        // Servers without weight are not on the ring: rendezvous hashing of the key and the server.
        return seats.lazy.filter { self.isUsable($0, wish) }.max { Self.score(of: $0, key) < Self.score(of: $1, key) }
    }

    private static func score(of seat: Seat, _ key: UInt64) -> UInt64 {
        var generator = SeededGenerator(seed: seat.member.hash ^ key)
        return generator.next()
    }

    private func isUsable(at index: Int, _ wish: Wish) -> Bool { index >= 0 && isUsable(seats[index], wish) }

    private func weight(of index: Int) -> Double {
        guard let sums else { return 1 }
        return index == 0 ? sums[0] : sums[index] - sums[index - 1]
    }

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
    @inline(__always)
    var inFlight: Int {
        var sum = link.inFlight
        if others.isEmpty { return sum }
        for link in others { sum += link.inFlight }
        return sum
    }

    /// The table is a little older than the links.
    @inline(__always)
    var isReady: Bool { link.isReady || others.contains(where: \.isReady) }

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

    /// Tells the cluster if all are in use. Before the first one is ready, this is an ordinary link.
    fileprivate var linkForLarge: MemberLink? {
        var best: MemberLink?
        for link in large where link.isReady && link.inFlight < best?.inFlight ?? .max { best = link }
        if best.map({ $0.inFlight >= $0.capacity }) ?? true { member.noteFull(ofLarge: true) }
        return best ?? leastLoadedLink
    }
}

extension SeededGenerator {
    @inline(__always)
    mutating func nextIndex(below count: Int) -> Int {
        Int(truncatingIfNeeded: next().multipliedFullWidth(by: UInt64(count)).high)
    }
}
