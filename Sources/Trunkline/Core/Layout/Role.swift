/// What tells the frames of a role from others: type numbers (`7`, `2...0x400`) or a `Role`. Nothing is `nil`.
public protocol RoleMark {
    /// What to look at; `nil` when no frame has the role.
    var markOfRole: Role? { get }
}

/// Something in a frame's header, besides its type number, that tells what the frame is for: `.bit(31)`,
/// `.bit(0, of: "flags")`, `.bits(0..<4, of: "flags")`, `.field("remaining", 1...)`.
public struct Role: Sendable, Hashable, RoleMark {
    enum Place: Sendable, Hashable {
        case type
        case field(String)
    }

    enum Test: Sendable, Hashable {
        case numbers(ClosedRange<UInt64>)
        case bit(Int, isSet: Bool)
        case bits(BitRange, ClosedRange<UInt64>)
    }

    let place: Place
    let test: Test

    init(_ place: Place, _ test: Test) {
        self.place = place
        self.test = test
    }

    /// The role itself.
    public var markOfRole: Role? { self }
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

extension RoleMark where Self == Role {
    /// A bit of a named field, or of the type unless `field` is given, counted from 0, the least significant. With
    /// `isSet: false` the frames have the role that have it clear.
    ///
    /// A bit of the type is no part of `frame.type`: it is taken out of received frames and put into sent ones.
    public static func bit(_ number: Int, of field: String? = nil, isSet: Bool = true) -> Role {
        Role(field.map { .field($0) } ?? .type, .bit(number, isSet: isSet))
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
        holding numbers: some RoleNumbers = 1...
    ) -> Role {
        let range = range.relative(to: 0..<64)
        let bits = BitRange(lower: range.lowerBound, count: range.count)
        return Role(field.map { .field($0) } ?? .type, .bits(bits, numbers.numbersOfRole ?? noNumbers))
    }

    /// The numbers of a named field. The lowest is sent where the frame's own number is not one of them.
    public static func field(
        _ name: String,
        _ numbers: some RoleNumbers,
        file: StaticString = #fileID,
        line: UInt = #line
    ) -> Role {
        guard let numbers = numbers.numbersOfRole else {
            fatalError("a role needs numbers of the field \"\(name)\"", file: file, line: line)
        }
        return Role(.field(name), .numbers(numbers))
    }
}

/// The named field in which a `goAway` frame says how long to stay away; 0 there says nothing.
public enum RetryAfterField: Sendable, Hashable {
    /// The field holds seconds.
    case seconds(in: String)
    /// The field holds milliseconds.
    case milliseconds(in: String)

    var name: String {
        switch self {
        case .seconds(let name), .milliseconds(let name): name
        }
    }

    func duration(of number: UInt64) -> Duration? {
        guard number > 0 else { return nil }
        switch self {
        case .seconds: return .seconds(Int64(clamping: number))
        case .milliseconds: return .milliseconds(Int64(clamping: number))
        }
    }
}

// MARK: - On frames

extension Role {
    /// The bits of the type that this looks at; 0 when it looks at something else. They must be bits of the type.
    var typeBits: UInt32 {
        guard case .type = place else { return 0 }
        return switch test {
        case .bit(let number, _): 1 << UInt32(number)
        case .bits(let bits, _): UInt32(truncatingIfNeeded: bits.mask)
        case .numbers: 0
        }
    }

    /// Whether the received `frame` has the role. `typeBits` are no part of its type number.
    func matches(_ frame: borrowing Frame, typeBits: UInt32) -> Bool {
        switch test {
        case .numbers(let numbers): numbers.contains(number(in: frame, typeBits) ?? 0)
        case .bit(let bit, let isSet): ((number(in: frame, 0) ?? 0) >> UInt64(bit) & 1 == 1) == isSet
        case .bits(let bits, let numbers): numbers.contains(bits.value(in: number(in: frame, 0) ?? 0))
        }
    }

    /// The number by which the received `frame` has the role; `nil` where that says no more than that it has.
    func code(in frame: borrowing Frame) -> UInt32? {
        switch test {
        case .bit: nil
        case .bits(let bits, _): UInt32(clamping: bits.value(in: number(in: frame, 0) ?? 0))
        case .numbers: place == .type ? nil : UInt32(clamping: number(in: frame, 0) ?? 0)
        }
    }

    /// Makes `frame`, which is to be sent by `plan`, one that has the role, or one that has not. If it has, by `code` unless
    /// that is 0 or none of the role's numbers.
    func mark(
        _ frame: inout Frame,
        _ isMarked: Bool,
        as role: String,
        code: UInt32 = 0,
        typeBits: UInt32,
        by plan: LayoutPlan
    ) throws(FrameError) {
        let old: UInt64
        func wanted(_ numbers: ClosedRange<UInt64>, upTo maximum: UInt64) -> UInt64 {
            code != 0 && numbers.contains(UInt64(code)) && code <= maximum ? UInt64(code) : numbers.lowerBound
        }
        func isRight(_ number: UInt64, _ numbers: ClosedRange<UInt64>, upTo maximum: UInt64) -> Bool {
            guard numbers.contains(number) == isMarked else { return false }
            return !isMarked || code == 0 || code == UInt32(clamping: number) || wanted(numbers, upTo: maximum) != code
        }
        switch test {
        case .bit(let bit, let isSet):
            old = number(in: frame, 0) ?? initial(in: plan)
            let mask = UInt64(1) << UInt64(bit)
            set(isMarked == isSet ? old | mask : old & ~mask, in: &frame)
        case .bits(let bits, let numbers):
            old = number(in: frame, 0) ?? initial(in: plan)
            if isRight(bits.value(in: old), numbers, upTo: bits.maximum) { return }
            let free = numbers.contains(0) ? numbers.upperBound + 1 : 0
            let value = isMarked ? wanted(numbers, upTo: bits.maximum) : free
            set(bits.setting(value, in: old), in: &frame)
        case .numbers(let numbers):
            old = number(in: frame, typeBits) ?? initial(in: plan)
            let maximum = maximum(in: plan)
            if place == .type ? numbers.contains(old) == isMarked : isRight(old, numbers, upTo: maximum) { return }
            // A number that says something else is the caller's own, unless it is none at all.
            guard isMarked, place != .type || old == 0 else {
                let (number, what) = ("\(name) \(hexadecimal(old))", isMarked ? "is not that of" : "is that of")
                throw FrameError(.unknownType, "\(number) \(what) \(role) in this layout")
            }
            set(place == .type ? numbers.lowerBound : wanted(numbers, upTo: maximum), in: &frame)
        }
    }

    var name: String {
        switch place {
        case .type: "the type"
        case .field(let name): "\(name)"
        }
    }

    private func number(in frame: borrowing Frame, _ typeBits: UInt32) -> UInt64? {
        switch place {
        case .type: UInt64(frame.type & ~typeBits)
        case .field(let name): frame[name]
        }
    }

    private func initial(in plan: LayoutPlan) -> UInt64 {
        guard case .field(let name) = place else { return 0 }
        return plan.named.first { $0.name == name }?.initial ?? 0
    }

    private func maximum(in plan: LayoutPlan) -> UInt64 {
        guard case .field(let name) = place else { return UInt64(UInt32.max) }
        return plan.named.first { $0.name == name }?.slot.maximum ?? 0
    }

    private func set(_ number: UInt64, in frame: inout Frame) {
        switch place {
        case .type: frame.type = UInt32(truncatingIfNeeded: number)
        case .field(let name): frame[name] = number
        }
    }
}
