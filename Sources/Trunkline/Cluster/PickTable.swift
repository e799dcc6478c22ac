import Synchronization

/// The servers that take requests now, and the rules that choose one. It does not change; the cluster makes a new one
/// whenever a server comes, goes or is ejected.
final class PickTable: Sendable {
    /// A server with at least one ready link.
    struct Entry: Sendable {
        let member: ClusterMember
        /// Its ready links, at least one.
        let links: [MemberLink]
        let weight: Double
        /// Whether it is in the zone of this process.
        let isLocal: Bool
        /// When its share began to grow; `nil` if it has its whole share.
        let slowStart: Instant?
    }

    /// What a caller wants.
    struct Wish {
        let now: Instant
        /// The hash of the key of the request; `nil` without a key.
        var key: UInt64?
        /// The servers that are not to be chosen.
        var excluded: [UInt64] = []
    }

    /// The servers of this zone come first.
    private let entries: [Entry]
    /// The number of servers of this zone, 0 if zones do not matter.
    private let localCount: Int
    /// The share of the requests that stay in this zone.
    private let localShare: Double
    /// The sums of the weights up to each entry; `nil` if all weights are equal.
    private let sums: [Double]?
    private let turns: WeightedTurns?
    private let turn: Atomic<UInt64>
    private let ring: HashRing
    /// Servers that wait for a probe.
    private let probes: [Entry]
    private let slowStart: Duration
    /// Whether servers have adaptive limits.
    private let isLimited: Bool

    /// An empty table.
    init() {
        (entries, localCount, localShare, sums, turns, probes) = ([], 0, 1, nil, nil, [])
        turn = Atomic(0)
        (ring, slowStart, isLimited) = (HashRing([]), .zero, false)
    }

    /// - Parameters:
    ///   - entries: The servers that take requests.
    ///   - probes: The servers that wait for a probe.
    ///   - localShare: The share of the requests that stay in this zone; `nil` if zones do not matter.
    ///   - turn: The turn at which round robin goes on.
    init(_ entries: [Entry], probes: [Entry], localShare: Double?, _ options: ClusterOptions, turn: UInt64) {
        let entries = localShare == nil ? entries : entries.filter(\.isLocal) + entries.filter { !$0.isLocal }
        self.entries = entries
        self.probes = probes
        self.localShare = localShare ?? 1
        localCount = localShare == nil ? 0 : entries.count(where: \.isLocal)
        var weights = entries.map { $0.weight > 0 ? $0.weight : 0 }
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
        ring = HashRing(entries.indices.map { (entries[$0].member.hash, weights[$0]) })
        slowStart = options.slowStart
        isLimited = options.adaptiveLimit != nil
    }

    var isEmpty: Bool { entries.isEmpty && probes.isEmpty }

    /// The turn at which round robin goes on.
    var nextTurn: UInt64 { turn.load(ordering: .relaxed) }

    /// The number of servers.
    var count: Int { entries.count }

    // MARK: Choosing

    /// Chooses a link and counts `count` requests on it. Returns `nil` if no server can take a request.
    func pick(_ wish: Wish, _ count: Int = 1, using generator: inout SeededGenerator) -> MemberLink? {
        if !probes.isEmpty, let link = probe(wish) {
            link.begin(count)
            return link
        }
        guard let entry = choose(wish, using: &generator) else { return nil }
        guard let link = entry.leastLoadedLink else { return nil }
        link.begin(count)
        return link
    }

    private func probe(_ wish: Wish) -> MemberLink? {
        for probe in probes where !wish.excluded.contains(probe.member.id) {
            if let link = probe.leastLoadedLink, probe.member.takeProbe() { return link }
        }
        return nil
    }

    private func choose(_ wish: Wish, using generator: inout SeededGenerator) -> Entry? {
        guard entries.count > 1 else {
            return entries.first.flatMap { isUsable($0, wish) ? $0 : nil }
        }
        if let key = wish.key { return choose(wish, byKey: key) }
        let range = drawRange(using: &generator)
        if let turns { return choose(wish, by: turns, in: range, using: &generator) }
        let (first, second) = drawTwo(in: range, using: &generator)
        let chosen = better(of: entries[first], entries[second], wish)
        return chosen ?? scan(from: first, wish)
    }

