import Testing

@testable import TrunklineCore
@testable import TrunklineIO

/// Hints of servers and commands of the application, over several inputs.
@Suite struct ReconnectCommandTests: ReconnectTesting {}

extension ReconnectCommandTests {
    // MARK: A server's hint

    @Test func aHintIsTheMinimumWaitWithUpToATenthMore() throws {
        for seed in 0..<100 as Range<UInt64> {
            var policy = ReconnectMachine.Policy()
            policy.reconnect = Backoff(minimum: .seconds(1), cap: .seconds(1))
            var machine = ReconnectMachine(endpoints: ["a:1"], policy: policy, seed: seed)
            _ = machine.linkReady(try attempt(machine.linkNeeded(at: now)).id, at: now)
            let until = try wait(machine.linkLost(1, .closedByServer, retryAfter: .seconds(20), at: now))
            #expect(until >= after(20) && until <= after(22))
            let again = try attempt(machine.timerFired(at: until))
            let short = try wait(machine.attemptFailed(again.id, .refused, retryAfter: .milliseconds(1), at: until))
            #expect(short == until.advanced(by: .seconds(1)))
        }
    }

    @Test func aHintAppliesOnlyToItsServer() throws {
        var machine = machine()
        let a = try attempt(machine.linkNeeded(at: now))
        let b = try attempt(machine.attemptFailed(a.id, .handshakeRefused, retryAfter: .seconds(60), at: now))
        var time = try wait(machine.attemptFailed(b.id, .refused, at: now))
        #expect(time == after(1))
        while time < after(60) {
            let attempt = try attempt(machine.timerFired(at: time))
            #expect(attempt.endpoint == "b:1")
            time = try wait(machine.attemptFailed(attempt.id, .refused, at: time))
        }
        #expect(try attempt(machine.timerFired(at: after(67))).endpoint == "a:1")
    }

    @Test func hintsAreClamped() throws {
        for hint in [Duration.seconds(Int64.max), .seconds(1 << 40)] {
            var machine = machine(["a:1"])
            _ = machine.linkReady(try attempt(machine.linkNeeded(at: now)).id, at: now)
            #expect(try wait(machine.leave(1, because: .goAway, retryAfter: hint, at: now)) <= after(3960))
        }
        var machine = machine(["a:1"])
        _ = machine.linkReady(try attempt(machine.linkNeeded(at: now)).id, at: now)
        #expect(try wait(machine.linkLost(1, .reset, retryAfter: .seconds(-5), at: now)) == after(1))
    }

    @Test func reconnectNowSkipsAHintAndKeepsTheBackoff() throws {
        var machine = machine(["a:1"]) { $0.reconnect = Backoff(base: .seconds(1), factor: 2, cap: .seconds(1000)) }
        _ = machine.linkReady(try attempt(machine.linkNeeded(at: now)).id, at: now)
        _ = machine.linkLost(1, .closedByServer, retryAfter: .seconds(60), at: now)
        let attempt = try attempt(machine.reconnectNow(at: now))
        #expect(machine.round == 1)
        #expect(try wait(machine.attemptFailed(attempt.id, .refused, at: now)) >= after(60))
        #expect(machine.round == 2)
    }

    // MARK: Other endpoints

    /// Two servers that each sent their clients to the other made the clients alternate without a wait. It made no
    /// difference whether each server answered first.
    @Test(arguments: [false, true])
    func twoServersThatSendGoAwayGetOneTurnEachBeforeAWait(answering: Bool) throws {
        var machine = machine(["a:1", "b:1"]) { $0.reconnect = Backoff(minimum: .seconds(1), cap: .seconds(1)) }
        let a = try attempt(machine.linkNeeded(at: now))
        _ = machine.linkReady(a.id, at: now)
        if answering { machine.linkAnswered() }
        let b = try attempt(machine.leave(a.id, because: .goAway, at: now))
        #expect(b.endpoint == "b:1")
        _ = machine.linkReady(b.id, at: now)
        if answering { machine.linkAnswered() }
        #expect(machine.leave(b.id, because: .goAway, at: now) == .wait(until: after(1)))
    }

    @Test func afterAFailedSwitchWithoutALinkTheOtherEndpointsAreTried() throws {
        var machine = machine(["a:1", "b:1", "c:1"])
        _ = try attempt(machine.linkNeeded(at: now))
        let c = try attempt(machine.switchEndpoint(to: "c:1", at: now))
        #expect(c.endpoint == "c:1")
        #expect(try attempt(machine.attemptFailed(c.id, .refused, at: now)).endpoint == "a:1")
    }

    @Test func aSwitchWithoutDemandDeterminesTheNextAttempt() throws {
        var machine = machine()
        #expect(machine.switchEndpoint(to: "b:1", at: now) == ReconnectMachine.Action.none)
        #expect(try attempt(machine.linkNeeded(at: now)).endpoint == "b:1")
    }

