/// A proxy through which links reach their servers: set it as ``ClientOptions/Connecting-swift.struct/proxy``.
///
/// ```swift
/// options.connecting.proxy = .socks5("proxy.example", username: "edge", password: secret)
/// options.connecting.proxy = try Proxy.fromEnvironment()
/// ```
///
/// The proxy looks up the names of endpoints. TLS, for a `tls://` endpoint or by `startTLS()`, is between the client
/// and the server: the proxy sees none of it. Unix domain sockets are always connected to directly.
///
/// Descriptions of a proxy never contain its user name or password.
public struct Proxy: Sendable, Hashable {
    /// The protocol that a proxy speaks.
    @nonexhaustive
    public enum Kind: String, Sendable, Hashable, CaseIterable {
        /// SOCKS 5 (RFC 1928), without authentication or with a user name and a password (RFC 1929).
        case socks5
        /// The method CONNECT of HTTP/1.1 (RFC 9110 §9.3.6), without authentication or with basic credentials (RFC
        /// 7617).
        case http
    }

    /// The protocol that the proxy speaks.
    public let kind: Kind
    /// The name or IP address of the proxy, without brackets. A user name and a password in it are replaced by
    /// `(redacted)`.
    public var host: String { name.withoutCredentials }
    /// The host as it was given.
    let name: String
    /// The port of the proxy.
    public let port: UInt16
    /// The servers to which links connect directly, in the form of the environment variable `NO_PROXY`. Default: none.
    ///
    /// Each entry is one of these, optionally followed by `:` and a port:
    ///
    /// - a domain: `example.com`, `.example.com` and `*.example.com` mean that name and all names below it;
    /// - an IP address, or a range of them: `10.0.0.7`, `10.0.0.0/8`, `[2001:db8::1]`, `[2001:db8::]/32`. It is
    ///   compared with an endpoint that is an IP address itself. Names are not looked up;
    /// - `*`: every server.
    ///
    /// Any other entry matches nothing.
    public var exceptions: [String] = []

    let credentials: ProxyCredentials?

    private init(_ kind: Kind, _ host: String, _ port: UInt16, _ credentials: ProxyCredentials?) {
        let isBracketed = host.hasPrefix("[") && host.hasSuffix("]")
        self.kind = kind
        name = isBracketed ? String(host.dropFirst().dropLast()) : host
        (self.port, self.credentials) = (port, credentials)
    }

    /// Returns a SOCKS 5 proxy.
    ///
    /// - Parameters:
    ///   - host: The name or IP address of the proxy.
    ///   - port: Its port. Default 1080.
    ///   - username: The user name: 1 to 255 bytes. Default `nil`: the client does not authenticate.
    ///   - password: The password: at most 255 bytes. The proxy receives it in plaintext.
    public static func socks5(
        _ host: String,
        port: UInt16 = 1080,
        username: String? = nil,
        password: String = ""
    ) -> Proxy {
        Proxy(.socks5, host, port, username.map { ProxyCredentials(username: $0, password: password) })
    }

    /// Returns an HTTP proxy that allows the method CONNECT to the ports of the servers. Many proxies allow only 443.
    ///
    /// - Parameters:
    ///   - host: The name or IP address of the proxy.
    ///   - port: Its port.
    ///   - username: The user name, without a colon. Default `nil`: the client does not authenticate.
    ///   - password: The password. The proxy receives it in plaintext.
    public static func http(
        _ host: String,
        port: UInt16,
        username: String? = nil,
        password: String = ""
    ) -> Proxy {
        Proxy(.http, host, port, username.map { ProxyCredentials(username: $0, password: password) })
    }

    /// Creates a proxy from a URL: `socks5://host:port`, `http://host:port`, or `host:port`, which means HTTP.
    ///
    /// A user name and a password may precede the host: `socks5://user:password@host`. Special characters in them are
    /// percent-encoded. Without a port it is 1080 for SOCKS and 80 for HTTP. `socks5h` and `socks` mean `socks5`.
    ///
    /// - Throws: ``ProxyError``, which does not contain a user name or a password.
    public init(parsing url: String) throws(ProxyError) {
        var (kind, rest) = (Kind.http, url[...])
        if let mark = url.firstRange(of: "://") {
            switch url[..<mark.lowerBound].lowercased() {
            case "socks5", "socks5h", "socks": kind = .socks5
            case "http": kind = .http
            case "https": throw ProxyError("a connection to the proxy with TLS is not supported")
            default: throw ProxyError("the scheme is not \"socks5\" or \"http\"")
            }
            rest = url[mark.upperBound...]
        }
        if let slash = rest.lastIndex(of: "/") {
            guard rest.index(after: slash) == rest.endIndex else {
                throw ProxyError("a path after the host is not allowed")
            }
            rest = rest[..<slash]
        }
        var credentials: ProxyCredentials?
        if let at = rest.lastIndex(of: "@") {
            let parts = rest[..<at].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            let decoded = parts.compactMap { Self.decoded($0) }
            guard decoded.count == parts.count else { throw ProxyError("the user name or password is not valid") }
            credentials = ProxyCredentials(username: decoded[0], password: decoded.count > 1 ? decoded[1] : "")
            rest = rest[rest.index(after: at)...]
        }
        var port: UInt16 = kind == .socks5 ? 1080 : 80
        let isBracketed = rest.hasPrefix("[") && rest.hasSuffix("]")
        if !isBracketed, let colon = rest.lastIndex(of: ":") {
            guard let number = UInt16(strict: rest[rest.index(after: colon)...]), number > 0 else {
                throw ProxyError("the port is not a number from 1 to 65535")
            }
            port = number
            rest = rest[..<colon]
        }
        guard !rest.isEmpty, rest != "[]" else { throw ProxyError("the host is missing") }
        if rest.contains(where: { ":[]".contains($0) }) {
            // Anything else may be a password.
            guard rest.hasPrefix("["), rest.hasSuffix("]"), literalBytes(String(rest.dropFirst().dropLast())) != nil
            else {
                throw ProxyError("the host contains a colon or brackets and is not an IPv6 address in brackets")
            }
        }
        guard rest.unicodeScalars.allSatisfy({ $0.isPrinted && $0 != " " && $0 != "/" }) else {
            throw ProxyError("the host contains a character that is not allowed")
        }
        self.init(kind, String(rest), port, credentials)
    }

