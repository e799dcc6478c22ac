import Testing

@testable import TrunklineCore
@testable import TrunklineIO

/// When a link that works is replaced: a shortage must last 250 ms, and the waits between replacements grow.
@Suite struct LinkReplacementTests {}

extension LinkReplacementTests {
    private func replacement(stableAfter: Duration = .seconds(60)) -> LinkReplacement {
        LinkReplacement(stableAfter: stableAfter, seed: 1)
    }

    /// Waits one second in the first round, and one more in each round after it.
    private struct Rounds: ReconnectPolicy {
        func decision(for failure: ReconnectFailure, random: () -> Double) -> ReconnectDecision {
            .retry(after: .seconds(failure.round + 1))
        }
    }

    @Test func aShortageMustLast() {
        var replacement = replacement()
        #expect(!replacement.isShort)
        #expect(replacement.look(.exhausted, isWaiting: true, at: at(1)) == nil)
        #expect(replacement.isShort && replacement.lookAgainAt == at(1.25))
        replacement.beginLook()
        #expect(replacement.lookAgainAt == nil)
        #expect(replacement.look(.exhausted, isWaiting: true, at: at(1.2)) == nil)
        #expect(replacement.lookAgainAt == at(1.25))
        #expect(replacement.look(.exhausted, isWaiting: true, at: at(1.25)) == .exhausted)
    }

    /// Late responses arrived, or a quarantine ended.
    @Test func aShortageEndsWhenASerialIsFree() {
        var replacement = replacement()
        _ = replacement.look(.exhausted, isWaiting: true, at: at(1))
        replacement.hasRefused = true
        replacement.beginLook()
        #expect(replacement.look(.other, isWaiting: true, at: at(1.1)) == nil)
        #expect(!replacement.isShort && !replacement.hasRefused && replacement.lookAgainAt == nil)
        #expect(replacement.look(.exhausted, isWaiting: true, at: at(1.3)) == nil)
        #expect(replacement.lookAgainAt == at(1.55))
    }

    /// Requests with a shorter timeout than the minimum duration of a shortage never saw one that had lasted long
    /// enough.
    @Test func aShortageContinuesWhileTheWaitingRequestsChange() {
        var replacement = replacement()
        _ = replacement.look(.exhausted, isWaiting: true, at: at(1))
        #expect(replacement.look(.exhausted, isWaiting: false, at: at(1.5)) == nil)
        #expect(replacement.isShort)
        #expect(replacement.look(.exhausted, isWaiting: true, at: at(2)) == .exhausted)
    }

    @Test func withoutWaitingRequestsThereIsNoShortage() {
        var replacement = replacement()
        for time in [1.0, 2, 3] { #expect(replacement.look(.exhausted, isWaiting: false, at: at(time)) == nil) }
        #expect(!replacement.isShort)
        replacement.hasRefused = true
        #expect(replacement.isShort)
    }

    @Test func inOrderALinkIsReplacedAtTheEndOfTheQuarantine() {
        var replacement = replacement()
        #expect(replacement.look(.unansweredUntil(at(60)), isWaiting: true, at: at(1)) == nil)
        #expect(replacement.lookAgainAt == at(60) && !replacement.isShort)
        replacement.beginLook()
        #expect(replacement.look(.unansweredUntil(at(60)), isWaiting: false, at: at(2)) == nil)
        #expect(replacement.lookAgainAt == nil)
        #expect(replacement.look(.unanswered, isWaiting: true, at: at(60)) == .unanswered)
    }

    @Test func theNextReplacementFollowsThePolicy() {
        var replacement = replacement()
        replacement.hasRefused = true
        replacement.replaced(afterAnswers: 0, at: at(1), Backoff(minimum: .seconds(10), cap: .seconds(10)))
        #expect(!replacement.isShort)
        #expect(replacement.look(.unanswered, isWaiting: true, at: at(2)) == nil)
        #expect(replacement.lookAgainAt == at(11))
        #expect(replacement.look(.unanswered, isWaiting: true, at: at(10.9)) == nil)
        #expect(replacement.look(.unanswered, isWaiting: true, at: at(11)) == .unanswered)
    }

    /// When the next replacement is due, after one at `time` with that many answers.
    private func due(
        _ replacement: inout LinkReplacement,
        _ answers: Int,
        _ time: Double,
        _ policy: any ReconnectPolicy = Rounds()
    ) -> Instant? {
        replacement.replaced(afterAnswers: answers, at: at(time), policy)
        replacement.beginLook()
        _ = replacement.look(.unanswered, isWaiting: true, at: at(time))
        return replacement.lookAgainAt
    }

    @Test func waitsGrowUntilAnAnswerOrAStableTime() {
        var replacement = replacement()
        #expect(due(&replacement, 5, 100) == at(101))
        #expect(due(&replacement, 5, 101) == at(103))
        #expect(due(&replacement, 5, 103) == at(106))
        #expect(due(&replacement, 6, 106) == at(107))
        #expect(due(&replacement, 6, 107) == at(109))
        // The waits start over 60 s after the instant at which the next replacement was allowed.
        #expect(due(&replacement, 6, 168.9) == at(171.9))
        #expect(due(&replacement, 6, 231.9) == at(232.9))
    }

    @Test func whenThePolicyGivesUpTheDefaultBackoffPacesReplacements() throws {
        var replacement = replacement()
        // The waits of the default `Backoff`: up to 200 and 400 ms.
        let first = try #require(due(&replacement, 0, 100, NoRetries()))
        #expect(first > at(100) && first <= at(100.2))
        replacement.beginLook()
        #expect(replacement.look(.unanswered, isWaiting: true, at: at(100.2)) == .unanswered)
        let second = try #require(due(&replacement, 0, 101, NoRetries()))
        #expect(second > at(101) && second <= at(101.4))
    }

    @Test func aNegativeWaitIsZero() {
        var replacement = replacement()
        replacement.replaced(afterAnswers: 0, at: at(1), Backoff(minimum: .seconds(-5), cap: .seconds(-5)))
        #expect(replacement.look(.unanswered, isWaiting: true, at: at(1)) == .unanswered)
    }
}