    @Test func afterGoAwayTheOnlyServerIsTriedAgainAfterAWait() throws {
        var machine = machine(["a:1"])
        _ = machine.linkReady(try attempt(machine.linkNeeded(at: now)).id, at: now)
        let action = machine.leave(1, because: .goAway, at: after(20))
        #expect(action == .wait(until: after(21)))
        #expect(machine.state == .ready(session: 1))
        #expect(try attempt(machine.timerFired(at: after(21))).endpoint == "a:1")
    }

    /// A server that closes links after a number of requests used to be treated like one that sends goAway: its clients
    /// waited ever longer, and tried all other servers first.
    @Test(arguments: [ReconnectMachine.Departure.lastResponse, .unanswered, .exhausted])
    func afterTheLastResponseOfALinkTheSameServerIsTriedAtOnce(_ departure: ReconnectMachine.Departure) throws {
        for endpoints in [["a:1"], ["a:1", "b:1"]] as [[Endpoint]] {
            var machine = machine(endpoints)
            var attempt = try attempt(machine.linkNeeded(at: now))
            for round in 1...100 {
                #expect(attempt.endpoint == "a:1" && attempt.number == 1)
                _ = machine.linkReady(attempt.id, at: now)
                let action = machine.leave(attempt.id, because: departure, at: now)
                guard case .drain(attempt.id, .connect(let next)) = action else {
                    Issue.record("no attempt in round \(round)")
                    return
                }
                #expect(machine.lastCause == departure.cause)
                attempt = next
            }
            #expect(machine.round == 0)
            #expect(machine.ring.isHealthy("a:1", at: now))
        }
    }

    @Test func afterSilenceAnotherServerIsTried() throws {
        var machine = machine(["a:1", "b:1"])
        let first = try attempt(machine.linkNeeded(at: now))
        _ = machine.linkReady(first.id, at: now)
        let action = machine.leave(first.id, because: .silence, at: after(60))
        guard case .drain(first.id, .connect(let next)) = action else {
            Issue.record("\(action)")
            return
        }
        #expect(next.endpoint == "b:1")
        #expect(machine.lastCause == .unanswered)
        #expect(!machine.ring.isHealthy("a:1", at: after(60)))
    }

    @Test func afterSilenceTheOnlyServerIsTriedAgainAfterAWait() throws {
        var machine = machine(["a:1"])
        _ = machine.linkReady(try attempt(machine.linkNeeded(at: now)).id, at: now)
        let action = machine.leave(1, because: .silence, at: after(60))
        #expect(action == .drain(session: 1, then: .wait(until: after(61))))
    }

    /// A server that accepted links and answered nothing was tried again for ever: each link lasted longer than
    /// `stableAfter` before its silence was noticed.
    @Test func aLossMayCountAgainstTheEndpointHoweverLongTheLinkLasted() throws {
        var machine = machine(["a:1", "b:1"])
        let first = try attempt(machine.linkNeeded(at: now))
        _ = machine.linkReady(first.id, at: now)
        let lost = machine.linkLost(first.id, .halfOpen, countsAgainstEndpoint: true, at: after(60))
        let next = try wait(lost)
        #expect(try attempt(machine.timerFired(at: next)).endpoint == "b:1")
    }

    /// A link that nothing needs would hold the only slot of a small server.
    @Test func afterTheLastResponseNoLinkBeginsWithoutDemand() throws {
        var machine = machine(["a:1", "b:1"])
        var attempt = try attempt(machine.linkNeeded(at: now))
        for _ in 1...100 {
            _ = machine.linkReady(attempt.id, at: now)
            let action = machine.leave(attempt.id, because: .lastResponse, demand: .none, at: now)
            #expect(action == .drain(session: attempt.id, then: .rest))
            #expect(machine.state == .idle && machine.lastCause == .goAway)
            // The next request connects to the same server, without a wait.
            attempt = try self.attempt(machine.linkNeeded(at: now))
            #expect(attempt.endpoint == "a:1" && attempt.number == 1)
        }
        var warm = self.machine(["a:1"]) { $0.keepsLinkWarm = true }
        _ = warm.linkReady(try self.attempt(warm.linkNeeded(at: now)).id, at: now)
        #expect(try self.attempt(warm.leave(1, because: .lastResponse, demand: .none, at: now)).endpoint == "a:1")
    }

    @Test func aLastResponseWithAHintDelaysTheNextAttempt() throws {
        var machine = machine(["a:1"])
        _ = machine.linkReady(try attempt(machine.linkNeeded(at: now)).id, at: now)
        #expect(try wait(machine.leave(1, because: .lastResponse, retryAfter: .seconds(20), at: now)) >= after(20))
    }

    @Test func anErrorRateDoesNotLeadToAnEndpointThatFailedRecently() throws {
        var machine = machine()
        let a = try attempt(machine.linkNeeded(at: now))
        let b = try attempt(machine.attemptFailed(a.id, .refused, at: now))
        _ = machine.linkReady(b.id, at: now)
        #expect(machine.leave(b.id, because: .errorRate, at: after(1)) == .none)
        #expect(machine.state == .ready(session: b.id))
        #expect(try attempt(machine.leave(b.id, because: .errorRate, at: after(100))).endpoint == "a:1")
        var alone = self.machine(["a:1"])
        _ = alone.linkReady(try attempt(alone.linkNeeded(at: now)).id, at: now)
        #expect(alone.leave(1, because: .errorRate, at: now) == .none)
    }

