import TrunklineCore

/// A cyclic schedule for weighted round robin, computed once: each member has turns in proportion to its weight.
///
/// The order is smooth, as in nginx: weights 5, 1, 1 give `a a b a c a a`, not `a a a a a b c`. Equal weights give each
/// member one turn, in order.
///
/// The schedule has the length, up to 1,024 turns, at which the shares are the most exact: weights that are small whole
/// multiples of each other are met exactly. Otherwise the number of a member's turns is rounded to a whole number, but
/// is at least one. If `p` is the smallest share, no share is off by more than about `1 / (2048 p)` of itself: 0.5 % if
/// the smallest is a tenth, 5 % if it is a hundredth (measured with up to 50 members and weights from 1 to 10). With
/// many hundred members, weights count little; with 1,024 or more, each has one turn.
package struct WeightedTurns: Sendable {
    private static let longest = 1_024

    /// The index of a member for each turn.
    private let schedule: [Int]

    /// Creates a schedule. A member's index is its position in `weights`. Members whose weight is zero, less, or NaN
    /// get no turns, unless all weights are so; then all members are equal.
    ///
    /// Takes up to 1,024 passes over the weights: 0.2 ms for 10 members, 1 ms for 100.
    package init(_ weights: [Double]) {
        schedule = Self.smooth(Self.turns(Self.shares(weights)))
    }

    /// The number of turns after which the schedule repeats.
    package var count: Int { schedule.count }

    /// The member whose turn is `turn`; `nil` if there are no members.
    package subscript(turn: UInt64) -> Int? {
        schedule.isEmpty ? nil : schedule[Int(turn % UInt64(schedule.count))]
    }

    /// Returns the weights as shares of their sum.
    private static func shares(_ weights: [Double]) -> [Double] {
        var weights = weights.map { $0 > 0 ? min($0, .greatestFiniteMagnitude) : 0 }
        let greatest = weights.max() ?? 0
        // In relation to the greatest, so that the sum does not overflow.
        weights = weights.map { greatest > 0 ? $0 / greatest : 1 }
        let sum = weights.reduce(0, +)
        return weights.map { $0 / sum }
    }

    /// Returns the number of turns of each member in the schedule with the smallest relative error.
    private static func turns(_ shares: [Double]) -> [Int] {
        func turns(of share: Double, in length: Int) -> Int {
            share > 0 ? max(1, Int((share * Double(length)).rounded())) : 0
        }
        var (best, leastError) = (1, Double.infinity)
        for length in 1...longest {
            let total = shares.reduce(0) { $0 + turns(of: $1, in: length) }
            guard total <= longest else { break }
            let error = shares.reduce(0.0) { error, share in
                guard share > 0 else { return error }
                return max(error, abs(Double(turns(of: share, in: length)) / Double(total) - share) / share)
            }
            // The shortest of those that are equal but for rounding.
            if error < leastError - 1e-9 { (best, leastError) = (length, error) }
            if error < 1e-9 { break }
        }
        return shares.map { turns(of: $0, in: best) }
    }

    /// Puts the turns in order: each member gains as much credit per turn as it has turns, the one with the most credit
    /// is next, and that costs it a whole cycle.
    private static func smooth(_ turns: [Int]) -> [Int] {
        let total = turns.reduce(0, +)
        var credit = turns.map { _ in 0 }
        return (0..<total).map { _ in
            var next = 0
            for index in turns.indices {
                credit[index] += turns[index]
                if credit[index] > credit[next] { next = index }
            }
            credit[next] -= total
            return next
        }
    }
}
