import Testing

@testable import TrunklineCluster
@testable import TrunklineCore

@Suite struct RendezvousSubsetTests {}

extension RendezvousSubsetTests {
    private func hashes(_ count: Int, _ random: inout SeededGenerator) -> [UInt64] {
        (0..<count).map { _ in random.next() }
    }

    /// The hashes of the chosen candidates.
    private func subset(_ size: Int, of hashes: [UInt64], seed: UInt64) -> Set<UInt64> {
        Set(RendezvousSubset.choose(size, of: hashes, seed: seed).map { hashes[$0] })
    }

    @Test(arguments: [0, -1, Int.min])
    func noneAreChosenForASizeOfZeroOrLess(_ size: Int) {
        #expect(RendezvousSubset.choose(size, of: [1, 2, 3], seed: 0) == [])
    }

    @Test(arguments: [3, 4, Int.max])
    func allAreChosenIfThereAreNotMore(_ size: Int) {
        #expect(RendezvousSubset.choose(size, of: [3, 2, 1], seed: 0) == [0, 1, 2])
        #expect(RendezvousSubset.choose(size, of: [], seed: 0) == [])
    }

    @Test func theIndicesAscend() {
        for seed in seeds(100) {
            var random = SeededGenerator(seed: seed)
            let chosen = RendezvousSubset.choose(7, of: hashes(30, &random), seed: seed)
            #expect(chosen.count == 7)
            #expect(zip(chosen, chosen.dropFirst()).allSatisfy { $0 < $1 }, "seed \(seed)")
        }
    }

    @Test func theOrderOfCandidatesDoesNotMatter() {
        for seed in seeds(100) {
            var random = SeededGenerator(seed: seed)
            let hashes = hashes(20, &random)
            let shuffled = hashes.shuffled(using: &random)
            #expect(subset(5, of: hashes, seed: seed) == subset(5, of: shuffled, seed: seed), "seed \(seed)")
        }
    }

    @Test func oneCandidateMoreOrLessChangesAtMostOneMember() {
        for seed in seeds(300) {
            var random = SeededGenerator(seed: seed)
            let count = Int.random(in: 1...40, using: &random)
            let size = Int.random(in: 1...20, using: &random)
            var hashes = hashes(count + 1, &random)
            let more = subset(size, of: hashes, seed: seed)
            let removed = hashes.remove(at: Int.random(in: 0...count, using: &random))
            let fewer = subset(size, of: hashes, seed: seed)
            #expect(more.subtracting(fewer).isSubset(of: [removed]), "seed \(seed)")
            #expect(fewer.subtracting(more).count <= 1, "seed \(seed)")
            // A candidate outside the subset changes nothing.
            if !more.contains(removed) { #expect(more == fewer, "seed \(seed)") }
        }
    }

    @Test func aLargerSubsetContainsTheSmallerOne() {
        for seed in seeds(100) {
            var random = SeededGenerator(seed: seed)
            let hashes = hashes(20, &random)
            #expect(subset(5, of: hashes, seed: seed).isSubset(of: subset(6, of: hashes, seed: seed)))
        }
    }

    /// Neither random seeds nor consecutive ones prefer a candidate, and neither do consecutive hashes.
    @Test(arguments: [true, false], [true, false])
    func allCandidatesAreChosenEquallyOften(_ hasRandomSeeds: Bool, _ hasRandomHashes: Bool) {
        var random = SeededGenerator(seed: 11)
        let hashes = hasRandomHashes ? hashes(20, &random) : Array(0..<20)
        var counts = [Int](repeating: 0, count: 20)
        for client in UInt64(0)..<4000 {
            let seed = hasRandomSeeds ? random.next() : client
            for index in RendezvousSubset.choose(5, of: hashes, seed: seed) { counts[index] += 1 }
        }
        // Binomial: 1000 on average, with a standard deviation of 27.
        for count in counts { #expect((880...1120).contains(count), "\(count)") }
    }

    /// Each pair of candidates meets equally often: the servers of one client are not those of another.
    @Test func candidatesAreChosenIndependently() {
        var pairs: [Int: Int] = [:]
        for seed in UInt64(0)..<5000 {
            let chosen = RendezvousSubset.choose(2, of: Array(100..<106), seed: seed)
            pairs[chosen[0] * 10 + chosen[1], default: 0] += 1
        }
        // 15 pairs, 333 times on average, with a standard deviation of 18.
        #expect(pairs.count == 15)
        for count in pairs.values { #expect((250...420).contains(count), "\(count)") }
    }

    @Test func ofCandidatesWithTheSameHashTheFirstAreChosen() {
        #expect(RendezvousSubset.choose(2, of: [5, 5, 5, 5], seed: 3) == [0, 1])
        for seed in seeds(50) {
            let chosen = RendezvousSubset.choose(2, of: [1, 5, 2, 5], seed: seed)
            #expect(!chosen.contains(3) || chosen.contains(1), "seed \(seed)")
        }
    }
}
