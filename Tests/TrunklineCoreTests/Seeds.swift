/// The seeds of a randomized test: `count` of them, or `TRUNKLINE_SEEDS` if that is more.
func seeds(_ count: UInt64) -> Range<UInt64> {
    0..<max(count, TestEnvironment.seeds ?? 0)
}
