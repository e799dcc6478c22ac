/// Roles beyond type numbers. A class, so that a layout without any pays for no more than the question.
final class RoleMarks: Sendable {
    let response: Role?
    /// Unless it is a type number.
    let push: Role?
    let part: Role?
    let goAway: Role?
    let failure: Role?
    let failureCode: FailureCode?
    let retryAfter: RetryAfterField?
    let requests: ClosedRange<UInt32>?
    /// The types of responses that must have a body.
    let bodies: ClosedRange<UInt32>?
    let kind: (@Sendable (Frame) -> Frame.Kind?)?
    /// The request that serves as a ping.
    let heartbeat: Frame?
    /// Whether it is known of a response that it is no push.
    let tellsPushes: Bool
    /// The bits of the type that are marks, and so no part of `frame.type`.
    let typeBits: UInt32

    /// Checks that the roles of `list` fit the fields of requests and responses; `nil` when these are type numbers alone.
    init?(_ list: RoleList, request: LayoutPlan, response: LayoutPlan) throws(LayoutError) {
        guard list.hasMarks || request.kind != nil || response.kind != nil else { return nil }
        let typeBits = try Roles.typeBits(of: list, [request.type, response.type])
        if list.response != nil, request.kind != nil || response.kind != nil {
            throw LayoutError("role response", "the layout has a kind field that says so")
        }
        try Roles.check(list.response, "response", in: [request, response], typeBits)
        try Roles.check(list.push, "push", in: [response], typeBits)
        try Roles.check(list.part, "part", in: [response], typeBits)
        try Roles.check(list.goAway, "goAway", in: [response], typeBits)
        try Roles.check(list.failure, "failure", in: [response], typeBits)
        try Roles.checkDistinct(list.marks)
        if list.failureCode != nil {
            guard list.failure != nil else {
                throw LayoutError("role failureCode", "there is no role failure whose frames would say it")
            }
            guard response.status == nil else {
                throw LayoutError("role failureCode", "the layout has a status field that says it")
            }
        }
        self.response = list.response
        push = list.push?.types == nil ? list.push : nil
        part = list.part
        goAway = list.goAway
        failure = list.failure
        failureCode = list.failureCode
        requests = try Roles.codes("requests", list.requests, in: [request.type, response.type], "type")
        bodies = nil
        kind = list.kind
        heartbeat = list.heartbeat
        tellsPushes = list.tellsPushes(in: response)
        self.typeBits = typeBits
        retryAfter = list.retryAfter
        if let hint = list.retryAfter {
            try Roles.checkField(hint.name, "retryAfter", in: response)
            guard goAway != nil || kind != nil || response.kind?.lists(.goAway) == true else {
                throw LayoutError("role retryAfter", "there is no role goAway whose frames would say it")
            }
        }
    }

    /// Those of `marks`, and `bodies`; without any, `part` has been all there was.
    init(_ marks: RoleMarks?, bodies: ClosedRange<UInt32>?, part types: ClosedRange<UInt32>?) {
        response = marks?.response
        push = marks?.push
        part = marks?.part ?? types?.markOfRole
        goAway = marks?.goAway
        failure = marks?.failure
        failureCode = marks?.failureCode
        retryAfter = marks?.retryAfter
        requests = marks?.requests
        self.bodies = bodies
        kind = marks?.kind
        heartbeat = marks?.heartbeat
        tellsPushes = marks?.tellsPushes ?? false
        typeBits = marks?.typeBits ?? 0
    }
}

extension Roles {
    /// The bits of the type that roles take for themselves, all of which it has.
    static func typeBits(of list: RoleList, _ slots: [LayoutPlan.Slot?]) throws(LayoutError) -> UInt32 {
        var bits: UInt32 = 0
        for (role, mark) in list.marks {
            guard let mark, case .type = mark.place else { continue }
            if case .numbers = mark.test { continue }
            for slot in slots {
                guard let slot else { throw LayoutError("role \(role)", "the layout has no type field") }
                try check(mark, role, in: slot, "type")
            }
            if bits & mark.typeBits != 0 { throw LayoutError("role \(role)", "another role has the same bit") }
            bits |= mark.typeBits
        }
        return bits
    }

    /// Frames that are one of two things are never the other.
    fileprivate static func checkDistinct(_ marks: [(role: String, mark: Role?)]) throws(LayoutError) {
        for (index, (role, mark)) in marks.enumerated() {
            guard let mark, let other = marks[..<index].first(where: { $0.mark == mark }) else { continue }
            throw LayoutError("role \(role)", "it is the same as the role \(other.role)")
        }
    }

    fileprivate static func check(
        _ mark: Role?,
        _ role: String,
        in plans: [LayoutPlan],
        _ typeBits: UInt32
    ) throws(LayoutError) {
        guard let mark else { return }
        for plan in plans {
            let (slot, name): (LayoutPlan.Slot, String)
            switch mark.place {
            case .type:
                guard let type = plan.type else { throw LayoutError("role \(role)", "the layout has no type field") }
                (slot, name) = (type, "type")
            case .field(let field):
                (slot, name) = (try checkField(field, role, in: plan), "\"\(field)\"")
            }
            switch mark.test {
            case .bit, .bits:
                try check(mark, role, in: slot, name)
            case .numbers(let numbers):
                if mark.types != nil { _ = try codes(role, numbers, in: [slot], name, typeBits) }
                if numbers == noNumbers { throw LayoutError("role \(role)", "a number is negative or above 64 bits") }
                guard numbers.lowerBound <= slot.maximum else { throw misfit(numbers.lowerBound, role, slot, name) }
            }
        }
    }

    /// Checks that the field has the bits that `mark` looks at, and these more than one number.
    private static func check(
        _ mark: Role,
        _ role: String,
        in slot: LayoutPlan.Slot,
        _ name: String
    ) throws(LayoutError) {
        let all = 0..<8 * slot.width
        func misfit(_ bits: String) -> LayoutError {
            LayoutError("role \(role)", "the \(name) field has the bits 0 to \(all.upperBound - 1), not \(bits)")
        }
        switch mark.test {
        case .numbers: return
        case .bit(let bit, _): if !all.contains(bit) { throw misfit("\(bit)") }
        case .bits(let bits, let numbers):
            guard bits.count > 0 else { throw LayoutError("role \(role)", "it has no bits of the \(name) field") }
            guard bits.lower >= 0, bits.lower <= all.upperBound - bits.count else {
                throw misfit("\(bits.lower) to \(bits.lower + bits.count - 1)")
            }
            if numbers == noNumbers { throw LayoutError("role \(role)", "a number is negative or above 64 bits") }
            guard numbers.lowerBound <= bits.maximum else {
                let number = hexadecimal(numbers.lowerBound)
                throw LayoutError("role \(role)", "\(number) does not fit in \(bits.count) bits")
            }
            if numbers.lowerBound == 0, numbers.upperBound >= bits.maximum {
                throw LayoutError("role \(role)", "every number of its bits has the role")
            }
        }
    }

    @discardableResult
    static func checkField(
        _ field: String,
        _ role: String,
        in plan: LayoutPlan
    ) throws(LayoutError) -> LayoutPlan.Slot {
        guard let named = plan.named.first(where: { $0.name == field }) else {
            throw LayoutError("role \(role)", "the \(plan.direction) layout has no field \"\(field)\"")
        }
        guard !named.isBytes else { throw LayoutError("role \(role)", "the field \"\(field)\" is not an integer") }
        return named.slot
    }
}
