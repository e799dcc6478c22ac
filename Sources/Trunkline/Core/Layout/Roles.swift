/// The numbers that stand for something in a protocol.
struct Roles: Sendable {
    var ping: UInt32?
    /// `nil` where a pong has the type of a ping.
    var pong: UInt32?
    var cancel: UInt32?
    var closing: UInt32?
    var push: ClosedRange<UInt32>?
    /// Of a piece of a message with more to come, in both directions, where type numbers are all there is.
    var part: ClosedRange<UInt32>?
    /// Of what a client says about a request under way that is neither a piece of it nor its end.
    var window: UInt32?
    var success: ClosedRange<UInt32> = 0...0
    var serials: ClosedRange<SerialNumber> = 1...SerialNumber.max
    /// What a response has in common with its request.
    var repeated: [RepeatedField] = []
}

/// Roles as they are declared, before it is known whether they fit a layout; `nil` means the default.
struct RoleList: Sendable {
    var ping: UInt32?
    var pong: UInt32?
    var heartbeat: Frame?
    var cancel: UInt32?
    var push: Role?
    var response: Role?
    var part: Role?
    var goAway: Role?
    var retryAfter: RetryAfterField?
    var closing: UInt32?
    var success: ClosedRange<UInt64>?
    var failure: Role?
    var failureCode: FailureCode?
    var requests: ClosedRange<UInt64>?
    var serials: ClosedRange<UInt64>?
    var repeated: [RepeatedField] = []
    var kind: (@Sendable (Frame) -> Frame.Kind?)?

    /// The marks that tell two frames apart, by the names of their roles.
    var marks: [(role: String, mark: Role?)] {
        [("response", response), ("push", push), ("part", part), ("goAway", goAway), ("failure", failure)]
    }

    var hasMarks: Bool {
        let isPushMark = if let push { push.types == nil } else { false }
        let isPartMark = if let part { part.types == nil } else { false }
        return isPushMark || isPartMark || response != nil || goAway != nil || retryAfter != nil || failure != nil
            || requests != nil || kind != nil || heartbeat != nil || failureCode != nil
    }
}

extension Role {
    /// The type numbers, where it is those.
    var types: ClosedRange<UInt64>? {
        guard case .type = place, case .numbers(let numbers) = test else { return nil }
        return numbers
    }
}

extension Roles {
    /// Checks that the roles of `list` fit the fields of requests and responses.
    init(_ list: RoleList, request: LayoutPlan, response: LayoutPlan) throws(LayoutError) {
        let types = [request.type, response.type]
        let typeBits = try Roles.typeBits(of: list, types)
        ping = try Roles.single("ping", list.ping, in: types, typeBits)
        pong = try Roles.single("pong", list.pong, in: types, typeBits)
        cancel = try Roles.single("cancel", list.cancel, in: [request.type], typeBits)
        closing = try Roles.single("closing", list.closing, in: [request.type], typeBits)
        if pong != nil, ping == nil { throw LayoutError("role pong", "there is no role ping for it to answer") }
        if pong == ping { pong = nil }
        try list.checkTypes(tellsPushes: list.tellsPushes(in: response))
        if cancel != nil, request.serial == nil {
            throw LayoutError("role cancel", "the layout has no serial field to say which request")
        }
        let bodiless = [("ping", ping), ("pong", pong), ("cancel", cancel), ("closing", closing)]
        for (role, number) in bodiless where number != nil {
            guard max(request.bodySizes.lowerBound, response.bodySizes.lowerBound) == 0 else {
                throw LayoutError("role \(role)", "its frames have no body, but the layout asks for one")
            }
        }
        if let types = list.push?.types { push = try Roles.codes("push", types, in: [response.type], "type", typeBits) }
        if let types = list.part?.types { part = try Roles.codes("part", types, in: [response.type], "type", typeBits) }
        success = try Roles.codes("success", list.success, in: [response.status], "status") ?? 0...0
        if let serials = list.serials {
            self.serials = try Roles.fit("serials", serials, in: [request.serial, response.serial], "serial")
        } else if let serial = request.serial, let repeated = response.serial {
            serials = 1...min(serial.maximum, repeated.maximum)
        }
        if list.heartbeat != nil { try checkHeartbeat(list, response) }
        repeated = list.repeated
        for field in repeated { try field.check(request, response) }
    }

    /// Checks that the answer to a heartbeat without a type of its own can be told from other responses.
    private func checkHeartbeat(_ list: RoleList, _ response: LayoutPlan) throws(LayoutError) {
        guard list.ping == nil else {
            throw LayoutError("role heartbeat", "there is a role ping, and a link has one heartbeat")
        }
        guard response.kind?.lists(.pong) == true || response.serial != nil && serials.lowerBound > 0 else {
            let remedy = response.serial == nil ? "list pong in a kind field" : "keep serials from 1 on, or 2, for it"
            throw LayoutError("role heartbeat", "nothing tells its answer from other responses: \(remedy)")
        }
    }

    /// Whether a frame with this serial belongs to a heartbeat. A serial of 0 may also mean none, where there are others.
    func isReserved(_ serial: SerialNumber) -> Bool {
        serial < serials.lowerBound && (serial != 0 || serials.lowerBound == 1)
    }

    private static func single(
        _ role: String,
        _ number: UInt32?,
        in slots: [LayoutPlan.Slot?],
        _ marked: UInt32
    ) throws(LayoutError) -> UInt32? {
        try codes(role, number.map { UInt64($0)...UInt64($0) }, in: slots, "type", marked)?.lowerBound
    }

    /// The fields are at most 4 bytes wide, so what fits them fits a `UInt32`.
    static func codes(
        _ role: String,
        _ range: ClosedRange<UInt64>?,
        in slots: [LayoutPlan.Slot?],
        _ field: String,
        _ marked: UInt32 = 0
    ) throws(LayoutError) -> ClosedRange<UInt32>? {
        guard let range else { return nil }
        let fitting = try fit(role, range, in: slots, field)
        let codes = UInt32(fitting.lowerBound)...UInt32(fitting.upperBound)
        if codes.lowerBound & marked != 0 {
            throw LayoutError("role \(role)", "\(hexadecimal(codes.lowerBound)) has a bit that is another role's mark")
        }
        return codes
    }

    /// Ends an open range where the narrowest of the fields ends.
    private static func fit(
        _ role: String,
        _ range: ClosedRange<UInt64>,
        in slots: [LayoutPlan.Slot?],
        _ field: String
    ) throws(LayoutError) -> ClosedRange<UInt64> {
        var upper = range.upperBound
        if range == noNumbers { throw LayoutError("role \(role)", "a number is negative or above 64 bits") }
        for slot in slots {
            guard let slot else { throw LayoutError("role \(role)", "the layout has no \(field) field") }
            if range.upperBound == .max { upper = min(upper, slot.maximum) }
            guard range.lowerBound <= upper, upper <= slot.maximum else {
                throw misfit(range.lowerBound <= slot.maximum ? range.upperBound : range.lowerBound, role, slot, field)
            }
        }
        return range.lowerBound...upper
    }

    static func misfit(
        _ number: UInt64,
        _ role: String,
        _ slot: LayoutPlan.Slot,
        _ field: String
    ) -> LayoutError {
        let size = slot.width == 1 ? "1 byte" : "\(slot.width) bytes"
        return LayoutError("role \(role)", "\(hexadecimal(number)) does not fit the \(field) field, which has \(size)")
    }
}
