#if os(Linux)
    import CTrunkline
#endif

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Returns `nil` for a path that is too long or contains a NUL byte.
func withSockaddr<Result>(
    _ address: SocketAddress,
    _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result
) -> Result? {
    func pass<Value>(_ value: Value) -> Result {
        unsafe withUnsafePointer(to: value) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe body($0, socklen_t(MemoryLayout<Value>.size))
            }
        }
    }
    switch address {
    case .ipv4(let bytes, let port):
        guard bytes.count == 4 else { return nil }
        var value = sockaddr_in()
        value.sin_family = sa_family_t(AF_INET)
        value.sin_port = port.bigEndian
        unsafe withUnsafeMutableBytes(of: &value.sin_addr) { unsafe $0.copyBytes(from: bytes) }
        return pass(value)
    case .ipv6(let bytes, let port, let scope):
        guard bytes.count == 16 else { return nil }
        var value = sockaddr_in6()
        value.sin6_family = sa_family_t(AF_INET6)
        value.sin6_port = port.bigEndian
        value.sin6_scope_id = scope
        unsafe withUnsafeMutableBytes(of: &value.sin6_addr) { unsafe $0.copyBytes(from: bytes) }
        return pass(value)
    case .unix(let path):
        var value = sockaddr_un()
        value.sun_family = sa_family_t(AF_UNIX)
        let capacity = MemoryLayout.size(ofValue: value.sun_path)
        guard path.utf8.count < capacity, !path.hasZeroByte else { return nil }
        unsafe withUnsafeMutableBytes(of: &value.sun_path) { unsafe $0.copyBytes(from: Array(path.utf8)) }
        return pass(value)
    case .vsock(let cid, let port):
        #if os(Linux)
            var value = trunkline_vsock_address()
            (value.family, value.port, value.cid) = (UInt16(vsockFamily), port, cid)
            return pass(value)
        #else
            return nil
        #endif
    case .command, .descriptors: return nil
    }
}

let unwritable = "the path is too long or contains a NUL byte"

func readSockaddr(_ pointer: UnsafePointer<sockaddr>) -> SocketAddress? {
    switch Int32(unsafe pointer.pointee.sa_family) {
    case AF_INET:
        return unsafe pointer.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
            let bytes = unsafe withUnsafeBytes(of: $0.pointee.sin_addr) { unsafe Array($0) }
            return unsafe .ipv4(bytes, port: UInt16(bigEndian: $0.pointee.sin_port))
        }
    case AF_INET6:
        return unsafe pointer.withMemoryRebound(to: sockaddr_in6.self, capacity: 1) {
            let bytes = unsafe withUnsafeBytes(of: $0.pointee.sin6_addr) { unsafe Array($0) }
            return unsafe .ipv6(bytes, port: UInt16(bigEndian: $0.pointee.sin6_port), scope: $0.pointee.sin6_scope_id)
        }
    default: return nil
    }
}

func localAddress(_ descriptor: Int32) -> SocketAddress? {
    unsafe readAddress { unsafe getsockname(descriptor, $0, $1) }
}

func peerAddress(_ descriptor: Int32) -> SocketAddress? {
    unsafe readAddress { unsafe getpeername(descriptor, $0, $1) }
}

private func readAddress(
    _ read: (UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> Int32
) -> SocketAddress? {
    var storage = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    return unsafe withUnsafeMutablePointer(to: &storage) { pointer in
        unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            guard unsafe read($0, &length) == 0 else { return nil }
            return unsafe readSockaddr($0)
        }
    }
}

/// Answers: there is no such name, or it has no address of the family.
private let codesOfNoSuchName: Set<Int32> = {
    var codes: Set<Int32> = [EAI_NONAME]
    #if os(Linux)
        // EAI_NODATA and EAI_ADDRFAMILY, which the headers hide.
        codes.formUnion([-5, -9])
    #elseif canImport(Darwin)
        codes.insert(EAI_NODATA)
    #endif
    return codes
}()

