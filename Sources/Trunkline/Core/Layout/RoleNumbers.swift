/// One number, or a range of them, open or closed: `7`, `2...0x400`, `50...`. Nothing is `nil`.
///
/// The integers and ranges of the standard library conform. An open range ends where its field ends.
public protocol RoleNumbers: RoleMark {
    /// The lowest and the highest number; `UInt64.max` as the highest stands for "no end".
    var numbersOfRole: ClosedRange<UInt64>? { get }
}

extension RoleNumbers {
    /// The frames whose type is one of the numbers.
    public var markOfRole: Role? { numbersOfRole.map { Role(.type, .numbers($0)) } }
}

extension RoleNumbers where Self: BinaryInteger {
    /// The number alone. A layout refuses one that is negative.
    public var numbersOfRole: ClosedRange<UInt64>? { UInt64(exactly: self).map { $0...$0 } ?? noNumbers }
}

extension Int: RoleNumbers {}
extension UInt8: RoleNumbers {}
extension UInt16: RoleNumbers {}
extension UInt32: RoleNumbers {}
extension UInt64: RoleNumbers {}

extension ClosedRange: RoleMark where Bound: BinaryInteger {}
extension ClosedRange: RoleNumbers where Bound: BinaryInteger {
    /// Both ends. A layout refuses those that are negative.
    public var numbersOfRole: ClosedRange<UInt64>? {
        guard let lower = UInt64(exactly: lowerBound), let upper = UInt64(exactly: upperBound) else { return noNumbers }
        return lower...upper
    }
}

extension PartialRangeFrom: RoleMark where Bound: BinaryInteger {}
extension PartialRangeFrom: RoleNumbers where Bound: BinaryInteger {
    /// From the lower end on. A layout refuses one that is negative.
    public var numbersOfRole: ClosedRange<UInt64>? { UInt64(exactly: lowerBound).map { $0...UInt64.max } ?? noNumbers }
}

extension Optional: RoleMark where Wrapped: RoleMark {
    /// That of the value, if there is one.
    public var markOfRole: Role? { flatMap(\.markOfRole) }
}
extension Optional: RoleNumbers where Wrapped: RoleNumbers {
    /// Those of the value, if there is one.
    public var numbersOfRole: ClosedRange<UInt64>? { flatMap(\.numbersOfRole) }
}

/// Stands for numbers that are negative or have more than 64 bits, so that who made them can be told of the role. No
/// protocol has a range of this one number.
let noNumbers: ClosedRange<UInt64> = .max - 1 ... .max - 1
