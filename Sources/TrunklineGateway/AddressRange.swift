import TrunklineCore

extension SocketAddress {
    /// Not reserved for this machine, its network or a special purpose (RFC 6890). An IPv6 address that contains an
    /// IPv4 address (mapped, compatible, 6to4, NAT64) is public if the IPv4 address is.
    var isPublic: Bool {
        switch self {
        case .ipv4(let bytes, _): Self.isPublic(ipv4: bytes)
        case .ipv6(let bytes, _, _): Self.isPublic(ipv6: bytes)
        case .unix, .vsock, .command, .descriptors: false
        }
    }

    private static func isPublic(ipv4 bytes: [UInt8]) -> Bool {
        guard bytes.count == 4 else { return false }
        switch (bytes[0], bytes[1], bytes[2]) {
        case (0, _, _), (10, _, _), (127, _, _), (224...255, _, _): return false
        case (100, 64...127, _), (169, 254, _), (172, 16...31, _), (192, 168, _): return false
        case (192, 0, 0), (192, 0, 2), (192, 88, 99), (198, 18...19, _), (198, 51, 100), (203, 0, 113): return false
        default: return true
        }
    }

    private static func isPublic(ipv6 bytes: [UInt8]) -> Bool {
        guard bytes.count == 16 else { return false }
        func begins(_ prefix: [UInt8]) -> Bool { bytes.starts(with: prefix) }
        let zeros = [UInt8](repeating: 0, count: 10)
        if begins(zeros + [0xFF, 0xFF]) || begins(zeros + [0, 0]) { return isPublic(ipv4: Array(bytes[12...])) }
        if begins([0x00, 0x64, 0xFF, 0x9B] + zeros.prefix(8)) { return isPublic(ipv4: Array(bytes[12...])) }
        if begins([0x20, 0x02]) { return isPublic(ipv4: Array(bytes[2..<6])) }
        // Teredo, ORCHID and other protocol assignments; documentation.
        if begins([0x20, 0x01]) && bytes[2] < 2 || begins([0x20, 0x01, 0x0D, 0xB8]) { return false }
        // Global unicast is 2000::/3; everything else is local, multicast or reserved.
        return bytes[0] & 0xE0 == 0x20
    }
}
