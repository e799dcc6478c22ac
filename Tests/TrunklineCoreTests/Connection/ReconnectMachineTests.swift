import Testing

@testable import TrunklineCore
@testable import TrunklineIO

/// The machine over several inputs. `ReconnectTableTests` has the single inputs.
@Suite struct ReconnectMachineTests: ReconnectTesting {}

extension ReconnectMachineTests {
    // MARK: Rounds

    @Test func everyEndpointIsTriedBeforeAWait() throws {
        var machine = machine()
        let a = try attempt(machine.linkNeeded(at: now))
        #expect(a.endpoint == "a:1")
        let b = try attempt(machine.attemptFailed(a.id, .refused, at: now))
        #expect(b.endpoint == "b:1")
        #expect(b.number == 2)
        let until = try wait(machine.attemptFailed(b.id, .timedOut, at: now))
        #expect(until == after(1))
        #expect(machine.state == .waiting(until: until, attempt: 3, cause: .timedOut))
        #expect(try attempt(machine.timerFired(at: until)).endpoint == "a:1")
    }

    @Test func theOutcomeOfAnEarlierAttemptIsIgnored() throws {
        var machine = machine()
        let a = try attempt(machine.linkNeeded(at: now))
        let b = try attempt(machine.attemptFailed(a.id, .refused, at: now))
        let before = machine.state
        #expect(machine.attemptFailed(a.id, .refused, at: now) == .none)
        #expect(machine.linkReady(a.id, at: now) == nil)
        #expect(machine.linkLost(a.id, .reset, at: now) == .none)
        #expect(machine.state == before)
        #expect(machine.linkReady(b.id, at: now) != nil)
        #expect(machine.attemptFailed(b.id, .refused, at: now) == .none)
    }

    @Test func afterLosingAStableLinkItsEndpointIsTriedFirst() throws {
        var machine = machine()
        let a = try attempt(machine.linkNeeded(at: now))
        let b = try attempt(machine.attemptFailed(a.id, .refused, at: now))
        _ = machine.linkReady(b.id, at: now)
        let until = try wait(machine.linkLost(b.id, .reset, at: after(1000)))
        #expect(until == after(1001))
        #expect(try attempt(machine.timerFired(at: until)).endpoint == "b:1")
    }

    /// Regression: the next attempt went to the server that was probably down, and took all of its time.
    @Test(arguments: [DisconnectCause.halfOpen, .timedOut, .unreachable])
    func afterAServerHasGoneSilentTheOtherEndpointIsTriedFirst(_ cause: DisconnectCause) throws {
        for isOurNetwork in [false, true] {
            var machine = machine()
            let a = try attempt(machine.linkNeeded(at: now))
            _ = machine.linkReady(a.id, at: now)
            machine.linkAnswered()
            let action = machine.linkLost(a.id, cause, isOurNetwork: isOurNetwork, at: after(1000))
            if isOurNetwork {
                // This says nothing about the server.
                #expect(try attempt(action).endpoint == "a:1")
            } else {
                // The link has worked, so the back-off begins anew.
                let until = try wait(action)
                #expect(until == after(1001))
                let b = try attempt(machine.timerFired(at: until))
                #expect(b.endpoint == "b:1" && b.number == 1)
            }
        }
    }

    /// A server that accepts and closes at once must not keep its clients from a working server.
    @Test func afterLosingAShortLinkTheOtherEndpointIsTriedFirst() throws {
        var machine = machine()
        let a = try attempt(machine.linkNeeded(at: now))
        _ = machine.linkReady(a.id, at: now)
        let until = try wait(machine.linkLost(a.id, .closedByServer, at: after(1)))
        #expect(try attempt(machine.timerFired(at: until)).endpoint == "b:1")
    }

    /// Links that are lost at once make the waits grow. A stable link resets them.
    @Test func onlyAStableLinkResetsTheBackoff() throws {
        func longestWait(lifetime: Duration) throws -> Duration {
            var longest = Duration.zero
            var machine = machine(["a:1"]) { $0.reconnect = Backoff() }
            var time = now
            var next = machine.linkNeeded(at: time)
            for _ in 0..<20 {
                let attempt = try attempt(next)
                _ = machine.linkReady(attempt.id, at: time)
                time = time.advanced(by: lifetime)
                let until = try wait(machine.linkLost(attempt.id, .reset, at: time))
                longest = max(longest, until.since(time))
                time = until
                next = machine.timerFired(at: time)
            }
            return longest
        }
        #expect(try longestWait(lifetime: .seconds(11)) <= .milliseconds(200))
        #expect(try longestWait(lifetime: .seconds(1)) > .seconds(5))
    }