    @Test func theClientReturnsToThePreferredEndpointWhenConfigured() throws {
        var machine = machine { $0.returnsToPreferredAfter = .seconds(60) }
        let a = try attempt(machine.linkNeeded(at: now))
        #expect(machine.deadline == nil)
        let b = try attempt(machine.attemptFailed(a.id, .refused, at: now))
        _ = machine.linkReady(b.id, at: now)
        #expect(machine.deadline == after(60))
        #expect(machine.timerFired(at: after(59)) == .wait(until: after(60)))
        // The failure of the preferred endpoint is not forgotten yet, so the client keeps the working link.
        #expect(machine.timerFired(at: after(60)) == .wait(until: after(120)))
        #expect(machine.deadline == after(120))
        let action = machine.timerFired(at: after(120))
        #expect(try attempt(action).endpoint == "a:1")
        #expect(machine.state == .ready(session: b.id))
        _ = machine.linkReady(try attempt(action).id, at: after(121))
        #expect(machine.deadline == nil)
    }

    /// Links that end after a number of requests are shorter than `returnsToPreferredAfter`, which used to start again
    /// with each link.
    @Test func shortLinksDoNotDelayTheReturnToThePreferredEndpoint() throws {
        var machine = machine { $0.returnsToPreferredAfter = .seconds(60) }
        let a = try attempt(machine.linkNeeded(at: now))
        var b = try attempt(machine.attemptFailed(a.id, .refused, at: now))
        for second in 0..<10 {
            _ = machine.linkReady(b.id, at: after(Double(second)))
            #expect(machine.deadline == after(60))
            b = try attempt(machine.leave(b.id, because: .lastResponse, at: after(Double(second))))
            #expect(b.endpoint == "b:1")
        }
    }

    // MARK: Suspension and replacement

    @Test func aSuspendedMachineRemembersThatALinkIsNeeded() throws {
        var machine = machine()
        _ = machine.suspend(at: now)
        var unwanted = machine
        #expect(unwanted.resume(at: now) == .none)
        #expect(unwanted.state == .idle)
        #expect(machine.linkNeeded(at: now) == .none)
        #expect(try attempt(machine.resume(at: now)).endpoint == "a:1")
        _ = machine.suspend(at: now)
        #expect(machine.linkReady(1, at: now) == nil)
        #expect(try attempt(machine.resume(at: now)).id == 2)
    }

    @Test func aResumedMachineStillObeysAHint() throws {
        var machine = machine(["a:1"])
        _ = machine.linkReady(try attempt(machine.linkNeeded(at: now)).id, at: now)
        _ = machine.linkLost(1, .goAway, retryAfter: .seconds(60), at: now)
        #expect(machine.suspend(at: now) == .rest)
        #expect(try wait(machine.resume(at: now)) >= after(60))
    }

    @Test func aLinkOutlivesAnEmptyListButNotTheNextList() throws {
        var machine = machine()
        _ = machine.linkReady(try attempt(machine.linkNeeded(at: now)).id, at: now)
        #expect(machine.replaceEndpoints([], at: now) == .none)
        var lost = machine
        #expect(lost.linkLost(1, .reset, at: now) == .giveUp)
        #expect(lost.linkNeeded(at: after(60)) == .giveUp)
        #expect(try attempt(machine.replaceEndpoints(["c:1"], at: now)).endpoint == "c:1")
    }

    /// The list becomes empty, the link is lost, and the list is filled again. The pause after giving up used to last
    /// as long as the default policy's wait, half a minute after a few rounds, instead of the configured policy's.
    @Test func thePauseAfterAnEmptyListFollowsThePolicy() throws {
        var machine = machine()
        _ = machine.linkReady(try attempt(machine.linkNeeded(at: now)).id, at: now)
        _ = machine.replaceEndpoints([], at: now)
        #expect(machine.linkLost(1, .reset, at: now) == .giveUp)
        #expect(machine.replaceEndpoints(["c:1"], at: now) == .none)
        #expect(try wait(machine.linkNeeded(at: now)) == after(1))
    }

    /// A hint of one hour, from a server that has been replaced since.
    @Test func aHintOfARemovedServerDoesNotDelayItsReplacement() throws {
        var machine = machine(["a:1"])
        _ = machine.linkReady(try attempt(machine.linkNeeded(at: now)).id, at: now)
        #expect(try wait(machine.leave(1, because: .silence, retryAfter: .seconds(3600), at: now)) >= after(60))
        #expect(try wait(machine.replaceEndpoints(["a:1", "b:1"], at: now)) == after(1))
        #expect(machine.replaceEndpoints(["b:1"], at: now) == .none)
        #expect(try attempt(machine.timerFired(at: after(1))).endpoint == "b:1")
    }
}