    /// Whether a server may be chosen.
    @inline(__always)
    private func isUsable(_ entry: Entry, _ wish: Wish) -> Bool {
        if isLimited, entry.inFlight >= entry.member.maximumInFlight { return false }
        return (wish.excluded.isEmpty || !wish.excluded.contains(entry.member.id)) && entry.isReady
    }

    /// Returns the one of two servers that gets the request; `nil` if neither may be chosen.
    private func better(of a: Entry, _ b: Entry, _ wish: Wish) -> Entry? {
        guard isUsable(a, wish) else { return isUsable(b, wish) ? b : nil }
        guard isUsable(b, wish) else { return a }
        let (x, y) = (a.member.average, b.member.average)
        let (inFlightA, inFlightB) = (a.inFlight, b.inFlight)
        // A server that was slow would never be chosen again as long as the other one is idle.
        let (isStaleA, isStaleB) = (inFlightA == 0 && x.isStale(at: wish.now), inFlightB == 0 && y.isStale(at: wish.now))
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
    private func scan(from first: Int, _ wish: Wish) -> Entry? {
        for offset in entries.indices {
            let entry = entries[(first + offset) % entries.count]
            if isUsable(entry, wish) { return entry }
        }
        return nil
    }

    private func choose(
        _ wish: Wish,
        by turns: WeightedTurns,
        in range: Range<Int>,
        using generator: inout SeededGenerator
    ) -> Entry? {
        // A server that starts slowly lets turns pass; after a few turns, any server is good.
        for _ in 0..<2 * entries.count {
            let turn = turn.wrappingAdd(1, ordering: .relaxed).oldValue
            guard let index = turns[turn], range.contains(index), isUsable(entries[index], wish) else { continue }
            if let since = entries[index].slowStart, Float(generator.nextUnit()) > share(since, wish.now) { continue }
            return entries[index]
        }
        return scan(from: range.lowerBound, wish)
    }

    private func choose(_ wish: Wish, byKey key: UInt64) -> Entry? {
        let total = entries.reduce(0) { $0 + $1.inFlight }
        let whole = sums?.last ?? Double(entries.count)
        let index = ring.member(for: key) { index in
            let entry = entries[index]
            guard isUsable(entry, wish) else { return false }
            let inFlight = entry.inFlight
            if inFlight == 0 { return true }
            var share = weight(of: index) / whole
            if let since = entry.slowStart { share *= Double(self.share(since, wish.now)) }
            return inFlight < HashRing.bound(total: total, share: share, factor: 1.25)
        }
        guard let index else { return nil }
        return isUsable(entries[index], wish) ? entries[index] : scan(from: index, wish)
    }

    private func weight(of index: Int) -> Double {
        guard let sums else { return 1 }
        return index == 0 ? sums[0] : sums[index] - sums[index - 1]
    }

    // MARK: Drawing

    /// Draws whether the request stays in this zone.
    private func drawRange(using generator: inout SeededGenerator) -> Range<Int> {
        guard localCount > 0, localCount < entries.count else { return entries.indices }
        if localShare >= 1 || generator.nextUnit() < localShare { return 0..<localCount }
        return localCount..<entries.count
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

extension PickTable.Entry {
    /// The number of requests on all ready links.
    @inline(__always)
    var inFlight: Int {
        var sum = 0
        for link in links { sum += link.inFlight }
        return sum
    }

    /// Whether a link is still ready: the table is a little older than the links.
    @inline(__always)
    var isReady: Bool {
        for link in links where link.isReady { return true }
        return false
    }

    /// The ready link with the fewest requests. Tells the cluster if all are at their limit.
    @inline(__always)
    var leastLoadedLink: MemberLink? {
        if links.count == 1 {
            let link = links[0]
            guard link.isReady else { return nil }
            if link.inFlight >= link.capacity { member.noteFull() }
            return link
        }
        var best: MemberLink?
        var least = Int.max
        for link in links where link.isReady {
            let inFlight = link.inFlight
            if inFlight < least { (best, least) = (link, inFlight) }
        }
        if let best, least >= best.capacity { member.noteFull() }
        return best
    }
}

extension SeededGenerator {
    /// Returns an index from 0 to `count` - 1. `count` must be positive.
    @inline(__always)
    mutating func nextIndex(below count: Int) -> Int {
        Int(truncatingIfNeeded: next().multipliedFullWidth(by: UInt64(count)).high)
    }
}
