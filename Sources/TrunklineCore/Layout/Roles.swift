/// The numbers that stand for something in a protocol.
struct Roles: Sendable {
    var ping: UInt32?
    /// `nil` where a pong has the type of a ping.
    var pong: UInt32?
    var cancel: UInt32?
    var push: ClosedRange<UInt32>?
    var success: ClosedRange<UInt32> = 0...0
    var serials: ClosedRange<SerialNumber> = 1...SerialNumber.max
}

extension Roles {
    /// Checks that the roles fit the fields of `plan`; `nil` means the default.
    init(
        ping: UInt32?,
        pong: UInt32?,
        push: ClosedRange<UInt64>?,
        cancel: UInt32?,
        success: ClosedRange<UInt64>?,
        serials: ClosedRange<UInt64>?,
        for plan: LayoutPlan
    ) throws(LayoutError) {
        self.ping = try Roles.single("ping", ping, in: plan.type)
        self.pong = try Roles.single("pong", pong, in: plan.type)
        self.cancel = try Roles.single("cancel", cancel, in: plan.type)
        if pong != nil, ping == nil { throw LayoutError("role pong", "there is no role ping for it to answer") }
        if pong == ping { self.pong = nil }
        if ping != nil, ping == cancel { throw LayoutError("role cancel", "it is the same as the role ping") }
        if cancel != nil, pong == cancel { throw LayoutError("role cancel", "it is the same as the role pong") }
        if cancel != nil, plan.serial == nil {
            throw LayoutError("role cancel", "the layout has no serial field to say which request")
        }
        self.push = try Roles.range("push", push, in: plan.type, "type")
        self.success = try Roles.range("success", success, in: plan.status, "status") ?? 0...0
        if let serials {
            self.serials = try Roles.fit("serials", serials, in: plan.serial, "serial")
        } else if let serial = plan.serial {
            self.serials = 1...serial.maximum
        }
    }

    private static func single(
        _ role: String,
        _ number: UInt32?,
        in slot: LayoutPlan.Slot?
    ) throws(LayoutError) -> UInt32? {
        guard let number else { return nil }
        return try range(role, UInt64(number)...UInt64(number), in: slot, "type")?.lowerBound
    }

    /// The field is at most 4 bytes wide, so what fits it fits a `UInt32`.
    private static func range(
        _ role: String,
        _ range: ClosedRange<UInt64>?,
        in slot: LayoutPlan.Slot?,
        _ field: String
    ) throws(LayoutError) -> ClosedRange<UInt32>? {
        guard let range else { return nil }
        let fitting = try fit(role, range, in: slot, field)
        return UInt32(fitting.lowerBound)...UInt32(fitting.upperBound)
    }

    /// Ends an open range where the field ends.
    private static func fit(
        _ role: String,
        _ range: ClosedRange<UInt64>,
        in slot: LayoutPlan.Slot?,
        _ field: String
    ) throws(LayoutError) -> ClosedRange<UInt64> {
        guard let slot else { throw LayoutError("role \(role)", "the layout has no \(field) field") }
        let upper = range.upperBound == .max ? slot.maximum : range.upperBound
        guard range.lowerBound <= upper, upper <= slot.maximum else {
            throw LayoutError("role \(role)", "it does not fit the \(field) field's \(slot.width) bytes")
        }
        return range.lowerBound...upper
    }
}

/// One number, or a range of them, open or closed: `7`, `2...0x400`, `50...`. Nothing is `nil`.
///
/// The integers and ranges of the standard library conform. An open range ends where its field ends.
public protocol RoleNumbers {
    /// The lowest and the highest number; `UInt64.max` as the highest stands for "no end".
    var numbersOfRole: ClosedRange<UInt64>? { get }
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

extension ClosedRange: RoleNumbers where Bound: BinaryInteger {
    /// Both ends. They must not be negative.
    public var numbersOfRole: ClosedRange<UInt64>? { numberOfRole(lowerBound)...numberOfRole(upperBound) }
}

extension PartialRangeFrom: RoleNumbers where Bound: BinaryInteger {
    /// From the lower end on. It must not be negative.
    public var numbersOfRole: ClosedRange<UInt64>? { numberOfRole(lowerBound)...UInt64.max }
}

extension Optional: RoleNumbers where Wrapped: RoleNumbers {
    /// Those of the value, if there is one.
    public var numbersOfRole: ClosedRange<UInt64>? { flatMap(\.numbersOfRole) }
}

private func numberOfRole(_ number: some BinaryInteger) -> UInt64 {
    guard let number = UInt64(exactly: number) else { fatalError("a role cannot be the number \(number)") }
    return number
}
