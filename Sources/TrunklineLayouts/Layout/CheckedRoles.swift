import TrunklineCore

/// The declared roles of a layout, as numbers and checked against its fields.
struct CheckedRoles: Sendable {
    var ping: UInt32?
    /// `nil` if a pong has the type of a ping.
    var pong: UInt32?
    var cancel: UInt32?
    var closing: UInt32?
    var push: ClosedRange<UInt32>?
    var part: ClosedRange<UInt32>?
    var window: UInt32?
    var success: ClosedRange<UInt32> = 0...0
    var serials: ClosedRange<SerialNumber> = 1...SerialNumber.max

    /// Whether more than the numbers above distinguishes frames.
    var hasMarks: Bool
    var requests: ClosedRange<UInt32>?
    var bodies: ClosedRange<UInt32>?
    /// Whether responses are marked: a marked response is not a push, whatever its type.
    var tellsPushes: Bool
    /// Bits of the type that are marks and not part of `frame.type`.
    var typeBits: UInt32

    /// If other serials are reserved, 0 may also mean "no serial".
    func isReserved(_ serial: SerialNumber) -> Bool {
        serial < serials.lowerBound && (serial != 0 || serials.lowerBound == 1)
    }

    /// A type that requests or the closing frame also have marks only parts of replies.
    func isRequestPart(_ type: UInt32) -> Bool {
        guard let part, part.contains(type), type != closing else { return false }
        return requests?.contains(type) != true
    }

    @inline(__always)
    func kind(ofType type: UInt32, _ isServerSide: Bool) -> Frame.Kind {
        if type == ping { return .ping }
        if type == pong { return .pong }
        if type == cancel { return .cancel }
        if let part, part.contains(type), !isServerSide || type != closing { return .part }
        if isServerSide { return .request }
        if let push, push.contains(type) { return .push }
        return .response
    }

    init(_ declared: FrameLayout.Roles, request: LayoutShape, response: LayoutShape) throws(LayoutError) {
        let types = [request.type, response.type]
        hasMarks = declared.hasMarks || request.kind != nil || response.kind != nil
        tellsPushes = declared.response != nil || response.kind?.lists(.push) == true
        typeBits = try CheckedRoles.typeBits(of: declared, types)

        ping = try single("ping", declared.ping, in: types)
        pong = try single("pong", declared.pong, in: types)
        cancel = try single("cancel", declared.cancel, in: [request.type])
        window = try single("window", declared.window, in: [request.type])
        closing = try single("closing", declared.closing, in: [request.type])
        if pong != nil, ping == nil { throw LayoutError(role: "pong", "the layout also needs the role \"ping\"") }
        if pong == ping { pong = nil }
        try declared.checkTypes(tellsPushes: tellsPushes)
        for (role, number) in [("cancel", cancel), ("window", window)] where number != nil && request.serial == nil {
            throw LayoutError(role: role, "the layout has no serial field to identify the request")
        }
        let bodiless = [("ping", ping), ("pong", pong), ("cancel", cancel), ("closing", closing)]
        for (role, number) in bodiless where number != nil {
            guard max(request.bodySizes.lowerBound, response.bodySizes.lowerBound) == 0 else {
                throw LayoutError(role: role, "its frames have no body, but the layout requires one")
            }
        }
        push = try CheckedRoles.codes("push", declared.push?.types, in: [response.type], otherThan: typeBits)
        part = try CheckedRoles.codes("part", declared.part?.types, in: [response.type], otherThan: typeBits)
        success = try CheckedRoles.codes("success", declared.success?.numbers, in: [response.status], "status") ?? 0...0
        if let serials = declared.serialNumbers {
            self.serials = try CheckedRoles.fit("serials", serials, in: [request.serial, response.serial], "serial")
        } else if let serial = request.serial, let repeated = response.serial {
            serials = 1...min(serial.maximum, repeated.maximum)
        }
        if declared.usesRandomSerials, request.serial == nil {
            throw LayoutError(role: "usesRandomSerials", "the layout has no serial field")
        }
        if declared.heartbeat != nil { try checkHeartbeat(declared, response) }
        for field in declared.responsesRepeat { try field.check(request, response) }
        bodies = try CheckedRoles.codes("bodies", declared.bodies, in: types)
        requests = try CheckedRoles.codes("requests", declared.requestTypes, in: types)
        try checkMarks(declared, request, response)
    }