    // MARK: Links that worked

    /// The longest wait of twenty links of `lifetime`, each ended by `end`.
    private func longestWait(
        lifetime: Duration,
        afterHandshake: Bool = false,
        _ end: (inout ReconnectMachine, SessionID, Instant) -> ReconnectMachine.Action
    ) throws -> Duration {
        var longest = Duration.zero
        var machine = machine(["a:1"]) { $0.reconnect = Backoff() }
        var (time, next) = (now, machine.linkNeeded(at: now))
        for _ in 0..<20 {
            let attempt = try attempt(next)
            _ = machine.linkReady(attempt.id, afterHandshake: afterHandshake, at: time)
            time = time.advanced(by: lifetime)
            let until = try wait(end(&machine, attempt.id, time))
            longest = max(longest, until.since(time))
            time = until
            next = machine.timerFired(at: time)
        }
        return longest
    }

    @Test(arguments: [DisconnectCause.closedByServer, .reset, .protocolViolation])
    func aLinkThatAnsweredResetsTheBackoff(_ cause: DisconnectCause) throws {
        let longest = try longestWait(lifetime: .seconds(2)) { machine, id, time in
            machine.linkAnswered()
            return machine.linkLost(id, cause, demand: .pushes, at: time)
        }
        #expect(longest <= .milliseconds(200))
    }

    @Test func aHandshakeResetsTheBackoffOnlyIfTheLinkEndsCleanly() throws {
        for (isOrderly, wasQuiet) in [(true, true), (true, false), (false, true)] {
            let longest = try longestWait(lifetime: .seconds(2), afterHandshake: true) { machine, id, time in
                machine.linkLost(
                    id,
                    .closedByServer,
                    isOrderly: isOrderly,
                    wasQuiet: wasQuiet,
                    demand: .pushes,
                    at: time
                )
            }
            #expect((longest <= .milliseconds(200)) == (isOrderly && wasQuiet))
        }
    }

    @Test func attemptsAtAServerThatClosesWithoutAnAnswerArePaced() throws {
        let longest = try longestWait(lifetime: .seconds(2)) { machine, id, time in
            machine.linkLost(id, .closedByServer, isOrderly: true, demand: .request, at: time)
        }
        #expect(longest > .seconds(5))
    }

    /// A server may push "too many connections" and close the link.
    @Test func aPushProvesALinkThatLastsOneSecond() throws {
        for (lifetime, isProof) in [(Duration.milliseconds(999), false), (.seconds(1), true)] {
            let longest = try longestWait(lifetime: lifetime) { machine, id, time in
                machine.linkDelivered()
                return machine.linkLost(id, .closedByServer, isOrderly: true, demand: .pushes, at: time)
            }
            #expect((longest <= .milliseconds(200)) == isProof)
        }
    }

    /// Regression: a server that completed the handshake and closed cleanly was connected to ten times a second, for as
    /// long as there was a stream of pushes.
    @Test func aHandshakeProvesALinkThatLastsOneSecond() throws {
        for (lifetime, isProof) in [(Duration.milliseconds(999), false), (.seconds(1), true)] {
            for demand in [ReconnectMachine.Demand.pushes, .request] {
                let longest = try longestWait(lifetime: lifetime, afterHandshake: true) { machine, id, time in
                    machine.linkLost(id, .closedByServer, isOrderly: true, demand: demand, at: time)
                }
                #expect((longest <= .milliseconds(200)) == isProof)
            }
        }
    }

    /// A server that accepts links and sends nothing: each link is closed after 15 s.
    @Test func aSilentLinkDoesNotResetTheBackoff() throws {
        let longest = try longestWait(lifetime: .seconds(15)) { machine, id, time in
            machine.linkLost(id, .halfOpen, countsAgainstEndpoint: true, at: time)
        }
        #expect(longest > .seconds(5))
        let longestLeft = try longestWait(lifetime: .seconds(15)) { machine, id, time in
            machine.leave(id, because: .silence, at: time)
        }
        #expect(longestLeft > .seconds(5))
    }

