import Testing

@testable import TrunklineCore

@Suite struct SequentialMapTests {}

extension SequentialMapTests {
    @Test func theMapBehavesLikeADictionary() {
        for seed in seeds(50) {
            var generator = SeededGenerator(seed: seed)
            var map = SequentialMap<Int>()
            var model: [UInt64: Int] = [:]
            var next: UInt64 = seed % 2 == 0 ? 0 : UInt64.max - 200
            for step in 0..<500 {
                if step % 7 == 0, let key = model.keys.sorted().randomElement(using: &generator) {
                    map.insert(step, for: key)
                    model[key] = step
                } else if Bool.random(using: &generator) || model.isEmpty {
                    map.insert(step, for: next)
                    model[next] = step
                    next &+= UInt64.random(in: 1...3, using: &generator)
                } else if let key = model.keys.sorted().randomElement(using: &generator) {
                    // The oldest key stays: it becomes a straggler.
                    guard key != model.keys.min() else { continue }
                    #expect(map.remove(key) == model.removeValue(forKey: key))
                    #expect(map.remove(key) == nil)
                }
                #expect(map.count == model.count)
            }
            for (key, value) in model { #expect(map[key] == value) }
            #expect(map.sorted.map(\.key) == model.keys.sorted())
        }
    }

    @Test func aStragglerCanBeReplacedAndRemoved() {
        var map = SequentialMap<String>()
        map.insert("old", for: 0)
        for key in 1...1000 as ClosedRange<UInt64> {
            map.insert("new", for: key)
            map.remove(key)
        }
        #expect(map[0] == "old")
        map.insert("renewed", for: 0)
        #expect(map[0] == "renewed")
        #expect(map.count == 1)
        #expect(map.remove(0) == "renewed")
        #expect(map.isEmpty)
    }

    /// Key 1 waits while the keys 2 to 17 are inserted. Key 17 takes its place in a ring of 16, so key 1 becomes a
    /// straggler. Then key 1 is replaced, because its request is admitted at last: it was put into the ring *beside*
    /// the straggler, and could be removed from the map twice. In the request table, this resumed a continuation twice.
    @Test func aStragglerWhosePlaceIsTakenIsReplacedNotDuplicated() {
        var map = SequentialMap<String>()
        map.insert("registered", for: 1)
        for key in 2...16 as ClosedRange<UInt64> {
            map.insert("short", for: key)
            map.remove(key)
        }
        map.insert("newer", for: 17)
        map.insert("admitted", for: 1)
        #expect(map.count == 2)
        #expect(map[17] == "newer")
        #expect(map.remove(1) == "admitted")
        #expect(map.remove(1) == nil)
        #expect(map.remove(17) == "newer")
        #expect(map.isEmpty)
    }
}
