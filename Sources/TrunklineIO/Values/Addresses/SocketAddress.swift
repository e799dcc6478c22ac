package enum AddressFamily: Hashable, Sendable, CaseIterable {
    case ipv6, ipv4

    package var other: AddressFamily { self == .ipv6 ? .ipv4 : .ipv6 }

    package var name: String { self == .ipv6 ? "IPv6" : "IPv4" }
}

/// Where a socket connects or listens, or what a link uses instead of a socket. Needs no name resolution.
package enum SocketAddress: Hashable, Sendable, CustomStringConvertible {
    case ipv4([UInt8], port: UInt16)
    case ipv6([UInt8], port: UInt16, scope: UInt32)
    case unix(path: String)
    case vsock(cid: UInt32, port: UInt32)
    indirect case command(ChildCommand)
    case descriptors(DescriptorPair)

    package static func loopback(port: UInt16) -> SocketAddress { .ipv4([127, 0, 0, 1], port: port) }

    package var port: UInt16? {
        switch self {
        case .ipv4(_, let port), .ipv6(_, let port, _): port
        case .unix, .vsock, .command, .descriptors: nil
        }
    }

    package var family: AddressFamily? {
        switch self {
        case .ipv4: .ipv4
        case .ipv6: .ipv6
        case .unix, .vsock, .command, .descriptors: nil
        }
    }

    package var ipBytes: [UInt8]? {
        switch self {
        case .ipv4(let bytes, _), .ipv6(let bytes, _, _): bytes
        case .unix, .vsock, .command, .descriptors: nil
        }
    }

    /// Reached regardless of the network of this host, which is also true of everything but an IP address.
    package var isLoopback: Bool {
        switch self {
        case .ipv4(let bytes, _): return bytes.first == 127
        case .ipv6(let bytes, _, _):
            return bytes.isMappedIPv4 ? bytes[12] == 127 : bytes.dropLast().allSatisfy { $0 == 0 } && bytes.last == 1
        case .unix, .vsock, .command, .descriptors: return true
        }
    }

    /// RFC 5952 §4, with the zone and without the port.
    package var host: String {
        switch self {
        case .ipv4(let bytes, _): return bytes.map(String.init).joined(separator: ".")
        case .ipv6(let bytes, _, let scope):
            let zone = SocketAddress.zone(scope)
            let groups = stride(from: 0, to: bytes.count, by: 2).map { UInt16(bytes[$0]) << 8 | UInt16(bytes[$0 + 1]) }
            // The longest run of zeros; of equally long runs, the first. A single zero is not shortened.
            var (gap, run) = (0..<0, 0)
            for (index, group) in groups.enumerated() {
                run = group == 0 ? run + 1 : 0
                if run > max(1, gap.count) { gap = index + 1 - run..<index + 1 }
            }
            func text(_ groups: ArraySlice<UInt16>) -> String {
                groups.map { String($0, radix: 16) }.joined(separator: ":")
            }
            guard !gap.isEmpty else { return text(groups[...]) + zone }
            return text(groups[..<gap.lowerBound]) + "::" + text(groups[gap.upperBound...]) + zone
        case .unix(let path): return path.escaped()
        case .vsock, .command, .descriptors: return description
        }
    }

    private static func zone(_ scope: UInt32) -> String { scope == 0 ? "" : "%\(scope)" }

    var lacksZone: Bool {
        guard case .ipv6(let bytes, _, 0) = self else { return false }
        return bytes.isLinkLocalIPv6
    }

    /// `inet_aton`: one to four numbers, decimal, octal or hexadecimal, the last of which fills the remaining bytes.
    static func abbreviatedIPv4(_ text: String) -> [UInt8]? {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard (1...4).contains(parts.count) else { return nil }
        var value: UInt64 = 0
        for (index, part) in parts.enumerated() {
            let digits = part.utf8
            let (number, radix): (Substring, Int) =
                digits.starts(with: "0x".utf8) || digits.starts(with: "0X".utf8)
                ? (part.dropFirst(2), 16)
                : digits.first == 0x30 && digits.count > 1 ? (part.dropFirst(), 8) : (part, 10)
            guard let number = UInt64(strict: number, radix: radix, allowingZeros: true) else { return nil }
            let width = index == parts.count - 1 ? 8 * (5 - parts.count) : 8
            guard number < 1 << UInt64(width) else { return nil }
            value = value << UInt64(width) | number
        }
        return (0..<4).map { UInt8(truncatingIfNeeded: value >> UInt64(24 - 8 * $0)) }
    }

    package func with(port: UInt16) -> SocketAddress {
        switch self {
        case .ipv4(let bytes, _): .ipv4(bytes, port: port)
        case .ipv6(let bytes, _, let scope): .ipv6(bytes, port: port, scope: scope)
        case .unix, .vsock, .command, .descriptors: self
        }
    }

    package var description: String {
        switch self {
        case .ipv4(let bytes, let port): bytes.map(String.init).joined(separator: ".") + ":\(port)"
        case .ipv6(let bytes, let port, let scope):
            "["
                + stride(from: 0, to: bytes.count, by: 2).map {
                    String(UInt16(bytes[$0]) << 8 | UInt16(bytes[$0 + 1]), radix: 16)
                }.joined(separator: ":") + SocketAddress.zone(scope) + "]:\(port)"
        case .unix(let path): "unix:\(path.escaped())"
        case .vsock(let cid, let port): "vsock://\(cid):\(port)"
        case .command(let command): "\(command)"
        case .descriptors(let pair): "\(pair)"
        }
    }
}

extension [UInt8] {
    /// fe80::/10 (RFC 4291 §2.5.6).
    var isLinkLocalIPv6: Bool { count == 16 && self[0] == 0xfe && self[1] & 0xc0 == 0x80 }

    /// ::ffff:0:0/96 (RFC 4291 §2.5.5.2).
    var isMappedIPv4: Bool { count == 16 && prefix(12) == [UInt8](repeating: 0, count: 10) + [0xff, 0xff] }
}
