import Testing

@testable import TrunklineCore
@testable import TrunklineIO

@Suite struct EndpointRingTests {
    let now = Instant(nanoseconds: 1_000)
    let abc: [Endpoint] = ["a:1", "b:1", "c:1"]

    func after(_ seconds: Double) -> Instant { now.advanced(by: .seconds(seconds)) }

    /// The endpoints of the next three attempts.
    func turns(_ ring: inout EndpointRing, at instant: Instant) -> [Endpoint?] {
        (0..<3).map { _ in ring.next(at: instant) }
    }

    /// The endpoint of an attempt that starts now.
    func first(_ ring: EndpointRing, at instant: Instant) -> Endpoint? {
        var ring = ring
        return ring.next(at: instant)
    }

    // MARK: Turns

    @Test func everyEndpointHasOneTurnInARound() {
        var ring = EndpointRing(abc)
        #expect(turns(&ring, at: now) == abc)
        #expect(!ring.hasTurnLeft(at: now))
        ring.beginRound()
        #expect(ring.hasTurnLeft(at: now))
        #expect(first(ring, at: now) == "a:1")
        #expect(ring.next(at: now) == "a:1")
    }

    @Test func anEmptyRingHasNoNextEndpoint() {
        var ring = EndpointRing([])
        #expect(ring.next(at: now) == nil)
        #expect(ring.preferred == nil)
        #expect(!ring.hasTurnLeft(at: now))
        #expect(ring.earliestStart(at: now) == .distantPast)
    }

    @Test func duplicateEndpointsAreRemoved() {
        #expect(EndpointRing(["a:1", "b:1", "a:1"]).endpoints == ["a:1", "b:1"])
    }

    // MARK: Memory

    @Test func aFailedEndpointComesAfterTheOthers() {
        var ring = EndpointRing(abc)
        ring.failed("a:1", at: now)
        #expect(turns(&ring, at: now) == ["b:1", "c:1", "a:1"])
    }

    @Test func theEndpointWithTheFewestAndOldestFailuresComesFirst() {
        var ring = EndpointRing(abc)
        ring.failed("b:1", at: now)
        ring.failed("c:1", at: after(1))
        for _ in 0..<2 { ring.failed("a:1", at: after(2)) }
        #expect(turns(&ring, at: after(3)) == ["b:1", "c:1", "a:1"])
    }

    @Test func aFailureIsForgottenAfterThreeHalfLives() {
        var ring = EndpointRing(abc, halfLife: .seconds(10))
        ring.failed("a:1", at: now)
        #expect(first(ring, at: after(29)) == "b:1")
        #expect(!ring.isHealthy("a:1", at: after(29)))
        #expect(first(ring, at: after(31)) == "a:1")
        #expect(ring.isHealthy("a:1", at: after(31)))
    }

    @Test func anyNumberOfFailuresIsForgottenAfterSixHalfLives() {
        var ring = EndpointRing(abc, halfLife: .seconds(10))
        for _ in 0..<1000 { ring.failed("a:1", at: now) }
        #expect(first(ring, at: after(49)) == "b:1")
        #expect(first(ring, at: after(61)) == "a:1")
        #expect(ring.isHealthy("a:1", at: .distantFuture))
    }

