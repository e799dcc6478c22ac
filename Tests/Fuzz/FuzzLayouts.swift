import SampleLayouts
import Trunkline

/// Layouts: a few that together have every kind of field, and those that an input describes.
enum FuzzLayouts {
    static let fixed: [FuzzProtocol] = [
        FuzzProtocol(.standard),
        FuzzProtocol(.checked),
        FuzzProtocol(
            FrameLayout {
                Field.constant(request: [0x80], response: [0x81])
                Field.type(UInt8.self)
                Field.integer("keyLength", UInt16.self)
                Field.reserved(2)
                Field.status(UInt16.self)
                Field.length(UInt32.self, counting: .body)
                Field.serial(UInt32.self)
                Field.bytes("token", 3)
                Field.body
            }
            .roles { $0.ping = 0x0a }
        ),
        FuzzProtocol(
            FrameLayout {
                Field.checksum(.crc32, over: .body, order: .littleEndian)
                Field.length(width: 3, counting: .wholeFrame, order: .littleEndian)
                Field.serial(width: 5)
                Field.integer("flags", UInt16.self, default: 0x0102, order: .littleEndian)
                Field.body
                Field.constant([0xEE])
                Field.type(width: 3)
                Field.serial(width: 5, order: .littleEndian)
                Field.checksum(.adler32, over: .headerAndBody)
            }
        ),
        FuzzProtocol(
            FrameLayout {
                Field.type(UInt8.self)
                Field.varintLength(counting: .rest)
                Field.serial(UInt16.self)
                Field.body
                Field.checksum(.fletcher16, over: .body)
            }
            .roles {
                $0.ping = 1
                $0.pong = 2
                $0.push = .bit(7)
            }
        ),
        FuzzProtocol(MarkedLayouts.fields, marked: ["flags", "source"]),
        FuzzProtocol(MarkedLayouts.typeBits),
        FuzzProtocol(MarkedLayouts.kinds),
        FuzzProtocol(MarkedLayouts.closure),
        FuzzProtocol(MarkedLayouts.inOrder, marked: ["left"]),
        FuzzProtocol(Protocols.memcached),
        FuzzProtocol(Protocols.modbus),
        FuzzProtocol(Protocols.dns, marked: ["flags"]),
        FuzzProtocol(Protocols.smpp),
        FuzzProtocol(Protocols.diameter, marked: ["flags"]),
        FuzzProtocol(extended),
        FuzzProtocol(.checked(over: .headerAndBody)),
    ]

    /// The fuzzed code must not depend on the machine.
    private static var extended: FrameLayout {
        do throws(LayoutError) { return try .extended } catch { fatalError("\(error)") }
    }

    // MARK: From bytes

    /// The layout that the first bytes of `input` describe, or `nil` if it is invalid.
    static func built(from input: inout FuzzInput) -> FuzzProtocol? {
        let request = fields(from: &input)
        let response = input.next() & 3 == 0 ? fields(from: &input) : request
        guard let layout = try? FrameLayout(validating: request, response: response) else { return nil }
        let (given, isReversible) = FuzzRoles.given(to: layout, by: &input)
        // The encoder sets the marks in the named fields.
        var result = FuzzProtocol(given, marked: ["a", "b"])
        result.isReversible = isReversible
        return result
    }

    private static func fields(from input: inout FuzzInput) -> [Field] {
        var fields = (0..<input.below(4)).map { _ in field(from: &input) }
        if input.next() & 15 != 0 { fields.append(length(from: &input)) }
        fields += (0..<input.below(4)).map { _ in field(from: &input) }
        if input.next() & 15 != 0 { fields.append(.body) }
        fields += (0..<input.below(4)).map { _ in field(from: &input) }
        return fields
    }

    private static func length(from input: inout FuzzInput) -> Field {
        let counts = [LengthCount.body, .rest, .wholeFrame, .body.plus(4), .rest.plus(-3), .wholeFrame.plus(1)]
        let (choice, width, order) = (input.below(counts.count), input.below(10), order(from: &input))
        let count = counts[choice]
        return width == 9 ? .varintLength(counting: count) : .length(width: width, counting: count, order: order)
    }

    private static func field(from input: inout FuzzInput) -> Field {
        let (choice, size, order) = (input.below(13), input.below(10), order(from: &input))
        switch choice {
        case 0: return .constant([UInt8](repeating: input.next(), count: size))
        case 1: return .constant(request: [1, input.next()], response: [UInt8](repeating: 2, count: size))
        case 2: return .type(width: size, order: order)
        case 3: return .serial(width: size, order: order)
        case 4: return .status(width: size, order: order)
        case 5: return .integer(["a", "b"][input.below(2)], width: size, default: UInt64(input.next()), order: order)
        case 6: return .bytes(["c", "d"][input.below(2)], size)
        case 7: return .reserved(size)
        case 8: return .body(sizes: size...input.below(64) + size)
        case 9: return .checksum([.adler32, .crc32, .fletcher16][size % 3], over: .body, order: order)
        case 10: return .checksum([.adler32, .crc32, .fletcher16][size % 3], over: .headerAndBody, order: order)
        case 11: return kind(width: size, from: &input, order)
        default: return length(from: &input)
        }
    }

    private static func kind(width: Int, from input: inout FuzzInput, _ order: ByteOrder) -> Field {
        let listed = input.next()
        var numbers: [Frame.Kind: UInt64] = [.request: 0, .response: 1]
        for (bit, kind) in [Frame.Kind.part, .push, .ping, .pong, .cancel, .goAway].enumerated()
        where listed >> UInt8(bit) & 1 == 1 {
            numbers[kind] = UInt64(bit) + 2
        }
        return switch width {
        case ..<2: .kind(UInt8.self, numbers, order: order)
        case 2..<4: .kind(UInt16.self, numbers, order: order)
        case 4..<8: .kind(UInt32.self, numbers, order: order)
        default: .kind(UInt64.self, numbers, order: order)
        }
    }

    private static func order(from input: inout FuzzInput) -> ByteOrder {
        input.next() & 1 == 0 ? .bigEndian : .littleEndian
    }
}
