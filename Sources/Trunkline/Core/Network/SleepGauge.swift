/// Tells whether the machine has slept, from a clock that goes on meanwhile and one that does not.
package struct SleepGauge: Sendable {
    /// Less is no sleep: the clocks are read one after the other.
    private static let threshold: Int64 = 1_000_000_000

    /// How far the clocks were apart, in nanoseconds.
    private var difference: Int64

    /// - Parameters:
    ///   - total: A clock that counts the time asleep.
    ///   - awake: A clock that does not.
    package init(total: Instant, awake: Instant) {
        difference = total.nanoseconds &- awake.nanoseconds
    }

    /// Whether the machine has slept for more than a second since the last time it was asked.
    package mutating func hasSlept(total: Instant, awake: Instant) -> Bool {
        let before = difference
        difference = total.nanoseconds &- awake.nanoseconds
        return difference &- before > Self.threshold
    }
}
