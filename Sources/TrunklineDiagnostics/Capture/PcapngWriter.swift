import TrunklineCore

/// Writes a capture file in the pcapng format (draft-ietf-opsawg-pcapng): one section with one interface, whose packets
/// begin with an IP header and have times in nanoseconds.
///
/// ```
/// block type (4) | length (4) | body, padded to 4 bytes | length (4)
/// ```
struct PcapngWriter {
    enum Direction: UInt32 {
        case inbound = 1
        case outbound
    }

    private enum Block {
        static let section: UInt32 = 0x0A0D_0D0A
        static let interface: UInt32 = 1
        static let packet: UInt32 = 6
    }

    private enum Option {
        static let end: UInt16 = 0
        static let comment: UInt16 = 1
        static let interfaceName: UInt16 = 2
        static let packetFlags: UInt16 = 2
        static let application: UInt16 = 4
        static let timeResolution: UInt16 = 9
    }

    /// Packets begin with an IPv4 or IPv6 header.
    private static let linkTypeRaw: UInt16 = 101
    /// The length of an option has 16 bits.
    private static let maximumTextSize = 60_000

    private(set) var bytes: [UInt8] = []
    /// Also the number by which Wireshark calls the last packet.
    private(set) var packetCount = 0

    init(application: String, interface: String, comments: [String] = []) {
        block(Block.section) { file in
            file.append(0x1A2B_3C4D as UInt32)  // tells the byte order
            file.append(1 as UInt16)
            file.append(0 as UInt16)
            file.append(UInt64.max)  // the length of the section is not stated
            for comment in comments { file.option(Option.comment, comment) }
            file.option(Option.application, application)
        }
        block(Block.interface) { file in
            file.append(Self.linkTypeRaw)
            file.append(0 as UInt16)
            file.append(0 as UInt32)  // no limit of the captured length
            file.option(Option.interfaceName, interface)
            file.option(Option.timeResolution, [9])  // 10⁻⁹ s
        }
    }

    /// `packet` may be only the beginning of the `size` bytes. `nanoseconds` count from 1970.
    mutating func add(
        _ packet: [UInt8],
        size: Int,
        at nanoseconds: UInt64,
        _ direction: Direction?,
        comments: [String] = []
    ) {
        packetCount += 1
        block(Block.packet) { file in
            file.append(0 as UInt32)  // the interface
            file.append(UInt32(truncatingIfNeeded: nanoseconds >> 32))
            file.append(UInt32(truncatingIfNeeded: nanoseconds))
            file.append(UInt32(clamping: packet.count))
            file.append(UInt32(clamping: max(size, packet.count)))
            file.bytes += packet
            file.pad()
            for comment in comments { file.option(Option.comment, comment) }
            if let direction { file.option(Option.packetFlags, Self.littleEndian(direction.rawValue)) }
        }
    }

    private mutating func block(_ type: UInt32, _ body: (inout PcapngWriter) -> Void) {
        let start = bytes.count
        append(type)
        append(0 as UInt32)
        body(&self)
        append(Option.end)
        append(0 as UInt16)
        let length = Self.littleEndian(UInt32(clamping: bytes.count + 4 - start))
        bytes.replaceSubrange(start + 4..<start + 8, with: length)
        bytes += length
    }

    private mutating func option(_ code: UInt16, _ text: String) {
        var bytes = Array(text.utf8.prefix(Self.maximumTextSize))
        // A scalar that was cut is not valid UTF-8.
        if bytes.count < text.utf8.count { bytes = Array(String(decoding: bytes, as: UTF8.self).dropLast().utf8) }
        option(code, bytes)
    }

    private mutating func option(_ code: UInt16, _ value: [UInt8]) {
        append(code)
        append(UInt16(clamping: value.count))
        bytes += value
        pad()
    }

    /// Blocks begin at multiples of 4 bytes, and so do options.
    private mutating func pad() {
        while !bytes.count.isMultiple(of: 4) { bytes.append(0) }
    }

    private mutating func append(_ value: some FixedWidthInteger) { bytes += Self.littleEndian(value) }

    private static func littleEndian<Value: FixedWidthInteger>(_ value: Value) -> [UInt8] {
        (0..<Value.bitWidth / 8).map { UInt8(truncatingIfNeeded: value >> Value($0 * 8)) }
    }
}
