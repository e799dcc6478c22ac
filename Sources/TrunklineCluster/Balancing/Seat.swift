import TrunklineCore

/// A server with at least one ready link. A class, because a copy of a structure with several references costs more
/// than the choice.
final class Seat: Sendable {
    let member: ClusterMember
    let link: MemberLink
    private let others: [MemberLink]
    private let large: [MemberLink]
    let weight: Double
    let isLocal: Bool
    let metadata: [String: String]
    let slowStart: Instant?

    init(
        _ member: ClusterMember,
        _ link: MemberLink,
        others: [MemberLink],
        large: [MemberLink],
        weight: Double,
        isLocal: Bool,
        metadata: [String: String] = [:],
        slowStart: Instant?
    ) {
        (self.member, self.link, self.others, self.large) = (member, link, others, large)
        (self.weight, self.isLocal, self.metadata, self.slowStart) = (weight, isLocal, metadata, slowStart)
    }

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
    var linkForLarge: MemberLink? {
        var best: MemberLink?
        for link in large where link.isReady && link.inFlight < best?.inFlight ?? .max { best = link }
        if best.map({ $0.inFlight >= $0.capacity }) ?? true { member.noteFull(ofLarge: true) }
        return best ?? leastLoadedLink
    }
}
