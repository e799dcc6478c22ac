import TrunklineCore

/// A rule that says which frames have a role: those with certain types, or with a mark in the header.
///
/// | Role | Frames |
/// |---|---|
/// | `7` | with this type |
/// | `.types(2...0x400)` | with one of these types |
/// | `.bit(31)` | whose type has this bit set |
/// | `.bit(0, of: "flags")` | whose named field has this bit set |
/// | `.bits(0..<4, of: "flags")` | whose named field has any number except 0 in these bits |
/// | `.field("remaining", 1...)` | whose named field holds one of these numbers |
///
/// A range without an upper bound ends at the largest number of its field. If the field cannot hold one of the numbers,
/// ``FrameLayout/roles(_:file:line:)`` stops the program with a message that names the role.
public struct Role: Sendable, Hashable, ExpressibleByIntegerLiteral {
    enum Place: Sendable, Hashable {
        case type
        case field(String)
    }

    enum Test: Sendable, Hashable {
        case numbers(ClosedRange<UInt64>)
        case bits(BitRange, ClosedRange<UInt64>)
    }

    let place: Place
    let test: Test
    let isFlag: Bool

    init(_ place: Place, _ test: Test, isFlag: Bool = false) {
        self.place = place
        self.test = test
        self.isFlag = isFlag
    }

    /// Creates the role of frames with the type `number`.
    public init(integerLiteral number: UInt32) { self = .type(number) }
}

/// Adjacent bits of an integer, counted from 0, the least significant.
struct BitRange: Sendable, Hashable {
    let lower: Int
    let count: Int

    init(lower: Int, count: Int) { (self.lower, self.count) = (lower, count) }

    /// Up to 63 without an upper bound; a count of 0 or less if `bounds` holds none.
    init(_ bounds: (lower: Int, upper: Int?)?) {
        let (lower, upper) = (bounds?.lower ?? 0, bounds.map { $0.upper ?? 63 } ?? -1)
        let (distance, overflow) = upper.subtractingReportingOverflow(lower)
        self.init(lower: lower, count: overflow ? .max : distance.addingClamped(1))
    }

    /// `count` is 1 to 64.
    var maximum: UInt64 { .max >> UInt64(64 - count) }
    var mask: UInt64 { maximum << UInt64(lower) }

    func value(in number: UInt64) -> UInt64 { number >> UInt64(lower) & maximum }

    /// `value` must fit.
    func setting(_ value: UInt64, in number: UInt64) -> UInt64 { number & ~mask | value << UInt64(lower) }
}

extension Role {
    /// Returns the role of frames with the type `number`.
    public static func type(_ number: UInt32) -> Role { .types(number...number) }

    /// Returns the role of frames with one of these types.
    public static func types(_ numbers: some RangeExpression<UInt32>) -> Role {
        Role(.type, .numbers(TrunklineLayouts.numbers(of: numbers)))
    }

    /// Returns the role of frames in which a bit is set or clear.
    ///
    /// If the bit is in the type, it is not part of ``Frame/type``: the layout removes it from received frames and adds
    /// it to sent ones.
    ///
    /// - Parameters:
    ///   - number: The number of the bit. The least significant bit is 0.
    ///   - field: The named field that has the bits, or `nil` for the type.
    ///   - isSet: Whether the bit is set in frames that have the role.
    public static func bit(_ number: Int, of field: String? = nil, isSet: Bool = true) -> Role {
        let bit = BitRange(lower: number, count: 1)
        return Role(field.map { .field($0) } ?? .type, .bits(bit, isSet ? 1...1 : 0...0), isFlag: true)
    }

    /// Returns the role of frames in which several bits hold one of certain numbers. For example, the role of DNS
    /// errors is `.bits(0..<4, of: "flags")`: the result code in these bits is not 0.
    ///
    /// A sent frame that has the role gets the lowest of `numbers` in these bits, unless the bits already hold one of
    /// them. A sent frame that does not have the role but holds one of `numbers` gets the lowest number that is not one
    /// of them. Bits of the type are not part of ``Frame/type``, as with ``bit(_:of:isSet:)``.
    ///
    /// - Parameters:
    ///   - range: The numbers of the bits. The least significant bit is 0.
    ///   - field: The named field that has the bits, or `nil` for the type.
    ///   - numbers: The numbers of frames that have the role; all except 0 by default. They must fit in the bits and
    ///     leave a number for frames without the role.
    public static func bits(
        _ range: some RangeExpression<Int>,
        of field: String? = nil,
        holding numbers: some RangeExpression<UInt64> = 1...
    ) -> Role {
        // A range that no field has is reported when the role is given to a layout.
        let bits = BitRange(bounds(of: range))
        return Role(field.map { .field($0) } ?? .type, .bits(bits, TrunklineLayouts.numbers(of: numbers)))
    }

    /// Returns the role of frames whose named field holds `number`.
    public static func field(_ name: String, _ number: UInt64) -> Role { .field(name, number...number) }

    /// Returns the role of frames whose named field holds one of `numbers`.
    ///
    /// When a frame that has the role is sent, its field is set to the lowest of `numbers`, unless the field already
    /// holds one of them.
    public static func field(_ name: String, _ numbers: some RangeExpression<UInt64>) -> Role {
        Role(.field(name), .numbers(TrunklineLayouts.numbers(of: numbers)))
    }
}

extension Role {
    var types: ClosedRange<UInt64>? {
        guard case .type = place, case .numbers(let numbers) = test else { return nil }
        return numbers
    }

