import TrunklineCore

extension SeededGenerator {
    /// From zero to `count - 1`. `count` must be positive.
    mutating func below(_ count: Int) -> Int {
        Int(truncatingIfNeeded: next().multipliedFullWidth(by: UInt64(count)).high)
    }

    mutating func number(in range: ClosedRange<Int64>) -> Int64 {
        let width = UInt64(bitPattern: range.upperBound &- range.lowerBound)
        guard width > 0 else { return range.lowerBound }
        return range.lowerBound &+ Int64(bitPattern: next().multipliedFullWidth(by: width &+ 1).high)
    }

    mutating func happens(_ probability: Double) -> Bool {
        probability > 0 && Double(next() >> 11) * 0x1p-53 < probability
    }

    /// `count`, or with the given probability a smaller number: at least one, and in half of the cases at most eight.
    mutating func part(of count: Int, probability: Double) -> Int {
        guard count > 1, happens(probability) else { return count }
        return 1 + below(next() & 1 == 0 ? min(count, 8) : count)
    }
}
