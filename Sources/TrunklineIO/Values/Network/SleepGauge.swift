/// Detects that the machine has slept, by comparing a clock that counts the time asleep with one that does not.
struct SleepGauge: Sendable {
    /// In nanoseconds. A smaller difference is not sleep: the clocks are read one after the other.
    private static let threshold: Int64 = 1_000_000_000

    private var difference: Int64

    init(total: Instant, awake: Instant) {
        difference = total.nanoseconds &- awake.nanoseconds
    }

    mutating func hasSlept(total: Instant, awake: Instant) -> Bool {
        let before = difference
        difference = total.nanoseconds &- awake.nanoseconds
        return difference &- before > Self.threshold
    }
}
