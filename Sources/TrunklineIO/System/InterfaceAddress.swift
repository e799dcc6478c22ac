#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

struct InterfaceAddress: Sendable {
    let interface: String
    let flags: UInt32
    let address: SocketAddress

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

    var isUp: Bool { flags & InterfaceFlags.up != 0 }

    /// Not the loopback, up and with a carrier, and not link-local (RFC 3927, RFC 4291 §2.5.6).
    var isOfNetwork: Bool {
        guard let bytes = address.ipBytes, isUp, flags & InterfaceFlags.loopback == 0,
            flags & (InterfaceFlags.running | InterfaceFlags.lowerUp) != 0
        else { return false }
        let isOfLink = bytes.count == 4 ? bytes[0] == 169 && bytes[1] == 254 : bytes.isLinkLocalIPv6
        return !isOfLink && !address.isLoopback
    }

    var isOfTunnel: Bool {
        flags & InterfaceFlags.pointToPoint != 0 || ["utun", "ipsec", "ppp"].contains { interface.hasPrefix($0) }
    }
}
