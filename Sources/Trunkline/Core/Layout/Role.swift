/// What tells the frames of a role from others: a type number (`7`), type numbers (`.types(2...0x400)`), or something else
/// in the header: `.bit(31)`, `.bit(0, of: "flags")`, `.bits(0..<4, of: "flags")`, `.field("remaining", 1...)`.
///
/// An open range ends where its field ends. A layout rejects numbers that its field cannot hold.
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
    /// Whether it is a single bit, which says of a frame that it has the role and no more.
    let isFlag: Bool

    init(_ place: Place, _ test: Test, isFlag: Bool = false) {
        self.place = place
        self.test = test
        self.isFlag = isFlag
    }

    /// The type `number`.
    public init(integerLiteral number: UInt32) { self = .type(number) }
}

/// Neighbouring bits of an integer, counted from 0, the least significant.
struct BitRange: Sendable, Hashable {
    let lower: Int
    let count: Int

    /// The largest number that the bits hold. The count is 1 to 64.
    var maximum: UInt64 { .max >> UInt64(64 - count) }
    /// The bits in place.
    var mask: UInt64 { maximum << UInt64(lower) }

    func value(in number: UInt64) -> UInt64 { number >> UInt64(lower) & maximum }

    /// `number` with these bits holding `value`, which must fit.
    func setting(_ value: UInt64, in number: UInt64) -> UInt64 { number & ~mask | value << UInt64(lower) }
}

extension Role {
    /// The type `number`.
    public static func type(_ number: UInt32) -> Role { .types(number...number) }

    /// The types `numbers`.
    public static func types(_ numbers: some RangeExpression<UInt32>) -> Role {
        Role(.type, .numbers(Trunkline.numbers(of: numbers)))
    }

    /// A bit of a named field, or of the type unless `field` is given, counted from 0, the least significant. With
    /// `isSet: false` the frames have the role that have it clear.
    ///
    /// A bit of the type is no part of `frame.type`: it is taken out of received frames and put into sent ones.
    public static func bit(_ number: Int, of field: String? = nil, isSet: Bool = true) -> Role {
        let bit = BitRange(lower: number, count: 1)
        return Role(field.map { .field($0) } ?? .type, .bits(bit, isSet ? 1...1 : 0...0), isFlag: true)
    }

    /// Several bits of a named field, or of the type unless `field` is given, that hold one of `numbers`: anything but 0
    /// unless given. DNS's result code is `.bits(0..<4, of: "flags")`.
    ///
    /// Bits are counted from 0, the least significant. A frame that is sent gets the lowest of `numbers` there unless it
    /// has another of them; one without the role that has one of them gets the lowest number that is none of them. Bits of
    /// the type are no part of `frame.type`, as with `bit(_:of:isSet:)`. A layout rejects bits that its field does not
    /// have, and numbers that do not fit in them or leave none for the other frames.
    public static func bits(
        _ range: some RangeExpression<Int>,
        of field: String? = nil,
        holding numbers: some RangeExpression<UInt64> = 1...
    ) -> Role {
        let range = range.relative(to: 0..<64)
        let bits = BitRange(lower: range.lowerBound, count: range.count)
        return Role(field.map { .field($0) } ?? .type, .bits(bits, Trunkline.numbers(of: numbers)))
    }

    /// The number of a named field.
    public static func field(_ name: String, _ number: UInt64) -> Role { .field(name, number...number) }

    /// The numbers of a named field. The lowest is sent where the frame's own number is not one of them.
    public static func field(_ name: String, _ numbers: some RangeExpression<UInt64>) -> Role {
        Role(.field(name), .numbers(Trunkline.numbers(of: numbers)))
    }
}

// MARK: - On frames

extension Role {
    /// The type numbers, where it is those.
    var types: ClosedRange<UInt64>? {
        guard case .type = place, case .numbers(let numbers) = test else { return nil }
        return numbers
    }

    /// The bits of the type that this looks at; 0 when it looks at something else. They must be bits of the type.
    var typeBits: UInt32 {
        guard case .type = place, case .bits(let bits, _) = test else { return 0 }
        return UInt32(truncatingIfNeeded: bits.mask)
    }

    /// Whether the received `frame` has the role. `typeBits` are no part of its type number.
    func matches(_ frame: borrowing Frame, typeBits: UInt32) -> Bool {
        switch test {
        case .numbers(let numbers): numbers.contains(number(in: frame, without: typeBits) ?? 0)
        case .bits(let bits, let numbers): numbers.contains(bits.value(in: number(in: frame) ?? 0))
        }
    }

    /// The number by which the received `frame` has the role; `nil` where that says no more than that it has.
    func code(in frame: borrowing Frame) -> UInt32? {
        if isFlag || types != nil { return nil }
        let number = number(in: frame) ?? 0
        guard case .bits(let bits, _) = test else { return UInt32(clamping: number) }
        return UInt32(clamping: bits.value(in: number))
    }

    /// Makes `frame`, which is to be sent in this `shape`, one that has the role, or one that has not. If it has, by `code`
    /// unless that is 0 or none of the role's numbers.
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
            // A number that says something else is the caller's own, unless it is none at all.
            guard isMarked, place != .type || old == 0 else {
                let (number, what) = ("\(name) \(hexadecimal(old))", isMarked ? "is not that of" : "is that of")
                throw FrameError(.unknownType, "\(number) \(what) \(role) in this layout")
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

// MARK: - Numbers

/// The lowest and the highest number of `range`; `UInt64.max` as the highest stands for "no end". `noNumbers` for a range that is
/// empty or has negative numbers.
func numbers<Number: FixedWidthInteger>(of range: some RangeExpression<Number>) -> ClosedRange<UInt64> {
    let bounds: (lower: Number, upper: Number?)? =
        switch range {
        case let range as ClosedRange<Number>: (range.lowerBound, range.upperBound)
        case let range as PartialRangeFrom<Number>: (range.lowerBound, nil)
        case let range as Range<Number> where range.lowerBound < range.upperBound:
            (range.lowerBound, range.upperBound - 1)
        case let range as PartialRangeThrough<Number>: (0, range.upperBound)
        case let range as PartialRangeUpTo<Number> where range.upperBound > 0: (0, range.upperBound - 1)
        default: nil
        }
    guard let bounds, let lower = UInt64(exactly: bounds.lower) else { return noNumbers }
    guard let last = bounds.upper else { return lower...UInt64.max }
    guard let upper = UInt64(exactly: last), upper >= lower else { return noNumbers }
    return lower...upper
}

/// Stands for numbers that are negative, or for none, so that the error can name the role. No protocol has a range of this one
/// number.
let noNumbers: ClosedRange<UInt64> = .max - 1 ... .max - 1
