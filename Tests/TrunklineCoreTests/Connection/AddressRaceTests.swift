import Testing

@testable import TrunklineCore
@testable import TrunklineIO

/// Happy Eyeballs (RFC 8305), rule by rule.
@Suite struct AddressRaceTests {
    typealias Action = AddressRace.Action

    let start = Instant(nanoseconds: 5_000_000_000)
    let refused = TransportError(.refused, errno: 111, "refused")

    func after(_ milliseconds: Int) -> Instant { start.advanced(by: .milliseconds(milliseconds)) }

    /// The IPv6 address number `number`.
    func six(_ number: UInt8) -> SocketAddress {
        .ipv6([0xfd] + [UInt8](repeating: 0, count: 14) + [number], port: 7000, scope: 0)
    }

    /// The IPv4 address number `number`.
    func four(_ number: UInt8) -> SocketAddress { .ipv4([10, 0, 0, number], port: 7000) }

    // MARK: Resolving

    @Test func aLiteralIsTriedAtOnce() {
        var race = AddressRace()
        #expect(race.phase == .resolving)
        #expect(race.resolved(to: [four(1)], at: start) == [.connect(four(1), id: 1)])
        #expect(race.phase == .connecting)
        #expect(race.attemptSucceeded(1, at: start) == [.won(1)])
        #expect(race.phase == .over)
    }

    @Test func aSocketPathIsTriedAtOnceWhateverTheSourceAddress() {
        var policy = AddressRace.Policy()
        policy.sourceFamily = .ipv4
        var race = AddressRace(policy)
        #expect(race.resolved(to: [.unix(path: "/x")], at: start) == [.connect(.unix(path: "/x"), id: 1)])
    }

    @Test func ipv6AnsweringFirstIsTriedAtOnce() {
        var race = AddressRace()
        #expect(race.resolved(.ipv6, .success([six(1)]), at: start) == [.connect(six(1), id: 1)])
    }

    @Test func ipv4AnsweringFirstWaitsForIPv6() {
        var race = AddressRace()
        #expect(race.resolved(.ipv4, .success([four(1)]), at: start) == [.arm(after(50))])
        #expect(race.phase == .resolving)
        #expect(race.timerFired(at: after(49)) == [.arm(after(50))])
        #expect(race.timerFired(at: after(50)) == [.connect(four(1), id: 1)])
    }

    @Test func ipv6AnsweringWithinTheResolutionDelayComesFirst() {
        var race = AddressRace()
        _ = race.resolved(.ipv4, .success([four(1)]), at: start)
        let actions = race.resolved(.ipv6, .success([six(1)]), at: after(49))
        #expect(actions == [.connect(six(1), id: 1), .arm(after(49 + 250))])
    }

    @Test func ipv4IsTriedAtOnceWhenIPv6FailsWithinTheResolutionDelay() {
        let failed = TransportError(.nameResolutionFailed, "no")
        for answer in [.success([]), .failure(failed)] as [Result<[SocketAddress], TransportError>] {
            var race = AddressRace()
            _ = race.resolved(.ipv4, .success([four(1)]), at: start)
            #expect(race.resolved(.ipv6, answer, at: after(10)) == [.connect(four(1), id: 1), .arm(nil)])
        }
    }

    @Test func ipv6AnsweringLateIsTriedNext() {
        var race = AddressRace()
        _ = race.resolved(.ipv4, .success([four(1), four(2)]), at: start)
        #expect(race.timerFired(at: after(50)) == [.connect(four(1), id: 1), .arm(after(300))])
        #expect(race.resolved(.ipv6, .success([six(1)]), at: after(200)) == [])
        #expect(race.timerFired(at: after(300)) == [.connect(six(1), id: 2), .arm(after(550))])
        #expect(race.timerFired(at: after(550)) == [.connect(four(2), id: 3)])
    }

    @Test func ipv6AnsweringAfterEverythingElseFailedIsTriedAtOnce() {
        var race = AddressRace()
        _ = race.resolved(.ipv4, .success([four(1)]), at: start)
        _ = race.timerFired(at: after(50))
        // The IPv6 answer is missing, so the race goes on for a while.
        #expect(race.attemptFailed(1, refused, at: after(60)) == [.arm(after(310))])
        #expect(race.timerFired(at: after(309)) == [.arm(after(310))])
        #expect(race.resolved(.ipv6, .success([six(1)]), at: after(309)) == [.connect(six(1), id: 2), .arm(nil)])
        #expect(race.attemptFailed(2, refused, at: after(901)) == [.fail])
    }