    var typeBits: UInt32 {
        guard case .type = place, case .bits(let bits, _) = test else { return 0 }
        return UInt32(truncatingIfNeeded: bits.mask)
    }

    /// `typeBits` are not part of the frame's type number.
    func matches(_ frame: borrowing Frame, typeBits: UInt32) -> Bool {
        switch test {
        case .numbers(let numbers): numbers.contains(number(in: frame, without: typeBits) ?? 0)
        case .bits(let bits, let numbers): numbers.contains(bits.value(in: number(in: frame) ?? 0))
        }
    }

    func code(in frame: borrowing Frame) -> UInt32? {
        if isFlag || types != nil { return nil }
        let number = number(in: frame) ?? 0
        guard case .bits(let bits, _) = test else { return UInt32(clamping: number) }
        return UInt32(clamping: bits.value(in: number))
    }

    /// Marks `frame` by the number `code`, unless that is 0 or not one of the role's numbers.
    func mark(
        _ frame: inout Frame,
        _ isMarked: Bool,
        as role: String,
        code: UInt32 = 0,
        typeBits: UInt32,
        in shape: LayoutShape
    ) throws(FrameError) {
        func wanted(_ numbers: ClosedRange<UInt64>, upTo maximum: UInt64) -> UInt64 {
            code != 0 && numbers.contains(UInt64(code)) && code <= maximum ? UInt64(code) : numbers.lowerBound
        }
        func isRight(_ number: UInt64, _ numbers: ClosedRange<UInt64>, upTo maximum: UInt64) -> Bool {
            guard numbers.contains(number) == isMarked else { return false }
            return !isMarked || code == 0 || code == UInt32(clamping: number) || wanted(numbers, upTo: maximum) != code
        }
        let field = shape.named.first { place == .field($0.name) }
        let initial = field?.initial ?? 0
        switch test {
        case .bits(let bits, let numbers):
            let old = number(in: frame) ?? initial
            if isRight(bits.value(in: old), numbers, upTo: bits.maximum) { return }
            let free = numbers.contains(0) ? numbers.upperBound + 1 : 0
            set(bits.setting(isMarked ? wanted(numbers, upTo: bits.maximum) : free, in: old), in: &frame)
        case .numbers(let numbers):
            let old = number(in: frame, without: typeBits) ?? initial
            let maximum = field?.slot.maximum ?? UInt64(UInt32.max)
            if place == .type ? numbers.contains(old) == isMarked : isRight(old, numbers, upTo: maximum) { return }
            // Unless the old number is 0, the caller set it on purpose.
            guard isMarked, place != .type || old == 0 else {
                let (number, what) = ("\(name) \(hexadecimal(old))", isMarked ? "does not have" : "has")
                throw FrameError(.unknownType, "\(number) \(what) the role \(role) in this layout")
            }
            set(place == .type ? numbers.lowerBound : wanted(numbers, upTo: maximum), in: &frame)
        }
    }

    var name: String { if case .field(let name) = place { name } else { "the type" } }

    private func number(in frame: borrowing Frame, without typeBits: UInt32 = 0) -> UInt64? {
        switch place {
        case .type: UInt64(frame.type & ~typeBits)
        case .field(let name): frame[name]
        }
    }

    private func set(_ number: UInt64, in frame: inout Frame) {
        switch place {
        case .type: frame.type = UInt32(truncatingIfNeeded: number)
        case .field(let name): frame[name] = number
        }
    }
}

/// `UInt64.max` as the upper bound means "none". `noNumbers` stands for an empty or negative range.
func numbers<Number: FixedWidthInteger>(of range: some RangeExpression<Number>) -> ClosedRange<UInt64> {
    numbersIfAny(of: range) ?? noNumbers
}

func numbersIfAny<Number: FixedWidthInteger>(of range: some RangeExpression<Number>) -> ClosedRange<UInt64>? {
    guard let bounds = bounds(of: range), let lower = UInt64(exactly: bounds.lower) else { return nil }
    guard let last = bounds.upper else { return lower...UInt64.max }
    guard let upper = UInt64(exactly: last), upper >= lower else { return nil }
    return lower...upper
}

/// The inverse of `numbers(of:)`.
func range<Number: FixedWidthInteger>(of numbers: ClosedRange<UInt64>) -> any RangeExpression<Number> {
    if numbers == noNumbers { return ..<Number.zero }
    let lower = Number(numbers.lowerBound)
    if numbers.upperBound == .max { return lower... }
    return lower...Number(numbers.upperBound)
}

/// `lower` is 0 and `upper` `nil` without such a bound; `nil` for an empty range.
private func bounds<Number: FixedWidthInteger>(
    of range: some RangeExpression<Number>
) -> (lower: Number, upper: Number?)? {
    switch range {
    case let range as ClosedRange<Number>: (range.lowerBound, range.upperBound)
    case let range as PartialRangeFrom<Number>: (range.lowerBound, nil)
    case let range as Range<Number> where range.lowerBound < range.upperBound:
        (range.lowerBound, range.upperBound - 1)
    case let range as PartialRangeThrough<Number>: (0, range.upperBound)
    case let range as PartialRangeUpTo<Number> where range.upperBound > 0: (0, range.upperBound - 1)
    default: nil
    }
}

/// An empty or negative range, so that the error can name the role. No protocol uses this number alone.
let noNumbers: ClosedRange<UInt64> = .max - 1 ... .max - 1
