import Testing

@testable import TrunklineCore
@testable import TrunklineIO

/// Planned changes: the next link is established while the present one works.
@Suite struct PlannedChangeTests: ReconnectTesting {}

extension PlannedChangeTests {
    /// A machine with a link to the first endpoint, session 1.
    private func ready(
        _ endpoints: [Endpoint] = ["a:1", "b:1", "c:1"],
        _ change: (inout ReconnectMachine.Policy) -> Void = { _ in }
    ) throws -> ReconnectMachine {
        var machine = machine(endpoints, change)
        _ = machine.linkReady(try attempt(machine.linkNeeded(at: now)).id, at: now)
        return machine
    }

    @Test func theLinkStaysUntilTheNextIsReady() throws {
        var machine = try ready()
        let next = try attempt(machine.switchEndpoint(to: "c:1", at: now))
        #expect(next.endpoint == "c:1")
        #expect(machine.state == .ready(session: 1))
        let beginning = machine.linkReady(next.id, at: after(1))
        #expect(beginning == .drain(session: 1, then: .none) && machine.lastCause == .closedLocally)
        #expect(machine.state == .ready(session: next.id))
        #expect(machine.change == nil)
    }

    @Test func aFailedSwitchIsRetriedAtThePaceOfThePolicy() throws {
        var machine = try ready {
            $0.reconnect = Backoff(minimum: .seconds(1), base: .seconds(1), cap: .seconds(1))
        }
        var next = try attempt(machine.switchEndpoint(to: "c:1", at: now))
        for round in 1...5 {
            let until = try wait(machine.attemptFailed(next.id, .refused, at: after(Double(round - 1))))
            #expect(until == after(Double(round)))
            #expect(machine.state == .ready(session: 1))
            next = try attempt(machine.timerFired(at: until))
            #expect(next.endpoint == "c:1" && next.number == round + 1)
        }
        // The failures do not count against the endpoint of the link.
        #expect(machine.failures == 0 && machine.round == 0)
    }

    @Test(arguments: [true, false])
    func givingUpAChangeKeepsTheLink(isRefused: Bool) throws {
        var machine = try ready { if !isRefused { $0.maximumAttempts = 1 } }
        let next = try attempt(machine.switchEndpoint(to: "c:1", at: now))
        #expect(machine.attemptFailed(next.id, .tls, isPermanent: isRefused, at: now) == .rest)
        #expect(machine.state == .ready(session: 1))
        #expect(machine.deadline == nil)
    }

    /// Regression: it counted as a failure of the server, so the change was given up while there was no network.
    @Test func withoutARouteAChangeWaitsForOne() throws {
        var machine = try ready { $0.maximumAttempts = 1 }
        let next = try attempt(machine.switchEndpoint(to: "c:1", at: now))
        let until = try wait(machine.attemptFailed(next.id, .unreachable, hasRoute: false, at: now))
        #expect(until == after(60) && machine.change?.failures == 0 && machine.ring.isHealthy("c:1", at: now))
        let soon = try wait(machine.networkChanged(at: after(10)))
        #expect(soon <= after(10.1))
        let again = try attempt(machine.timerFired(at: soon))
        #expect(again.endpoint == "c:1" && again.number == 1)
        // The cause may lie elsewhere, such as in a proxy: then the policy says how long to wait.
        let pause = try wait(machine.attemptFailed(again.id, .proxy, hasRoute: false, isOfThisHost: false, at: soon))
        #expect(pause == soon.advanced(by: .seconds(1)) && machine.change?.failures == 0)
    }

    @Test func withoutARouteTheReconnectPolicyMayGiveUpAChange() throws {
        var machine = try ready { $0.reconnect = NoRetries() }
        let next = try attempt(machine.switchEndpoint(to: "c:1", at: now))
        #expect(machine.attemptFailed(next.id, .unreachable, hasRoute: false, at: now) == .rest)
        #expect(machine.change == nil)
    }

