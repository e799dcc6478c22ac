import Testing

@testable import TrunklineCore

/// Requests that time out in a row while no frame arrives from the endpoint: three of them, over at least ten seconds.
@Suite struct EndpointSilenceTests {
    private let silence = EndpointSilence(maximumTimeouts: 3, patience: .seconds(10))

    @Test func silenceRequiresEnoughTimeoutsAndEnoughTime() {
        var silence = silence
        #expect(!silence.hasBegun && !silence.isTooLong(at: at(1000)))
        silence.timedOut(1, at: at(1))
        #expect(silence.hasBegun)
        silence.timedOut(1, at: at(5))
        #expect(!silence.isTooLong(at: at(100)))  // too few
        silence.timedOut(1, at: at(6))
        #expect(!silence.isTooLong(at: at(10.9)))  // too soon
        #expect(silence.isTooLong(at: at(11)))
    }

    @Test func manyTimeoutsAtOnceAreNotEnough() {
        var silence = silence
        silence.timedOut(1000, at: at(1))
        #expect(!silence.isTooLong(at: at(1)))
        silence.timedOut(1, at: at(11))
        #expect(silence.isTooLong(at: at(11)))
    }

    @Test func aFrameEndsTheSilence() {
        var silence = silence
        silence.timedOut(5, at: at(1))
        silence.end()
        #expect(!silence.hasBegun)
        silence.timedOut(3, at: at(20))
        #expect(!silence.isTooLong(at: at(29.9)) && silence.isTooLong(at: at(30)))
    }

    @Test func zeroTimeoutsDoNotBeginASilence() {
        var silence = silence
        silence.timedOut(0, at: at(1))
        #expect(!silence.hasBegun)
        silence.timedOut(3, at: at(20))
        #expect(!silence.isTooLong(at: at(29)))
    }

    @Test func withoutALimitNoSilenceIsTooLongAndALimitIsAtLeastOne() {
        var never = EndpointSilence(maximumTimeouts: nil, patience: .zero)
        never.timedOut(1000, at: at(1))
        #expect(!never.isTooLong(at: at(1000)))
        var strict = EndpointSilence(maximumTimeouts: 0, patience: .zero)
        #expect(!strict.isTooLong(at: at(1)))
        strict.timedOut(1, at: at(1))
        #expect(strict.isTooLong(at: at(1)))
    }
}