    /// "localhost" is known for IPv4, nothing listens there, and the look-up of IPv6 addresses takes seconds.
    @Test func whenEveryKnownAddressHasFailedTheOtherFamilyHasOneMoreAttemptDelay() {
        var race = AddressRace()
        _ = race.resolved(.ipv4, .success([four(1), four(2)]), at: start)
        _ = race.timerFired(at: after(50))
        _ = race.attemptFailed(1, refused, at: after(51))
        #expect(race.attemptFailed(2, refused, at: after(60)) == [.arm(after(310))])
        #expect(!race.isResolved)
        #expect(race.timerFired(at: after(310)) == [.fail])
        let error = race.error(connectingTo: "db:7000")
        #expect(error.code == .refused && error.errno == 111)
        #expect(error.message == "refused; the look-up of IPv6 addresses is not answered")
        #expect(race.resolved(.ipv6, .success([six(1)]), at: after(311)) == [])
    }

    /// The attempt's time may be shorter than that.
    @Test func whenEveryKnownAddressHasFailedTheCauseOfATimeoutIsTheirs() {
        var race = AddressRace()
        _ = race.resolved(.ipv6, .success([six(1)]), at: start)
        _ = race.attemptFailed(1, refused, at: after(10))
        let error = race.timeoutError(connectingTo: "db:7000", after: .milliseconds(100))
        #expect(error.code == .refused)
        #expect(error.message == "refused; the look-up of IPv4 addresses is not answered")
    }

    /// Without an address nothing is known about the server.
    @Test func aFailedLookUpDoesNotEndTheWaitForTheOtherFamily() {
        var race = AddressRace()
        let failed = TransportError(.nameResolutionFailed, "no")
        #expect(race.resolved(.ipv6, .failure(failed), at: start) == [])
        #expect(race.timerFired(at: after(2000)) == [])
        #expect(!race.isResolved)
        #expect(race.resolved(.ipv4, .success([four(1)]), at: after(2500)) == [.connect(four(1), id: 1)])
        #expect(race.isResolved)
    }

