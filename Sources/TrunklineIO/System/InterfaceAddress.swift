#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// An address of this host, with the interface that has it.
struct InterfaceAddress: Sendable {
    let interface: String
    /// The flags of the interface, as in `InterfaceFlags`.
    let flags: UInt32
    /// The address, with port 0.
    let address: SocketAddress

    /// Returns all addresses of this host, from getifaddrs(3). Returns `nil` if that fails.
    static func all() -> [InterfaceAddress]? {
        var list: UnsafeMutablePointer<ifaddrs>?
        guard unsafe getifaddrs(&list) == 0 else { return nil }
        defer { unsafe freeifaddrs(list) }
        var found: [InterfaceAddress] = []
        var next = unsafe list
        while let entry = unsafe next {
            unsafe next = entry.pointee.ifa_next
            guard let raw = unsafe entry.pointee.ifa_addr, let address = unsafe readSockaddr(raw) else { continue }
            let name = unsafe String(cString: entry.pointee.ifa_name)
            let flags = unsafe UInt32(truncatingIfNeeded: entry.pointee.ifa_flags)
            found.append(InterfaceAddress(interface: name, flags: flags, address: address.with(port: 0)))
        }
        return found
    }

    /// Whether the interface is administratively up.
    var isUp: Bool { flags & InterfaceFlags.up != 0 }

    /// Whether the address connects this host with others: the interface is not the loopback, is up and has a carrier,
    /// and the address is not link-local (RFC 3927, RFC 4291 §2.5.6).
    var isOfNetwork: Bool {
        guard let bytes = address.ipBytes, isUp, flags & InterfaceFlags.loopback == 0,
            flags & (InterfaceFlags.running | InterfaceFlags.lowerUp) != 0
        else { return false }
        let isOfLink =
            bytes.count == 4 ? bytes[0] == 169 && bytes[1] == 254 : bytes[0] == 0xfe && bytes[1] & 0xc0 == 0x80
        return !isOfLink && !address.isLoopback
    }

    /// Whether the interface looks like a tunnel: point-to-point, or one of Darwin's names for tunnels.
    var isOfTunnel: Bool {
        flags & InterfaceFlags.pointToPoint != 0 || ["utun", "ipsec", "ppp"].contains { interface.hasPrefix($0) }
    }
}
