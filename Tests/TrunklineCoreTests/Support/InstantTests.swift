import Testing

@testable import TrunklineCore
@testable import TrunklineIO

/// `Duration.clampedNanoseconds`, which computes with 64 bits up to about nine seconds.
@Suite struct ClampedNanosecondsTests {}

extension ClampedNanosecondsTests {
    private func nanoseconds(_ seconds: Int64, _ attoseconds: Int64) -> Int64 {
        Duration(secondsComponent: seconds, attosecondsComponent: attoseconds).clampedNanoseconds
    }

    /// The attoseconds of about 9.223 seconds are the last that fit into 64 bits.
    @Test func bothWaysOfComputingAgreeAtTheirBoundary() {
        let (high, low) = (Int128(Int64.max), Int128(Int64.min))
        for attoseconds in [high - 1, high, high + 1, high + 2] {
            #expect(Duration(attoseconds: attoseconds).clampedNanoseconds == 9_223_372_036)
        }
        for attoseconds in [low + 1, low, low - 1, low - 2] {
            #expect(Duration(attoseconds: attoseconds).clampedNanoseconds == -9_223_372_036)
        }
        // The next whole nanosecond on either side of the boundary.
        #expect(nanoseconds(9, 223_372_035_999_999_999) == 9_223_372_035)
        #expect(nanoseconds(9, 223_372_037_000_000_000) == 9_223_372_037)
        #expect(nanoseconds(-9, -223_372_035_999_999_999) == -9_223_372_035)
        #expect(nanoseconds(-9, -223_372_037_000_000_000) == -9_223_372_037)
    }

    @Test(arguments: [0, 5, 10, 1_000_000] as [Int64])
    func fractionsAreTruncatedTowardZero(_ seconds: Int64) {
        let whole = seconds * 1_000_000_000
        #expect(nanoseconds(seconds, 1) == whole)
        #expect(nanoseconds(seconds, 999_999_999) == whole)
        #expect(nanoseconds(seconds, 1_000_000_000) == whole + 1)
        #expect(nanoseconds(seconds, 1_999_999_999) == whole + 1)
        #expect(nanoseconds(-seconds, -1) == -whole)
        #expect(nanoseconds(-seconds, -999_999_999) == -whole)
        #expect(nanoseconds(-seconds, -1_000_000_000) == -whole - 1)
        #expect(nanoseconds(-seconds, -1_999_999_999) == -whole - 1)
    }

    @Test func veryLongDurationsAreClamped() {
        #expect(Duration.nanoseconds(Int64.max).clampedNanoseconds == .max)
        #expect(Duration.nanoseconds(Int64.min).clampedNanoseconds == .min)
        #expect((Duration.nanoseconds(Int64.max) - .nanoseconds(1)).clampedNanoseconds == .max - 1)
        #expect((Duration.nanoseconds(Int64.min) + .nanoseconds(1)).clampedNanoseconds == .min + 1)
        #expect((Duration.nanoseconds(Int64.max) + .nanoseconds(1)).clampedNanoseconds == .max)
        #expect((Duration.nanoseconds(Int64.min) - .nanoseconds(1)).clampedNanoseconds == .min)
        #expect(Duration.seconds(Int64.max).clampedNanoseconds == .max)
        #expect(Duration.seconds(Int64.min).clampedNanoseconds == .min)
        // `Duration.components` traps for these.
        #expect((Duration.seconds(Int64.max) + .seconds(1)).clampedNanoseconds == .max)
        #expect((Duration.seconds(Int64.min) - .seconds(1)).clampedNanoseconds == .min)
    }

    @Test func anyDurationIsTruncatedLikeItsAttoseconds() {
        var generator = SeededGenerator(seed: 7)
        for _ in 0..<10_000 {
            // Up to twice the boundary, on both sides of it.
            let attoseconds =
                Int128(Int64.random(in: .min...(.max), using: &generator))
                + Int128(Int64.random(in: .min...(.max), using: &generator))
            let nanoseconds = Duration(attoseconds: attoseconds).clampedNanoseconds
            guard nanoseconds == Int64(attoseconds / 1_000_000_000) else {
                Issue.record("\(attoseconds) attoseconds became \(nanoseconds) ns")
                return
            }
        }
    }
}
