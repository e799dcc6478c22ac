/// The seeds of a randomized test: a quarter of `count`. With `TRUNKLINE_SEEDS`, which the step `seeds` sets, all of them,
/// or that many if that is more.
func seeds(_ count: UInt64) -> Range<UInt64> {
    0..<(TestEnvironment.seeds.map { max(count, $0) } ?? (count + 3) / 4)
}
