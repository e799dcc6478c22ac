/// Tells the peer the addresses of the link (HAProxy, "The PROXY protocol, versions 1 & 2"). Nothing answers it.
struct ProxyHeaderExchange: OpeningExchange {
    private let version: ProxyHeader
    /// The addresses of a connection to a proxy are not those of the server.
    private let isProxied: Bool

    init(_ version: ProxyHeader, isProxied: Bool) { (self.version, self.isProxied) = (version, isProxied) }

    package var isWithProxy: Bool { false }

    package mutating func begin(from local: SocketAddress?, to remote: SocketAddress?) -> [UInt8] {
        let (local, remote) = isProxied ? (nil, nil) : (local, remote)
        return switch version {
        case .v1: Self.text(from: local, to: remote)
        case .v2: Self.binary(from: local, to: remote)
        }
    }

    package mutating func receive(_ input: inout ArraySlice<UInt8>) -> OpeningStep { .done }

    /// Section 2.1. A line of at most 107 bytes.
    private static func text(from local: SocketAddress?, to remote: SocketAddress?) -> [UInt8] {
        guard let (local, remote) = pair(local, remote) else { return Array("PROXY UNKNOWN\r\n".utf8) }
        let isIPv4 = local.ip.count == 4
        func text(_ ip: [UInt8]) -> String {
            (isIPv4 ? SocketAddress.ipv4(ip, port: 0) : .ipv6(ip, port: 0, scope: 0)).host
        }
        let line =
            "PROXY \(isIPv4 ? "TCP4" : "TCP6") \(text(local.ip)) \(text(remote.ip)) \(local.port) \(remote.port)\r\n"
        return Array(line.utf8)
    }

    /// Section 2.2.
    private static func binary(from local: SocketAddress?, to remote: SocketAddress?) -> [UInt8] {
        let signature: [UInt8] = [0x0D, 0x0A, 0x0D, 0x0A, 0x00, 0x0D, 0x0A, 0x51, 0x55, 0x49, 0x54, 0x0A]
        guard let (local, remote) = pair(local, remote) else {
            // LOCAL, unspecified: use the addresses of the connection. The receiver may reject PROXY without addresses.
            return signature + [0x20, 0x00, 0, 0]
        }
        let isIPv4 = local.ip.count == 4
        let ports = [local.port, remote.port].flatMap { [UInt8($0 >> 8), UInt8($0 & 0xFF)] }
        let addresses = local.ip + remote.ip + ports
        let command: UInt8 = 0x21  // PROXY
        return signature + [command, isIPv4 ? 0x11 : 0x21, 0, UInt8(addresses.count)] + addresses
    }

    private static func pair(
        _ local: SocketAddress?,
        _ remote: SocketAddress?
    ) -> (local: (ip: [UInt8], port: UInt16), remote: (ip: [UInt8], port: UInt16))? {
        guard let local, let remote, let from = local.ipBytes, let to = remote.ipBytes, from.count == to.count,
            let fromPort = local.port, let toPort = remote.port
        else { return nil }
        return ((from, fromPort), (to, toPort))
    }
}

/// A version of the PROXY protocol, by which a link tells a load balancer or a server its addresses.
@nonexhaustive
public enum ProxyHeader: Sendable, Hashable, CaseIterable {
    /// Version 1: a line of text.
    case v1
    /// Version 2: a binary header.
    case v2
}