    private func checkMarks(_ declared: FrameLayout.Roles, _ request: LayoutShape, _ response: LayoutShape)
        throws(LayoutError)
    {
        if declared.response != nil, request.kind != nil || response.kind != nil {
            throw LayoutError(role: "response", "the kind field of the layout already marks responses")
        }
        try check(declared.response, "response", in: request)
        for (index, (role, mark)) in declared.marks.enumerated() {
            try check(mark, role, in: response)
            // Frames would always have both roles.
            if let mark, let other = declared.marks[..<index].first(where: { $0.mark == mark }) {
                throw LayoutError(role: role, "it has the same mark as the role \(other.role)")
            }
        }
        if let failureCode = declared.failureCode {
            guard failureCode.width <= 4 else {
                throw LayoutError(role: "failureCode", "it can be 1 to 4 bytes wide, not \(failureCode.width)")
            }
            guard declared.failure != nil else {
                throw LayoutError(role: "failureCode", "the layout also needs the role \"failure\"")
            }
            guard response.status == nil else {
                throw LayoutError(role: "failureCode", "the status field of the layout already holds the code")
            }
        }
        if let hint = declared.retryAfter {
            try response.integer(hint.name, of: "retryAfter")
            guard declared.goAway != nil || declared.kind != nil || response.kind?.lists(.goAway) == true else {
                throw LayoutError(role: "retryAfter", "the layout also needs the role \"goAway\"")
            }
        }
    }

    /// The answer to a heartbeat without its own type must differ from other responses.
    private func checkHeartbeat(_ declared: FrameLayout.Roles, _ response: LayoutShape) throws(LayoutError) {
        guard declared.ping == nil else {
            throw LayoutError(role: "heartbeat", "it cannot be combined with the role ping")
        }
        guard response.kind?.lists(.pong) == true || response.serial != nil && serials.lowerBound > 0 else {
            let remedy = response.serial == nil ? "list pong in a kind field" : "let serials begin at 1 or above"
            throw LayoutError(role: "heartbeat", "its answer cannot be distinguished from other responses: \(remedy)")
        }
    }

    private func single(_ role: String, _ number: UInt32?, in slots: [Slot?]) throws(LayoutError) -> UInt32? {
        try CheckedRoles.codes(role, number.map { UInt64($0)...UInt64($0) }, in: slots, otherThan: typeBits)?.lowerBound
    }

    /// Fields are at most 4 bytes wide: every number that fits them fits a `UInt32`.
    static func codes(
        _ role: String,
        _ range: ClosedRange<UInt64>?,
        in slots: [Slot?],
        _ field: String = "type",
        otherThan typeBits: UInt32 = 0
    ) throws(LayoutError) -> ClosedRange<UInt32>? {
        guard let range else { return nil }
        let fitting = try fit(role, range, in: slots, field)
        let codes = UInt32(fitting.lowerBound)...UInt32(fitting.upperBound)
        if codes.lowerBound & typeBits != 0 {
            throw LayoutError(role: role, "\(hexadecimal(codes.lowerBound)) has a bit that is another role's mark")
        }
        return codes
    }

    private static func fit(
        _ role: String,
        _ range: ClosedRange<UInt64>,
        in slots: [Slot?],
        _ field: String
    ) throws(LayoutError) -> ClosedRange<UInt64> {
        var upper = range.upperBound
        if range == noNumbers { throw LayoutError.badNumber(role) }
        for slot in slots {
            guard let slot else { throw LayoutError(role: role, "the layout has no \(field) field") }
            if range.upperBound == .max { upper = min(upper, slot.maximum) }
            guard range.lowerBound <= upper, upper <= slot.maximum else {
                throw misfit(range.lowerBound <= slot.maximum ? range.upperBound : range.lowerBound, role, slot, field)
            }
        }
        return range.lowerBound...upper
    }

    private static func misfit(_ number: UInt64, _ role: String, _ slot: Slot, _ field: String) -> LayoutError {
        let (number, size) = (hexadecimal(number), byteSize(slot.width))
        return LayoutError(role: role, "\(number) does not fit the \(field) field, which has \(size)")
    }

    private static func typeBits(of declared: FrameLayout.Roles, _ slots: [Slot?]) throws(LayoutError) -> UInt32 {
        var typeBits: UInt32 = 0
        for (role, mark) in declared.marks {
            guard let mark, case .type = mark.place, case .bits(let bits, let numbers) = mark.test else { continue }
            for slot in slots {
                guard let slot else { throw LayoutError(role: role, "the layout has no type field") }
                try bits.check(holding: numbers, role, in: slot, "type")
            }
            if typeBits & mark.typeBits != 0 { throw LayoutError(role: role, "another role uses the same bit") }
            typeBits |= mark.typeBits
        }
        return typeBits
    }

    private func check(_ mark: Role?, _ role: String, in shape: LayoutShape) throws(LayoutError) {
        guard let mark else { return }
        let (slot, name): (Slot, String)
        switch mark.place {
        case .type:
            guard let type = shape.type else { throw LayoutError(role: role, "the layout has no type field") }
            (slot, name) = (type, "type")
        case .field(let field):
            (slot, name) = (try shape.integer(field, of: role), "\"\(field)\"")
        }
        switch mark.test {
        case .bits(let bits, let numbers):
            try bits.check(holding: numbers, role, in: slot, name)
        case .numbers(let numbers):
            if mark.types != nil { _ = try CheckedRoles.codes(role, numbers, in: [slot], otherThan: typeBits) }
            if numbers == noNumbers { throw LayoutError.badNumber(role) }
            guard numbers.lowerBound <= slot.maximum else {
                throw CheckedRoles.misfit(numbers.lowerBound, role, slot, name)
            }
        }
    }
}

