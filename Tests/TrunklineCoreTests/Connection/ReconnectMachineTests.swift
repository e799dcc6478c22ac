import Testing

@testable import TrunklineCore

@Suite struct ReconnectMachineTests {
    let now = Instant(nanoseconds: 1_000)

    func machine(_ endpoints: [Endpoint] = ["a:1", "b:1"], maximumAttempts: Int? = nil) -> ReconnectMachine {
        var policy = ReconnectMachine.Policy()
        policy.maximumAttempts = maximumAttempts
        return ReconnectMachine(endpoints: endpoints, policy: policy, seed: 1)
    }

    /// The attempt that `action` asks for.
    func attempt(_ action: ReconnectMachine.Action) throws -> ReconnectMachine.Attempt {
        guard case .connect(let attempt) = action else { throw FrameError(.malformed, "\(action)") }
        return attempt
    }

    @Test func nothingHappensUntilALinkIsWanted() throws {
        var machine = machine()
        #expect(machine.state == .idle)
        let first = try attempt(machine.wanted())
        #expect(first.endpoint == "a:1")
        #expect(machine.wanted() == .none)
    }

    @Test func everyEndpointIsTriedBeforeThereIsAWait() throws {
        var machine = machine()
        let a = try attempt(machine.wanted())
        let b = try attempt(machine.attemptFailed(a.id, at: now))
        #expect(b.endpoint == "b:1")
        #expect(b.number == 2)
        guard case .wait(let until) = machine.attemptFailed(b.id, at: now) else {
            throw FrameError(.malformed, "no wait")
        }
        #expect(machine.timerFired(at: now.advanced(by: .nanoseconds(-1))) == .wait(until: until) || until <= now)
        #expect(try attempt(machine.timerFired(at: until)).endpoint == "a:1")
    }

    @Test func anOldOutcomeChangesNothing() throws {
        var machine = machine()
        let a = try attempt(machine.wanted())
        let b = try attempt(machine.attemptFailed(a.id, at: now))
        let before = machine.state
        #expect(machine.attemptFailed(a.id, at: now) == .none)
        #expect(machine.established(a.id, at: now) == nil)
        #expect(machine.linkLost(a.id, at: now) == .none)
        #expect(machine.state == before)
        #expect(machine.established(b.id, at: now) == b.id)
        #expect(machine.attemptFailed(b.id, at: now) == .none)
    }

    @Test func aLostLinkIsWaitedForBeforeTheNextAttemptAtTheSameEndpoint() throws {
        var machine = machine()
        let a = try attempt(machine.wanted())
        let b = try attempt(machine.attemptFailed(a.id, at: now))
        _ = machine.established(b.id, at: now)
        guard case .wait(let until) = machine.linkLost(b.id, at: now) else { throw FrameError(.malformed, "no wait") }
        #expect(until >= now)
        #expect(try attempt(machine.timerFired(at: until)).endpoint == "b:1")
    }

    @Test func theLimitOnAttemptsGivesUpAndANewWishStartsOver() throws {
        var machine = machine(["a:1"], maximumAttempts: 2)
        let first = try attempt(machine.wanted())
        guard case .wait(let until) = machine.attemptFailed(first.id, at: now) else { throw FrameError(.malformed, "") }
        let second = try attempt(machine.timerFired(at: until))
        #expect(machine.attemptFailed(second.id, at: until) == .giveUp)
        #expect(machine.state == .idle)
        #expect(try attempt(machine.wanted()).number == 1)
    }

    @Test func withoutEndpointsItGivesUp() {
        var machine = machine([])
        #expect(machine.wanted() == .giveUp)
    }

    @Test func aClosedMachineDoesNothing() throws {
        var machine = machine()
        let a = try attempt(machine.wanted())
        machine.close()
        #expect(machine.established(a.id, at: now) == nil)
        #expect(machine.attemptFailed(a.id, at: now) == .none)
        #expect(machine.wanted() == .none)
        #expect(machine.timerFired(at: .distantFuture) == .none)
        #expect(machine.state == .closed)
    }

    /// Links that are lost at once make the waits grow; one that was stable makes them start anew.
    @Test func onlyAStableLinkResetsTheBackoff() throws {
        func longestWait(lifetime: Duration) throws -> Duration {
            var longest = Duration.zero
            var machine = machine(["a:1"])
            var time = now
            var next = machine.wanted()
            for _ in 0..<20 {
                let attempt = try attempt(next)
                _ = machine.established(attempt.id, at: time)
                time = time.advanced(by: lifetime)
                guard case .wait(let until) = machine.linkLost(attempt.id, at: time) else { return longest }
                longest = max(longest, until.since(time))
                time = until
                next = machine.timerFired(at: time)
            }
            return longest
        }
        #expect(try longestWait(lifetime: .seconds(11)) <= .milliseconds(200))
        #expect(try longestWait(lifetime: .seconds(1)) > .seconds(5))
    }

    @Test func waitsAreDrawnEvenlyUpToACeilingThatDoublesToTheCap() {
        let backoff = Backoff()
        #expect(backoff.ceiling(round: 0) == .milliseconds(200))
        #expect(backoff.ceiling(round: 3) == .milliseconds(1600))
        #expect(backoff.ceiling(round: 100_000) == .seconds(30))
        var generator = SeededGenerator(seed: 5)
        let waits = (0..<1000).map { _ in backoff.delay(round: 0, using: &generator) }
        #expect(waits.allSatisfy { $0 >= .zero && $0 <= .milliseconds(200) })
        #expect(waits.filter { $0 < .milliseconds(100) }.count > 400)
        #expect(waits.filter { $0 > .milliseconds(100) }.count > 400)
    }

    @Test func oddBackoffsAreHeldInRange() {
        var generator = SeededGenerator(seed: 5)
        let backoffs = [
            Backoff(base: .seconds(-5), factor: -2, cap: .seconds(-1)),
            Backoff(base: .seconds(Int64.max), cap: .seconds(Int64.max)),
            Backoff(factor: .infinity), Backoff(factor: .nan), Backoff(base: .zero, factor: .infinity),
        ]
        for backoff in backoffs {
            for round in [0, 1, 50] { #expect(backoff.delay(round: round, using: &generator) >= .zero) }
        }
    }
}

@Suite struct EndpointTests {
    @Test(arguments: [
        ("10.0.0.7:7000", Endpoint.host("10.0.0.7", port: 7000)), ("db.internal:1", .host("db.internal", port: 1)),
        ("[::1]:65535", .host("::1", port: 65535)), ("unix:/run/a:b.sock", .unix(path: "/run/a:b.sock")),
    ])
    func isReadAsItIsWritten(_ text: String, _ endpoint: Endpoint) {
        #expect((try? Endpoint(parsing: text)) == endpoint)
        #expect(endpoint.description == text)
    }

    @Test(arguments: [
        "", "host", "host:", ":80", "host:0", "host:65536", "::1:80", "host:-1", "unix:", "a\0b:1", " a:1",
    ])
    func nonsenseIsNone(_ text: String) {
        let error = #expect(throws: EndpointError.self) { try Endpoint(parsing: text) }
        #expect(error?.description.contains("is no endpoint") == true)
    }
}
