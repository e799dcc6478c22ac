import Testing

/// The seeds of a test with random runs: `count` of them, or more if `TRUNKLINE_SEEDS` is larger.
///
/// The test yields before each of them: other tests wait for its thread, and their time limits run.
func seeds(_ count: UInt64) -> Range<UInt64> {
    0..<max(count, TestEnvironment.seeds ?? 0)
}

extension TimeLimitTrait.Duration {
    /// For suites with `seeds`: five minutes, and one more for every 200 seeds of `TRUNKLINE_SEEDS`.
    static var seeded: Self { .minutes(5 + seeds(0).count / 200) }
}
