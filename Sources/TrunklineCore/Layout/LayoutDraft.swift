/// The plan of a `FrameLayout` while it is put together and checked, one field after the other.
struct LayoutDraft {
    /// Which way frames go.
    enum Direction {
        case request, response
    }

    typealias Slot = LayoutPlan.Slot

    var header: [UInt8] = []
    var trailer: [UInt8] = []
    var headerConstants: [Range<Int>] = []
    var trailerConstants: [Range<Int>] = []
    var type: Slot?
    var serial: Slot?
    var status: Slot?
    var length = Slot(offset: 0, width: 1, order: .bigEndian, isInTrailer: false)
    var lengthOfEmpty = 0
    var named: [LayoutPlan.NamedSlot] = []
    var earlyRepetitions: [LayoutPlan.Repetition] = []
    var lateRepetitions: [LayoutPlan.Repetition] = []
    var checksums: [LayoutPlan.ChecksumSlot] = []

    var overhead: Int { header.count + trailer.count }

    /// Gives every field its place; throws for fields that do not make a layout.
    init(_ fields: [Field], for direction: Direction) throws(LayoutError) {
        var hasBody = false
        var counting: LengthCount?
        var lengthName = ""
        for (index, field) in fields.enumerated() {
            let name = "field \(index + 1), \(field)"
            if case .body = field.content {
                if hasBody { throw LayoutError(name, "a layout has only one body") }
                hasBody = true
                continue
            }
            try LayoutDraft.checkWidth(of: field, name)
            let slot = Slot(
                offset: hasBody ? trailer.count : header.count,
                width: field.width,
                order: field.order,
                isInTrailer: hasBody
            )
            if case .length(let count) = field.content {
                if counting != nil { throw LayoutError(name, "a layout has only one length") }
                if hasBody { throw LayoutError(name, "the length must come before the body") }
                length = slot
                counting = count
                lengthName = name
            }
            let bytes = try place(field, in: slot, direction, name)
            if hasBody { trailer += bytes } else { header += bytes }
        }
        guard hasBody else { throw LayoutError("body", "a layout needs one") }
        guard let counting else { throw LayoutError("length", "a layout needs one, before the body") }
        guard overhead <= 65535 else { throw LayoutError("body", "there are more than 65535 bytes around it") }
        try setLength(counting, lengthName)
    }

    private static func checkWidth(of field: Field, _ name: String) throws(LayoutError) {
        let widths =
            switch field.content {
            case .type, .status: 1...4
            case .constant, .reserved: 1...65535
            case .checksum(let checksum, _): checksum.widths
            default: 1...8
            }
        guard widths.contains(field.width) else {
            throw LayoutError(name, "it can be \(widths.lowerBound) to \(widths.upperBound) bytes wide")
        }
    }

    /// Notes what to do about `field`, and returns its bytes in an otherwise empty frame.
    private mutating func place(
        _ field: Field,
        in slot: Slot,
        _ direction: Direction,
        _ name: String
    ) throws(LayoutError) -> [UInt8] {
        let zeros = [UInt8](repeating: 0, count: field.width)
        switch field.content {
        case .constant(let request, let response):
            guard request.count == response.count else {
                throw LayoutError(name, "the request's and the response's bytes must be equally many")
            }
            let range = slot.offset..<slot.offset + slot.width
            if slot.isInTrailer { trailerConstants.append(range) } else { headerConstants.append(range) }
            return direction == .request ? request : response
        case .type:
            if let type { try `repeat`("type", slot, type, name) } else { type = slot }
        case .serial:
            if let serial { try `repeat`("serial", slot, serial, name) } else { serial = slot }
        case .status:
            if status != nil { throw LayoutError(name, "a layout has only one status") }
            status = slot
        case .integer(let key, let initial):
            if key.isEmpty { throw LayoutError(name, "its name is empty") }
            if named.contains(where: { $0.name == key }) { throw LayoutError(name, "the name is used twice") }
            guard initial <= slot.maximum else { throw LayoutError(name, "its default \(initial) does not fit") }
            named.append(LayoutPlan.NamedSlot(name: key, initial: initial, slot: slot))
        case .checksum(let checksum, let scope):
            if scope == .headerAndBody, !slot.isInTrailer {
                throw LayoutError(name, "before the body, it would be computed over itself")
            }
            if case .unavailable(let reason) = checksum.algorithm { throw LayoutError(name, reason) }
            checksums.append(LayoutPlan.ChecksumSlot(checksum: checksum, scope: scope, slot: slot))
        case .length, .reserved, .body:
            break
        }
        return zeros
    }

    private mutating func `repeat`(
        _ what: String,
        _ slot: Slot,
        _ original: Slot,
        _ name: String
    ) throws(LayoutError) {
        guard slot.width == original.width else {
            throw LayoutError(name, "it repeats a \(what) that is \(original.width) bytes wide")
        }
        let repetition = LayoutPlan.Repetition(what: what, slot: slot, original: original)
        if slot.isInTrailer { lateRepetitions.append(repetition) } else { earlyRepetitions.append(repetition) }
    }

    private mutating func setLength(_ counting: LengthCount, _ name: String) throws(LayoutError) {
        guard (-65536...65536).contains(counting.surplus) else {
            throw LayoutError(name, "what is added to it must be within ±65536")
        }
        let counted =
            switch counting.extent {
            case .body: 0
            case .wholeFrame: overhead
            case .rest: overhead - length.offset - length.width
            }
        lengthOfEmpty = counted + counting.surplus
        guard lengthOfEmpty <= 0 || UInt64(lengthOfEmpty) <= length.maximum else {
            throw LayoutError(name, "it is too narrow to count even a frame without a body (\(lengthOfEmpty) bytes)")
        }
    }
}
