import TrunklineCore

/// The servers that take requests now, and the draws among them: the same for every policy.
final class Seats: Sendable {
    /// The servers of this zone come first.
    let all: [Seat]
    let isLimited: Bool
    let isStarting: Bool
    private let localCount: Int
    private let localShare: Double
    /// The sums of the weights up to each seat; `nil` if all weights are equal.
    private let sums: [Double]?
    private let slowStart: Duration

    init(_ seats: [Seat], localShare: Double?, slowStart: Duration, isLimited: Bool) {
        let seats = localShare == nil ? seats : seats.filter(\.isLocal) + seats.filter { !$0.isLocal }
        all = seats
        self.localShare = localShare ?? 1
        localCount = localShare == nil ? 0 : seats.count(where: \.isLocal)
        if seats.contains(where: { $0.weight != seats[0].weight }) {
            var sum = 0.0
            sums = seats.map { seat in
                sum += seat.weight
                return sum
            }
        } else {
            sums = nil
        }
        self.slowStart = slowStart
        (self.isLimited, isStarting) = (isLimited, seats.contains { $0.slowStart != nil })
    }

    var count: Int { all.count }

    var totalWeight: Double { sums?.last ?? Double(all.count) }

    /// In relation to `totalWeight`.
    func weight(of index: Int) -> Double {
        guard let sums else { return 1 }
        return index == 0 ? sums[0] : sums[index] - sums[index - 1]
    }

    @inline(__always)
    func isUsable(_ seat: Seat, _ wish: Wish) -> Bool {
        if isLimited, seat.member.inFlight >= seat.member.maximumInFlight { return false }
        return (wish.excluded.isEmpty || !wish.excluded.contains(seat.member.id)) && seat.isReady
    }

    /// `nil` for a server that does not start slowly.
    @inline(__always)
    func slowStartShare(of seat: Seat, at now: Instant) -> Float? {
        guard let since = seat.slowStart else { return nil }
        return Float(SlowStart.share(since: since, at: now, over: slowStart))
    }

    /// The servers of this zone, or those of all others.
    @inline(__always)
    func drawZone(using generator: inout some RandomNumberGenerator) -> Range<Int> {
        guard localCount > 0, localCount < all.count else { return all.indices }
        if localShare >= 1 || generator.nextUnit() < localShare { return 0..<localCount }
        return localCount..<all.count
    }

    @inline(__always)
    func drawTwo(in range: Range<Int>, using generator: inout some RandomNumberGenerator) -> (Int, Int) {
        let count = range.count
        guard count > 1 else { return (range.lowerBound, range.lowerBound) }
        guard sums == nil else { return drawTwoByWeight(in: range, using: &generator) }
        let first = generator.nextIndex(below: count)
        let second = generator.nextIndex(below: count - 1)
        return (range.lowerBound + first, range.lowerBound + (second < first ? second : second + 1))
    }

    private func drawTwoByWeight(
        in range: Range<Int>,
        using generator: inout some RandomNumberGenerator
    ) -> (Int, Int) {
        let first = drawByWeight(in: range, using: &generator)
        var second = first
        // Another one, unless almost all of the weight is that of the first.
        for _ in 0..<4 where second == first { second = drawByWeight(in: range, using: &generator) }
        return (first, second)
    }

    private func drawByWeight(in range: Range<Int>, using generator: inout some RandomNumberGenerator) -> Int {
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

    /// Two servers that may be chosen, or one if there are no more. Looks at every server, for the rare case that those
    /// that were drawn may not be chosen: the neighbor of a server that is full would get its share, too.
    func drawTwoUsable(
        in range: Range<Int>,
        _ wish: Wish,
        where takesPart: (Seat) -> Bool = { _ in true },
        using generator: inout some RandomNumberGenerator
    ) -> (Seat, Seat?)? {
        func draw(besides other: Int?) -> Int? {
            var (sum, drawn) = (0.0, Int?.none)
            for index in range where index != other && isUsable(all[index], wish) && takesPart(all[index]) {
                let weight = weight(of: index)
                sum += weight
                // Each replaces the earlier ones with the share that it has of their sum, so that all have their share
                // at the end.
                if drawn == nil || generator.nextUnit() * sum < weight { drawn = index }
            }
            return drawn
        }
        guard let first = draw(besides: nil) else { return nil }
        return (all[first], draw(besides: first).map { all[$0] })
    }
}

extension RandomNumberGenerator {
    @inline(__always)
    mutating func nextIndex(below count: Int) -> Int {
        Int(truncatingIfNeeded: next().multipliedFullWidth(by: UInt64(count)).high)
    }

    @inline(__always)
    mutating func nextUnit() -> Double { Double(next() >> 11) * 0x1p-53 }
}
