extension LayoutPlan {
    /// Where a checksum is, and what it covers. The slot is as wide as the checksum.
    struct ChecksumSlot: Sendable {
        var checksum: Checksum
        var scope: Checksum.Scope
        var slot: Slot
    }

    /// A checksum that was computed or received.
    enum ChecksumValue: Equatable, CustomStringConvertible {
        case integer(UInt64)
        case bytes([UInt8])

        var description: String {
            switch self {
            case .integer(let value): hexadecimal(value)
            case .bytes(let bytes): bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
            }
        }
    }
}

extension Checksum {
    /// How many bytes one may have.
    var widths: ClosedRange<Int> {
        if case .integer = algorithm { 1...8 } else { 1...65535 }
    }
}

extension LayoutPlan.ChecksumSlot {
    typealias Value = LayoutPlan.ChecksumValue

    /// The checksum of `header` and `body`; `nil` when it cannot be computed or has not the width that it claims.
    func compute(_ header: borrowing RawSpan, _ body: borrowing RawSpan) -> Value? {
        switch checksum.algorithm {
        case .integer(let compute):
            return .integer(compute(header, body))
        case .bytes(let compute):
            guard let bytes = compute(header, body), bytes.count == slot.width else { return nil }
            return .bytes(bytes)
        case .unavailable:
            return nil
        }
    }

    /// The checksum at `position`, whose bytes must all be within `bytes`.
    func load(_ bytes: borrowing RawSpan, at position: Int) -> Value {
        if case .integer = checksum.algorithm { return .integer(slot.load(bytes, at: position)) }
        let range = position..<position + slot.width
        return .bytes(range.map { unsafe bytes.unsafeLoad(fromByteOffset: $0, as: UInt8.self) })
    }

    /// Writes `value`, which must be as wide as the slot, at `position`.
    func store(_ value: Value, into bytes: inout MutableRawSpan, at position: Int) {
        switch value {
        case .integer(let value):
            slot.store(value, into: &bytes, at: position)
        case .bytes(let value):
            for (index, byte) in value.enumerated() {
                bytes.storeBytes(of: byte, toByteOffset: position + index, as: UInt8.self)
            }
        }
    }
}
