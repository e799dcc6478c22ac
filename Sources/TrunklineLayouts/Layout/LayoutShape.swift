import TrunklineCore

/// The positions of a layout's fields in one direction: a header (fixed unless the length is a varint), the body, and a
/// fixed trailer.
struct LayoutShape: Sendable {
    enum Direction {
        case request, response
    }

    /// A custom integer or run of bytes.
    struct NamedSlot: Sendable {
        var name: String
        var initial: UInt64 = 0
        var isBytes = false
        var slot: Slot
    }

    struct KindSlot: Sendable {
        var slot: Slot
        var numbers: [Frame.Kind: UInt64]

        func lists(_ kind: Frame.Kind) -> Bool { numbers[kind] != nil }

        func kind(of number: UInt64) -> Frame.Kind? { numbers.first { $0.value == number }?.key }

        /// The number of this kind or, if it is not listed, of the most similar kind.
        func number(of kind: Frame.Kind, isFromServer: Bool) -> UInt64? {
            if let number = numbers[kind] { return number }
            return switch kind {
            case .request, .ping, .cancel: numbers[.request]
            case .part: numbers[isFromServer ? .response : .request]
            case .response, .push, .pong, .ignored: numbers[.response]
            // If pushes are listed, a frame of the kind response is not a goAway, whatever its mark.
            case .goAway: numbers[.push] ?? numbers[.response]
            }
        }
    }

    /// A position that must hold the same number as `original`.
    struct Repetition: Sendable {
        var what: String
        var slot: Slot
        var original: Slot
    }

    struct ChecksumSlot: Sendable {
        var checksum: Checksum
        var scope: Checksum.Scope
        var slot: Slot
    }

    let fields: [Field]
    let direction: Direction

    /// Templates: constants in place, zeros elsewhere.
    private(set) var header: [UInt8] = []
    private(set) var trailer: [UInt8] = []
    private(set) var headerConstants: [Range<Int>] = []
    private(set) var trailerConstants: [Range<Int>] = []
    private(set) var type: Slot?
    private(set) var serial: Slot?
    /// The high bits of a serial of more than 8 bytes; `serial` holds the others.
    private(set) var highSerial: Slot?
    private(set) var status: Slot?
    private(set) var kind: KindSlot?
    private(set) var length = Slot(offset: 0, width: 1, order: .bigEndian, region: .header)
    /// `nil` if the length is not a varint. `header` has one byte for a varint.
    private(set) var varint: ByteOrder?
    private(set) var countsItself = false
    /// The length of a frame without a body; negative if it counts less than the body.
    private(set) var lengthOfEmpty = 0
    private(set) var bodySizes: ClosedRange<UInt64> = 0...UInt64.max
    private(set) var named: [NamedSlot] = []
    private var names: Set<String> = []
    private(set) var repetitions: [Repetition] = []
    private(set) var checksums: [ChecksumSlot] = []

    var overhead: Int { header.count + trailer.count }

    var smallestFrame: Int { overhead + max(0, -lengthOfEmpty, Int(bodySizes.lowerBound)) }

    /// Errors name `layout` before the field.
    init(_ fields: [Field], for direction: Direction, of layout: String = "") throws(LayoutError) {
        self.fields = fields
        self.direction = direction
        var hasBody = false
        var counting: LengthCount?
        var (lengthName, bodyName) = ("", "")
        for (index, field) in fields.enumerated() {
            let name = "\(layout)field \(index + 1), \(field.words)"
            if case .body(let sizes) = field.content {
                if hasBody { throw LayoutError(name, "a layout has only one body") }
                hasBody = true
                bodySizes = sizes
                bodyName = name
                continue
            }
            try LayoutShape.checkWidth(of: field, name)
            let slot = Slot(
                offset: hasBody ? trailer.count : header.count,
                width: field.width,
                order: field.order,
                region: hasBody ? .trailer : varint != nil ? .afterVarint : .header
            )
            if case .length(let count, let isVarint) = field.content {
                if counting != nil { throw LayoutError(name, "a layout can have only one length field") }
                if hasBody { throw LayoutError(name, "the length must come before the body") }
                length = slot
                varint = isVarint ? slot.order : nil
                counting = count
                lengthName = name
            }
            let bytes = try place(field, in: slot, name)
            if hasBody { trailer += bytes } else { header += bytes }
        }
        guard hasBody else { throw LayoutError("\(layout)body", "a layout needs one") }
        guard let counting else { throw LayoutError("\(layout)length", "a layout needs one, before the body") }
        guard overhead <= 65535 else {
            throw LayoutError("\(layout)body", "the other fields have more than 65535 bytes in total")
        }
        try setLength(counting, lengthName)
        try checkBodySizes(bodyName)
        named.sort { $0.name < $1.name }
    }

