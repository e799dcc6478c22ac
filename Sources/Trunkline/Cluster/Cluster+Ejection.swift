/// Servers that fail: when they are left out, probed and used again.
extension Cluster {
    struct NoOutliers { mutating func add(_ id: UInt64) {}; mutating func remove(_ id: UInt64) {}; mutating func setReady(_ id: UInt64, _ r: Bool) {} }
    enum Use { case serves, isProbed, rests }
    func use(of id: UInt64) -> Use { .serves }
    func perform(_ a: Void) {}
    func failedInARow(_ id: UInt64, _ count: Int) {}
    func probeEnded(_ id: UInt64, _ ok: Bool) {}
}