/// Blocks, possibly for many seconds: never call this on a loop. Without AI_ADDRCONFIG, which ignores loopback
/// addresses: on a host without others even `localhost` would be unknown.
@Sendable
func systemLookUp(_ host: String, _ family: AddressFamily) -> Result<[SocketAddress], TransportError> {
    func failure(_ reason: String, isNoSuchName: Bool = false) -> Result<[SocketAddress], TransportError> {
        // Without a descriptor, the system asks no name server and reads no file, and says that the name is not known.
        let shortage = descriptorShortage()
        let reason = shortage.map(systemMessage) ?? reason
        let message = "resolving \(host.withoutCredentials.escaped()): \(reason)"
        var error = TransportError(.nameResolutionFailed, errno: shortage ?? 0, message)
        error.isNoSuchName = isNoSuchName && shortage == nil
        return .failure(error)
    }
    // The system would read the NUL byte as the end of the name, and look up another host.
    guard !host.isEmpty, !host.hasZeroByte else { return failure("invalid host name: empty, or contains a NUL byte") }
    var hints = unsafe addrinfo()
    unsafe hints.ai_family = family == .ipv4 ? AF_INET : AF_INET6
    #if os(Linux)
        unsafe hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    #else
        unsafe hints.ai_socktype = SOCK_STREAM
    #endif
    var list: UnsafeMutablePointer<addrinfo>?
    let code = unsafe getaddrinfo(host, nil, &hints, &list)
    guard code == 0 else {
        if code == EAI_SYSTEM { return failure(systemMessage(errno)) }
        let reason = unsafe gai_strerror(code).map { unsafe String(cString: $0) } ?? "error \(code)"
        return failure(reason, isNoSuchName: codesOfNoSuchName.contains(code))
    }
    defer { unsafe freeaddrinfo(list) }
    var addresses: [SocketAddress] = []
    var next = unsafe list
    while let entry = unsafe next {
        if let raw = unsafe entry.pointee.ai_addr, let address = unsafe readSockaddr(raw) { addresses.append(address) }
        unsafe next = entry.pointee.ai_next
    }
    return .success(addresses)
}

/// Reads what the system's look-up accepts: also `127.1`, and `fe80::1%eth0`. `nil` for names and unknown zones.
package func literalAddress(_ host: String, port: UInt16) -> SocketAddress? {
    guard let (bytes, zone) = literal(host) else { return nil }
    guard bytes.count == 16 else { return .ipv4(bytes, port: port) }
    guard let zone else { return .ipv6(bytes, port: port, scope: 0) }
    return index(ofZone: zone).map { .ipv6(bytes, port: port, scope: $0) }
}

package func literalBytes(_ host: String) -> [UInt8]? { literal(host)?.bytes }

/// `nil` if no zone is unknown. The error has an error number, because the interface may exist later.
package func unknownZone(of host: String, _ doing: String) -> TransportError? {
    guard let zone = literal(host)?.zone, index(ofZone: zone) == nil else { return nil }
    let message = "\(doing): no network interface is named \(zone.escaped())"
    return TransportError(.invalidAddress, errno: ENXIO, message)
}

private func literal(_ host: String) -> (bytes: [UInt8], zone: String?)? {
    // The system would ignore what follows a NUL byte, which may be another name.
    guard !host.hasZeroByte else { return nil }
    var four = in_addr()
    if unsafe inet_pton(AF_INET, host, &four) == 1 {
        return (unsafe withUnsafeBytes(of: four) { unsafe Array($0) }, nil)
    }
    if let bytes = SocketAddress.abbreviatedIPv4(host) { return (bytes, nil) }
    let parts = host.split(separator: "%", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
    var six = in6_addr()
    guard let address = parts.first, unsafe inet_pton(AF_INET6, address, &six) == 1 else { return nil }
    return (unsafe withUnsafeBytes(of: six) { unsafe Array($0) }, parts.count > 1 ? parts[1] : nil)
}

/// RFC 4007 §11.2: by its name or its index.
private func index(ofZone zone: String) -> UInt32? {
    let index = unsafe if_nametoindex(zone)
    if index > 0 { return index }
    return UInt32(strict: zone, allowingZeros: true).flatMap { $0 > 0 ? $0 : nil }
}
