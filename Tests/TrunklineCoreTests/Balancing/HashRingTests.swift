import Testing

@testable import TrunklineCluster
@testable import TrunklineCore

@Suite struct HashRingTests {}

extension HashRingTests {
    /// The first accepted member for each key.
    private func members(_ ring: HashRing, _ keys: [UInt64]) -> [Int?] {
        keys.map { ring.member(for: $0) { _ in true } }
    }

    private func keys(_ count: Int, _ random: inout SeededGenerator) -> [UInt64] {
        (0..<count).map { _ in random.next() }
    }

    private func ring(_ hashes: [UInt64], weight: Double = 1) -> HashRing {
        HashRing(hashes.map { (hash: $0, weight: weight) })
    }

    /// How many keys each member has.
    private func loads(_ ring: HashRing, _ keys: [UInt64], of count: Int) -> [Int] {
        var loads = [Int](repeating: 0, count: count)
        for case let member? in members(ring, keys) { loads[member] += 1 }
        return loads
    }

    // MARK: Lookup

    @Test func anEmptyRingHasNoMember() {
        let ring = HashRing([])
        #expect(ring.isEmpty)
        #expect(ring.member(for: 7) { _ in true } == nil)
    }

    @Test func theOnlyMemberHasAllKeys() {
        let ring = ring([42])
        for key in [0, 1, UInt64.max / 2, .max] { #expect(ring.member(for: key) { _ in true } == 0) }
    }

    @Test func theSameKeyLeadsToTheSameMember() {
        var random = SeededGenerator(seed: 1)
        let keys = keys(100, &random)
        #expect(members(ring([1, 2, 3]), keys) == members(ring([1, 2, 3]), keys))
    }

    /// The positions are the numbers of the generator whose seed is the member's hash.
    @Test func aKeyAtTheVeryPositionOfANodeBelongsToItsMember() {
        let ring = ring([1, 2, 3])
        for hash in UInt64(1)...3 {
            var positions = SeededGenerator(seed: hash)
            for _ in 0..<160 { #expect(ring.member(for: positions.next()) { _ in true } == Int(hash) - 1) }
        }
    }

    @Test func aRefusedMemberIsSkipped() {
        let ring = ring([1, 2, 3])
        let home = ring.member(for: 5) { _ in true }
        let second = ring.member(for: 5) { $0 != home }
        let third = ring.member(for: 5) { $0 != home && $0 != second }
        #expect(Set([home, second, third]) == [0, 1, 2])
    }

    @Test func ifNoneIsAcceptedTheKeyStaysAtHome() {
        var random = SeededGenerator(seed: 2)
        let ring = ring(keys(10, &random))
        for key in keys(100, &random) {
            var asked = 0
            let member = ring.member(for: key) { _ in
                asked += 1
                return false
            }
            #expect(member == ring.member(for: key) { _ in true })
            #expect(asked <= 20)
        }
    }

    @Test func theOnlyAcceptedMemberIsFound() {
        var random = SeededGenerator(seed: 3)
        let ring = ring(keys(100, &random))
        for key in keys(100, &random) {
            let wanted = Int.random(in: 0..<100, using: &random)
            #expect(ring.member(for: key) { $0 == wanted } == wanted)
        }
    }

    /// An answer that changes during a lookup must not make it endless.
    @Test func aLookupEndsWhateverTheAnswers() {
        let ring = ring([1, 2, 3, 4])
        for seed in seeds(50) {
            var random = SeededGenerator(seed: seed)
            let member = ring.member(for: seed) { _ in random.next() % 50 == 0 }
            #expect(member != nil, "seed \(seed)")
        }
    }

    @Test func ofMembersWithTheSameHashTheFirstIsHome() {
        let ring = ring([9, 9])
        #expect(ring.member(for: 5) { _ in true } == 0)
        #expect(ring.member(for: 5) { $0 != 0 } == 1)
    }

    // MARK: Changes

    @Test func anAddedMemberTakesItsShareAndMovesNothingElse() {
        for seed in seeds(30) {
            var random = SeededGenerator(seed: seed)
            let count = Int.random(in: 1...20, using: &random)
            let hashes = keys(count + 1, &random)
            let keys = keys(2000, &random)
            let before = members(ring(Array(hashes.dropLast())), keys)
            let after = members(ring(hashes), keys)
            let moved = zip(before, after).filter { $0 != $1 }
            #expect(moved.allSatisfy { $0.1 == count }, "seed \(seed)")
            let fair = Double(keys.count) / Double(count + 1)
            #expect(Double(moved.count) < 1.4 * fair + 4 * fair.squareRoot(), "seed \(seed)")
            #expect(Double(moved.count) > 0.6 * fair - 4 * fair.squareRoot(), "seed \(seed)")
        }
    }

    @Test func aRemovedMemberMovesOnlyItsOwnKeys() {
        for seed in seeds(30) {
            var random = SeededGenerator(seed: seed)
            let count = Int.random(in: 2...20, using: &random)
            var hashes = keys(count, &random)
            let keys = keys(1000, &random)
            let removed = Int.random(in: 0..<count, using: &random)
            let before = members(ring(hashes), keys).map { $0.map { hashes[$0] } }
            let gone = hashes.remove(at: removed)
            let after = members(ring(hashes), keys).map { $0.map { hashes[$0] } }
            #expect(zip(before, after).allSatisfy { $0 == $1 || $0 == gone }, "seed \(seed)")
        }
    }

    @Test func anotherWeightMovesOnlyKeysOfThatMember() {
        for seed in seeds(30) {
            var random = SeededGenerator(seed: seed)
            var list = (0..<10).map { _ in (hash: random.next(), weight: Double.random(in: 0.5...3, using: &random)) }
            let keys = keys(1000, &random)
            let before = members(HashRing(list), keys)
            list[4].weight *= 2
            let after = members(HashRing(list), keys)
            #expect(zip(before, after).allSatisfy { $0 == $1 || $1 == 4 }, "seed \(seed)")
        }
    }

    @Test func theOrderOfMembersDoesNotMatter() {
        var random = SeededGenerator(seed: 4)
        let hashes = keys(10, &random)
        let keys = keys(1000, &random)
        let shuffled = hashes.shuffled(using: &random)
        let some = members(ring(hashes), keys).map { $0.map { hashes[$0] } }
        let others = members(ring(shuffled), keys).map { $0.map { shuffled[$0] } }
        #expect(some == others)
    }

    // MARK: Shares

    @Test func tenMembersHaveAboutTheSameNumberOfKeys() {
        var random = SeededGenerator(seed: 5)
        let keys = keys(100_000, &random)
        let ring = ring((1...10).map { StableHasher.hash("10.0.0.\($0):6379".utf8) })
        for load in loads(ring, keys, of: 10) { #expect((7_500...12_500).contains(load), "\(load)") }
    }

    /// The standard deviation of the members' shares is 1 / √160 of the mean, or 7.9 %.
    @Test func sharesSpreadAsManyNodesDo() {
        var squares = 0.0
        for seed in UInt64(0)..<40 {
            var random = SeededGenerator(seed: seed)
            let ring = ring(keys(10, &random))
            for load in loads(ring, keys(20_000, &random), of: 10) {
                let error = Double(load) / 2000 - 1
                squares += error * error
                #expect(abs(error) < 0.4, "seed \(seed)")
            }
        }
        let deviation = (squares / 400).squareRoot()
        #expect((0.065...0.095).contains(deviation), "\(deviation)")
    }

    @Test(arguments: [[1, 2, 4], [0.001, 0.002, 0.004], [1000, 2000, 4000], [0.1, 0.2, 0.7]])
    func weightsAreMet(_ weights: [Double]) {
        let sum = weights.reduce(0, +)
        var loads = weights.map { _ in 0 }
        // Many rings, because the positions of one are random.
        for seed in UInt64(0)..<20 {
            var random = SeededGenerator(seed: seed)
            let ring = HashRing(weights.map { (hash: random.next(), weight: $0) })
            let keys = keys(2000, &random)
            for (index, load) in self.loads(ring, keys, of: weights.count).enumerated() { loads[index] += load }
        }
        for (load, weight) in zip(loads, weights) {
            #expect((0.85...1.15).contains(Double(load) / 40_000 / (weight / sum)))
        }
    }

    @Test func aMemberWithoutWeightHasNoKeys() {
        var random = SeededGenerator(seed: 6)
        let ring = HashRing([(1, 1), (2, 0), (3, -1), (4, .nan)])
        #expect(loads(ring, keys(1000, &random), of: 4) == [1000, 0, 0, 0])
        #expect(ring.member(for: 5) { $0 != 0 } == 0)
    }

    @Test func ifNoMemberHasWeightAllAreEqual() {
        var random = SeededGenerator(seed: 7)
        let keys = keys(1000, &random)
        let weightless = HashRing([(1, 0), (2, .nan), (3, -.infinity)])
        #expect(members(weightless, keys) == members(ring([1, 2, 3]), keys))
    }

    @Test func aSmallWeightHasAtLeastOneNode() {
        let ring = HashRing([(1, 1e6), (2, 1e-300)])
        #expect(ring.member(for: 5) { $0 == 1 } == 1)
    }

    @Test func manyAndExtremeMembersNeverTrap() {
        var random = SeededGenerator(seed: 8)
        let weights = [0, 1, -1, 1e-300, 1e300, .infinity, -.infinity, .nan, .leastNonzeroMagnitude]
        for _ in 0..<20 {
            let ring = HashRing(keys(5, &random).map { ($0, weights.randomElement(using: &random) ?? 1) })
            #expect(ring.member(for: random.next()) { _ in true } != nil)
        }
        // More members than nodes.
        let ring = ring(keys(70_000, &random), weight: .infinity)
        #expect(ring.member(for: random.next()) { $0 == 69_999 } == 69_999)
    }

    // MARK: Bounded loads

    @Test func noMemberExceedsItsBound() {
        for seed in seeds(30) {
            var random = SeededGenerator(seed: seed)
            let count = Int.random(in: 1...12, using: &random)
            let list = (0..<count).map { _ in
                (hash: random.next(), weight: Double.random(in: 0.5...3, using: &random))
            }
            let sum = list.reduce(0.0) { $0 + $1.weight }
            let ring = HashRing(list)
            let factors: [Double] = [1, 1.25, 2]
            let factor = factors.randomElement(using: &random) ?? 1
            // Few keys, each with many requests: without bounds, some members would get most.
            let keys = keys(5, &random)
            var loads = [Int](repeating: 0, count: count)
            for total in 0..<1000 {
                let key = keys.randomElement(using: &random) ?? 0
                func bound(_ member: Int) -> Int {
                    HashRing.bound(total: total, share: list[member].weight / sum, factor: factor)
                }
                let member = ring.member(for: key) { loads[$0] < bound($0) }
                guard let member else {
                    Issue.record("seed \(seed)")
                    return
                }
                loads[member] += 1
                #expect(loads[member] <= bound(member), "seed \(seed)")
            }
        }
    }

    @Test(arguments: [
        (total: 0, share: 0.1, factor: 1.25, bound: 1),
        (total: 9, share: 0.1, factor: 1.25, bound: 2),
        (total: 99, share: 0.1, factor: 1.25, bound: 13),
        (total: 99, share: 0.25, factor: 2, bound: 50),
        (total: 99, share: 0.25, factor: 0.5, bound: 25),
        (total: 99, share: 0.25, factor: .nan, bound: 25),
        (total: -5, share: 0.5, factor: 2, bound: 1),
        (total: 99, share: .nan, factor: 2, bound: 1),
        (total: 99, share: -1, factor: .infinity, bound: 1),
        (total: 99, share: 7, factor: 1, bound: 100),
        (total: 99, share: 0.5, factor: .infinity, bound: .max),
        (total: .max, share: 0, factor: .infinity, bound: 1),
        (total: .max, share: 1, factor: 2, bound: .max),
        (total: .min, share: 1, factor: 2, bound: 2),
    ])
    func theBoundIsTheShareTimesTheFactorRoundedUp(_ row: (total: Int, share: Double, factor: Double, bound: Int)) {
        #expect(HashRing.bound(total: row.total, share: row.share, factor: row.factor) == row.bound)
    }

    // MARK: Hash

    /// Computed with another program. A hash that changes moves every key of every user.
    @Test(
        arguments: [
            (bytes: [UInt8](), hash: 0xc381_7c01_6ba4_ff30),
            (bytes: Array("a".utf8), hash: 0x5f29_c2aa_dd9b_8527),
            (bytes: Array("foobar".utf8), hash: 0x5df2_9541_3403_de4f),
            (bytes: [0, 255], hash: 0x5457_8a45_14ab_b9df),
        ] as [(bytes: [UInt8], hash: UInt64)]
    )
    func theHashNeverChanges(_ row: (bytes: [UInt8], hash: UInt64)) {
        #expect(StableHasher.hash(row.bytes) == row.hash)
    }

    /// Like the hash, the positions must not change.
    @Test func theMembersOfKeysNeverChange() {
        let ring = ring((1...8).map { StableHasher.hash("server-\($0)".utf8) })
        let members = (1...16).map { key in ring.member(for: StableHasher.hash("key-\(key)".utf8)) { _ in true } }
        #expect(members == [6, 3, 6, 6, 6, 5, 5, 5, 7, 1, 5, 1, 6, 7, 7, 7])
    }
}
