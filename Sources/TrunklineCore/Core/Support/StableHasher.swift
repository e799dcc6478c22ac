/// FNV-1a, whose upper bits depend little on the last bytes, then the finalizer of SplitMix64, which spreads them.
/// Never changes, so clients send a key to the same server. Does not resist an attacker who chooses keys.
package struct StableHasher: Sendable {
    private var state: UInt64 = 0xcbf2_9ce4_8422_2325

    init() {}

    mutating func combine(_ bytes: some Sequence<UInt8>) {
        var state = state
        for byte in bytes { state = (state ^ UInt64(byte)) &* 0x0100_0000_01b3 }
        self.state = state
    }

    package static func hash(_ bytes: some Sequence<UInt8>) -> UInt64 {
        var hasher = StableHasher()
        hasher.combine(bytes)
        return hasher.value
    }

    var value: UInt64 {
        var finalizer = SeededGenerator(seed: state)
        return finalizer.next()
    }
}
