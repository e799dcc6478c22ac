import Synchronization
import TrunklineCore

/// The sum of the requests in flight of all servers, for the bound of the servers of keys. To add them up takes about
/// 40 ns a server. So the sum of many is used again for a moment, with the requests that were added since. It may be
/// too large by those that have ended.
final class LoadSum: Sendable {
    private static let few = 32
    private static let lifetime: Int64 = 1_000_000
    /// So many requests do not change the bound of one of many servers by more than one.
    private static let fewestPicks = 16

    private let sum = Atomic<Int>(0)
    private let time = Atomic<Int64>(.min)
    private let picks = Atomic<Int>(0)

    func countPick(of seats: [Seat]) {
        if seats.count > Self.few { picks.wrappingAdd(1, ordering: .relaxed) }
    }

    func value(at now: Instant, of seats: [Seat]) -> Int {
        guard seats.count > Self.few else { return seats.reduce(0) { $0 + $1.inFlight } }
        let (latest, picked) = (sum.load(ordering: .relaxed), picks.load(ordering: .relaxed))
        let age = now.nanoseconds &- time.load(ordering: .relaxed)
        if (0..<Self.lifetime).contains(age), picked < max(Self.fewestPicks, latest / 8) { return latest + picked }
        let value = seats.reduce(0) { $0 + $1.inFlight }
        sum.store(value, ordering: .relaxed)
        picks.store(0, ordering: .relaxed)
        time.store(now.nanoseconds, ordering: .relaxed)
        return value
    }
}