    @Test func switchingBackEndsTheChange() throws {
        var machine = try ready()
        _ = machine.switchEndpoint(to: "c:1", at: now)
        #expect(machine.switchEndpoint(to: "a:1", at: now) == .rest)
        #expect(machine.change == nil)
        #expect(machine.linkReady(2, at: now) == nil)
    }

    @Test func theAttemptOfAChangeContinuesWhenTheLinkIsLost() throws {
        var machine = try ready()
        let next = try attempt(machine.leave(1, because: .goAway, at: now))
        #expect(next.endpoint == "b:1")
        #expect(machine.linkLost(1, .closedByServer, at: now) == .none)
        #expect(machine.state == .connecting(next))
        let beginning = machine.linkReady(next.id, at: now)
        #expect(beginning == ReconnectMachine.Action.none)
    }

    @Test func aSwitchIsRememberedWhenTheLinkIsLostBetweenTwoAttempts() throws {
        var machine = try ready()
        let next = try attempt(machine.switchEndpoint(to: "c:1", at: now))
        _ = machine.attemptFailed(next.id, .refused, at: now)
        let until = try wait(machine.linkLost(1, .reset, at: now))
        #expect(try attempt(machine.timerFired(at: until)).endpoint == "c:1")
    }

    @Test func afterGoAwayEveryOtherEndpointIsTriedBeforeAWait() throws {
        var machine = try ready()
        let b = try attempt(machine.leave(1, because: .goAway, at: now))
        let c = try attempt(machine.attemptFailed(b.id, .refused, at: now))
        #expect([b.endpoint, c.endpoint] == ["b:1", "c:1"])
        #expect(try wait(machine.attemptFailed(c.id, .refused, at: now)) == after(1))
        #expect(machine.state == .ready(session: 1))
    }

    @Test func goAwayDuringARenewalLeadsToAnotherEndpoint() throws {
        var machine = try ready { $0.maximumLinkAge = .seconds(60) }
        let same = try attempt(machine.renew(because: .request, at: now))
        #expect(same.endpoint == "a:1")
        let other = try attempt(machine.leave(1, because: .goAway, at: now))
        #expect(other.endpoint == "b:1")
        #expect(machine.leave(1, because: .goAway, at: now) == .none)
        #expect(machine.linkReady(same.id, at: now) == nil)
    }

    @Test func aRepeatedGoAwayDoesNotChangeThePace() throws {
        var machine = try ready(["a:1"])
        let until = try wait(machine.leave(1, because: .goAway, at: now))
        #expect(try wait(machine.leave(1, because: .goAway, at: after(0.5))) == until)
        let next = try attempt(machine.timerFired(at: until))
        #expect(machine.leave(1, because: .goAway, at: until) == .none)
        #expect(machine.attempt == next)
    }

    @Test func aLinkThatEndsWithItsGoAwayDrainsAtOnce() throws {
        var machine = try ready()
        let action = machine.leave(1, because: .goAway, isLinkEnding: true, at: now)
        #expect(action == .drain(session: 1, then: .connect(try attempt(action))))
    }

    @Test func closingEndsTheChange() throws {
        var machine = try ready()
        let next = try attempt(machine.switchEndpoint(to: "c:1", at: now))
        machine.close()
        #expect(machine.change == nil && machine.attempt == nil)
        #expect(machine.linkReady(next.id, at: now) == nil)
    }

    @Test func withoutSendingAfterGoAwayTheLinkDrainsAtOnce() throws {
        var machine = try ready { $0.sendsAfterGoAway = false }
        let action = machine.leave(1, because: .goAway, at: now)
        #expect(action == .drain(session: 1, then: .connect(try attempt(action))))
    }

    @Test func whenLinksMustNotOverlapThePresentOneDrainsFirst() throws {
        var machine = try ready { $0.overlapsLinks = false }
        var copy = machine
        for action in [copy.renew(because: .request, at: now), machine.switchEndpoint(to: "b:1", at: now)] {
            #expect(action == .drain(session: 1, then: .connect(try attempt(action))))
        }
    }

