import Synchronization
import TrunklineCore

/// Chooses a link for each request, on the thread of its caller. Each thread uses one of several copies of the
/// reference to the table, each with its own lock and random numbers, so that callers do not wait for each other.
final class ClusterPicker: Sendable {
    @safe
    private struct Stripe {
        private(set) var table: PickTable
        /// The same table, read without a retain and a release, which would move a line of memory between the
        /// processors for each request. Safe: `table` keeps it alive, and both change together.
        private var borrowed: Unmanaged<PickTable>
        var generator: SeededGenerator
        var requests = 0

        init(_ table: PickTable, _ generator: SeededGenerator) {
            (self.table, self.generator) = (table, generator)
            unsafe borrowed = Unmanaged.passUnretained(table)
        }

        mutating func use(_ table: PickTable) -> PickTable {
            unsafe borrowed = Unmanaged.passUnretained(table)
            return exchange(&self.table, with: table)
        }

        @inline(__always)
        mutating func pickOnly() -> MemberLink? {
            unsafe borrowed._withUnsafeGuaranteedRef { $0.pickOnly() }
        }

        @inline(__always)
        mutating func pick(_ wish: Wish) -> MemberLink? {
            unsafe borrowed._withUnsafeGuaranteedRef { $0.pick(wish, using: &generator) }
        }
    }

    private let stripes: [Lock<Stripe>]
    /// It may call anything, so it is called without a lock.
    private let hasPolicyOfUser: Bool

    /// `isReproducible`: the choices must not depend on which thread makes them, as in a simulation.
    init(_ policy: any BalancingPolicy, seed: UInt64, isReproducible: Bool) {
        let table = PickTable(policy)
        hasPolicyOfUser = table.hasPolicyOfUser
        var generator = SeededGenerator(seed: seed)
        var count = 1
        if !isReproducible { while count < 4 * processorCount(), count < 64 { count *= 2 } }
        stripes = (0..<count).map { _ in Lock(Stripe(table, SeededGenerator(seed: generator.next()))) }
    }

    private let hasNoChoice = Atomic<Bool>(false)

    @inline(__always)
    private var stripe: Lock<Stripe> {
        // Threads have stacks of their own, so their numbers differ in the upper bits.
        let hash = UInt64(currentThread()) &* 0x9e37_79b9_7f4a_7c15
        return stripes[Int(truncatingIfNeeded: hash >> 32) & (stripes.count - 1)]
    }

    /// The request is not counted on the link. `nil` if there is a choice.
    @inline(__always)
    func pickOnly() -> MemberLink? {
        guard hasNoChoice.load(ordering: .relaxed) else { return nil }
        return stripe.withLock { stripe in
            guard let link = stripe.pickOnly() else { return nil }
            stripe.requests &+= 1
            return link
        }
    }

    func pick(_ wish: Wish) -> MemberLink? {
        if hasPolicyOfUser { return pickByPolicyOfUser(wish) }
        return stripe.withLock { stripe in
            guard let link = stripe.pick(wish) else { return nil }
            stripe.requests &+= 1
            return link
        }
    }

    @inline(never)
    private func pickByPolicyOfUser(_ wish: Wish) -> MemberLink? {
        var (table, generator) = stripe.withLock { ($0.table, SeededGenerator(seed: $0.generator.next())) }
        guard let link = table.pick(wish, using: &generator) else { return nil }
        note(1)
        return link
    }

    func note(_ count: Int) { stripe.withLock { $0.requests &+= count } }

    var requests: Int { stripes.reduce(0) { sum, stripe in sum &+ stripe.withLock { $0.requests } } }

    var table: PickTable { stripes[0].withLock { $0.table } }

    func use(_ table: PickTable) {
        hasNoChoice.store(table.hasNoChoice, ordering: .relaxed)
        for stripe in stripes {
            // Deallocated without the lock.
            let old = stripe.withLock { $0.use(table) }
            withExtendedLifetime(old) {}
        }
    }
}
