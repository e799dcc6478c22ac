import TrunklineCore

/// The server of a key: consistent hashing with bounded loads. It takes precedence over the policy.
struct ConsistentHashing: Sendable {
    /// Of the requests in flight, in relation to the server's share.
    private static let boundFactor = 1.25

    /// All servers, also those that take no requests now.
    let ring: ClusterRing
    /// For each server of the ring, its place among the seats; -1 if it has none.
    private let places: [Int]
    private let load = LoadSum()

    init(_ ring: ClusterRing, _ seats: Seats) {
        self.ring = ring
        let byHash = Dictionary(seats.all.indices.map { (seats.all[$0].member.hash, $0) }) { first, _ in first }
        places = ring.members.map { byHash[$0.hash] ?? -1 }
    }

    func choose(_ wish: Wish, byKey key: UInt64, among seats: Seats) -> Seat? {
        // Added up only if a server is in use: most keys belong to one that is not, if there are many servers.
        var sum: Int?
        let place = ring.ring.member(for: key) { place in
            let index = places[place]
            guard index >= 0 else { return false }
            let seat = seats.all[index]
            guard seats.isUsable(seat, wish) else { return false }
            // Of a server that starts slowly, the same keys at first, and more of them later.
            if let share = seats.slowStartShare(of: seat, at: wish.now) {
                var generator = SeededGenerator(seed: key ^ seat.member.hash)
                if Float(generator.nextUnit()) >= share { return false }
            }
            let inFlight = seat.inFlight
            if inFlight == 0 { return true }
            let share = seats.weight(of: index) / seats.totalWeight
            let total = sum ?? load.value(at: wish.now, of: seats.all)
            sum = total
            return inFlight < HashRing.bound(total: total, share: share, factor: Self.boundFactor)
        }
        load.countPick(of: seats.all)
        if let place, let seat = usableSeat(at: place, wish, seats) { return seat }
        // If all servers have more than their share, the first one on the ring that takes requests.
        let next = ring.ring.member(for: key) { usableSeat(at: $0, wish, seats) != nil }
        if let next, let seat = usableSeat(at: next, wish, seats) { return seat }
        // Servers without weight are not on the ring: rendezvous hashing of the key and the server.
        let usable = seats.all.lazy.filter { seats.isUsable($0, wish) }
        return usable.max { Self.score(of: $0, key) < Self.score(of: $1, key) }
    }

    private func usableSeat(at place: Int, _ wish: Wish, _ seats: Seats) -> Seat? {
        let index = places[place]
        guard index >= 0, seats.isUsable(seats.all[index], wish) else { return nil }
        return seats.all[index]
    }

    private static func score(of seat: Seat, _ key: UInt64) -> UInt64 {
        var generator = SeededGenerator(seed: seat.member.hash ^ key)
        return generator.next()
    }
}
