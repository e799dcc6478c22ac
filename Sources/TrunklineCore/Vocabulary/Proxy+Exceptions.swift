extension Proxy {
    var target: Endpoint.Target { .host(name, port: port) }

    func exchange(connectingTo host: String, port: UInt16) throws(TransportError) -> any OpeningExchange {
        if host.contains("%"), literalBytes(host) != nil {
            throw TransportError(.invalidAddress, "an address with a zone cannot be reached through a proxy")
        }
        return switch kind {
        case .socks5: try SOCKS5Exchange(to: host, literalBytes(host), port: port, as: credentials)
        case .http: try HTTPConnectExchange(to: host, port: port, as: credentials)
        }
    }

    func isUsed(for host: String, port: UInt16) -> Bool {
        let name = host.lowercased().trimmingDot
        return !exceptions.contains { Self.matches($0.lowercased(), name, port) }
    }

    /// `exception` and `name` are in lower case.
    private static func matches(_ exception: String, _ name: String, _ port: UInt16) -> Bool {
        let exception = exception.filter { $0 != " " }
        guard let (pattern, only) = split(exception), only ?? port == port else { return false }
        if pattern == "*" { return true }
        let address = literalBytes(name)
        if let (network, length) = range(pattern) {
            return address.map { $0.count == network.count && shares($0, network, length) } ?? false
        }
        if let wanted = literalBytes(pattern) { return wanted == address }
        guard address == nil else { return false }
        var domain = pattern.trimmingDot
        if domain.hasPrefix("*.") { domain.removeFirst() }
        if domain.hasPrefix(".") { domain.removeFirst() }
        return !domain.isEmpty && (name == domain || name.hasSuffix(".\(domain)"))
    }

    private static func range(_ text: String) -> (network: [UInt8], length: Int)? {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2, let network = literalBytes(unbracketed(parts[0])), let length = Int(strict: parts[1]),
            length <= 8 * network.count
        else { return nil }
        return (network, length)
    }

    private static func shares(_ address: [UInt8], _ network: [UInt8], _ length: Int) -> Bool {
        let (bytes, bits) = length.quotientAndRemainder(dividingBy: 8)
        guard address.prefix(bytes) == network.prefix(bytes) else { return false }
        return bits == 0 || (address[bytes] ^ network[bytes]) >> UInt8(8 - bits) == 0
    }

    /// `nil` if the port is invalid.
    private static func split(_ text: String) -> (pattern: String, port: UInt16?)? {
        // The colons of an IPv6 address, also of that before the length of a network, do not precede a port.
        guard let colon = text.lastIndex(of: ":"), literalBytes(text) == nil, !text.hasSuffix("]"),
            !text[colon...].contains("/")
        else { return (unbracketed(text[...]), nil) }
        guard let port = UInt16(strict: text[text.index(after: colon)...]) else { return nil }
        return (unbracketed(text[..<colon]), port)
    }

    private static func unbracketed(_ text: Substring) -> String {
        String(text.hasPrefix("[") && text.hasSuffix("]") ? text.dropFirst().dropLast() : text)
    }
}

extension String {
    fileprivate var trimmingDot: String { hasSuffix(".") ? String(dropLast()) : self }
}
