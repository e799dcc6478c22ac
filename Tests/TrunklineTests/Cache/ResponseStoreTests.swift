import Testing

@testable import TrunklineCache
@testable import TrunklineCore
@testable import TrunklineIO

/// The cached responses as a value: which response is evicted, and when.
struct ResponseStoreTests {
    private static func frame(_ count: Int, _ byte: UInt8 = 7) -> Frame {
        Frame(.response, body: filled(count, with: byte))
    }

    private static func cost(_ frame: Frame, _ key: CacheKey) -> Int {
        frame.contentSize + key.size + ResponseStore.overhead
    }

    private let now = Instant(nanoseconds: 0)

    @Test func theLeastRecentlyUsedResponseIsEvictedAtTheMaximumCount() {
        var store = ResponseStore(maximumCount: 3, maximumBytes: .max)
        for key in ["a", "b", "c"] as [CacheKey] { store.insert(Self.frame(1), for: key, at: now) }
        #expect(store.response(for: "a", .any, at: now) != nil)
        store.insert(Self.frame(1), for: "d", at: now)
        #expect(store.count == 3)
        #expect(store.response(for: "b", .any, at: now) == nil)
        for key in ["a", "c", "d"] as [CacheKey] { #expect(store.response(for: key, .any, at: now) != nil) }
    }

    @Test func aLargeResponseEvictsSeveralSmallOnes() {
        let small = Self.cost(Self.frame(1000), "a")
        var store = ResponseStore(maximumCount: 100, maximumBytes: 4 * small)
        for key in ["a", "b", "c", "d"] as [CacheKey] { store.insert(Self.frame(1000), for: key, at: now) }
        #expect(store.count == 4)
        #expect(store.byteCount == 4 * small)
        store.insert(Self.frame(3000), for: "e", at: now)
        #expect(store.byteCount <= 4 * small)
        #expect(store.response(for: "a", .any, at: now) == nil)
        #expect(store.response(for: "d", .any, at: now) != nil)
        #expect(store.response(for: "e", .any, at: now) != nil)
    }

    @Test func aResponseLargerThanTheCacheOnlyRemovesItsPredecessor() {
        var store = ResponseStore(maximumCount: 100, maximumBytes: 10_000)
        store.insert(Self.frame(10), for: "a", at: now)
        store.insert(Self.frame(10), for: "b", at: now)
        store.insert(Self.frame(10_001), for: "a", at: now)
        #expect(store.count == 1)
        #expect(store.response(for: "a", .any, at: now) == nil)
        #expect(store.response(for: "b", .any, at: now) != nil)
    }

    @Test(arguments: [(0, 1000), (1000, 0), (-1, 1000), (1000, -1), (Int.min, Int.min)])
    func limitsOfZeroOrLessStoreNothing(_ count: Int, _ bytes: Int) {
        var store = ResponseStore(maximumCount: count, maximumBytes: bytes)
        store.insert(Self.frame(1), for: "a", at: now)
        #expect(store.count == 0)
        #expect(store.byteCount == 0)
    }

    @Test func ageCountsFromReceptionAndTheLimitIsExclusive() {
        var store = ResponseStore(maximumCount: 1, maximumBytes: .max)
        store.insert(Self.frame(1), for: "a", at: now)
        let later = now.advanced(by: .seconds(60))
        let justBefore = Instant(nanoseconds: later.nanoseconds - 1)
        #expect(store.response(for: "a", .below(.seconds(60)), at: justBefore) != nil)
        #expect(store.response(for: "a", .below(.seconds(60)), at: later) == nil)
        #expect(store.response(for: "a", .none, at: now) == nil)
        #expect(store.response(for: "a", .below(.zero), at: now) == nil)
        #expect(store.response(for: "a", .below(.seconds(-1)), at: now) == nil)
        // A caller reads the clock, the response arrives, and then the caller looks it up. Its age is then
        // zero, not negative.
        let earlier = Instant(nanoseconds: -1000)
        #expect(store.response(for: "a", .below(.zero), at: earlier) == nil)
        #expect(store.response(for: "a", .below(.seconds(1)), at: earlier) != nil)
        #expect(store.response(for: "a", .below(.seconds(Int64.max)), at: .distantFuture) != nil)
    }

    /// Compares the store with a list that is searched from end to end.
    @Test func theStoreBehavesAsAListInOrderOfUse() async {
        for seed in seeds(200) {
            await Task.yield()
            var random = SeededGenerator(seed: seed)
            let (maximumCount, maximumBytes) = (Int.random(in: 1...12, using: &random), 8000)
            var store = ResponseStore(maximumCount: maximumCount, maximumBytes: maximumBytes)
            var model: [(key: CacheKey, frame: Frame)] = []  // the most recently used is last
            for step in 0..<300 {
                let key = CacheKey("\(Int.random(in: 0..<16, using: &random))")
                switch Int.random(in: 0..<10, using: &random) {
                case 0:
                    store.remove(key)
                    model.removeAll { $0.key == key }
                case 1 where step % 50 == 0:
                    store.removeAll()
                    model = []
                case 1...5:
                    let frame = Self.frame(Int.random(in: 0...2500, using: &random), UInt8(truncatingIfNeeded: step))
                    store.insert(frame, for: key, at: now)
                    model.removeAll { $0.key == key }
                    model.append((key, frame))
                    while model.count > maximumCount
                        || model.reduce(0, { $0 + Self.cost($1.frame, $1.key) }) > maximumBytes
                    {
                        model.removeFirst()
                    }
                default:
                    let found = model.firstIndex { $0.key == key }
                    #expect(store.response(for: key, .any, at: now) == found.map { model[$0].frame })
                    if let found { model.append(model.remove(at: found)) }
                }
                #expect(store.count == model.count)
                #expect(store.byteCount == model.reduce(0) { $0 + Self.cost($1.frame, $1.key) })
            }
        }
    }

    /// A caller that holds a lock can then deallocate them after it releases the lock.
    @Test func removedResponsesAreReturned() {
        var store = ResponseStore(maximumCount: 3, maximumBytes: 10_000)
        for key in ["a", "b", "c"] as [CacheKey] { #expect(store.insert(Self.frame(1), for: key, at: now).isEmpty) }
        #expect(store.insert(Self.frame(2), for: "a", at: now).map(\.response) == [Self.frame(1)])
        #expect(store.insert(Self.frame(9000), for: "d", at: now).map(\.key) == ["b", "c", "a"])
        #expect(store.insert(Self.frame(10_000), for: "d", at: now).map(\.response.body.count) == [9000])
        store.insert(Self.frame(1), for: "a", at: now)
        #expect(store.remove("a") { $0.body.count == 2 } == nil)
        #expect(store.remove("a")?.response == Self.frame(1))
        store.insert(Self.frame(1), for: "a", at: now)
        #expect(store.removeAll().count == 1 && store.count == 0)
    }

    /// Regression: the key was read for every dictionary lookup, and compared byte by byte with itself.
    /// This took an hour.
    @Test(.timeLimit(.minutes(1)))
    func aLargeKeyIsReadOnce() {
        let key = CacheKey(ask(filled(64 << 20, with: 1)))
        var store = ResponseStore(maximumCount: 3, maximumBytes: .max)
        store.insert(Self.frame(1), for: key, at: now)
        var found = 0
        for _ in 0..<20_000 where store.response(for: key, .any, at: now) != nil { found += 1 }
        #expect(found == 20_000)
    }

    @Test func aSliceOfALargeBufferIsStoredAsACopy() throws {
        let buffer = [UInt8](repeating: 1, count: 100_000)
        var frame = Frame(.response, body: Bytes(sharing: buffer, in: 10..<20_000))
        frame[bytes: "token"] = Bytes(sharing: buffer, in: 0..<16)
        #expect(frame.body.heldBytes >= 100_000)
        #expect(frame.contentSize == 19_990 + 16 + 5)
        let compacted = frame.compacted
        #expect(compacted == frame)
        #expect(compacted.body.heldBytes < 25_000)
        #expect(try #require(compacted[bytes: "token"]).heldBytes < 100)
        // A body that spans its whole buffer is not copied.
        let whole = Bytes(buffer)
        let isShared = unsafe whole.withUnsafeBytes { whole in
            unsafe Bytes(buffer).compacted.withUnsafeBytes { unsafe $0.baseAddress == whole.baseAddress }
        }
        #expect(isShared)
    }

    @Test func keysDependOnEveryPartOfTheRequest() throws {
        struct Get: TypedRequest {
            static let type: UInt32 = 0x410
            func encode() -> Bytes { "a" }
            static func decode(_ response: Response) -> Bytes { response.body }
        }
        #expect(CacheKey(ask("a")) == CacheKey(ask("a")))
        #expect(try CacheKey(Request(Get())) == CacheKey(ask("a")))
        #expect(CacheKey(ask("a")) != CacheKey(ask("b")))
        #expect(CacheKey(ask("a")) != CacheKey(Request(type: 0x411, body: "a")))
        var versioned = ask("a")
        versioned["version"] = 2
        #expect(CacheKey(ask("a")) != CacheKey(versioned))
        #expect(CacheKey(ask("a")) != "a")
    }
}
