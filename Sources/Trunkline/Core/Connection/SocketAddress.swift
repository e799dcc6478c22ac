/// The family of an IP address.
package enum AddressFamily: Hashable, Sendable, CaseIterable {
    case ipv6, ipv4

    package var other: AddressFamily { self == .ipv6 ? .ipv4 : .ipv6 }

    /// As people write it.
    package var name: String { self == .ipv6 ? "IPv6" : "IPv4" }
}

/// Where a socket connects to or listens: an address that needs no name resolution.
package enum SocketAddress: Hashable, Sendable, CustomStringConvertible {
    /// Four address bytes.
    case ipv4([UInt8], port: UInt16)
    /// Sixteen address bytes and the scope (0 for none).
    case ipv6([UInt8], port: UInt16, scope: UInt32)
    /// The path of a Unix domain socket.
    case unix(path: String)

    package static func loopback(port: UInt16) -> SocketAddress { .ipv4([127, 0, 0, 1], port: port) }

    package var port: UInt16? {
        switch self {
        case .ipv4(_, let port), .ipv6(_, let port, _): port
        case .unix: nil
        }
    }

    /// `nil` for a path.
    package var family: AddressFamily? {
        switch self {
        case .ipv4: .ipv4
        case .ipv6: .ipv6
        case .unix: nil
        }
    }

    /// The bytes of an IP address; `nil` for a path.
    package var ipBytes: [UInt8]? {
        switch self {
        case .ipv4(let bytes, _), .ipv6(let bytes, _, _): bytes
        case .unix: nil
        }
    }

    /// The same host with another port; a path has none.
    package func with(port: UInt16) -> SocketAddress {
        switch self {
        case .ipv4(let bytes, _): .ipv4(bytes, port: port)
        case .ipv6(let bytes, _, let scope): .ipv6(bytes, port: port, scope: scope)
        case .unix: self
        }
    }

    package var description: String {
        switch self {
        case .ipv4(let bytes, let port): bytes.map(String.init).joined(separator: ".") + ":\(port)"
        case .ipv6(let bytes, let port, _):
            "["
                + stride(from: 0, to: bytes.count, by: 2).map {
                    String(UInt16(bytes[$0]) << 8 | UInt16(bytes[$0 + 1]), radix: 16)
                }.joined(separator: ":") + "]:\(port)"
        case .unix(let path): "unix:\(path.escaped())"
        }
    }
}