    /// The last response of a link does not count against its server. Requests do not wait for another server that may
    /// be down.
    @Test func afterTheLastResponseTheChangeIsPostponed() throws {
        var machine = try ready()
        let other = try attempt(machine.switchEndpoint(to: "c:1", at: now))
        let until = try wait(machine.attemptFailed(other.id, .refused, at: now))
        let same = try attempt(machine.leave(1, because: .lastResponse, at: now))
        #expect(same.endpoint == "a:1")
        _ = machine.linkReady(same.id, at: now)
        #expect(machine.deadline == until)
        #expect(try attempt(machine.timerFired(at: until)).endpoint == "c:1")
    }

    /// If every response were the last of its link, an attempt at a chosen endpoint would otherwise never complete.
    @Test func anAttemptAtAChosenEndpointContinuesAfterTheLastResponse() throws {
        var machine = try ready()
        let other = try attempt(machine.switchEndpoint(to: "c:1", at: now))
        for demand in [ReconnectMachine.Demand.none, .request] {
            var machine = machine
            #expect(
                machine.leave(1, because: .lastResponse, demand: demand, at: now) == .drain(session: 1, then: .none)
            )
            #expect(machine.state == .connecting(other))
        }
    }

    /// Many short links do not lead to as many attempts at a preferred endpoint that may be down.
    @Test func withShortLinksAReturnIsTriedOncePerSecond() throws {
        var machine = machine(["a:1", "b:1"]) {
            $0.returnsToPreferredAfter = .seconds(10)
            $0.halfLife = .zero
        }
        let first = try attempt(machine.linkNeeded(at: now))
        var link = try attempt(machine.attemptFailed(first.id, .refused, at: now))
        var tries = 0
        for step in 0..<2000 {
            let time = after(20 + Double(step) * 0.01)
            _ = machine.linkReady(link.id, at: time)
            if let until = machine.deadline, until <= time, case .connect(let attempt) = machine.timerFired(at: time) {
                #expect(attempt.endpoint == "a:1")
                tries += 1
            }
            link = try attempt(machine.leave(link.id, because: .lastResponse, at: time))
            #expect(link.endpoint == "b:1")
        }
        #expect(tries >= 1 && tries <= 11)
    }

    @Test func aLinkWithASilentServerDrainsAndTheAttemptContinues() throws {
        var machine = try ready()
        let next = try attempt(machine.switchEndpoint(to: "c:1", at: now))
        #expect(machine.leave(1, because: .silence, at: now) == .drain(session: 1, then: .none))
        #expect(machine.state == .connecting(next))
        #expect(!machine.ring.isHealthy("a:1", at: now))
    }

    /// An endpoint that cannot be reached does not prevent the renewal of the link.
    @Test func aLinkIsRenewedBetweenTwoAttemptsAtAnotherEndpoint() throws {
        var machine = try ready { $0.maximumLinkAge = .seconds(100) }
        let age = try #require(machine.deadline)
        var time = now
        var next = try attempt(machine.switchEndpoint(to: "c:1", at: time))
        while true {
            let until = try wait(machine.attemptFailed(next.id, .refused, at: time))
            #expect(until <= age)
            time = until
            next = try attempt(machine.timerFired(at: time))
            if next.endpoint == "a:1" { break }
        }
        #expect(time == age)
        _ = machine.linkReady(next.id, at: time)
        #expect(machine.change?.reason == .choice)
        // A renewal that fails does not prevent the switch either.
        var failing = machine
        let renewal = try attempt(failing.renew(because: .request, at: time))
        #expect(renewal.endpoint == "a:1")
        #expect(failing.attemptFailed(renewal.id, .tls, isPermanent: true, at: time) == .rest)
        #expect(failing.change?.reason == .choice)
    }

    @Test func suspensionEndsTheLinkAndTheChange() throws {
        var machine = try ready()
        _ = machine.switchEndpoint(to: "c:1", at: now)
        #expect(machine.suspend(at: now) == .close(session: 1))
        #expect(machine.change == nil && machine.attempt == nil)
    }

    @Test func aLinkIsReplacedAtItsMaximumAge() throws {
        for seed in 0..<50 as Range<UInt64> {
            var policy = ReconnectMachine.Policy()
            policy.maximumLinkAge = .seconds(100)
            var machine = ReconnectMachine(endpoints: ["a:1", "b:1"], policy: policy, seed: seed)
            _ = machine.linkReady(try attempt(machine.linkNeeded(at: now)).id, at: now)
            let age = try #require(machine.deadline)
            #expect(age >= after(90) && age <= after(100))
            let next = try attempt(machine.timerFired(at: age))
            #expect(next.endpoint == "a:1")
            let again = machine.linkReady(next.id, at: age)
            #expect(again == .drain(session: 1, then: .none))
            #expect(try #require(machine.deadline) >= age.advanced(by: .seconds(90)))
        }
        for age in [Duration.seconds(Int64.max), .seconds(-1)] { _ = try ready { $0.maximumLinkAge = age } }
    }

    @Test func aRenewalThatIsGivenUpIsRetriedAtTheNextMaximumAge() throws {
        var machine = try ready {
            $0.maximumLinkAge = .seconds(100)
            $0.reconnect = NoRetries()
        }
        let age = try #require(machine.deadline)
        let next = try attempt(machine.timerFired(at: age))
        #expect(machine.attemptFailed(next.id, .refused, at: age) == .rest)
        #expect(try #require(machine.deadline) >= age.advanced(by: .seconds(90)))
    }

    /// Regression: the link kept the reason of a renewal that had failed, or had not begun, and gave it to the next one.
    @Test func aRenewalHasItsOwnReason() throws {
        var machine = try ready {
            $0.maximumLinkAge = .seconds(100)
            $0.reconnect = NoRetries()
        }
        let failing = try attempt(machine.renew(because: .request, at: now))
        #expect(machine.renew(because: .files, at: now) == .none)
        #expect(machine.attemptFailed(failing.id, .refused, at: now) == .rest)
        let age = try #require(machine.deadline)
        let next = try attempt(machine.timerFired(at: age))
        #expect(machine.linkReady(next.id, at: age) == .drain(session: 1, then: .none))
        #expect(machine.lastReplacement == .renewal(.age))
    }

    // MARK: A renewal that is owed

    /// What happens to a renewal that the link needs, when another change was under way and is given up.
    @Test(arguments: [
        (PlannedChange.Reason.choice, 0.0), (.preference, 0), (.renewal(.age), 60), (.goAway, 60), (.removal, 60),
    ])
    func anOwedRenewalFollowsAChangeThatIsGivenUp(_ reason: PlannedChange.Reason, delay: Double) throws {
        var machine = try ready {
            $0.reconnect = NoRetries()
            $0.maximumAttempts = 1
        }
        machine.change = PlannedChange(reason: reason, target: reason == .choice ? "c:1" : "b:1", round: 0)
        let next = try attempt(machine.reconnectNow(at: now))
        #expect(machine.oweRenewal(at: now) == ReconnectMachine.Action.none)
        #expect(machine.change?.attempt == next)
        #expect(machine.attemptFailed(next.id, .refused, at: after(1)) == .rest)
        #expect(machine.deadline == after(1 + delay))
        let renewal = try attempt(machine.timerFired(at: after(1 + delay)))
        #expect(renewal.endpoint == "a:1" && machine.change?.reason == .renewal(.subscription))
        // It is owed until a link is ready.
        #expect(machine.attemptFailed(renewal.id, .refused, at: after(100)) == .rest)
        let last = try attempt(machine.timerFired(at: after(160)))
        #expect(machine.linkReady(last.id, at: after(161)) == .drain(session: 1, then: .none))
        #expect(machine.link?.owesRenewal == false && machine.deadline == nil)
    }

    @Test func anOwedRenewalTakesPlaceBetweenTwoAttemptsElsewhere() throws {
        var machine = try ready()
        let next = try attempt(machine.switchEndpoint(to: "c:1", at: now))
        #expect(machine.oweRenewal(at: now) == ReconnectMachine.Action.none)
        #expect(try wait(machine.attemptFailed(next.id, .refused, at: now)) == now)
        #expect(try attempt(machine.timerFired(at: now)).endpoint == "a:1")
        #expect(machine.change?.reason == .renewal(.subscription) && machine.postponed?.target == "c:1")
    }

    @Test func anotherLinkPaysAnOwedRenewal() throws {
        for ending in [0, 1, 2] {
            var machine = try ready()
            let next = try attempt(machine.switchEndpoint(to: "c:1", at: now))
            _ = machine.oweRenewal(at: now)
            switch ending {
            case 0: _ = machine.linkReady(next.id, at: now)
            case 1: _ = machine.linkLost(1, .reset, at: now)
            default: _ = machine.suspend(at: now)
            }
            #expect(machine.link?.owesRenewal != true && machine.deadline == nil)
        }
    }

    @Test func anOwedRenewalBeginsWhenTheCallerReturnsToTheLink() throws {
        var machine = try ready()
        _ = machine.switchEndpoint(to: "c:1", at: now)
        _ = machine.oweRenewal(at: now)
        #expect(machine.switchEndpoint(to: "a:1", at: now) == .rest)
        #expect(try attempt(machine.timerFired(at: now)).endpoint == "a:1")
    }

    // MARK: The list of endpoints

    @Test func theLinkToARemovedEndpointStaysUntilTheNextIsReady() throws {
        var machine = try ready()
        let next = try attempt(machine.replaceEndpoints(["d:1"], at: now))
        #expect(next.endpoint == "d:1")
        #expect(machine.state == .ready(session: 1))
        // The next endpoint is removed in turn.
        #expect(try attempt(machine.replaceEndpoints(["e:1"], at: now)).endpoint == "e:1")
        #expect(machine.replaceEndpoints(["a:1"], at: now) == .rest)
        #expect(machine.change == nil)
    }

    /// Regression: the attempt of the renewal continued. Its link was never ready, but stood before those that were.
    @Test func anAttemptAtARemovedEndpointEndsAlthoughAnotherChangeContinues() throws {
        var machine = try ready()
        let next = try attempt(machine.switchEndpoint(to: "c:1", at: now))
        _ = machine.attemptFailed(next.id, .refused, at: now)
        #expect(try attempt(machine.renew(because: .request, at: now)).endpoint == "a:1")
        #expect(machine.replaceEndpoints(["c:1"], at: now) == .rest)
        #expect(machine.attempt == nil && machine.change?.reason == .removal)
    }

    @Test func theAttemptOfAChangeCanBeRestarted() throws {
        var machine = try ready()
        let first = try attempt(machine.switchEndpoint(to: "c:1", at: now))
        let second = try attempt(machine.restartAttempt(at: now))
        #expect(second.endpoint == first.endpoint && second.id.number == first.id.number + 1)
        #expect(machine.linkReady(first.id, at: now) == nil)
    }

    /// Servers that accept a link and send goAway before any work: every link becomes ready, and none proves itself.
    @Test func waitsGrowWhenServersSendGoAwayBeforeAnyWork() throws {
        var machine = machine(["a:1"]) {
            $0.reconnect = Backoff(minimum: .seconds(1), base: .seconds(1), cap: .seconds(64))
        }
        var next = try attempt(machine.linkNeeded(at: now))
        var time = now
        for round in 0..<6 {
            _ = machine.linkReady(next.id, at: time)
            #expect(machine.round >= round)
            time = try wait(machine.leave(next.id, because: .goAway, at: time))
            next = try attempt(machine.timerFired(at: time))
        }
    }
}