    @Test func onlyTheFamilyOfTheSourceAddressIsAwaited() {
        var policy = AddressRace.Policy()
        policy.sourceFamily = .ipv4
        var race = AddressRace(policy)
        #expect(race.resolved(.ipv6, .success([six(1)]), at: start) == [])  // of no use, but IPv4 may still come
        #expect(race.timerFired(at: after(2000)) == [])
        #expect(race.resolved(.ipv4, .success([four(1)]), at: after(2500)) == [.connect(four(1), id: 1)])
        var other = AddressRace(policy)
        _ = other.resolved(.ipv4, .success([four(1)]), at: start)
        #expect(other.attemptFailed(1, refused, at: after(1)) == [.fail])
        #expect(other.error(connectingTo: "db:7000") == refused)
        var third = AddressRace(policy)
        #expect(third.resolved(.ipv4, .success([]), at: start) == [.fail])
        #expect(
            third.error(connectingTo: "db:1").message
                == "connecting to db:1: the source address is IPv4, but the name has no IPv4 address"
        )
    }

    @Test func onlyTheFirstAnswerOfAFamilyCounts() {
        var race = AddressRace()
        _ = race.resolved(.ipv6, .success([six(1)]), at: start)
        #expect(race.resolved(.ipv6, .success([six(2)]), at: start) == [])
        #expect(race.resolved(.ipv4, .success([]), at: start) == [])
        #expect(race.attemptFailed(1, refused, at: start) == [.fail])
    }

    /// Regression: a new error was made of it, and its mark was lost.
    @Test func theErrorOfTheRaceKeepsTheMarksOfTheFailure() {
        var cut = refused
        cut.isOfTunnel = true
        for addresses in [[four(1)], [four(1), four(2)]] {
            var race = AddressRace()
            _ = race.resolved(.ipv6, .success([]), at: start)
            _ = race.resolved(.ipv4, .success(addresses), at: start)
            _ = race.attemptFailed(1, cut, at: after(1))
            if addresses.count > 1 { _ = race.attemptFailed(2, cut, at: after(2)) }
            #expect(race.error(connectingTo: "db:7000").isOfTunnel)
        }
    }

    @Test func aNameWithoutAddressesFails() {
        var race = AddressRace()
        #expect(race.resolved(.ipv6, .success([]), at: start) == [])
        #expect(race.resolved(.ipv4, .success([]), at: start) == [.fail])
        #expect(race.error(connectingTo: "db:1").message == "resolving db:1: the name has no address")
    }

    @Test func anUnknownNameFailsWithTheResolversError() {
        var race = AddressRace()
        let unknown = TransportError(.nameResolutionFailed, "no such name")
        _ = race.resolved(.ipv4, .failure(unknown), at: start)
        #expect(race.resolved(.ipv6, .failure(unknown), at: start) == [.fail])
        #expect(race.error(connectingTo: "db:1") == unknown)
    }

    // MARK: Connecting

    @Test func addressFamiliesAlternate() {
        var race = AddressRace()
        _ = race.resolved(.ipv4, .success([four(1), four(2)]), at: start)
        var tried = race.resolved(.ipv6, .success([six(1), six(2), six(3)]), at: start)
        for round in 1...4 { tried += race.timerFired(at: after(250 * round)) }
        let addresses = tried.compactMap { if case .connect(let address, _) = $0 { address } else { nil } }
        #expect(addresses == [six(1), four(1), six(2), four(2), six(3)])
        #expect(tried.last == .connect(six(3), id: 5))  // no address is left, so no timer is armed
    }

    @Test func theNextAttemptStartsAtOnceWhenOneFails() {
        var race = AddressRace()
        _ = race.resolved(to: [four(1), four(2), four(3)], at: start)
        let actions = race.attemptFailed(1, refused, at: after(20))
        #expect(actions == [.connect(four(2), id: 2), .arm(after(270))])
        _ = race.timerFired(at: after(270))
        #expect(race.running.map(\.id) == [2, 3])
    }

    @Test func theFirstToSucceedWinsAndTheOthersAreClosed() {
        var race = AddressRace()
        _ = race.resolved(to: [four(1), four(2), four(3)], at: start)
        _ = race.timerFired(at: after(250))
        _ = race.timerFired(at: after(500))
        #expect(race.attemptSucceeded(2, at: start) == [.close(1), .close(3), .won(2)])
        #expect(race.attemptSucceeded(1, at: start) == [])
        #expect(race.attemptFailed(3, refused, at: after(600)) == [])
        #expect(race.timerFired(at: after(750)) == [])
        #expect(race.resolved(.ipv6, .success([six(1)]), at: after(800)) == [])
    }

    /// One that is only slower, or whose server has answered, used to be taken for dead.
    @Test func onlyAnAddressThatIsSilentForLongIsPassedOver() {
        var race = AddressRace()
        _ = race.resolved(to: [four(1), four(2)], at: start)
        _ = race.timerFired(at: after(250))
        var (dead, slow, connected) = (race, race, race)
        // The second one answers after 20 ms, and after 60 ms.
        _ = dead.attemptSucceeded(2, at: after(270))
        #expect(dead.passedOver.map(\.address) == [four(1)])
        #expect(dead.passedOver.first?.error.message.hasSuffix(" in 270 ms") == true)
        _ = slow.attemptSucceeded(2, at: after(310))
        #expect(slow.passedOver.isEmpty)
        connected.attemptConnected(1)
        _ = connected.attemptSucceeded(2, at: after(270))
        #expect(connected.passedOver.isEmpty)
    }

    /// An attempt that connected once more had the start of its first connection. So it seemed to have been silent since
    /// then, and its address, which had answered, was taken for dead.
    @Test func aRepeatedAttemptBeginsAnew() {
        var race = AddressRace()
        _ = race.resolved(to: [four(1), four(2)], at: start)
        _ = race.timerFired(at: after(250))
        race.attemptConnected(1)
        race.attemptRepeated(1, at: after(260))
        #expect(race.running.map { $0.start } == [after(260), after(250)])
        #expect(race.connected.isEmpty)
        _ = race.attemptSucceeded(2, at: after(270))
        #expect(race.passedOver.isEmpty)
        // An attempt that has ended stays so.
        race.attemptRepeated(1, at: after(280))
        #expect(race.running.isEmpty)
    }

    @Test func anAttemptThatFailedCannotWin() {
        var race = AddressRace()
        _ = race.resolved(to: [four(1), four(2)], at: start)
        _ = race.attemptFailed(1, refused, at: start)
        #expect(race.attemptSucceeded(1, at: start) == [])
        #expect(race.attemptFailed(1, refused, at: start) == [])
        #expect(race.attemptSucceeded(2, at: start) == [.won(2)])
    }

    @Test func duplicateAddressesAreIgnored() {
        var race = AddressRace()
        _ = race.resolved(.ipv6, .success([]), at: start)
        let actions = race.resolved(.ipv4, .success([four(1), four(1), four(1)]), at: start)
        #expect(actions == [.connect(four(1), id: 1)])
        #expect(race.attemptFailed(1, refused, at: start) == [.fail])
    }

    @Test func atMost64AddressesAreTried() {
        var race = AddressRace()
        _ = race.resolved(.ipv6, .success((0..<100).map(six)), at: start)
        _ = race.resolved(.ipv4, .success((0..<100).map(four)), at: start)
        var count = 0
        while race.phase != .over, let id = race.running.first?.id {
            _ = race.attemptFailed(id, refused, at: start)
            count += 1
        }
        #expect(count == 64)
    }

    /// A name server may answer with thousands of addresses.
    @Test func addressesBeyondTheLimitAreNotKept() {
        var race = AddressRace()
        let many = (0..<3000).map { SocketAddress.ipv4([10, 1, UInt8($0 >> 8), UInt8($0 & 255)], port: 7000) }
        _ = race.resolved(.ipv4, .success(many + many), at: start)
        #expect(race.addresses == Array(many.prefix(32)))
        _ = race.resolved(.ipv6, .success((0..<100).map(six)), at: start)
        #expect(race.addresses.count == 64)
    }

    @Test func delaysAreClamped() {
        let hasty = AddressRace.Policy(attemptDelay: .zero, resolutionDelay: .seconds(-1))
        #expect(hasty.attemptDelay == .milliseconds(100))
        #expect(hasty.resolutionDelay == .zero)
        let slow = AddressRace.Policy(attemptDelay: .seconds(100), resolutionDelay: .seconds(Int64.max))
        #expect(slow.attemptDelay == .seconds(2))
        #expect(slow.resolutionDelay == .seconds(2))
    }

    @Test func addressesOfTheOtherFamilyAreSkippedAndNamedInTheError() {
        var policy = AddressRace.Policy()
        policy.sourceFamily = .ipv4
        var race = AddressRace(policy)
        // The race does not wait for IPv6 either.
        #expect(race.resolved(.ipv4, .success([four(1)]), at: start) == [.connect(four(1), id: 1)])
        #expect(race.resolved(.ipv6, .success([six(1)]), at: start) == [])
        #expect(race.attemptFailed(1, refused, at: start) == [.fail])
        let error = race.error(connectingTo: "db:7000")
        #expect(error.code == .refused)
        #expect(error.message.contains("the source address is IPv4, but this address is IPv6"))
    }

    @Test func aSourceAddressOfAnotherFamilyThanAllAddressesFails() {
        var policy = AddressRace.Policy()
        policy.sourceFamily = .ipv6
        var race = AddressRace(policy)
        #expect(race.resolved(to: [four(1)], at: start) == [.fail])
        #expect(race.error(connectingTo: "db:7000").code == .invalidAddress)
    }

    // MARK: Errors

    @Test func aSingleFailureIsTheErrorOfTheRace() {
        var race = AddressRace()
        var none = TransportError(.nameResolutionFailed, "no AAAA")
        none.isNoSuchName = true
        _ = race.resolved(.ipv6, .failure(none), at: start)
        _ = race.resolved(.ipv4, .success([four(1)]), at: start)
        _ = race.attemptFailed(1, refused, at: start)
        #expect(race.error(connectingTo: "db:7000") == refused)
        #expect(!race.hasFailedLookup)
    }

    /// Regression: a name server that failed for one family was not named when the addresses of the other could not be
    /// reached, as if the name had no further addresses.
    @Test func aLookupThatFailedIsNamedBesideTheAddressesOfTheOtherFamily() {
        var race = AddressRace()
        let failure = TransportError(.nameResolutionFailed, "resolving db: temporary failure in name resolution")
        _ = race.resolved(.ipv4, .failure(failure), at: start)
        _ = race.resolved(.ipv6, .success([six(1)]), at: start)
        _ = race.attemptFailed(1, TransportError(.unreachable, errno: 101, "no route to six"), at: start)
        let error = race.error(connectingTo: "db:7000")
        #expect(error.code == .unreachable)
        #expect(error.errno == 101)
        #expect(error.message.contains("no route to six"))
        #expect(error.message.contains("temporary failure in name resolution"))
        #expect(race.hasFailedLookup)
    }

    @Test func oneFamilyIsLookedUpIfTheOtherIsNotWanted() {
        for family in AddressFamily.allCases {
            var policy = AddressRace.Policy()
            policy.families = [family]
            var race = AddressRace(policy)
            let (wanted, other) = family == .ipv4 ? (four(1), six(1)) : (six(1), four(1))
            #expect(!race.isResolved)
            #expect(race.resolved(family.other, .success([other]), at: start) == [])
            #expect(race.resolved(family, .success([wanted]), at: start).contains(.connect(wanted, id: 1)))
            #expect(race.isResolved)
            race = AddressRace(policy)
            #expect(race.resolved(family, .success([]), at: start) == [.fail])
            let message = race.error(connectingTo: "db:7000").message
            #expect(message == "resolving db:7000: the name has no \(family.name) address")
            // A complete list is used as it is.
            race = AddressRace(policy)
            #expect(race.resolved(to: [other], at: start).contains(.connect(other, id: 1)))
        }
    }

    @Test func theMostSpecificFailureDeterminesTheErrorCode() {
        var race = AddressRace()
        _ = race.resolved(to: [six(1), four(1)], at: start)
        _ = race.attemptFailed(1, TransportError(.unreachable, errno: 101, "no route to six"), at: start)
        _ = race.attemptFailed(2, refused, at: start)
        let error = race.error(connectingTo: "db:7000")
        #expect(error.code == .refused)
        #expect(error.errno == 111)
        #expect(error.message == "connecting to db:7000: no address can be reached: no route to six; refused")
    }

    @Test func aTimeoutErrorDistinguishesResolvingFromConnecting() {
        var race = AddressRace()
        let early = race.timeoutError(connectingTo: "db:7000", after: .seconds(3))
        #expect(early.code == .nameResolutionFailed)
        #expect(early.message == "resolving db:7000: no answer within 3.0 seconds")
        let queued = race.timeoutError(connectingTo: "db:7000", after: .seconds(3), obstacle: "no thread")
        #expect(queued.code == .nameResolutionFailed)
        #expect(queued.message == "resolving db:7000: not looked up within 3.0 seconds: no thread")
        _ = race.resolved(to: [four(1), four(2)], at: start)
        _ = race.attemptFailed(1, refused, at: start)
        let late = race.timeoutError(connectingTo: "db:7000", after: .seconds(3))
        #expect(late.code == .timedOut)
        #expect(late.message.hasSuffix("no answer from 10.0.0.2:7000; refused"))
    }

    /// The name has no IPv6 addresses. This does not explain the timeout of an IPv4 address that was connected but did
    /// not complete the TLS handshake.
    @Test func aFamilyWithoutAddressesIsNotReportedWhenTheOtherHasSome() {
        var race = AddressRace()
        var unknown = TransportError(.nameResolutionFailed, "resolving db: no address associated with the name")
        unknown.isNoSuchName = true
        _ = race.resolved(.ipv6, .failure(unknown), at: start)
        #expect(race.resolved(.ipv4, .success([four(1), four(2)]), at: start).contains(.connect(four(1), id: 1)))
        let silent = race.timeoutError(connectingTo: "db:7000", after: .seconds(3))
        #expect(silent.message == "connecting to db:7000: no link within 3.0 seconds: no answer from 10.0.0.1:7000")
        race.attemptConnected(1)
        let half = race.timeoutError(connectingTo: "db:7000", after: .seconds(3))
        #expect(half.code == .timedOut)
        #expect(
            half.message.hasSuffix("seconds: connected to 10.0.0.1:7000, TLS handshake not completed")
        )
        _ = race.attemptFailed(1, refused, at: start)
        let second = race.timeoutError(connectingTo: "db:7000", after: .seconds(3))
        #expect(second.message.hasSuffix("seconds: no answer from 10.0.0.2:7000; refused"))
        #expect(race.attemptFailed(2, refused, at: start) == [.fail])
        #expect(race.error(connectingTo: "db:7000") == refused)
    }

    // MARK: Properties

    /// Whatever the order of outcomes: the race ends, it fails only after every address that was known by then, every
    /// address is tried at most once, and attempts are never closer than the delay unless one failed.
    @Test func everyRaceEnds() {
        for seed in seeds(2000) { expectRaceToEnd(seed: seed) }
    }

    private func expectRaceToEnd(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var world = World(race: AddressRace(), now: start)
        let sixes = (0..<UInt8.random(in: 0...4, using: &random)).map(six)
        let fours = (0..<UInt8.random(in: 0...4, using: &random)).map(four)
        for (family, addresses) in [(AddressFamily.ipv6, sixes), (.ipv4, fours)] {
            let fails = Int.random(in: 0..<5, using: &random) == 0
            world.plan(
                .answer(family, fails ? .failure(refused) : .success(addresses)),
                after: .milliseconds(Int.random(in: 0...400, using: &random))
            )
        }
        while let event = world.next() {
            let actions = world.take(event)
            for case .connect(_, let id) in actions {
                // One third each: success, failure, and no answer until much later.
                let delay = Duration.milliseconds(Int.random(in: 1...800, using: &random))
                switch Int.random(in: 0..<3, using: &random) {
                case 0: world.plan(.success(id), after: delay)
                case 1: world.plan(.failure(id), after: delay)
                default: world.plan(.failure(id), after: .seconds(75))
                }
            }
        }
        #expect(world.race.phase == .over, "seed \(seed)")
        #expect(world.violations.isEmpty, "seed \(seed): \(world.violations)")
    }
}

