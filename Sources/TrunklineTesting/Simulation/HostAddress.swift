import TrunklineCore

/// A host of a simulated network. A socket address that is not an IP address is a host of its own.
enum HostAddress: Hashable {
    case ip([UInt8])
    case unix(path: String)
    case other(SocketAddress)

    init(_ address: SocketAddress) {
        switch address {
        case .ipv4(let bytes, _), .ipv6(let bytes, _, _): self = .ip(bytes)
        case .unix(let path): self = .unix(path: path)
        case .vsock, .command, .descriptors: self = .other(address)
        }
    }

    init?(_ text: String) {
        if text.hasPrefix("unix:") {
            self = .unix(path: String(text.dropFirst(5)))
        } else if let bytes = parseIPv4(text[...]) ?? parseIPv6(text) {
            self = .ip(bytes)
        } else {
            return nil
        }
    }

    func socketAddress(port: UInt16) -> SocketAddress {
        switch self {
        case .ip(let bytes) where bytes.count == 4: .ipv4(bytes, port: port)
        case .ip(let bytes): .ipv6(bytes, port: port, scope: 0)
        case .unix(let path): .unix(path: path)
        case .other(let address): address
        }
    }

    /// A listener at this address accepts on every address of its family.
    var wildcard: HostAddress {
        switch self {
        case .ip(let bytes): .ip([UInt8](repeating: 0, count: bytes.count))
        case .unix, .other: self
        }
    }

    var loopback: HostAddress {
        switch self {
        case .ip(let bytes) where bytes.count == 4: .ip([127, 0, 0, 1])
        case .ip: .ip([UInt8](repeating: 0, count: 15) + [1])
        case .unix, .other: self
        }
    }

    var isLoopback: Bool { socketAddress(port: 0).isLoopback }

    /// Links to a host without IP address do not use the interfaces.
    var isLocal: Bool {
        if case .ip = self { false } else { true }
    }

    var isCommand: Bool {
        if case .other(.command) = self { true } else { false }
    }

    func isSameFamily(as other: HostAddress) -> Bool {
        socketAddress(port: 0).family == other.socketAddress(port: 0).family
    }
}

extension HostAddress: CustomStringConvertible {
    var description: String {
        switch self {
        case .ip(let bytes) where bytes.count == 4: bytes.map(String.init).joined(separator: ".")
        case .ip(let bytes):
            stride(from: 0, to: 16, by: 2).map { String(UInt16(bytes[$0]) << 8 | UInt16(bytes[$0 + 1]), radix: 16) }
                .joined(separator: ":")
        case .unix(let path): "unix:\(path)"
        case .other(let address): "\(address)"
        }
    }
}

private func parseIPv4(_ text: Substring) -> [UInt8]? {
    let parts = text.split(separator: ".", omittingEmptySubsequences: false)
    let bytes = parts.compactMap { UInt8(strict: $0, allowingZeros: true) }
    return parts.count == 4 && bytes.count == 4 ? bytes : nil
}

private func parseIPv6(_ text: String) -> [UInt8]? {
    guard let gap = text.indices.first(where: { text[$0...].hasPrefix("::") }) else {
        return parseGroups(text[...]).flatMap { $0.count == 16 ? $0 : nil }
    }
    guard let head = parseGroups(text[..<gap]), let tail = parseGroups(text[gap...].dropFirst(2)),
        head.count + tail.count <= 14
    else { return nil }
    return head + [UInt8](repeating: 0, count: 16 - head.count - tail.count) + tail
}

private func parseGroups(_ text: Substring) -> [UInt8]? {
    guard !text.isEmpty else { return [] }
    var bytes: [UInt8] = []
    let parts = text.split(separator: ":", omittingEmptySubsequences: false)
    for (index, part) in parts.enumerated() {
        if index == parts.count - 1, let last = parseIPv4(part) {
            bytes += last
        } else {
            guard part.utf8.count <= 4, let group = UInt16(strict: part, radix: 16, allowingZeros: true) else {
                return nil
            }
            bytes += [UInt8(group >> 8), UInt8(group & 0xff)]
        }
    }
    return bytes
}
