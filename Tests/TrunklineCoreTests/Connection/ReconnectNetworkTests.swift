import Testing

@testable import TrunklineCore
@testable import TrunklineIO

/// How the host's network affects attempts.
@Suite struct ReconnectNetworkTests: ReconnectTesting {}

extension ReconnectNetworkTests {
    private func withoutNetwork(
        _ change: (inout ReconnectMachine.Policy) -> Void = { _ in }
    ) throws -> ReconnectMachine {
        var machine = machine(["a:1", "b:1"], change)
        let first = try attempt(machine.linkNeeded(at: now))
        #expect(machine.attemptFailed(first.id, .unreachable, hasRoute: false, at: now) == .rest)
        return machine
    }

    @Test func withoutARouteThereIsNoAttempt() throws {
        var machine = try withoutNetwork { $0.maximumAttempts = 1 }
        #expect(machine.state == .noNetwork(cause: .unreachable))
        #expect(machine.deadline == nil)
        #expect(machine.linkNeeded(at: after(1)) == .none)
        #expect(machine.timerFired(at: after(1000)) == .none)
    }

    @Test func aNewRouteLeadsToAnAttemptWithinATenthOfASecond() throws {
        for seed in 0..<100 as Range<UInt64> {
            var policy = ReconnectMachine.Policy()
            policy.reconnect = Backoff(base: .seconds(10), cap: .seconds(100))
            var machine = ReconnectMachine(endpoints: ["a:1", "b:1"], policy: policy, seed: seed)
            var next = try attempt(machine.linkNeeded(at: now))
            for _ in 0..<3 {
                next = try attempt(machine.attemptFailed(next.id, .refused, at: now))
                let until = try wait(machine.attemptFailed(next.id, .refused, at: now))
                next = try attempt(machine.timerFired(at: until))
            }
            _ = machine.attemptFailed(next.id, .unreachable, hasRoute: false, at: after(500))
            let until = try wait(machine.networkChanged(at: after(600)))
            #expect(until <= after(600.1))
            let fresh = try attempt(machine.timerFired(at: until))
            #expect(fresh.number == 1)
            #expect(machine.round == 0)
        }
    }

    /// A failure for lack of a route does not count against the endpoint: it is still the first.
    @Test func aMissingRouteKeepsTheOrderOfTheEndpoints() throws {
        var machine = try withoutNetwork()
        let until = try wait(machine.networkChanged(at: after(1)))
        #expect(try attempt(machine.timerFired(at: until)).endpoint == "a:1")
        #expect(machine.ring.isHealthy("a:1", at: until))
    }

    @Test func aNetworkChangeShortensAWaitButNotAHint() throws {
        var machine = machine(["a:1"]) { $0.reconnect = Backoff(minimum: .seconds(30), cap: .seconds(30)) }
        let first = try attempt(machine.linkNeeded(at: now))
        var hinted = machine
        _ = machine.attemptFailed(first.id, .refused, at: now)
        #expect(try wait(machine.networkChanged(at: after(5))) <= after(5.1))
        _ = hinted.attemptFailed(first.id, .refused, retryAfter: .seconds(20), at: now)
        #expect(try wait(hinted.networkChanged(at: after(5))) >= after(20))
    }

    /// A route that comes and goes twenty times a second does not keep attempts from completing.
    @Test func aFlappingRouteBeginsOneAttemptPerSecond() throws {
        var machine = machine(["a:1"])
        _ = machine.linkNeeded(at: now)
        var begun = 0
        for step in 1...200 {
            let time = after(Double(step) * 0.05)
            var action = machine.networkChanged(at: time)
            if case .wait(let until) = action, until <= time.advanced(by: .milliseconds(50)) {
                action = machine.timerFired(at: until)
            } else if let until = machine.deadline, until <= time {
                action = machine.timerFired(at: time)
            }
            if case .connect = action { begun += 1 }
        }
        #expect(begun >= 5 && begun <= 11)
    }

    @Test func anUnaffectedAttemptContinues() throws {
        var machine = machine()
        let first = try attempt(machine.linkNeeded(at: now))
        #expect(machine.networkChanged(isAttemptConcerned: false, at: now) == .none)
        #expect(machine.state == .connecting(first))
    }

    @Test func aLinkThatLostItsPathIsReplacedAtOnceAndItsEndpointStaysHealthy() throws {
        var machine = machine(["a:1", "b:1"])
        let first = try attempt(machine.linkNeeded(at: now))
        _ = machine.linkReady(first.id, at: now)
        let next = try attempt(machine.linkLost(first.id, .pathLost, isOurNetwork: true, at: now))
        #expect(next.endpoint == "a:1" && next.number == 1)
        // If an address comes and goes, the next attempt waits as after any loss.
        _ = machine.linkReady(next.id, at: now)
        #expect(try wait(machine.linkLost(next.id, .pathLost, isOurNetwork: true, at: after(0.5))) == after(1.5))
    }

    /// A better route that comes and goes twenty times a second does not burden the server.
    @Test func aFlappingBetterPathIsUsedOncePerSecond() throws {
        var machine = machine(["a:1"])
        _ = machine.linkReady(try attempt(machine.linkNeeded(at: now)).id, at: now)
        var links = 0
        for step in 1...200 {
            let time = after(Double(step) * 0.05)
            var action = machine.takeBetterPath(at: time)
            if let until = machine.deadline, until <= time { action = machine.timerFired(at: time) }
            if case .connect(let attempt) = action {
                links += 1
                _ = machine.linkReady(attempt.id, at: time)
            }
        }
        #expect(links >= 9 && links <= 11)
        // The last better path is used, too.
        if machine.takeBetterPath(at: after(10.01)) == .none { #expect(machine.change != nil) }
    }

    @Test func aLinkIsNotReplacedWhenThePolicyGivesUp() throws {
        var machine = machine(["a:1"]) { $0.reconnect = NoRetries() }
        _ = machine.linkReady(try attempt(machine.linkNeeded(at: now)).id, at: now)
        #expect(machine.linkLost(1, .pathLost, isOurNetwork: true, at: now) == .giveUp)
        let second = try attempt(machine.linkNeeded(at: after(10)))
        #expect(machine.attemptFailed(second.id, .unreachable, hasRoute: false, at: after(10)) == .giveUp)
    }

    @Test func aNetworkChangeEndsThePauseAfterGivingUp() throws {
        var machine = machine(["a:1"]) { $0.maximumAttempts = 1 }
        let first = try attempt(machine.linkNeeded(at: now))
        #expect(machine.attemptFailed(first.id, .timedOut, at: now) == .giveUp)
        #expect(machine.networkChanged(at: now) == .none)
        #expect(try attempt(machine.linkNeeded(at: now)).number == 1)
    }
}
