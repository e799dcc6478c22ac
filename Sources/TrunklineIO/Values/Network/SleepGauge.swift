/// Detects that the machine has slept, by comparing a clock that counts the time asleep with one that does not.
package struct SleepGauge: Sendable {
    /// A smaller difference does not count as sleep, because the clocks are read one after the other. In nanoseconds.
    private static let threshold: Int64 = 1_000_000_000

    /// The latest difference between the clocks, in nanoseconds.
    private var difference: Int64

    /// Creates a gauge from the present times of the two clocks.
    ///
    /// - Parameters:
    ///   - total: The time on a clock that counts the time asleep.
    ///   - awake: The time on a clock that does not.
    package init(total: Instant, awake: Instant) {
        difference = total.nanoseconds &- awake.nanoseconds
    }

    /// Returns whether the machine has slept for more than a second since the previous call.
    package mutating func hasSlept(total: Instant, awake: Instant) -> Bool {
        let before = difference
        difference = total.nanoseconds &- awake.nanoseconds
        return difference &- before > Self.threshold
    }
}