    private static func checkWidth(of field: Field, _ name: String) throws(LayoutError) {
        let widths =
            switch field.content {
            case .type, .status: 1...4
            case .serial: 1...16
            case .constant, .bytes, .reserved: 1...65535
            case .checksum(let checksum, _): checksum.isNumber ? 1...8 : 1...65535
            default: 1...8
            }
        guard widths.contains(field.width) else {
            let (least, most) = (widths.lowerBound, widths.upperBound)
            throw LayoutError(name, "it can be \(least) to \(most) bytes wide, not \(field.width)")
        }
    }

    private mutating func place(_ field: Field, in slot: Slot, _ name: String) throws(LayoutError) -> [UInt8] {
        switch field.content {
        case .constant(let request, let response):
            guard request.count == response.count else {
                throw LayoutError(name, "request and response must have the same number of bytes")
            }
            let range = slot.offset..<slot.offset + slot.width
            if slot.isInTrailer { trailerConstants.append(range) } else { headerConstants.append(range) }
            return direction == .request ? request : response
        case .type:
            if let type { try `repeat`("type", slot, type, name) } else { type = slot }
        case .serial:
            if serial == nil, slot.width > 8 {
                (highSerial, serial) = slot.halves
            } else if let serial {
                guard slot.width <= 8, highSerial == nil else {
                    throw LayoutError(name, "a serial of more than 8 bytes cannot be repeated")
                }
                try `repeat`("serial", slot, serial, name)
            } else {
                serial = slot
            }
        case .status:
            if status != nil { throw LayoutError(name, "a layout can have only one status field") }
            status = slot
        case .kind(let numbers):
            if kind != nil { throw LayoutError(name, "a layout can have only one kind field") }
            try check(numbers, in: slot, name)
            kind = KindSlot(slot: slot, numbers: numbers)
        case .integer(let key, let initial):
            try checkName(key, name)
            guard initial <= slot.maximum else {
                throw LayoutError(name, "its default \(initial) is above \(slot.maximum)")
            }
            named.append(NamedSlot(name: key, initial: initial, slot: slot))
        case .bytes(let key, let initial):
            try checkName(key, name)
            named.append(NamedSlot(name: key, isBytes: true, slot: slot))
            guard let initial else { break }
            guard initial.count == slot.width else {
                throw LayoutError(name, "its default has \(initial.count) bytes, not \(slot.width)")
            }
            return initial
        case .checksum(let checksum, let scope):
            if scope == .headerAndBody, !slot.isInTrailer {
                throw LayoutError(name, "a checksum over .headerAndBody must come after the body")
            }
            if case .unavailable(let reason) = checksum.algorithm { throw LayoutError(name, reason) }
            checksums.append(ChecksumSlot(checksum: checksum, scope: scope, slot: slot))
        case .length, .reserved, .body:
            break
        }
        return [UInt8](repeating: 0, count: field.width)
    }

    private mutating func checkName(_ key: String, _ name: String) throws(LayoutError) {
        if key.isEmpty { throw LayoutError(name, "its name is empty") }
        if !names.insert(key).inserted { throw LayoutError(name, "another field has the same name") }
    }

    private func check(_ numbers: [Frame.Kind: UInt64], in slot: Slot, _ name: String) throws(LayoutError) {
        let needed: Frame.Kind = direction == .request ? .request : .response
        if numbers[needed] == nil { throw LayoutError(name, "it must list a number for the kind \(needed)") }
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
            throw LayoutError(name, "it repeats the \(what), so it must also be \(original.width) bytes wide")
        }
        repetitions.append(Repetition(what: what, slot: slot, original: original))
    }

    private func canCount(_ number: Int) -> Bool { number <= 0 || varint != nil || UInt64(number) <= length.maximum }

    private mutating func setLength(_ counting: LengthCount, _ name: String) throws(LayoutError) {
        guard (-65536...65536).contains(counting.surplus) else {
            throw LayoutError(name, "the number in plus(_:) must be within ±65536")
        }
        let counted =
            switch counting.extent {
            case .body: 0
            case .wholeFrame: overhead
            case .rest: overhead - length.offset - length.width
            }
        lengthOfEmpty = counted + counting.surplus
        countsItself = varint != nil && counting.extent == .wholeFrame
        guard canCount(lengthOfEmpty) else {
            throw LayoutError(name, "it is too narrow to count even a frame without a body (\(lengthOfEmpty) bytes)")
        }
    }

    private func checkBodySizes(_ name: String) throws(LayoutError) {
        let (least, missing) = (bodySizes.lowerBound, -lengthOfEmpty)
        guard bodySizes != noNumbers else { throw LayoutError(name, "a size is negative, or the range is empty") }
        guard least <= 65535 else { throw LayoutError(name, "the smallest size is \(least) bytes, above 65535") }
        guard bodySizes.upperBound >= UInt64(max(0, missing)) else {
            throw LayoutError(
                name,
                "the length is the body size minus \(missing), so the largest size must be at least \(missing)"
            )
        }
        guard canCount(Int(least) + lengthOfEmpty) else {
            throw LayoutError(name, "the length is too narrow to count \(least) bytes")
        }
    }
}