/// A race and the events planned for it.
private struct World {
    enum Event {
        case answer(AddressFamily, Result<[SocketAddress], TransportError>)
        case success(Int)
        case failure(Int)
        case timer
    }

    var race: AddressRace
    var now: Instant
    var expected: Set<SocketAddress> = []
    var violations: [String] = []
    private var planned: [(at: Instant, order: Int, event: Event)] = []
    private var order = 0
    private var timer: Instant?
    private var tried: Set<SocketAddress> = []
    private var open: Set<Int> = []
    private var hasFailed = false
    private var lastStart: Instant?
    private var endings = 0

    init(race: AddressRace, now: Instant) {
        self.race = race
        self.now = now
    }

    mutating func plan(_ event: Event, after delay: Duration) {
        order += 1
        planned.append((now.advanced(by: delay), order, event))
    }

    /// The next event. Outcomes may arrive late, so there are events after the end.
    mutating func next() -> Event? {
        let first = planned.indices.min { (planned[$0].at, planned[$0].order) < (planned[$1].at, planned[$1].order) }
        if let timer, first.map({ timer <= planned[$0].at }) ?? true {
            now = max(now, timer)
            self.timer = nil
            return .timer
        }
        guard let first else { return nil }
        now = planned[first].at
        return planned.remove(at: first).event
    }

