import TrunklineCore

/// Chooses the servers that one client uses, if there are more servers than it should have links to.
///
/// Rendezvous hashing, or highest random weight (Thaler and Ravishankar, 1998), as in gRPC's random subsetting (gRFC
/// A68): each candidate has a score that follows from its hash and the client's seed, and the highest scores win. So
/// clients with different seeds choose evenly, and one more or one less candidate changes at most one member of a
/// client's subset.
package enum RendezvousSubset {
    /// Returns the indices of `size` candidates in ascending order; all if there are not more.
    ///
    /// - Parameters:
    ///   - size: Clamped to 0 through the number of candidates.
    ///   - hashes: Each identifies a candidate, for example `StableHasher.hash(_:)` of its address. Of candidates with the
    ///     same hash, the first are chosen first.
    ///   - seed: Identifies the client. The same seed and hashes give the same subset.
    package static func choose(_ size: Int, of hashes: [UInt64], seed: UInt64) -> [Int] {
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
