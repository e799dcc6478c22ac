#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Whether the system needs no name server for `host`, if it asks the hosts file first, as is the default
/// (nsswitch.conf). For a name that the file has in the other family only, most systems ask a name server.
@Sendable
func isKnownToThisHost(_ host: String, _ family: AddressFamily) -> Bool {
    if isNumeric(host) { return true }
    // Lists of millions of blocked names do not count: reading them for every look-up takes too long.
    guard case .success(let text) = contents(ofFile: "/etc/hosts", limit: 4 * 1024 * 1024) else { return false }
    return hostsFile(text, has: host, family)
}

func hostsFile(_ text: [UInt8], has host: String, _ family: AddressFamily) -> Bool {
    let name = Array(host.lowercased().utf8)
    guard !name.isEmpty else { return false }
    return text.split(separator: UInt8(ascii: "\n")).contains { line in
        let fields = line.prefix { $0 != UInt8(ascii: "#") }.split { [UInt8(ascii: " "), 9, 13].contains($0) }
        guard fields.dropFirst().contains(where: { $0.count == name.count && $0.isSame(as: name) }) else {
            return false
        }
        let address = String(decoding: fields[0].prefix { $0 != UInt8(ascii: "%") }, as: UTF8.self)
        return literalAddress(address, port: 0)?.family == family
    }
}

extension ArraySlice<UInt8> {
    fileprivate func isSame(as lowercased: [UInt8]) -> Bool {
        elementsEqual(lowercased) { (0x41...0x5A).contains($0) ? $0 | 0x20 == $1 : $0 == $1 }
    }
}

/// Also in forms that `literalAddress` does not know, such as `127.1`.
private func isNumeric(_ host: String) -> Bool {
    guard !host.hasZeroByte else { return false }
    var hints = unsafe addrinfo()
    unsafe hints.ai_flags = AI_NUMERICHOST
    var list: UnsafeMutablePointer<addrinfo>?
    guard unsafe getaddrinfo(host, nil, &hints, &list) == 0 else { return false }
    unsafe freeaddrinfo(list)
    return true
}
