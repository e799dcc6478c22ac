// netlink(7) and rtnetlink(7). Numbers are in the machine's byte order; elements begin at multiples of four bytes.
// Reading ends at a length that is too small, or that leads beyond the end.

/// One message of a datagram.
///
/// | Offset | Size | Field |
/// |---|---|---|
/// | 0 | 4 | length, including these 16 bytes |
/// | 4 | 2 | type |
/// | 6 | 2 | flags |
/// | 8 | 4 | sequence number; in an answer, that of the request |
/// | 12 | 4 | port of the sender |
struct NetlinkMessage: Equatable {
    static let headerSize = 16

    let type: UInt16
    let sequence: UInt32
    let body: ArraySlice<UInt8>

    /// 0 for success; `nil` in any message but an answer.
    var errorNumber: Int32? {
        guard type == 2 else { return nil }
        return body.netlinkInteger(at: 0, as: Int32.self).map { 0 &- $0 }
    }

    var concernsPaths: Bool {
        switch type {
        case 16, 17: body.first != 7  // a link, but not the port of a bridge (AF_BRIDGE), which has no address
        case 20, 21, 32, 33: true  // an address, a rule
        // A route, but not one that the kernel has cached for a packet (RTM_F_CLONED).
        case 24, 25: (body.netlinkInteger(at: 8, as: UInt32.self) ?? 0) & 0x200 == 0
        case 104, 105: true  // the next hop of routes
        default: false
        }
    }
}

struct NetlinkMessages: Sequence, IteratorProtocol {
    private var rest: ArraySlice<UInt8>

    init(_ datagram: ArraySlice<UInt8>) { rest = datagram }

    package mutating func next() -> NetlinkMessage? {
        guard let length = rest.netlinkInteger(at: 0, as: UInt32.self).flatMap({ Int(exactly: $0) }),
            length >= NetlinkMessage.headerSize, length <= rest.count,
            let type = rest.netlinkInteger(at: 4, as: UInt16.self),
            let sequence = rest.netlinkInteger(at: 8, as: UInt32.self)
        else { return nil }
        let message = rest.prefix(length)
        rest = rest.dropFirst(netlinkAligned(length))
        return NetlinkMessage(
            type: type,
            sequence: sequence,
            body: message.dropFirst(NetlinkMessage.headerSize)
        )
    }
}

/// The attributes that follow the fixed part of a message, or that are nested in another attribute.
///
/// | Offset | Size | Field |
/// |---|---|---|
/// | 0 | 2 | length, including these 4 bytes |
/// | 2 | 2 | type |
/// | 4 | n | value |
struct NetlinkAttributes: Sequence, IteratorProtocol {
    private var rest: ArraySlice<UInt8>

    init(_ bytes: ArraySlice<UInt8>) { rest = bytes }

    package mutating func next() -> (type: UInt16, value: ArraySlice<UInt8>)? {
        guard let length = rest.netlinkInteger(at: 0, as: UInt16.self).map({ Int($0) }),
            length >= 4, length <= rest.count, let type = rest.netlinkInteger(at: 2, as: UInt16.self)
        else { return nil }
        let attribute = rest.prefix(length)
        rest = rest.dropFirst(netlinkAligned(length))
        // The two highest bits describe the encoding of the value.
        return (type & 0x3fff, attribute.dropFirst(4))
    }
}

private func netlinkAligned(_ length: Int) -> Int { (length + 3) & ~3 }

extension ArraySlice<UInt8> {
    /// In the byte order of the machine; `nil` if the bytes are not there.
    func netlinkInteger<Value: FixedWidthInteger>(at offset: Int, as type: Value.Type) -> Value? {
        let size = Value.bitWidth / 8
        guard count >= offset + size else { return nil }
        var value: Value = 0
        for index in 0..<size { value |= Value(truncatingIfNeeded: self[startIndex + offset + index]) << (8 * index) }
        return Value(littleEndian: value)
    }

    var netlinkText: String { String(decoding: prefix { $0 != 0 }, as: UTF8.self) }
}
