import TrunklineCore

/// A host of a simulated network: a socket address without its port.
enum HostAddress: Hashable {
    case ip([UInt8])
    case unix(path: String)

    init(_ address: SocketAddress) {
        switch address {
        case .ipv4(let bytes, _), .ipv6(let bytes, _, _): self = .ip(bytes)
        case .unix(let path): self = .unix(path: path)
        }
    }

    /// Reads an IP address as it is written (without a zone), or `unix:` and a path; `nil` when `text` is neither.
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
        }
    }

    /// The address that stands for every address of its family, on a listener.
    var wildcard: HostAddress {
        switch self {
        case .ip(let bytes): .ip([UInt8](repeating: 0, count: bytes.count))
        case .unix: self
        }
    }
}

extension HostAddress: CustomStringConvertible {
    /// The address as it is written, without brackets.
    var description: String {
        switch self {
        case .ip(let bytes) where bytes.count == 4: bytes.map(String.init).joined(separator: ".")
        case .ip(let bytes):
            stride(from: 0, to: 16, by: 2).map { String(UInt16(bytes[$0]) << 8 | UInt16(bytes[$0 + 1]), radix: 16) }
                .joined(separator: ":")
        case .unix(let path): "unix:\(path)"
        }
    }
}

private func parseIPv4(_ text: Substring) -> [UInt8]? {
    let parts = text.split(separator: ".", omittingEmptySubsequences: false)
    let bytes = parts.compactMap { $0.first?.isNumber == true ? UInt8($0) : nil }
    return parts.count == 4 && bytes.count == 4 ? bytes : nil
}

private func parseIPv6(_ text: String) -> [UInt8]? {
    guard text.contains(":") else { return nil }
    var halves: [[UInt8]] = [[]]
    var parts = text.split(separator: ":", omittingEmptySubsequences: false)
    // "::" leaves an empty part within, two at either end of the text.
    if parts.count > 2, parts[0].isEmpty, parts[1].isEmpty { parts.removeFirst() }
    if parts.count > 2, parts[parts.count - 1].isEmpty, parts[parts.count - 2].isEmpty { parts.removeLast() }
    for (index, part) in parts.enumerated() {
        if part.isEmpty {
            guard halves.count == 1 else { return nil }
            halves.append([])
        } else if index == parts.count - 1, part.contains(".") {
            guard let bytes = parseIPv4(part) else { return nil }
            halves[halves.count - 1] += bytes
        } else {
            guard part.count <= 4, let group = UInt16(part, radix: 16) else { return nil }
            halves[halves.count - 1] += [UInt8(group >> 8), UInt8(group & 0xff)]
        }
    }
    let missing = 16 - halves.reduce(0) { $0 + $1.count }
    guard halves.count == 2 ? missing >= 2 : missing == 0 else { return nil }
    return halves[0] + [UInt8](repeating: 0, count: missing) + (halves.count == 2 ? halves[1] : [])
}
