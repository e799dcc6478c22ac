import TrunklineCore

struct CapturedHost: Hashable {
    /// IPv4: four bytes.
    let address: [UInt8]
    let port: UInt16
}

struct CapturedPacket {
    /// From the IPv4 header on. May be cut off.
    let bytes: [UInt8]
    let size: Int

    /// A UDP datagram (RFC 768).
    static func datagram(from source: CapturedHost, to destination: CapturedHost, _ payload: [UInt8]) -> CapturedPacket
    {
        var datagram: [UInt8] = []
        datagram.append(big: source.port)
        datagram.append(big: destination.port)
        datagram.append(big: UInt16(clamping: 8 + payload.count))
        datagram.append(big: 0 as UInt16)
        datagram += payload
        // Zero would mean that there is no checksum.
        let sum = checksum(datagram, size: datagram.count, of: 17, source, destination)
        datagram.replaceSubrange(6..<8, with: (sum == 0 ? UInt16.max : sum).bigEndianBytes)
        return ipv4(17, from: source, to: destination, datagram, size: datagram.count)
    }

    /// Completes a TCP segment with a zero checksum. Missing bytes of a segment that is cut off count as zeros.
    fileprivate static func segment(
        from source: CapturedHost,
        to destination: CapturedHost,
        _ segment: [UInt8],
        size: Int
    ) -> CapturedPacket {
        var segment = segment
        let sum = checksum(segment, size: size, of: 6, source, destination)
        segment.replaceSubrange(16..<18, with: sum.bigEndianBytes)
        return ipv4(6, from: source, to: destination, segment, size: size)
    }

    /// Adds a header of 20 bytes (RFC 791, section 3.1).
    private static func ipv4(
        _ number: UInt8,
        from source: CapturedHost,
        to destination: CapturedHost,
        _ payload: [UInt8],
        size: Int
    ) -> CapturedPacket {
        var header: [UInt8] = [0x45, 0]
        header.append(big: UInt16(clamping: 20 + size))
        header += [0, 0, 0x40, 0, 64, number, 0, 0]  // not fragmented, 64 hops
        header += source.address + destination.address
        header.replaceSubrange(10..<12, with: InternetChecksum(header).value.bigEndianBytes)
        return CapturedPacket(bytes: header + payload, size: 20 + size)
    }

    /// The checksum of a payload with the pseudo-header (RFC 9293, section 3.1).
    private static func checksum(
        _ payload: [UInt8],
        size: Int,
        of number: UInt8,
        _ source: CapturedHost,
        _ destination: CapturedHost
    ) -> UInt16 {
        var sum = InternetChecksum(source.address + destination.address + [0, number])
        sum.add(UInt16(clamping: size).bigEndianBytes)
        sum.add(payload)
        return sum.value
    }
}

/// The checksum of IP, TCP and UDP (RFC 1071).
struct InternetChecksum {
    private var sum: UInt64 = 0

    init(_ bytes: [UInt8]) { add(bytes) }

    var value: UInt16 {
        var sum = sum
        while sum > 0xFFFF { sum = sum & 0xFFFF + sum >> 16 }
        return ~UInt16(sum)
    }

    /// `bytes` must begin at an even position.
    mutating func add(_ bytes: [UInt8]) {
        var index = 0
        while index + 1 < bytes.count {
            sum += UInt64(bytes[index]) << 8 | UInt64(bytes[index + 1])
            index += 2
        }
        if index < bytes.count { sum += UInt64(bytes[index]) << 8 }
    }
}

/// A TCP connection between a client and a server, whose segments are made up (RFC 9293, section 3.1).
struct CapturedConnection {
    enum Side { case client, server }

    struct Flags: OptionSet {
        let rawValue: UInt8
        static let fin = Flags(rawValue: 1)
        static let syn = Flags(rawValue: 2)
        static let rst = Flags(rawValue: 4)
        static let psh = Flags(rawValue: 8)
        static let ack = Flags(rawValue: 16)
    }

    let client: CapturedHost
    let server: CapturedHost
    /// The next sequence numbers. Wireshark shows them counted from these first ones.
    private var nextOfClient: UInt32 = 0x1000_0000
    private var nextOfServer: UInt32 = 0x2000_0000
    private var emptyWindow = UInt16.max - 1

    init(client: CapturedHost, server: CapturedHost) {
        self.client = client
        self.server = server
    }

    mutating func segment(from side: Side, _ flags: Flags, _ payload: [UInt8] = [], size: Int = 0) -> CapturedPacket {
        let (source, destination) = side == .client ? (client, server) : (server, client)
        let (sequence, other) = side == .client ? (nextOfClient, nextOfServer) : (nextOfServer, nextOfClient)
        let size = max(size, payload.count)
        let options = flags.contains(.syn) ? Self.options : []
        var segment: [UInt8] = []
        segment.append(big: source.port)
        segment.append(big: destination.port)
        segment.append(big: sequence)
        segment.append(big: flags.contains(.ack) ? other : 0)
        segment += [UInt8(20 + options.count) << 2, flags.rawValue]
        segment.append(big: window(isEmpty: size == 0 && flags.isSubset(of: [.ack, .psh])))
        segment += [0, 0, 0, 0]
        segment += options
        let start = segment.count
        segment += payload
        let length = UInt32(truncatingIfNeeded: size) &+ (flags.isDisjoint(with: [.syn, .fin]) ? 0 : 1)
        if side == .client { nextOfClient &+= length } else { nextOfServer &+= length }
        return .segment(from: source, to: destination, segment, size: start + size)
    }

    /// A maximum segment size of 65,495 bytes, and a window that counts 2¹⁴ bytes: Wireshark must not find that a side
    /// sends more than it may.
    private static let options: [UInt8] = [2, 4, 0xFF, 0xD7, 1, 3, 3, 14]

    /// Wireshark takes an empty segment with the same numbers as the segment before it for a sign of a loss, so its
    /// window differs.
    private mutating func window(isEmpty: Bool) -> UInt16 {
        guard isEmpty else { return .max }
        emptyWindow = emptyWindow == .max - 1 ? .max - 2 : .max - 1
        return emptyWindow
    }
}

extension FixedWidthInteger {
    fileprivate var bigEndianBytes: [UInt8] {
        (0..<Self.bitWidth / 8).reversed().map { UInt8(truncatingIfNeeded: self >> Self($0 * 8)) }
    }
}

extension [UInt8] {
    fileprivate mutating func append(big value: some FixedWidthInteger) { self += value.bigEndianBytes }
}