    /// Servers that send `goAway` on every link, such as those with a maximum link age.
    @Test func aServerThatAnswersAndSendsGoAwayResetsTheBackoff() throws {
        let longest = try longestWait(lifetime: .seconds(2)) { machine, id, time in
            machine.linkAnswered()
            return machine.leave(id, because: .goAway, demand: .request, at: time)
        }
        #expect(longest <= .milliseconds(200))
    }

    @Test func anAnswerOnOneLinkDoesNotProveTheNext() throws {
        var machine = machine(["a:1"])
        let first = try attempt(machine.linkNeeded(at: now))
        _ = machine.linkReady(first.id, at: now)
        machine.linkAnswered()
        let second = try attempt(machine.timerFired(at: try wait(machine.linkLost(first.id, .reset, at: after(1)))))
        #expect(second.number == 1)
        _ = machine.linkReady(second.id, at: after(2))
        let third = try attempt(machine.timerFired(at: try wait(machine.linkLost(second.id, .reset, at: after(3)))))
        #expect(third.number == 2)
    }

    @Test func anOrderlyEndWithoutDemandLeadsToIdle() throws {
        for isWarm in [false, true] {
            var machine = machine(["a:1"]) { $0.keepsLinkWarm = isWarm }
            _ = machine.linkReady(try attempt(machine.linkNeeded(at: now)).id, at: now)
            machine.linkAnswered()
            let action = machine.linkLost(1, .closedByServer, isOrderly: true, demand: .none, at: after(5))
            #expect(action == (isWarm ? .wait(until: after(6)) : .rest))
            #expect(describe(machine.state) == (isWarm ? "waiting" : "idle"))
        }
    }

    @Test func aBrokenLinkIsReplacedWithoutDemand() throws {
        var machine = machine(["a:1"])
        _ = machine.linkReady(try attempt(machine.linkNeeded(at: now)).id, at: now)
        machine.linkAnswered()
        #expect(try wait(machine.linkLost(1, .reset, demand: .none, at: after(5))) == after(6))
    }

    @Test func goAwayWithoutDemandLeadsToIdleAndKeepsTheHint() throws {
        var machine = machine(["a:1"])
        _ = machine.linkReady(try attempt(machine.linkNeeded(at: now)).id, at: now)
        machine.linkAnswered()
        let action = machine.leave(1, because: .goAway, demand: .none, retryAfter: .seconds(60), at: after(5))
        #expect(action == .drain(session: 1, then: .rest))
        #expect(machine.state == .idle)
        #expect(try wait(machine.linkNeeded(at: after(10))) >= after(65))
    }

    // MARK: Delays that servers ask for

    /// A machine whose link to the first endpoint has worked for 5 s.
    private func working(
        _ endpoints: [Endpoint],
        _ change: (inout ReconnectMachine.Policy) -> Void = { _ in }
    ) throws -> ReconnectMachine {
        var machine = machine(endpoints, change)
        _ = machine.linkReady(try attempt(machine.linkNeeded(at: now)).id, at: now)
        machine.linkAnswered()
        return machine
    }

