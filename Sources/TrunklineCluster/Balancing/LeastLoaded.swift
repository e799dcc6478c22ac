import TrunklineCore

/// Chooses, of two servers drawn at random, the one with the lower load: its requests in flight plus one, times its
/// average latency, divided by the share of its requests that succeed.
///
/// The average follows a slow response at once and a fast one slowly, within about 10 s, and decays while the server
/// gets no requests. A server that has not answered yet counts as fast as the other one. A server that starts slowly,
/// or that answers with errors, is left out of as many draws as its share says.
///
/// The draw follows the weights. This is the policy of Finagle ("P2C, peak EWMA") and Linkerd, with the share of
/// successes added.
public struct LeastLoaded: BalancingPolicy {
    /// Creates the policy.
    public init() {}

    /// Chooses the less loaded of two candidates.
    public func pick(
        from candidates: BalancingCandidates,
        using generator: inout some RandomNumberGenerator
    ) -> BalancingCandidates.Server? {
        candidates.server(choose(candidates.wish, among: candidates.seats, in: candidates.range, using: &generator))
    }

    @inline(__always)
    func choose(
        _ wish: Wish,
        among seats: Seats,
        in range: Range<Int>,
        using generator: inout some RandomNumberGenerator
    ) -> Seat? {
        if range.isEmpty { return nil }
        let (first, second) = seats.drawTwo(in: range, using: &generator)
        let (a, b) = (seats.all[first], seats.all[second])
        if seats.isStarting || a.member.errors != .none || b.member.errors != .none {
            return chooseByShares(wish, a, b, among: seats, in: range, using: &generator)
        }
        if let chosen = Self.better(of: a, b, wish, seats) { return chosen }
        return Self.chooseUsable(wish, among: seats, in: range, using: &generator)
    }

    /// Leaves a server out of as many draws as its share says: one that starts slowly, or that answers with errors.
    /// Otherwise, of one that has only errors and one that hangs, the latter would always be chosen, and in the end all
    /// callers would wait for it.
    private func chooseByShares(
        _ wish: Wish,
        _ a: Seat,
        _ b: Seat,
        among seats: Seats,
        in range: Range<Int>,
        using generator: inout some RandomNumberGenerator
    ) -> Seat? {
        // One number for all draws: further ones are no further chances.
        let number = Float(generator.nextUnit())
        func takesPart(_ seat: Seat) -> Bool {
            let errors = seat.member.errors
            if errors != .none, number >= 1 - errors.share(at: wish.now) { return false }
            return seats.slowStartShare(of: seat, at: wish.now).map { number < $0 } ?? true
        }
        var (a, b) = (a, b)
        for _ in 0..<3 where !takesPart(a) || !takesPart(b) {
            let (first, second) = seats.drawTwo(in: range, using: &generator)
            (a, b) = (seats.all[first], seats.all[second])
        }
        if takesPart(a), takesPart(b), let chosen = Self.better(of: a, b, wish, seats) { return chosen }
        if let drawn = seats.drawTwoUsable(in: range, wish, where: takesPart, using: &generator) {
            return Self.better(of: drawn, wish, seats)
        }
        return Self.chooseUsable(wish, among: seats, in: range, using: &generator)
    }

    /// From `range`, or else from the other zones, whatever the shares of the servers. For every policy whose first
    /// choice may not be chosen.
    static func chooseUsable(
        _ wish: Wish,
        among seats: Seats,
        in range: Range<Int>,
        using generator: inout some RandomNumberGenerator
    ) -> Seat? {
        for part in [range, 0..<range.lowerBound, range.upperBound..<seats.count] {
            if let drawn = seats.drawTwoUsable(in: part, wish, using: &generator) {
                return better(of: drawn, wish, seats)
            }
        }
        return nil
    }

    private static func better(of drawn: (Seat, Seat?), _ wish: Wish, _ seats: Seats) -> Seat {
        guard let second = drawn.1 else { return drawn.0 }
        return better(of: drawn.0, second, wish, seats) ?? drawn.0
    }

    private static func better(of a: Seat, _ b: Seat, _ wish: Wish, _ seats: Seats) -> Seat? {
        guard seats.isUsable(a, wish) else { return seats.isUsable(b, wish) ? b : nil }
        guard seats.isUsable(b, wish) else { return a }
        if a.member.errors == .none, b.member.errors == .none,
            let x = a.member.average.freshMicroseconds(at: wish.now),
            let y = b.member.average.freshMicroseconds(at: wish.now)
        {
            return Float(a.inFlight + 1) * x <= Float(b.inFlight + 1) * y ? a : b
        }
        return lessLoaded(a, b, at: wish.now)
    }

    @inline(never)
    private static func lessLoaded(_ a: Seat, _ b: Seat, at now: Instant) -> Seat {
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
}

extension BalancingPolicy where Self == LeastLoaded {
    /// The less loaded of two servers drawn at random: see ``LeastLoaded``.
    public static var leastLoaded: LeastLoaded { LeastLoaded() }
}
