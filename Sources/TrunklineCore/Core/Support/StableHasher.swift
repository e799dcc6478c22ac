/// Computes a 64-bit hash: FNV-1a, whose upper bits depend little on the last bytes, and then the finalizer of
/// SplitMix64, which spreads them.
///
/// The hash has no seed and never changes: processes, versions and machines agree on it, so clients send the same key
/// to the same server. It does not resist an attacker who chooses keys.
package struct StableHasher: Sendable {
    private var state: UInt64 = 0xcbf2_9ce4_8422_2325

    package init() {}

    package mutating func combine(_ bytes: some Sequence<UInt8>) {
        var state = state
        for byte in bytes { state = (state ^ UInt64(byte)) &* 0x0100_0000_01b3 }
        self.state = state
    }

    /// Returns the hash of `bytes`.
    package static func hash(_ bytes: some Sequence<UInt8>) -> UInt64 {
        var hasher = StableHasher()
        hasher.combine(bytes)
        return hasher.value
    }

    /// The hash of all that was combined.
    package var value: UInt64 {
        var finalizer = SeededGenerator(seed: state)
        return finalizer.next()
    }
}
