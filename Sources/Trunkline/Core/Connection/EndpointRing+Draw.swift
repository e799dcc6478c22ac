/// Orders that are each client's own.
extension EndpointRing {
    /// Puts the entries in the order that the seed draws.
    ///
    /// A race: each endpoint arrives after a time drawn from the exponential distribution whose rate is its weight, so
    /// that of any two the one with twice the weight is first twice as often. The draw depends on nothing but the seed
    /// and the endpoint (weighted rendezvous hashing), so that those that stay when others come and go keep their
    /// places relative to each other.
    mutating func draw() {
        let arrivals = entries.enumerated().map { index, entry in (arrival(of: entry.endpoint), index, entry) }
        entries = arrivals.sorted { ($0.0, $0.1) < ($1.0, $1.1) }.map(\.2)
    }

    private func arrival(of endpoint: Endpoint) -> Double {
        // FNV-1a, as the standard library's hashes differ from process to process.
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in endpoint.description.utf8 { hash = (hash ^ UInt64(byte)) &* 0x0100_0000_01b3 }
        var generator = SeededGenerator(seed: seed ^ hash)
        // Above zero, whose logarithm is none.
        let uniform = 1 - generator.nextUnit()
        let weight = order == .weighted ? endpoint.weight : 1
        return weight > 0 ? -Self.logarithm(uniform) / weight : .infinity
    }

    /// The natural logarithm of a positive number, to about eight digits: this module imports no library that has it.
    static func logarithm(_ value: Double) -> Double {
        let z = (value.significand - 1) / (value.significand + 1)  // at most a third
        var (sum, power) = (0.0, z)
        for denominator in stride(from: 1.0, through: 15, by: 2) {
            sum += power / denominator
            power *= z * z
        }
        return 2 * sum + Double(value.exponent) * 0.693_147_180_559_945_3
    }
}

extension SeededGenerator {
    /// Draws evenly from 0 up to, not including, 1.
    package mutating func nextUnit() -> Double { Double(next() >> 11) * 0x1p-53 }
}
