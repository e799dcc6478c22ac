/// What tells the frames of a role from others: type numbers (`7`, `2...0x400`) or a `Role`. Nothing is `nil`.
public protocol RoleMark {
    /// What to look at; `nil` when no frame has the role.
    var markOfRole: Role? { get }
}

/// Something in a frame's header, besides its type number, that tells what the frame is for: `.bit(31)`,
/// `.bit(0, of: "flags")`, `.field("remaining", 1...)`.
public struct Role: Sendable, Hashable, RoleMark {
    enum Place: Sendable, Hashable {
        case type
        case field(String)
    }

    enum Test: Sendable, Hashable {
        case numbers(ClosedRange<UInt64>)
        case bit(Int, isSet: Bool)
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

extension RoleMark where Self == Role {
    /// A bit of a named field, or of the type unless `field` is given, counted from 0, the least significant. With
    /// `isSet: false` the frames have the role that have it clear.
    ///
    /// A bit of the type is no part of `frame.type`: it is taken out of received frames and put into sent ones.
    public static func bit(_ number: Int, of field: String? = nil, isSet: Bool = true) -> Role {
        Role(field.map { .field($0) } ?? .type, .bit(number, isSet: isSet))
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
    /// The bit of the type that this looks at; 0 when it looks at something else.
    var typeBit: UInt32 {
        guard case .type = place, case .bit(let number, _) = test else { return 0 }
        return 1 << UInt32(number)
    }

    /// Whether the received `frame` has the role. `typeBits` are no part of its type number.
    func matches(_ frame: borrowing Frame, typeBits: UInt32) -> Bool {
        switch test {
        case .numbers(let numbers): numbers.contains(number(in: frame, typeBits) ?? 0)
        case .bit(let bit, let isSet): ((number(in: frame, 0) ?? 0) >> UInt64(bit) & 1 == 1) == isSet
        }
    }

    /// Makes `frame`, which is to be sent by `plan`, one that has the role, or one that has not.
    func mark(
        _ frame: inout Frame,
        _ isMarked: Bool,
        as role: String,
        typeBits: UInt32,
        by plan: LayoutPlan
    ) throws(FrameError) {
        let old: UInt64
        switch test {
        case .bit(let bit, let isSet):
            old = number(in: frame, 0) ?? initial(in: plan)
            let mask = UInt64(1) << UInt64(bit)
            set(isMarked == isSet ? old | mask : old & ~mask, in: &frame)
        case .numbers(let numbers):
            old = number(in: frame, typeBits) ?? initial(in: plan)
            if numbers.contains(old) == isMarked { return }
            // A number that says something else is the caller's own, unless it is none at all.
            guard isMarked, place != .type || old == 0 else {
                let (number, what) = ("\(name) \(hexadecimal(old))", isMarked ? "is not that of" : "is that of")
                throw FrameError(.unknownType, "\(number) \(what) \(role) in this layout")
            }
            set(numbers.lowerBound, in: &frame)
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

    private func set(_ number: UInt64, in frame: inout Frame) {
        switch place {
        case .type: frame.type = UInt32(truncatingIfNeeded: number)
        case .field(let name): frame[name] = number
        }
    }
}
