import TrunklineCore

/// Chooses the servers of a client that must not use all: rendezvous hashing, or highest random weight (Thaler and
/// Ravishankar, 1998), as in gRPC's random subsetting (gRFC A68). Clients with different seeds choose evenly, and one
/// candidate more or less changes at most one member of a subset.
enum RendezvousSubset {
    /// Returns indices in ascending order; all if there are not more than `size`. Of candidates with the same hash, the
    /// first are chosen first.
    static func choose(_ size: Int, of hashes: [UInt64], seed: UInt64) -> [Int] {
        guard size > 0 else { return [] }
        guard size < hashes.count else { return Array(hashes.indices) }
        let key = scrambled(seed)
        let scores = hashes.map { scrambled(scrambled($0) ^ key) }
        let ranking = hashes.indices.sorted { scores[$0] != scores[$1] ? scores[$0] > scores[$1] : $0 < $1 }
        return ranking.prefix(size).sorted()
    }

    /// A bijection that makes similar values dissimilar.
    private static func scrambled(_ value: UInt64) -> UInt64 {
        var generator = SeededGenerator(seed: value)
        return generator.next()
    }
}
