/// A type of which an option or an argument may have any value.
protocol Extreme: Sendable {
    /// The values at the ends of the type, around zero, and beyond what other types can hold.
    static var extremes: [Self] { get }
}

extension FixedWidthInteger {
    fileprivate static var ends: [Self] { [.min, 0, 1, .max - 1, .max] }
}

extension Int: Extreme { static var extremes: [Int] { [.min, -1, 0, 1, .max] } }
extension Int32: Extreme { static var extremes: [Int32] { ends } }
extension Int64: Extreme { static var extremes: [Int64] { ends } }
extension UInt8: Extreme { static var extremes: [UInt8] { ends } }
extension UInt16: Extreme { static var extremes: [UInt16] { ends } }
extension UInt32: Extreme { static var extremes: [UInt32] { ends } }
extension UInt64: Extreme { static var extremes: [UInt64] { ends + [1 << 63] } }

extension Double: Extreme {
    static var extremes: [Double] {
        [
            .nan, .infinity, -.infinity, 1e300, -1e300, .greatestFiniteMagnitude, 9.3e18, -1, -0.0, 0,
            .leastNonzeroMagnitude, 0.5, 1,
        ]
    }
}

extension Duration: Extreme {
    static let longest = Duration(attoseconds: .max)
    static let mostNegative = Duration(attoseconds: .min)

    static var extremes: [Duration] {
        [
            mostNegative, .seconds(-1), .zero, .nanoseconds(1), .nanoseconds(Int64.max), .seconds(Int64.max), longest,
        ]
    }
}

extension Optional: Extreme where Wrapped: Extreme {
    static var extremes: [Wrapped?] { Wrapped.extremes }
}

extension ClosedRange: Extreme where Bound: Extreme {
    /// Ranges of one value and the ranges between neighbors, from every end.
    static var extremes: [ClosedRange<Bound>] {
        let bounds = Bound.extremes.filter { $0 == $0 }.sorted()
        let ends = [bounds[0], bounds[bounds.count / 2], bounds[bounds.count - 1]]
        return bounds.map { $0...$0 } + ends.flatMap { end in bounds.map { Swift.min(end, $0)...Swift.max(end, $0) } }
    }
}
