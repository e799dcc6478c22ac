import Testing

/// The seeds that a test of random lives tries: `count` of them, or more if `TRUNKLINE_SEEDS` says so.
///
/// The test yields before each of them: others wait for its thread, and their time limits run.
func seeds(_ count: UInt64) -> Range<UInt64> {
    0..<max(count, TestEnvironment.seeds ?? 0)
}

extension TimeLimitTrait.Duration {
    /// For suites with `seeds`: five minutes, and one more for every 200 seeds that `TRUNKLINE_SEEDS` asks for.
    static var seeded: Self { .minutes(5 + seeds(0).count / 200) }
}
