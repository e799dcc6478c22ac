import TrunklineCore

/// The servers that take requests now, with the policy that chooses one. It does not change; the cluster makes a new
/// one whenever a server comes, goes or is ejected.
final class PickTable: Sendable {
    /// The policies of this module are called directly: a call through an existential would cost each request more.
    private enum Rule: Sendable {
        case leastLoaded(LeastLoaded)
        case roundRobin(RoundRobin)
        case other(any BalancingPolicy)

        init(_ policy: any BalancingPolicy) {
            self =
                if let policy = policy as? LeastLoaded {
                    .leastLoaded(policy)
                } else if let policy = policy as? RoundRobin {
                    .roundRobin(policy)
                } else {
                    .other(policy)
                }
        }
    }

    let policy: any BalancingPolicy
    let seats: Seats
    private let rule: Rule
    private let hashing: ConsistentHashing
    private let probes: [Seat]
    /// `nil` if there is a choice. Its requests are not counted or measured, because nothing depends on it.
    private let only: MemberLink?
    private let hasLargeLinks: Bool

    /// Without servers.
    init(_ policy: any BalancingPolicy) {
        (self.policy, rule, probes, only, hasLargeLinks) = (policy, Rule(policy), [], nil, false)
        seats = Seats([], localShare: nil, slowStart: .zero, isLimited: false)
        hashing = ConsistentHashing(ClusterRing([]), seats)
    }

    /// `policy` is the one that was used until now.
    init(
        _ seats: [Seat],
        probes: [Seat],
        localShare: Double?,
        _ options: ClusterOptions,
        _ ring: ClusterRing,
        _ policy: any BalancingPolicy,
        at now: Instant
    ) {
        // Servers without weight are left out if another one is ready.
        let hasWeight = seats.contains { $0.weight > 0 }
        let seats = Seats(
            hasWeight ? seats.filter { $0.weight > 0 } : seats,
            localShare: localShare,
            slowStart: options.slowStart,
            isLimited: options.adaptiveLimit != nil
        )
        self.seats = seats
        self.probes = hasWeight ? probes.filter { $0.weight > 0 } : probes
        hashing = ConsistentHashing(ring, seats)
        self.policy = policy.prepared(for: BalancingCandidates(seats, Wish(now: now), in: seats.all.indices))
        rule = Rule(self.policy)
        hasLargeLinks = options.largeLinks > 0
        let mayGrow = options.linksPerEndpoint.upperBound > 1
        let hasChoice = seats.count != 1 || !self.probes.isEmpty || seats.isLimited || mayGrow
        only = hasChoice ? nil : seats.all[0].link
    }

    var hasPolicyOfUser: Bool { if case .other = rule { true } else { false } }

    var ring: ClusterRing { hashing.ring }

    var isEmpty: Bool { seats.all.isEmpty && probes.isEmpty }

    var count: Int { seats.count }

    var room: Int? {
        if seats.all.isEmpty { return probes.count }
        guard seats.isLimited else { return nil }
        return seats.all.reduce(probes.count) {
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
            if !seats.isLimited {
                link.begin()
                return link
            }
            // Another thread may have taken the last place meanwhile.
            if link.begin(upTo: 1) > 0 { return link }
        }
        return nil
    }

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
            return seats.all.first.flatMap { seats.isUsable($0, wish) ? $0 : nil }
        }
        if let key = wish.key { return hashing.choose(wish, byKey: key, among: seats) }
        let zone = seats.drawZone(using: &generator)
        return switch rule {
        case .leastLoaded(let policy): policy.choose(wish, among: seats, in: zone, using: &generator)
        case .roundRobin(let policy): policy.choose(wish, among: seats, in: zone, using: &generator)
        case .other(let policy): choose(wish, by: policy, in: zone, using: &generator)
        }
    }

    private func choose(
        _ wish: Wish,
        by policy: any BalancingPolicy,
        in zone: Range<Int>,
        using generator: inout SeededGenerator
    ) -> Seat? {
        let candidates = BalancingCandidates(seats, wish, in: zone)
        if let server = policy.pick(from: candidates, using: &generator), let seat = candidates.usableSeat(of: server) {
            return seat
        }
        return LeastLoaded.chooseUsable(wish, among: seats, in: zone, using: &generator)
    }
}