    /// Regression: one frame made a client with one endpoint unavailable for an hour.
    @Test(arguments: [Duration.seconds(60), .seconds(5), .zero])
    func anAbsurdDelayOfTheOnlyServerIsLimited(_ limit: Duration) throws {
        let absurd = Duration.seconds(Int64.max)
        let range = after(5).advanced(by: limit)...after(6).advanced(by: limit * 1.1)
        // Without demand; with demand while its link is used on; at the end of that link.
        var machine = try working(["a:1"]) { $0.maximumRetryAfter = limit }
        var copy = machine
        _ = copy.leave(1, because: .goAway, demand: .none, retryAfter: absurd, at: after(5))
        if limit > .zero { #expect(range.contains(try wait(copy.linkNeeded(at: after(5))))) }
        copy = machine
        #expect(range.contains(try wait(copy.leave(1, because: .goAway, retryAfter: absurd, at: after(5)))))
        #expect(range.contains(try wait(copy.linkLost(1, .closedByServer, isOrderly: true, at: after(5)))))
        copy = machine
        #expect(range.contains(try wait(copy.linkLost(1, .reset, retryAfter: absurd, at: after(5)))))
        // A handshake that is refused.
        let second = try attempt(machine.timerFired(at: try wait(machine.linkLost(1, .reset, at: after(4)))))
        let action = machine.attemptFailed(second.id, .handshakeRefused, retryAfter: absurd, at: after(5))
        #expect(range.contains(try wait(action)))
    }

    /// A server that asked for a delay is left alone while another can be used. If that fails, the limit applies.
    @Test func aServerThatAskedForADelayIsTriedEarlierIfTheOthersFail() throws {
        var machine = try working(["a:1", "b:1"])
        let b = try attempt(machine.leave(1, because: .goAway, retryAfter: .seconds(1800), at: after(5)))
        #expect(b.endpoint == "b:1")
        _ = machine.linkReady(b.id, at: after(5))
        machine.linkAnswered()
        #expect(!machine.ring.isHealthy("a:1", at: after(1000)))
        // The only other server fails again and again.
        var next = machine.timerFired(at: try wait(machine.linkLost(b.id, .reset, at: after(10))))
        var (time, tried) = (after(11), [Endpoint]())
        while time < after(100) {
            let attempt = try attempt(next)
            tried.append(attempt.endpoint)
            if attempt.endpoint == "a:1" { #expect(time >= after(65) && time < after(73), "\(time)") }
            if attempt.endpoint == "a:1" { break }
            next = machine.attemptFailed(attempt.id, .refused, at: time)
            if case .wait(let until) = next {
                time = until
                next = machine.timerFired(at: time)
            }
        }
        #expect(tried.last == "a:1" && tried.count > 50)
        // After half an hour it is an endpoint like any other.
        #expect(machine.ring.isHealthy("a:1", at: after(2000)))
    }

    @Test func aRequestAfterAnOrderlyEndConnectsWithinFiftyMilliseconds() throws {
        for demand in [ReconnectMachine.Demand.none, .pushes, .request] {
            var machine = machine(["a:1"]) { $0.reconnect = Backoff(minimum: .seconds(30), cap: .seconds(30)) }
            _ = machine.linkReady(try attempt(machine.linkNeeded(at: now)).id, at: now)
            machine.linkAnswered()
            let action = machine.linkLost(1, .closedByServer, isOrderly: true, demand: demand, at: after(5))
            var prompt = machine
            let start = try wait(demand == .request ? action : prompt.linkNeeded(at: after(5)))
            #expect(start >= after(5.01) && start <= after(5.05), "\(demand)")
            #expect(try attempt(prompt.timerFired(at: start)).number == 1)
            // A later request connects at once.
            if demand != .request { #expect(try attempt(machine.linkNeeded(at: after(6))).number == 1) }
        }
    }

    /// The server is down after all: from here on the policy paces its clients.
    @Test func afterAFailedAttemptThePolicyPacesAgain() throws {
        var machine = machine(["a:1"]) { $0.reconnect = Backoff(minimum: .seconds(30), cap: .seconds(30)) }
        _ = machine.linkReady(try attempt(machine.linkNeeded(at: now)).id, at: now)
        machine.linkAnswered()
        let start = try wait(machine.linkLost(1, .closedByServer, isOrderly: true, at: after(5)))
        let second = try attempt(machine.timerFired(at: start))
        let until = try wait(machine.attemptFailed(second.id, .refused, at: start))
        #expect(until == start.advanced(by: .seconds(30)))
        #expect(machine.linkNeeded(at: start.advanced(by: .seconds(1))) == ReconnectMachine.Action.none)
    }

    @Test func aPolicyThatGivesUpLetsARequestConnectPromptlyAfterAnOrderlyEnd() throws {
        var machine = machine(["a:1"]) { $0.reconnect = NoRetries() }
        _ = machine.linkReady(try attempt(machine.linkNeeded(at: now)).id, at: now)
        machine.linkAnswered()
        #expect(machine.linkLost(1, .closedByServer, isOrderly: true, at: after(5)) == .giveUp)
        #expect(try attempt(machine.linkNeeded(at: after(5.05))).number == 1)
    }

    // MARK: Giving up

    @Test func withoutEndpointsTheMachineGivesUp() {
        var machine = machine([])
        #expect(machine.linkNeeded(at: now) == .giveUp)
        #expect(machine.reconnectNow(at: now) == .giveUp)
        #expect(machine.state == .idle)
    }

    @Test func afterMaximumAttemptsANewRequestStartsOverAfterTheRemainingWait() throws {
        var machine = machine(["a:1"]) { $0.maximumAttempts = 2 }
        let first = try attempt(machine.linkNeeded(at: now))
        let until = try wait(machine.attemptFailed(first.id, .refused, at: now))
        let second = try attempt(machine.timerFired(at: until))
        #expect(machine.attemptFailed(second.id, .refused, at: until) == .giveUp)
        #expect(machine.state == .idle)
        var early = machine
        #expect(
            early.linkNeeded(at: until.advanced(by: .milliseconds(400)))
                == .wait(until: until.advanced(by: .seconds(1)))
        )
        let third = try attempt(early.timerFired(at: until.advanced(by: .seconds(1))))
        #expect(third.number == 1)
        #expect(try attempt(machine.linkNeeded(at: until.advanced(by: .seconds(1)))).number == 1)
    }

    /// Callers that request again as soon as they learn that no server is available cause as many attempts as without a
    /// limit.
    @Test func steadyDemandAfterGivingUpCausesNoExtraAttempts() throws {
        func attempts(limit: Int?) throws -> Int {
            var machine = machine(["a:1"]) {
                $0.reconnect = Backoff()
                $0.maximumAttempts = limit
            }
            var (time, count, action) = (now, 0, ReconnectMachine.Action.giveUp)
            while time < after(600) {
                switch action {
                case .giveUp, .none: action = machine.linkNeeded(at: time)
                case .wait(let until):
                    time = until
                    action = machine.timerFired(at: time)
                default:
                    count += 1
                    action = machine.attemptFailed(try attempt(action).id, .refused, at: time)
                }
            }
            return count
        }
        #expect(try attempts(limit: 1) <= 80)
        #expect(try attempts(limit: nil) <= 80)
    }

    /// The machine used never to give up a server that accepts and closes.
    @Test func linksWithoutAnAnswerCountTowardsMaximumAttempts() throws {
        var machine = machine(["a:1"]) { $0.maximumAttempts = 2 }
        let first = try attempt(machine.linkNeeded(at: now))
        _ = machine.linkReady(first.id, at: now)
        let until = try wait(machine.linkLost(first.id, .closedByServer, isOrderly: true, at: now))
        let second = try attempt(machine.timerFired(at: until))
        _ = machine.linkReady(second.id, at: until)
        #expect(machine.linkLost(second.id, .closedByServer, isOrderly: true, at: until) == .giveUp)
    }

    @Test func aPermanentFailureGivesUpUnlessConfiguredToRetry() throws {
        var machine = machine(["a:1"])
        let first = try attempt(machine.linkNeeded(at: now))
        #expect(machine.attemptFailed(first.id, .handshakeRefused, isPermanent: true, at: now) == .giveUp)
        var stubborn = self.machine(["a:1"]) {
            $0.retriesPermanentCauses = true
            $0.refusalPause = .zero
        }
        let other = try attempt(stubborn.linkNeeded(at: now))
        #expect(try wait(stubborn.attemptFailed(other.id, .handshakeRefused, isPermanent: true, at: now)) == after(1))
    }

    /// A wrong password must not lock the account, however many requests want a link.
    @Test(arguments: [true, false])
    func aRefusedLoginIsPausedForAWhile(isTriedAgain: Bool) throws {
        var machine = machine(["a:1"]) { $0.retriesPermanentCauses = isTriedAgain }
        let first = try attempt(machine.linkNeeded(at: now))
        let refused = machine.attemptFailed(first.id, .handshakeRefused, isPermanent: true, at: now)
        let until = try wait(isTriedAgain ? refused : machine.linkNeeded(at: now))
        #expect(until >= after(30) && until <= after(33))
        #expect(try attempt(machine.timerFired(at: until)).endpoint == "a:1")
        // A caller that wants to try at once may.
        var other = self.machine(["a:1"])
        let attempt = try attempt(other.linkNeeded(at: now))
        _ = other.attemptFailed(attempt.id, .handshakeRefused, isPermanent: true, at: now)
        #expect(try self.attempt(other.reconnectNow(at: now)).endpoint == "a:1")
    }

    /// The other endpoints are tried meanwhile.
    @Test func aRefusedLoginPausesItsEndpointOnly() throws {
        var machine = machine(["a:1", "b:1"])
        let first = try attempt(machine.linkNeeded(at: now))
        let second = try attempt(machine.attemptFailed(first.id, .handshakeRefused, isPermanent: true, at: now))
        #expect(second.endpoint == "b:1")
    }

    /// With invalid credentials and a thousand callers that try again, the attempts still follow the policy.
    @Test func afterAPermanentFailureDemandIsPacedToo() throws {
        var machine = machine(["a:1"]) { $0.reconnect = Backoff(base: .seconds(30)) }
        var (time, count) = (now, 0)
        while time < after(600) {
            switch machine.linkNeeded(at: time) {
            case .connect(let attempt):
                count += 1
                #expect(machine.attemptFailed(attempt.id, .tls, isPermanent: true, at: time) == .giveUp)
            case .wait(let until):
                time = until
                count += 1
                let attempt = try attempt(machine.timerFired(at: time))
                #expect(machine.attemptFailed(attempt.id, .tls, isPermanent: true, at: time) == .giveUp)
            default: time = time.advanced(by: .milliseconds(1))
            }
        }
        #expect(count < 80)
    }

    @Test func anEndpointWithAPermanentFailureIsSkippedWhileAnotherMayWork() throws {
        var machine = machine()
        let a = try attempt(machine.linkNeeded(at: now))
        let b = try attempt(machine.attemptFailed(a.id, .tls, isPermanent: true, at: now))
        var time = try wait(machine.attemptFailed(b.id, .refused, at: now))
        for _ in 0..<5 {
            let attempt = try attempt(machine.timerFired(at: time))
            #expect(attempt.endpoint == "b:1")
            time = try wait(machine.attemptFailed(attempt.id, .refused, at: time))
        }
        // It is tried again later: its certificate may have been renewed.
        #expect(try attempt(machine.timerFired(at: after(100))).endpoint == "a:1")
    }

    @Test func whenAPolicyGivesUpDemandIsPacedByTheDefault() throws {
        var machine = machine(["a:1"]) { $0.reconnect = NoRetries() }
        let first = try attempt(machine.linkNeeded(at: now))
        #expect(machine.attemptFailed(first.id, .refused, at: now) == .giveUp)
        guard case .idle(let restUntil) = machine.phase else {
            Issue.record("not idle")
            return
        }
        #expect(restUntil > now && restUntil <= now.advanced(by: .milliseconds(200)))
        _ = machine.linkReady(try attempt(machine.linkNeeded(at: after(1))).id, at: after(1))
        #expect(machine.linkLost(2, .reset, at: after(2)) == .giveUp)
    }

    // MARK: Random inputs

    /// For all inputs in any order: the numbers of attempts and sessions grow, there is at most one attempt at a time,
    /// the one that the actions describe, and a timer is armed if the machine has a deadline.
    @Test func randomInputsKeepTheInvariants() throws {
        for seed in seeds(200) { try expectOneStepAtATime(seed) }
    }

    private func expectOneStepAtATime(_ seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let all: [Endpoint] = ["a:1", "b:1", "c:1"]
        var machine = machine(all) {
            $0.reconnect = Backoff()
            $0.maximumAttempts = seed % 3 == 0 ? 4 : nil
            $0.returnsToPreferredAfter = seed % 2 == 0 ? .seconds(5) : nil
            $0.order = seed % 5 == 0 ? .shuffled : .ordered
            $0.maximumLinkAge = seed % 7 == 0 ? .seconds(20) : nil
            $0.overlapsLinks = seed % 4 != 0
            $0.sendsAfterGoAway = seed % 6 != 0
        }
        var (time, last) = (now, UInt64(0))
        /// What follows from the actions: the attempt in progress, and when `timerFired` is called.
        var (begun, armed): (ReconnectMachine.Attempt?, Instant?) = (nil, nil)
        for _ in 0..<500 {
            time = time.advanced(by: .milliseconds(Int.random(in: 0...2000, using: &random)))
            let age = UInt64(Int.random(in: 0...5, using: &random) / 5)
            let id = SessionID(machine.attemptCount - min(machine.attemptCount, age))
            let hint: Duration? = Bool.random(using: &random) ? .seconds(3) : nil
            var action: ReconnectMachine.Action? = ReconnectMachine.Action.none
            let present: SessionID? = if case .ready(let session) = machine.state { session } else { nil }
            switch Int.random(in: 0..<19, using: &random) {
            case 0: action = machine.linkNeeded(at: time)
            case 1:
                if machine.linkReady(id, afterHandshake: hint != nil, at: time) != nil {
                    (begun, armed) = (nil, machine.deadline)
                }
                if Bool.random(using: &random) { machine.linkAnswered() }
            case 2, 3: action = machine.attemptFailed(id, .refused, isPermanent: hint != nil, at: time)
            case 12: action = machine.attemptFailed(id, .unreachable, hasRoute: false, at: time)
            case 13: action = machine.networkChanged(isAttemptConcerned: hint != nil, at: time)
            case 14: action = machine.renew(because: .request, at: time)
            case 15: action = machine.restartAttempt(at: time)
            case 16: action = machine.replaceEndpoints(Array(all.shuffled(using: &random).prefix(2)), at: time)
            case 18: action = machine.oweRenewal(at: time)
            case 17:
                action = machine.linkLost(present ?? id, .pathLost, isOurNetwork: true, at: time)
            case 4:
                action = machine.linkLost(
                    id,
                    .closedByServer,
                    isOrderly: Bool.random(using: &random),
                    wasQuiet: Bool.random(using: &random),
                    demand: [.none, .pushes, .request][Int.random(in: 0...2, using: &random)],
                    retryAfter: hint,
                    at: time
                )
            case 5, 6: action = machine.timerFired(at: time)
            case 7: action = machine.reconnectNow(at: time)
            case 8: action = machine.suspend(at: time)
            case 9: action = machine.resume(at: time)
            case 10: action = machine.switchEndpoint(to: all[Int.random(in: 0...2, using: &random)], at: time)
            default:
                action = machine.leave(
                    present ?? id,
                    because: hint == nil ? .goAway : .errorRate,
                    retryAfter: hint,
                    at: time
                )
            }
            if case .drain(let session, let next)? = action {
                #expect(session == present, "seed \(seed)")
                action = next
            }
            switch action {
            case .connect(let attempt)?: (begun, armed) = (attempt, nil)
            case .wait(let until)?: (begun, armed) = (nil, until)
            case .rest?: (begun, armed) = (nil, machine.deadline)
            case .close?, .giveUp?: (begun, armed) = (nil, nil)
            default: break
            }
            #expect(begun == machine.attempt, "seed \(seed)")
            if begun == nil, let deadline = machine.deadline {
                #expect(armed.map { $0 <= deadline } ?? false, "seed \(seed)")
            }
            switch (action, machine.state) {
            case (.connect(let attempt)?, .connecting), (.connect(let attempt)?, .ready):
                #expect(attempt == machine.attempt, "seed \(seed)")
                #expect(attempt.id.number == last + 1, "seed \(seed)")
                last = attempt.id.number
            case (.wait(let until)?, .waiting(let end, _, _)):
                #expect(until == end && machine.deadline == end, "seed \(seed)")
            case (.wait(let until)?, .ready): #expect(until == machine.deadline, "seed \(seed)")
            case (.giveUp?, .idle), (.rest?, .idle), (.rest?, .suspended), (.rest?, .ready),
                (.rest?, .noNetwork), (.close?, .suspended):
                break
            case (ReconnectMachine.Action.none?, _), (nil, _): break
            default: Issue.record("\(String(describing: action)) in \(machine.state), seed \(seed)")
            }
            #expect(machine.attemptCount == last, "seed \(seed)")
        }
    }
}
