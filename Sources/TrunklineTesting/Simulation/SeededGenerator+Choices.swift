import Trunkline

extension SeededGenerator {
    /// A number from zero to `count - 1`; `count` is positive.
    mutating func below(_ count: Int) -> Int {
        Int(truncatingIfNeeded: next().multipliedFullWidth(by: UInt64(count)).high)
    }

    /// A number within `range`.
    mutating func number(in range: ClosedRange<Int64>) -> Int64 {
        let width = UInt64(bitPattern: range.upperBound &- range.lowerBound)
        guard width > 0 else { return range.lowerBound }
        return range.lowerBound &+ Int64(bitPattern: next().multipliedFullWidth(by: width &+ 1).high)
    }

    /// True with the given probability.
    mutating func happens(_ probability: Double) -> Bool {
        probability > 0 && Double(next() >> 11) * 0x1p-53 < probability
    }

    /// `count`, or with the given probability a part of it: at least one, half of the time a few only.
    mutating func part(of count: Int, probability: Double) -> Int {
        guard count > 1, happens(probability) else { return count }
        return 1 + below(next() & 1 == 0 ? min(count, 8) : count)
    }
}