    @Test(arguments: [Duration.zero, .seconds(-1), .nanoseconds(1), .seconds(Int64.max)])
    func everyHalfLifeIsAccepted(_ halfLife: Duration) {
        var ring = EndpointRing(abc, halfLife: halfLife)
        ring.failed("a:1", at: now)
        for instant in [Instant.distantPast, now, .distantFuture] { #expect(first(ring, at: instant) != nil) }
    }

    @Test func theEndpointThatWorkedLastComesFirst() {
        var ring = EndpointRing(abc)
        ring.succeeded("b:1")
        #expect(ring.current == "b:1")
        #expect(turns(&ring, at: now) == ["b:1", "a:1", "c:1"])
        ring.beginRound()
        ring.failed("b:1", at: now)
        #expect(ring.next(at: now) == "a:1")
        ring.succeeded("b:1")
        ring.beginRound()
        #expect(ring.next(at: now) == "b:1")
    }

    @Test func anEndpointThatTheClientLeftComesLast() {
        var ring = EndpointRing(["a:1", "b:1"])
        for _ in 0..<3 { ring.failed("b:1", at: now) }
        ring.succeeded("a:1")
        ring.leave("a:1", at: now)
        #expect(ring.current == nil)
        #expect(ring.next(at: now) == "b:1")
        #expect(!ring.hasTurnLeft(at: now))
        var alone = EndpointRing(["a:1"])
        alone.leave("a:1", at: now)
        #expect(!alone.hasTurnLeft(at: now))
        #expect(alone.next(at: now) == "a:1")
    }

    @Test func anEndpointIsSkippedUntilItsPermanentFailureIsForgottenOrPardoned() {
        var ring = EndpointRing(["a:1", "b:1"], halfLife: .seconds(10))
        ring.failed("a:1", at: now, isPermanent: true)
        _ = ring.next(at: now)
        #expect(!ring.hasTurnLeft(at: now))
        #expect(ring.hasTurnLeft(at: after(31)))
        #expect(!ring.areAllRefused(at: now))
        ring.failed("b:1", at: now, isPermanent: true)
        #expect(ring.areAllRefused(at: now))
        #expect(ring.next(at: now) != nil)
        ring.forgetPermanentFailures()
        #expect(!ring.areAllRefused(at: now))
    }

    // MARK: Hints

    @Test func endpointsOnHoldAreSkippedAndFollowInTheOrderOfTheirHolds() {
        var ring = EndpointRing(abc)
        ring.hold("a:1", until: after(10))
        #expect(ring.earliestStart(at: now) == .distantPast)
        #expect(ring.next(at: now) == "b:1")
        #expect(ring.next(at: now) == "c:1")
        #expect(!ring.hasTurnLeft(at: now))
        #expect(ring.hasTurnLeft(at: after(10)))
        ring.hold("b:1", until: after(5))
        ring.hold("c:1", until: after(7))
        ring.hold("b:1", until: after(1))  // the later end counts
        ring.beginRound()
        #expect(ring.earliestStart(at: now) == after(5))
        #expect(turns(&ring, at: now) == ["b:1", "c:1", "a:1"])
        ring.succeeded("a:1")
        #expect(ring.earliestStart(at: now) == .distantPast)
    }

    // MARK: Selection and replacement

    @Test func aSelectedEndpointComesNextDespiteFailuresAndHolds() {
        var ring = EndpointRing(abc)
        ring.failed("c:1", at: now, isPermanent: true)
        ring.hold("c:1", until: after(10))
        let isSelected = ring.select("c:1")
        #expect(isSelected)
        #expect(ring.hasTurnLeft(at: now))
        #expect(ring.next(at: now) == "c:1")
        #expect(ring.next(at: now) == "a:1")
    }

    @Test func anUnknownEndpointCannotBeSelected() {
        var ring = EndpointRing(abc)
        let isSelected = ring.select("d:1")
        #expect(!isSelected)
        #expect(ring.endpoints == abc)
        #expect(ring.next(at: now) == "a:1")
    }

    @Test func endpointsThatStayInTheListKeepTheirMemory() {
        var ring = EndpointRing(abc)
        ring.failed("a:1", at: now)
        ring.succeeded("b:1")
        ring.replace(with: ["d:1", "a:1", "b:1"])
        #expect(ring.current == "b:1")
        #expect(ring.preferred == "d:1")
        #expect(turns(&ring, at: now) == ["b:1", "d:1", "a:1"])
        _ = ring.select("b:1")
        ring.replace(with: ["a:1"])
        #expect(ring.current == nil)
        #expect(!ring.hasTurnLeft(at: now))
        ring.replace(with: [])
        ring.replace(with: ["a:1", "d:1"])
        #expect(ring.next(at: now) == "a:1")  // its failure was forgotten when it was removed
    }

    // MARK: Random orders

    @Test func aShuffledOrderDependsOnTheSeedAndIsUniform() {
        var first: [Endpoint: Int] = [:]
        for seed in 0..<3000 as Range<UInt64> {
            let ring = EndpointRing(abc, order: .shuffled, seed: seed)
            #expect(ring.endpoints == EndpointRing(abc, order: .shuffled, seed: seed).endpoints)
            first[ring.endpoints[0], default: 0] += 1
        }
        for endpoint in abc { #expect((900...1100).contains(first[endpoint, default: 0])) }
    }

    @Test func weightedOrdersFollowTheWeights() {
        let endpoints = [Endpoint("a:1").weighing(6), Endpoint("b:1").weighing(3), "c:1", Endpoint("d:1").weighing(0)]
        var first: [Endpoint: Int] = [:]
        for seed in 0..<5000 as Range<UInt64> {
            let ring = EndpointRing(endpoints, order: .weighted, seed: seed)
            first[ring.endpoints[0], default: 0] += 1
            #expect(ring.endpoints[3] == "d:1")
        }
        #expect((2850...3150).contains(first["a:1", default: 0]))
        #expect((1380...1620).contains(first["b:1", default: 0]))
        #expect((420...580).contains(first["c:1", default: 0]))
    }

    @Test(arguments: [-1, 0, .nan, .infinity, 1e-300, 1e308] as [Double])
    func everyWeightIsAccepted(_ weight: Double) {
        let ring = EndpointRing(abc.map { $0.weighing(weight) }, order: .weighted, seed: 1)
        #expect(Set(ring.endpoints) == Set(abc))
    }

    @Test func endpointsThatStayInTheListKeepTheirPlacesInAShuffledOrder() {
        for seed in seeds(50) {
            var ring = EndpointRing(abc, order: .shuffled, seed: seed)
            let before = ring.endpoints
            ring.replace(with: ["d:1", "c:1", "b:1", "a:1", "e:1"])
            #expect(ring.endpoints.filter { abc.contains($0) } == before)
        }
    }

    @Test func theWeightIsNotPartOfAnEndpointsIdentity() {
        let heavy = Endpoint("a:1").weighing(5)
        #expect(heavy == "a:1")
        #expect(Set([heavy, "a:1"]).count == 1)
        #expect(heavy.description == "a:1")
        #expect(heavy.weight == 5 && Endpoint("a:1").weight == 1)
    }

    @Test func logarithmsAreAccurate() {
        for (value, logarithm) in [(1, 0), (2, 0.6931471806), (0.1, -2.3025850930), (1e-9, -20.7232658369)] {
            #expect(abs(EndpointRing.logarithm(value) - logarithm) < 1e-7)
        }
    }

    /// A server may supply the list. With a list of this length, a search for each endpoint would take minutes.
    @Test(.timeLimit(.minutes(1)))
    func aLongListIsReplacedInLinearTime() {
        let first = (0..<100_000).map { Endpoint.host("host\($0)", port: 7000) }
        var ring = EndpointRing(first)
        ring.failed(first[7], at: now)
        ring.replace(with: first.reversed() + first)
        #expect(ring.endpoints == first.reversed())
        #expect(!ring.isHealthy(first[7], at: now) && ring.isHealthy(first[8], at: now))
    }
}
