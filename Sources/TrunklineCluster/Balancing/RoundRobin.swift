import Synchronization
import TrunklineCore

/// Chooses one server after the other, in proportion to the weights.
///
/// The order is smooth, as in nginx: weights 5, 1, 1 give a a b a c a a. A server that may not be chosen loses its
/// turn. A server that starts slowly takes only a part of its turns.
public struct RoundRobin: BalancingPolicy {
    private final class Order: Sendable {
        let turns: WeightedTurns
        let turn: Atomic<UInt64>

        init(_ turns: WeightedTurns, turn: UInt64) {
            self.turns = turns
            self.turn = Atomic(turn)
        }
    }

    /// `nil` before the servers are known. Not shared by the clusters that begin with the same value: each would get
    /// only some of the turns.
    private let order: Order?

    /// Creates the policy.
    public init() { order = nil }

    private init(_ order: Order) { self.order = order }

    /// Returns a policy with an order for these servers, which goes on with the next turn.
    public func prepared(for candidates: BalancingCandidates) -> RoundRobin {
        let turn = order?.turn.load(ordering: .relaxed) ?? 0
        return RoundRobin(Order(WeightedTurns(candidates.seats.all.map(\.weight)), turn: turn))
    }

    /// Chooses the next candidate that may be chosen.
    public func pick(
        from candidates: BalancingCandidates,
        using generator: inout some RandomNumberGenerator
    ) -> BalancingCandidates.Server? {
        candidates.server(choose(candidates.wish, among: candidates.seats, in: candidates.range, using: &generator))
    }

    func choose(
        _ wish: Wish,
        among seats: Seats,
        in range: Range<Int>,
        using generator: inout some RandomNumberGenerator
    ) -> Seat? {
        // A server that starts slowly lets turns pass. After a few turns, the last one that did is good.
        var passed: Seat?
        if let order {
            for _ in 0..<2 * seats.count {
                let turn = order.turn.wrappingAdd(1, ordering: .relaxed).oldValue
                guard let index = order.turns[turn], range.contains(index) else { continue }
                let seat = seats.all[index]
                guard seats.isUsable(seat, wish) else { continue }
                guard let share = seats.slowStartShare(of: seat, at: wish.now), Float(generator.nextUnit()) > share
                else { return seat }
                passed = seat
            }
        }
        return passed ?? LeastLoaded.chooseUsable(wish, among: seats, in: range, using: &generator)
    }
}

extension BalancingPolicy where Self == RoundRobin {
    /// One server after the other, in proportion to the weights: see ``RoundRobin``.
    public static var roundRobin: RoundRobin { RoundRobin() }
}
