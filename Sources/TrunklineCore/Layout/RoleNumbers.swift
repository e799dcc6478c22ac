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
    /// The number alone. It must not be negative.
    public var numbersOfRole: ClosedRange<UInt64>? { numberOfRole(self)...numberOfRole(self) }
}

extension Int: RoleNumbers {}
extension UInt8: RoleNumbers {}
extension UInt16: RoleNumbers {}
extension UInt32: RoleNumbers {}
extension UInt64: RoleNumbers {}

extension ClosedRange: RoleMark where Bound: BinaryInteger {}
extension ClosedRange: RoleNumbers where Bound: BinaryInteger {
    /// Both ends. They must not be negative.
    public var numbersOfRole: ClosedRange<UInt64>? { numberOfRole(lowerBound)...numberOfRole(upperBound) }
}

extension PartialRangeFrom: RoleMark where Bound: BinaryInteger {}
extension PartialRangeFrom: RoleNumbers where Bound: BinaryInteger {
    /// From the lower end on. It must not be negative.
    public var numbersOfRole: ClosedRange<UInt64>? { numberOfRole(lowerBound)...UInt64.max }
}

extension Optional: RoleMark where Wrapped: RoleMark {
    /// That of the value, if there is one.
    public var markOfRole: Role? { flatMap(\.markOfRole) }
}
extension Optional: RoleNumbers where Wrapped: RoleNumbers {
    /// Those of the value, if there is one.
    public var numbersOfRole: ClosedRange<UInt64>? { flatMap(\.numbersOfRole) }
}

private func numberOfRole(_ number: some BinaryInteger) -> UInt64 {
    guard let number = UInt64(exactly: number) else { fatalError("a role cannot be the number \(number)") }
    return number
}