    /// Returns the proxy that the environment of this process names; `nil` if it names none.
    ///
    /// The URL is that of the first of these variables that is set and not empty: `all_proxy`, `ALL_PROXY`,
    /// `https_proxy`, `HTTPS_PROXY`. `http_proxy` is not read: such a proxy forwards requests of HTTP and need not know
    /// CONNECT. ``exceptions`` are those of `no_proxy` or `NO_PROXY`, separated by commas or spaces, and this host:
    /// `localhost`, `127.0.0.0/8` and `::1`.
    ///
    /// The environment is read when you call this method, and not again.
    ///
    /// - Throws: ``ProxyError`` if the variable is not a URL of a proxy.
    public static func fromEnvironment() throws(ProxyError) -> Proxy? {
        try from { environmentVariable($0) }
    }

    static func from(_ value: (String) -> String?) throws(ProxyError) -> Proxy? {
        func first(_ names: [String]) -> (name: String, value: String)? {
            for name in names {
                if let text = value(name), !text.isEmpty { return (name, text) }
            }
            return nil
        }
        guard let url = first(["all_proxy", "ALL_PROXY", "https_proxy", "HTTPS_PROXY"]) else { return nil }
        var proxy: Proxy
        do throws(ProxyError) {
            proxy = try Proxy(parsing: url.value)
        } catch {
            throw ProxyError("\(url.name): \(error.reason)")
        }
        let exceptions = first(["no_proxy", "NO_PROXY"])?.value.split { $0 == "," || $0 == " " || $0 == "\t" } ?? []
        proxy.exceptions = exceptions.map(String.init) + ["localhost", "127.0.0.0/8", "::1"]
        return proxy
    }

    private static func decoded(_ text: Substring) -> String? {
        var bytes: [UInt8] = []
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let digits = String(rest.prefix(2)), digits.utf8.count == 2,
                let value = UInt8(strict: digits, radix: 16, allowingZeros: true)
            else { return nil }
            bytes.append(value)
            rest = rest.dropFirst(2)
        }
        return String(validating: bytes, as: UTF8.self)
    }
}

extension Proxy: CustomStringConvertible {
    /// The proxy as a URL, without its user name and password.
    public var description: String {
        let shown = host.escaped()
        return "\(kind.rawValue)://\(shown.contains(":") ? "[\(shown)]" : shown):\(port)"
    }
}

extension TransportError {
    /// Whether the proxy or the server has closed the tunnel cannot be known, unless TLS shows that the server did.
    func closing(tunnelThrough proxy: Proxy, isSecured: Bool, _ during: String = "") -> TransportError {
        let text: String
        if isOfTunnel { return self }
        switch code {
        case .closedByPeer where !isSecured && reason == nil, .tls(.truncated):
            text = "the tunnel\(during) was closed by the proxy \(proxy), or by the server behind it"
        case .reset: text = "the tunnel\(during) was reset by the proxy \(proxy), or by the server behind it"
        default: return self
        }
        var error = self
        error.isOfTunnel = true
        error.message = (code == .closedByPeer ? text : "\(text); \(message)").asMessage
        return error
    }
}

extension Proxy: CustomReflectable {
    /// Empty, so that `dump` shows only the description.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// The error for text that does not name a proxy. It does not contain the text, which may contain a password.
public struct ProxyError: Error, Hashable, Sendable, CustomStringConvertible {
    let reason: String

    init(_ reason: String) { self.reason = reason }

    /// What is wrong with the text, and the valid formats.
    public var description: String {
        "invalid proxy: \(reason) (use \"socks5://host:port\" or \"http://host:port\", with \"user:password@\" before the host)"
    }
}
