/// The plan of a `FrameLayout` while it is put together and checked, one field after the other.
struct LayoutDraft {
    /// Which way frames go.
    enum Direction {
        case request, response
    }

    let fields: [Field]
    let direction: Direction

    typealias Slot = LayoutPlan.Slot

    var header: [UInt8] = []
    var trailer: [UInt8] = []
    var headerConstants: [Range<Int>] = []
    var trailerConstants: [Range<Int>] = []
    var type: Slot?
    var serial: Slot?
    var status: Slot?
    var kind: LayoutPlan.KindSlot?
    var length = Slot(offset: 0, width: 1, order: .bigEndian, region: .header)
    var isVarint = false
    var countsItself = false
    var lengthOfEmpty = 0
    var bodySizes: ClosedRange<UInt64> = 0...UInt64.max
    var named: [LayoutPlan.NamedSlot] = []
    var earlyRepetitions: [LayoutPlan.Repetition] = []
    var lateRepetitions: [LayoutPlan.Repetition] = []
    var checksums: [LayoutPlan.ChecksumSlot] = []

    var overhead: Int { header.count + trailer.count }

    /// Gives every field its place; throws for fields that do not make a layout.
    init(_ fields: [Field], for direction: Direction) throws(LayoutError) {
        self.fields = fields
        self.direction = direction
        var hasBody = false
        var counting: LengthCount?
        var (lengthName, bodyName) = ("", "")
        for (index, field) in fields.enumerated() {
            let name = "field \(index + 1), \(field)"
            if case .body(let sizes) = field.content {
                if hasBody { throw LayoutError(name, "a layout has only one body") }
                hasBody = true
                bodySizes = sizes
                bodyName = name
                continue
            }
            try LayoutDraft.checkWidth(of: field, name)
            let slot = Slot(
                offset: hasBody ? trailer.count : header.count,
                width: field.width,
                order: field.order,
                region: hasBody ? .trailer : isVarint ? .afterVarint : .header
            )
            if case .length(let count, let isVarint) = field.content {
                if counting != nil { throw LayoutError(name, "a layout has only one length") }
                if hasBody { throw LayoutError(name, "the length must come before the body") }
                length = slot
                self.isVarint = isVarint
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
        try checkBodySizes(bodyName)
    }

    private static func checkWidth(of field: Field, _ name: String) throws(LayoutError) {
        let widths =
            switch field.content {
            case .type, .status: 1...4
            case .constant, .bytes, .reserved: 1...65535
            case .checksum(let checksum, _): checksum.widths
            default: 1...8
            }
        guard widths.contains(field.width) else {
            throw LayoutError(
                name,
                "it can be \(widths.lowerBound) to \(widths.upperBound) bytes wide, not \(field.width)"
            )
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
        case .kind(let numbers):
            if kind != nil { throw LayoutError(name, "a layout has only one kind") }
            try LayoutDraft.check(numbers, in: slot, direction, name)
            kind = LayoutPlan.KindSlot(slot: slot, numbers: numbers)
        case .integer(let key, let initial):
            try checkName(key, name)
            guard initial <= slot.maximum else {
                throw LayoutError(name, "its default \(initial) is above \(slot.maximum)")
            }
            named.append(LayoutPlan.NamedSlot(name: key, initial: initial, slot: slot))
        case .bytes(let key, let initial):
            try checkName(key, name)
            named.append(LayoutPlan.NamedSlot(name: key, isBytes: true, slot: slot))
            guard let initial else { break }
            guard initial.count == slot.width else {
                throw LayoutError(name, "its default has \(initial.count) bytes, not \(slot.width)")
            }
            return initial
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

    private func checkName(_ key: String, _ name: String) throws(LayoutError) {
        if key.isEmpty { throw LayoutError(name, "its name is empty") }
        if named.contains(where: { $0.name == key }) { throw LayoutError(name, "the name is used twice") }
    }

    private static func check(
        _ numbers: [Frame.Kind: UInt64],
        in slot: Slot,
        _ direction: Direction,
        _ name: String
    ) throws(LayoutError) {
        let needed: Frame.Kind = direction == .request ? .request : .response
        if numbers[needed] == nil { throw LayoutError(name, "it lists no number for a \(needed)") }
        if Set(numbers.values).count < numbers.count { throw LayoutError(name, "two kinds have the same number") }
        for (kind, number) in numbers where number > slot.maximum {
            throw LayoutError(name, "the number \(number) of a \(kind) is above \(slot.maximum)")
        }
    }

    private mutating func `repeat`(
        _ what: String,
        _ slot: Slot,
        _ original: Slot,
        _ name: String
    ) throws(LayoutError) {
        guard slot.width == original.width else {
            throw LayoutError(name, "the \(what) that it repeats is \(original.width) bytes wide")
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
        countsItself = isVarint && counting.extent == .wholeFrame
        guard lengthOfEmpty <= 0 || isVarint || UInt64(lengthOfEmpty) <= length.maximum else {
            throw LayoutError(name, "it is too narrow to count even a frame without a body (\(lengthOfEmpty) bytes)")
        }
    }

    private func checkBodySizes(_ name: String) throws(LayoutError) {
        guard bodySizes != noNumbers else { throw LayoutError(name, "a size is negative") }
        guard bodySizes.lowerBound <= 65535 else {
            throw LayoutError(name, "the smallest size can be at most 65535")
        }
        guard bodySizes.upperBound >= UInt64(max(0, -lengthOfEmpty)) else {
            throw LayoutError(
                name,
                "the length is \(-lengthOfEmpty) less than the body, so that must have as many bytes"
            )
        }
        let least = Int(bodySizes.lowerBound) + lengthOfEmpty
        guard least <= 0 || isVarint || UInt64(least) <= length.maximum else {
            throw LayoutError(name, "the length is too narrow to count \(bodySizes.lowerBound) bytes")
        }
    }
}
