import Testing

@testable import TrunklineCore
@testable import TrunklineIO

/// Random schedules of writes, pushes, timer lateness and clock jumps.
@Suite struct LivenessPropertyTests {}

extension LivenessPropertyTests {
    /// A peer that answers pings before the deadline is never declared dead, whatever else happens.
    @Test func aLivePeerIsNeverDeclaredDead() {
        for seed in seeds(2000) {
            var run = Schedule(seed: seed)
            while run.now < at(3600) {
                let action = run.step(peerAnswers: true)
                if action == .declareDead { Issue.record("seed \(seed): dead at \(run.now)") }
                if action == .declareDead { break }
            }
            #expect(run.pings > 0, "seed \(seed)")
        }
    }

    /// A peer that has become silent is declared dead within interval + deadline of its last byte. The lateness of
    /// timers and the length of clock jumps are added.
    @Test func aDeadPeerIsDeclaredDeadWithinIntervalAndDeadline() {
        for seed in seeds(2000) {
            var run = Schedule(seed: seed)
            while run.now < at(300) { _ = run.step(peerAnswers: true) }
            run.answers = []
            let died = run.lastHeard
            while run.step(peerAnswers: false) != .declareDead, run.now < at(3600) {}
            let took = run.now.since(died)
            #expect(took <= run.policy.interval + run.policy.deadline + run.lateness, "seed \(seed)")
        }
    }
}

/// A machine, its timer and a peer.
private struct Schedule {
    var generator: SeededGenerator
    let policy: Liveness.Policy
    var machine: Liveness
    var now = at(0)
    var armed: Instant?
    /// When the peer's answers arrive, in order.
    var answers: [Instant] = []
    var lastHeard = at(0)
    var pings = 0
    /// The total lateness of the timer since a frame was last received.
    var lateness = Duration.zero
    var position: OutboundPosition = 1

    init(seed: UInt64) {
        generator = SeededGenerator(seed: seed)
        var policy = Liveness.Policy()
        policy.interval = .milliseconds(Int64.random(in: 1...60_000, using: &generator))
        policy.deadline = .milliseconds(Int64.random(in: 2...20_000, using: &generator))
        policy.probeAfter =
            Bool.random(using: &generator) ? .milliseconds(Int64.random(in: 1...20_000, using: &generator)) : nil
        self.policy = policy
        machine = Liveness(policy, startedAt: now)
    }

    private mutating func milliseconds(_ range: ClosedRange<Int64>) -> Duration {
        .milliseconds(Int64.random(in: range, using: &generator))
    }

    private mutating func heard() {
        machine.heard(at: now)
        lastHeard = now
        lateness = .zero
    }

    private func arm(_ armed: Instant?) -> Instant? {
        guard let next = machine.nextLook else { return armed }
        return min(armed ?? next, next)
    }

    /// Advances to the next event: an answer, a write, a push (from a live peer), or the timer.
    mutating func step(peerAnswers: Bool) -> Liveness.Action {
        armed = arm(armed)
        let due = armed ?? .distantFuture
        // Usually a little late; very late if the process slept.
        let late = Int.random(in: 0..<20, using: &generator) == 0 ? milliseconds(0...600_000) : milliseconds(0...50)
        let other = now.advanced(by: milliseconds(1...40_000))
        if let answer = answers.first, answer <= min(due, other) {
            now = max(now, answer)
            answers.removeFirst()
            heard()
            machine.pongReceived(serial: 0, at: now)
            return .none
        }
        if other < due {
            now = other
            if peerAnswers, Int.random(in: 0..<4, using: &generator) == 0 { heard() }
            if machine.wrote(from: position, at: now) { armed = arm(armed) }
            position += 1
            return .none
        }
        now = max(now, due).advanced(by: late)
        lateness += late
        // As on an event loop: data that arrived while the loop was blocked is read before the timers fire.
        if let answer = answers.first, answer <= now {
            answers.removeFirst()
            heard()
        }
        armed = nil
        let isUnanswered = Bool.random(using: &generator)
        let action = machine.timerFired(due: due, at: now) { isUnanswered }
        if case .ping = action {
            pings += 1
            // If the clock jumps over the deadline while the peer is alive, another ping is sent, and the bound is
            // larger.
            lateness += lateness > .seconds(1) ? policy.deadline : .zero
            machine.pingSent(serial: 0, goesOutAtOnce: true, at: now)
            let limit = max(1, policy.deadline.clampedNanoseconds / 1_000_000 - 1)
            if peerAnswers { answers.append(now.advanced(by: milliseconds(0...limit))) }
        }
        return action
    }
}
