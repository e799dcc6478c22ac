import Testing

@testable import TrunklineCore
@testable import TrunklineIO

/// Which answers of a name server count as rotating, and how long earlier ones are remembered.
@Suite struct RotatingAnswersTests {}

extension RotatingAnswersTests {
    /// A name whose addresses are numbers, and the answers to questions about it.
    private struct Name {
        var answers = RotatingAnswers<Int, Int>()
        var now = Instant(nanoseconds: 5_000_000_000)

        /// Takes an answer that comes `seconds` after the one before. Returns what is remembered besides.
        mutating func take(_ addresses: [Int], after seconds: Int = 30) -> [Int] {
            now = now.advanced(by: .seconds(seconds))
            return answers.take(addresses.map { ($0, $0) }, at: now)
        }
    }

    // MARK: Recognizing

    @Test(
        arguments: [
            // Servers are added, removed, replaced one after the other, and replaced together.
            [[1, 2], [1, 2, 3], [1, 2, 3, 4], [1, 2, 4], [1, 4], [4]],
            [[1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 6], [5, 6, 7], [6, 7, 8]],
            [[1, 2, 3], [4, 5, 6], [7, 8, 9]],
            // The same ones in another order.
            [[1, 2, 3], [3, 1, 2], [2, 3, 1], [1, 2, 3]],
            // A rolling restart leaves out each server once. The next one may be out when it is back.
            [[1, 2, 3, 4], [2, 3, 4], [1, 3, 4], [1, 2, 4], [1, 2, 3], [1, 2, 3, 4]],
            // One server that comes and goes, and several.
            [[1, 2, 3], [2, 3], [1, 2, 3], [2, 3], [1, 2, 3], [2, 3], [1, 2, 3]],
            [[1, 2, 3, 4], [3, 4], [1, 4], [2, 3, 4], [1, 2], [1, 2, 3, 4], [4], [1, 2, 3]],
            // The standby takes over, and the server is back.
            [[1], [2], [2], [1], [1]],
        ] as [[[Int]]]
    )
    func ordinaryChangesAreNoRotation(_ answers: [[Int]]) {
        var name = Name()
        for answer in answers {
            #expect(name.take(answer) == [])
            #expect(!name.answers.isRotating, "\(answer) of \(answers)")
        }
    }

    /// Half of the random answers are recognized within about four answers if they have 8 of 20 addresses, and within
    /// about seven if they have 8 of 9 or 1 of 3.
    @Test(arguments: [
        (count: 20, part: 8, most: 12), (count: 100, part: 8, most: 20), (count: 9, part: 8, most: 30),
        (count: 14, part: 13, most: 30), (count: 3, part: 1, most: 40), (count: 2, part: 1, most: 40),
    ])
    func randomPartsAreRecognized(_ row: (count: Int, part: Int, most: Int)) {
        for seed in UInt64(0)..<200 {
            var (name, random, number) = (Name(), SeededGenerator(seed: seed), 0)
            while !name.answers.isRotating, number <= row.most {
                number += 1
                _ = name.take(Array((0..<row.count).shuffled(using: &random).prefix(row.part)))
            }
            #expect(4...row.most ~= number, "seed \(seed): \(number) answers")
        }
    }

    /// Each answer begins where the one before ended.
    @Test func anOrderedRotationIsRecognized() {
        var name = Name()
        #expect(name.take([0, 1, 2, 3]) == [])
        #expect(name.take([4, 5, 6, 0]) == [])
        // 1, 2 and 3 are back, and 4, 5 and 6 are left out for the first time.
        #expect(name.take([1, 2, 3, 0]) == [])
        #expect(!name.answers.isRotating)
        #expect(name.take([4, 5, 6, 0]) == [1, 2, 3])
        #expect(name.answers.isRotating)
    }