    mutating func take(_ event: Event) -> [AddressRace.Action] {
        let actions: [AddressRace.Action]
        switch event {
        case .answer(let family, let answer):
            if race.phase != .over { expected.formUnion((try? answer.get()) ?? []) }
            actions = race.resolved(family, answer, at: now)
        case .success(let id): actions = race.attemptSucceeded(id, at: now)
        case .failure(let id):
            hasFailed = true
            open.remove(id)
            actions = race.attemptFailed(id, TransportError(.refused, "refused"), at: now)
        case .timer: actions = race.timerFired(at: now)
        }
        for action in actions { check(action) }
        return actions
    }

    private mutating func check(_ action: AddressRace.Action) {
        if endings > 0 { violations.append("\(action) after the end") }
        switch action {
        case .connect(let address, let id):
            if !tried.insert(address).inserted { violations.append("\(address) twice") }
            if let lastStart, !hasFailed, now.since(lastStart) < race.policy.attemptDelay {
                violations.append("attempt \(id) too early")
            }
            lastStart = now
            hasFailed = false
            open.insert(id)
        case .arm(let instant): timer = instant
        case .close(let id):
            if open.remove(id) == nil { violations.append("closed \(id), which is not open") }
        case .won(let id):
            endings += 1
            if open != [id] { violations.append("won \(id) while \(open) are open") }
            timer = nil
        case .fail:
            endings += 1
            if !open.isEmpty { violations.append("failed while \(open) are open") }
            if tried != expected { violations.append("failed with addresses untried") }
        }
    }
}
