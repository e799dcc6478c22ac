/// The seeds that a test of random lives tries: `count` of them, or more if `TRUNKLINE_SEEDS` says so.
func seeds(_ count: UInt64) -> Range<UInt64> {
    0..<max(count, TestEnvironment.seeds ?? 0)
}