extension FrameLayout.Roles {
    fileprivate var marks: [(role: String, mark: Role?)] {
        [("response", response), ("push", push), ("part", part), ("goAway", goAway), ("failure", failure)]
    }

    fileprivate var hasMarks: Bool {
        pushMark != nil || (part != nil && part?.types == nil) || response != nil || goAway != nil || failure != nil
            || retryAfter != nil || requestTypes != nil || kind != nil || heartbeat != nil || failureCode != nil
            || bodies != nil
    }
}

extension BitRange {
    fileprivate func check(
        holding numbers: ClosedRange<UInt64>,
        _ role: String,
        in slot: Slot,
        _ name: String
    ) throws(LayoutError) {
        let last = 8 * slot.width - 1
        guard count > 0 else { throw LayoutError(role: role, "its range of bits of the \(name) field is empty") }
        guard lower >= 0, lower <= last + 1 - count else {
            let bits = count == 1 ? "bit \(lower) is" : "bits \(lower) to \(lower + (count - 1)) are"
            throw LayoutError(role: role, "\(bits) outside the \(name) field, which has bits 0 to \(last)")
        }
        if numbers == noNumbers { throw LayoutError.badNumber(role) }
        guard numbers.lowerBound <= maximum else {
            throw LayoutError(role: role, "\(hexadecimal(numbers.lowerBound)) does not fit in \(count) bits")
        }
        if numbers.lowerBound == 0, numbers.upperBound >= maximum {
            throw LayoutError(
                role: role,
                "every frame would have the role, because its numbers include all values of the bits"
            )
        }
    }
}

extension LayoutShape {
    @discardableResult
    func integer(_ field: String, of role: String) throws(LayoutError) -> Slot {
        guard let named = named.first(where: { $0.name == field }) else {
            throw LayoutError(role: role, "the \(direction) layout has no field \"\(field)\"")
        }
        guard !named.isBytes else { throw LayoutError(role: role, "the field \"\(field)\" is not an integer") }
        return named.slot
    }
}

extension LayoutError {
    init(role: String, _ message: String) { self.init("role \(role)", message) }

    fileprivate static func badNumber(_ role: String) -> LayoutError {
        LayoutError(role: role, "its range of numbers is empty")
    }
}

// A type with two roles would silently get the role that is checked first: all pushes read as pings, for example.

extension FrameLayout.Roles {
    fileprivate func checkTypes(tellsPushes: Bool) throws(LayoutError) {
        let roles: [(name: String, role: Role?)] = [
            ("ping", ping.map(Role.type)), ("pong", pong == ping ? nil : pong.map(Role.type)),
            ("cancel", cancel.map(Role.type)), ("window", window.map(Role.type)), ("closing", closing.map(Role.type)),
            ("goAway", goAway), ("push", push), ("part", part),
            ("requests", requestTypes.map { Role(.type, .numbers($0)) }),
        ]
        for (index, second) in roles.enumerated() {
            for first in roles[..<index] where !FrameLayout.Roles.mayShare(first.name, second.name, tellsPushes) {
                guard let a = first.role, let b = second.role, let number = a.firstNumber(sharedWith: b) else {
                    continue
                }
                if second.name == "requests", a.isAmid(b) { continue }
                let shared = "\(b.name) \(hexadecimal(number))"
                throw LayoutError(role: second.name, "\(shared) already has the role \(first.name)")
            }
        }
    }

    /// Whether direction, or a mark on responses, distinguishes frames of the two roles.
    private static func mayShare(_ first: String, _ second: String, _ tellsPushes: Bool) -> Bool {
        switch (first, second) {
        case ("closing", "goAway"), ("closing", "part"), ("closing", "requests"), ("part", "requests"): true
        case ("closing", "push"), ("goAway", "part"), ("goAway", "requests"), ("push", "part"), ("push", "requests"):
            tellsPushes
        default: false
        }
    }
}

extension Role {
    fileprivate func firstNumber(sharedWith other: Role) -> UInt64? {
        guard place == other.place, case .numbers(let mine) = test, case .numbers(let others) = other.test,
            mine.overlaps(others)
        else { return nil }
        return max(mine.lowerBound, others.lowerBound)
    }

    /// A range with numbers on both sides cannot exclude these: SMPP has commands below and above `enquire_link`.
    fileprivate func isAmid(_ other: Role) -> Bool {
        guard case .numbers(let mine) = test, case .numbers(let others) = other.test else { return false }
        return others.lowerBound < mine.lowerBound && mine.upperBound < others.upperBound
    }
}
