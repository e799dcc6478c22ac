import Testing

/// The seeds of a test with random runs: a quarter of `count`. With `TRUNKLINE_SEEDS`, which the step `seeds` sets, all of
/// them, or that many if that is more.
///
/// The test yields before each of them: other tests wait for its thread, and their time limits run.
func seeds(_ count: UInt64) -> Range<UInt64> {
    0..<(TestEnvironment.seeds.map { max(count, $0) } ?? (count + 3) / 4)
}

extension TimeLimitTrait.Duration {
    /// For suites with `seeds`: five minutes, and one more for every 200 seeds of `TRUNKLINE_SEEDS`.
    static var seeded: Self { .minutes(5 + seeds(0).count / 200) }
}
