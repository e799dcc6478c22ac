import TrunklineCore

/// A ring for consistent hashing with bounded loads (Mirrokni, Thorup and Zadimoghaddam, 2016): the same key leads to
/// the same member while the members stay, and most keys stay where they are while members come and go.
///
/// Each member has nodes on the ring, in proportion to its weight. A key belongs to the member of the first node at or
/// after it. Loads are bounded by the caller: `member(for:accepting:)` skips members that have reached `bound`.
///
/// The positions of a member's nodes follow from its hash and from nothing else. So a member that is added takes keys
/// only for itself, and a member that is removed or gets another weight moves only its own keys. There are two
/// exceptions, because the number of nodes per unit of weight is doubled or halved for all members:
/// - if the mean weight is, or was, below one half;
/// - if the ring would have, or had, more than 65,536 nodes.
///
/// Members with the same hash have the same positions, and the first of them owns their keys.
package struct HashRing: Sendable {
    private struct Node: Sendable {
        var position: UInt64
        /// The member's index.
        var member: Int
    }

    /// The nodes of a member with weight 1. The shares of ten equal members differ by about 8 % (standard deviation,
    /// 1 / √160). Ketama, and libraries that follow it, use the same number.
    private static let nodesPerWeight = 160.0
    /// The fewest nodes of a member with the mean weight, unless the ring is full. So weights may be shares of 1.
    private static let fewestNodes = 80.0
    /// The most nodes of all members together (1 MiB), unless there are more members.
    private static let mostNodes = 65_536
    /// Weights beyond these limits count as the limit.
    private static let weights = 1e-6...1e6

    /// In ascending order of position.
    private var nodes: [Node] = []
    /// The members that have nodes.
    private var members: [Int] = []

    /// Creates a ring, which takes time: 0.1 ms for 10 members, 1.5 ms for 100. A member's index is its position in
    /// `members`.
    ///
    /// - Parameter members: The hash identifies a member, for example `StableHasher.hash(_:)` of its address. A member with a
    ///   positive weight has at least one node. A member whose weight is zero, less, or NaN has none, unless all
    ///   weights are so; then all members are equal.
    package init(_ members: [(hash: UInt64, weight: Double)]) {
        let counts = Self.nodeCounts(members.map(\.weight))
        nodes.reserveCapacity(counts.reduce(0, +))
        for (index, member) in members.enumerated() where counts[index] > 0 {
            self.members.append(index)
            var positions = SeededGenerator(seed: member.hash)
            for _ in 0..<counts[index] { nodes.append(Node(position: positions.next(), member: index)) }
        }
        nodes.sort { ($0.position, $0.member) < ($1.position, $1.member) }
    }

    /// Returns the number of nodes of each member. The factor changes in powers of two only, so that it rarely changes:
    /// otherwise each member would affect the nodes of all.
    private static func nodeCounts(_ weights: [Double]) -> [Int] {
        var clamped = weights.map { $0 > 0 ? min(max($0, Self.weights.lowerBound), Self.weights.upperBound) : 0 }
        if clamped.allSatisfy({ $0 == 0 }) { clamped = clamped.map { _ in 1 } }
        guard let heaviest = clamped.max() else { return [] }
        let mean = clamped.reduce(0, +) / Double(clamped.count { $0 > 0 })
        var factor = nodesPerWeight
        while factor * mean < fewestNodes { factor *= 2 }
        while true {
            let counts = clamped.map { $0 > 0 ? max(1, Int(($0 * factor).rounded())) : 0 }
            if factor * heaviest < 1 || counts.reduce(0, +) <= mostNodes { return counts }
            factor /= 2
        }
    }

    /// Whether the ring has no members.
    package var isEmpty: Bool { nodes.isEmpty }

    /// Returns the first accepted member at or after `key`. If no member is accepted, returns the first member, which
    /// is the home of the key. Returns `nil` if the ring is empty.
    ///
    /// Allocates nothing. A member may be asked several times. `isAccepted` is called at most once for each node, and
    /// if no member is accepted, at most twice as often as there are members.
    ///
    /// - Parameter key: A hash of the key, for example `StableHasher.hash(_:)`: keys must be spread evenly.
    package func member(for key: UInt64, accepting isAccepted: (Int) -> Bool) -> Int? {
        guard !nodes.isEmpty else { return nil }
        var index = firstIndex(atOrAfter: key)
        let home = nodes[index].member
        var refused = -1
        var refusals = 0
        for _ in 0..<nodes.count {
            let member = nodes[index].member
            if member != refused {
                if isAccepted(member) { return member }
                refused = member
                refusals += 1
                // Probably no member is accepted. To ask each of them once is cheaper than to walk the whole ring.
                if refusals == members.count, !members.contains(where: isAccepted) { return home }
            }
            index = index + 1 == nodes.count ? 0 : index + 1
        }
        return home
    }

    private func firstIndex(atOrAfter key: UInt64) -> Int {
        var (low, high) = (0, nodes.count)
        while low < high {
            let middle = (low + high) / 2
            if nodes[middle].position < key { low = middle + 1 } else { high = middle }
        }
        return low == nodes.count ? 0 : low
    }
}

extension HashRing {
    /// Returns the most requests in flight that a member may have: its share of all requests, times `factor`, rounded
    /// up; at least 1.
    ///
    /// A member accepts a request while it has fewer requests in flight than this. If the shares add up to 1, the
    /// bounds add up to more than `total`, so at least one member accepts.
    ///
    /// - Parameters:
    ///   - total: The requests in flight at all members, without the new one.
    ///   - share: The member's weight, divided by the sum of the weights; clamped to 0 through 1.
    ///   - factor: At least 1; smaller values and NaN count as 1. Usual values are 1.25 (the default of brpc) to 2
    ///     (that of ingress-nginx). With a smaller factor, more requests leave the home of their key.
    package static func bound(total: Int, share: Double, factor: Double) -> Int {
        let share = share > 0 ? min(share, 1) : 0
        let factor = factor > 1 ? factor : 1
        let bound = share > 0 ? factor * share * (Double(max(0, total)) + 1) : 0
        guard bound > 1 else { return 1 }
        return bound < 0x1p62 ? Int(bound.rounded(.up)) : .max
    }
}