    /// What happened more than 5 min ago is no sign.
    @Test func slowChangesAreNoRotation() {
        var name = Name()
        for answer in [[1], [2], [1], [2], [1], [2]] { #expect(name.take(answer, after: 301) == []) }
        #expect(!name.answers.isRotating)
    }

    // MARK: Remembering

    /// An answer of one of three addresses. It has come 30 s ago.
    private func rotating() -> Name {
        var name = Name()
        for answer in [[1], [2], [1]] { _ = name.take(answer) }
        #expect(name.take([2]) == [1])
        #expect(name.take([3]) == [1, 2])
        return name
    }

    @Test func anAddressIsRememberedForAWhile() {
        var name = rotating()
        // Three addresses, one in each answer: three times 3 min, counted from the latest answer that had the address.
        #expect(name.take([3], after: 479) == [1, 2])
        #expect(name.take([3], after: 1) == [2])
        // Two addresses.
        #expect(name.take([3], after: 1) == [])
        #expect(name.answers.count == 1)
    }

    /// Three minutes times the number of answers that have all addresses once, at least 5 min and at most 30 min.
    @Test(arguments: [(6, 8, 300), (8, 20, 450), (1, 5, 900), (8, 100, 1800), (1, 40, 1800)])
    func smallPartsAreRememberedForLonger(_ part: Int, _ count: Int, _ seconds: Int) {
        var name = Name()
        for answer in [[0], [1], [0], [1], Array(0..<count)] { _ = name.take(answer, after: 1) }
        var (passed, first) = (0, 0)
        while passed < seconds {
            (passed, first) = (passed + 50, 1 - first)
            let others = name.take(Array(first..<first + part), after: 50)
            #expect(name.answers.isRotating && others.contains(count - 1) == (passed < seconds), "after \(passed) s")
        }
    }

    @Test func rotationIsForgotten() {
        var name = rotating()
        // The latest sign was 30 s before the latest answer. An answer with a new address is none.
        #expect(name.take([3, 4], after: 300) == [1, 2])
        #expect(name.take([3, 4], after: 269) == [])
        #expect(name.answers.isRotating)
        #expect(name.take([3, 5], after: 1) == [])
        #expect(!name.answers.isRotating)
        // Then an answer is the whole list again.
        #expect(name.take([5]) == [])
        #expect(name.take([3]) == [])
    }

    /// Once the answers rotate, one that leaves out an address and brings back another is enough, whatever its length.
    @Test func aSwapProlongsTheRotation() {
        var name = rotating()
        for _ in 0..<10 {
            #expect(name.take([1, 2], after: 140) == [3])
            #expect(name.take([3], after: 140) == [1, 2])
        }
        #expect(name.answers.isRotating)
    }

    @Test func aLongOutageOfTheNameServerEndsTheRotation() {
        var name = rotating()
        #expect(name.take([1], after: 1800) == [])
        #expect(!name.answers.isRotating && name.answers.count == 2)
    }

    @Test func anAddressThatOccursTwiceCountsOnce() {
        var answers = RotatingAnswers<Int, String>()
        var now = Instant(nanoseconds: 0)
        func take(_ answer: [(Int, String)]) -> [String] {
            now = now.advanced(by: .seconds(30))
            return answers.take(answer.map { (address: $0.0, value: $0.1) }, at: now)
        }
        _ = take([(1, "a"), (1, "b")])
        _ = take([(2, "c")])
        _ = take([(1, "d"), (1, "e")])
        // As long as the one before.
        #expect(take([(2, "f"), (2, "g")]) == ["d"])
    }

    /// The memory is bounded, whatever a name server answers.
    @Test func endlessAddressesAreNotAllRemembered() {
        var (name, next) = (Name(), 0)
        for answer in [[-1], [-2], [-1], [-2]] { _ = name.take(answer) }
        for _ in 0..<20 {
            let others = name.take(Array(next..<next + 1000), after: 5)
            #expect(others.count <= 4096 && name.answers.count <= 5096)
            // The latest ones.
            if next >= 5000 { #expect(others.last == next - 1) }
            next += 1000
        }
        #expect(name.answers.isRotating)
        var ordinary = Name()
        for number in 0..<20 {
            #expect(ordinary.take(Array(1000 * number..<1000 * number + 1000), after: 1) == [])
            #expect(ordinary.answers.count <= 5096)
        }
    }
}
