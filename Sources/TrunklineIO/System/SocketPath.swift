#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// For systems that offer no better query. No packet is sent.
enum SocketPath {
    static func path(to address: SocketAddress, from source: SocketAddress?) -> NetworkPath {
        guard let address = address.routed else { return .local }
        let descriptor = openDatagramSocket(for: address)
        guard descriptor >= 0 else { return .unknown }
        defer { closeDescriptor(descriptor) }
        if let source = source?.boundHost, let code = bound(descriptor, to: source) {
            return code == EADDRNOTAVAIL ? .noRoute : .unknown
        }
        let target = address.port == 0 ? address.with(port: 9) : address
        let code = unsafe withSockaddr(target) { pointer, length in
            unsafe connect(descriptor, pointer, length) == 0 ? 0 : errno
        }
        switch code {
        case 0?: break
        case ENETUNREACH?, EHOSTUNREACH?, ENETDOWN?, EADDRNOTAVAIL?, EACCES?: return .noRoute
        default: return .unknown
        }
        guard let chosen = localAddress(descriptor)?.with(port: 0),
            let entry = InterfaceAddress.all()?.first(where: { $0.address.ipBytes == chosen.ipBytes })
        else { return .unknown }
        return .route(NetworkRoute(interface: entry.interface, source: chosen, isTunnel: entry.isOfTunnel))
    }

    static func hasSource(for address: SocketAddress) -> Bool {
        let descriptor = openDatagramSocket(for: address)
        guard descriptor >= 0 else { return true }
        defer { closeDescriptor(descriptor) }
        return unsafe withSockaddr(address) { pointer, length in
            unsafe connect(descriptor, pointer, length) == 0 || errno != EADDRNOTAVAIL
        } ?? true
    }

    /// Whether no socket can be bound to `address`. False if unknown.
    static func isForeign(_ address: SocketAddress) -> Bool {
        let descriptor = openDatagramSocket(for: address)
        guard descriptor >= 0 else { return false }
        defer { closeDescriptor(descriptor) }
        return bound(descriptor, to: address.with(port: 0)) == EADDRNOTAVAIL
    }

    private static func bound(_ descriptor: Int32, to address: SocketAddress) -> Int32? {
        let code = unsafe withSockaddr(address) { pointer, length in
            unsafe bind(descriptor, pointer, length) == 0 ? 0 : errno
        }
        return code == 0 ? nil : code ?? EINVAL
    }
}

extension SocketAddress {
    private var isUnspecified: Bool { ipBytes?.allSatisfy { $0 == 0 } ?? false }

    /// `nil` if the way never leaves this host, as to a loopback or unspecified address. IPv4-mapped IPv6 becomes IPv4.
    var routed: SocketAddress? {
        if isLoopback || isUnspecified { return nil }
        guard case .ipv6(let bytes, let port, _) = self, bytes.isMappedIPv4 else { return self }
        return SocketAddress.ipv4(Array(bytes.suffix(4)), port: port).routed
    }

    var boundHost: SocketAddress? { isUnspecified ? nil : (routed ?? self).with(port: 0) }
}
