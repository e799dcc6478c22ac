/// A server to connect to: a host and port, or the path of a Unix domain socket.
///
/// An endpoint can be written as a string literal: `"gateway.example:7000"`, `"10.0.0.7:7000"`, `"[::1]:7000"` or
/// `"unix:/run/acme.sock"`. With TLS, it begins with `tls://`: `"tls://gateway.example:7443"`,
/// and with UDP, it begins with `udp://`: `"udp://gateway.example:7000"`.
public struct Endpoint: Hashable, Sendable, CustomStringConvertible {
    /// The address that an endpoint names.
    package enum Target: Hashable, Sendable {
        case host(String, port: UInt16)
        case unix(path: String)
    }

    package let target: Target

    /// The name or IP address of the server, without brackets; `nil` for a Unix domain socket. A user name and password
    /// are replaced by `(redacted)`.
    public var host: String? { if case .host(let host, _) = target { host.withoutCredentials } else { nil } }
    /// The port; `nil` for a Unix domain socket.
    public var port: UInt16? { if case .host(_, let port) = target { port } else { nil } }
    /// The path of the Unix domain socket; `nil` for a host and port.
    public var path: String? { if case .unix(let path) = target { path } else { nil } }

    /// Whether links to this endpoint are secured with TLS. This is part of the endpoint's identity: the same address
    /// with and without TLS is two endpoints.
    public private(set) var isSecured = false

    /// Whether links to this endpoint exchange datagrams (UDP) instead of a stream of bytes. This is part of the endpoint's
    /// identity, too. <doc:Transports#Datagrams> describes what differs.
    public private(set) var usesDatagrams = false

    /// The weight that `weighing(_:)` has set. Default 1.
    package var weight: Double { uncomparedWeight.value }

    private var uncomparedWeight = Uncompared(1.0)

    /// Returns the same endpoint with TLS. Example: `Endpoint.unix(path: "/run/acme.sock").secured()`.
    public func secured() -> Endpoint {
        var endpoint = self
        endpoint.isSecured = true
        return endpoint
    }

    /// Returns the same endpoint with another weight, for ``EndpointOrder/weighted``: an endpoint with twice the weight
    /// of another comes first twice as often.
    ///
    /// The default weight is 1. Endpoints with a weight of zero, less, or NaN come last. The weight is not part of the
    /// endpoint's text or identity: two endpoints that differ only in their weight are equal.
    public func weighing(_ weight: Double) -> Endpoint {
        var endpoint = self
        endpoint.uncomparedWeight.value = weight
        return endpoint
    }

    /// Creates an endpoint for the server at `host`: a name, an IPv4 address, or an IPv6 address with or without
    /// brackets. A name is resolved again for every attempt.
    ///
    /// An IPv6 address may have a zone: the name or index of an interface, as in `fe80::1%eth0`. Text that the system
    /// reads as an IPv4 address, such as `127.1`, is that address, also for the certificate of a server with TLS.
    ///
    /// If `host` contains a zero byte, every attempt fails with ``TransportError/Code-swift.enum/invalidAddress``.
    public static func host(_ host: String, port: UInt16) -> Endpoint {
        let isBracketed = host.hasPrefix("[") && host.hasSuffix("]")
        return Endpoint(target: .host(isBracketed ? String(host.dropFirst().dropLast()) : host, port: port))
    }

    /// Creates an endpoint for the server that receives datagrams (UDP) at `host`, with one frame in each.
    ///
    /// The host is written as in ``host(_:port:)``. TLS cannot be used: if the endpoint is ``secured()``, every attempt
    /// fails with ``TransportError/Code-swift.enum/invalidAddress``.
    public static func udp(_ host: String, port: UInt16) -> Endpoint {
        var endpoint = Endpoint.host(host, port: port)
        endpoint.usesDatagrams = true
        return endpoint
    }

    /// Creates an endpoint for the server that listens on the Unix domain socket at `path`.
    ///
    /// The path may have at most 107 bytes on Linux and 103 on Darwin, none of them zero. Otherwise every attempt fails
    /// with ``TransportError/Code-swift.enum/invalidAddress``.
    public static func unix(path: String) -> Endpoint {
        Endpoint(target: .unix(path: path))
    }

    package init(target: Target) { self.target = target }

    /// Parses an endpoint from text, for example from a configuration file. See ``Endpoint`` for the format.
    ///
    /// - Throws: ``EndpointError`` if `text` is not a valid endpoint.
    public init(parsing text: String) throws(EndpointError) {
        let isSecured = text.hasPrefix("tls://")
        let written = text
        func refuse(_ reason: String) -> EndpointError { EndpointError(text: written, reason: reason) }
        let usesDatagrams = text.hasPrefix("udp://")
        let text = isSecured || usesDatagrams ? String(text.dropFirst(6)) : text
        if text.hasPrefix("unix:") {
            let path = String(text.dropFirst(5))
            guard !path.isEmpty else { throw refuse("the path after \"unix:\" is missing") }
            guard !path.utf8.contains(0) else { throw refuse("the path contains a NUL byte") }
            guard !usesDatagrams else { throw refuse("a path cannot follow \"udp://\"") }
            self = isSecured ? .unix(path: path).secured() : .unix(path: path)
            return
        }
        guard let colon = text.lastIndex(of: ":") else { throw refuse("the port is missing") }
        guard let port = UInt16(text[text.index(after: colon)...]), port > 0 else {
            throw refuse("the port is not a number from 1 to 65535")
        }
        var host = text[..<colon]
        guard !host.contains("@") else { throw refuse("a user name or password is not allowed") }
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = host.dropFirst().dropLast()
        } else if host.contains(":") {
            // Otherwise the last group of the address would be read as the port.
            throw refuse("an IPv6 address needs brackets: \"[::1]:7000\"")
        }
        guard !host.isEmpty else { throw refuse("the host before the port is missing") }
        guard host.utf8.allSatisfy({ $0 > 0x20 && $0 != 0x7f }) else {
            throw refuse("the host contains a space or a control character")
        }
        guard host.unicodeScalars.allSatisfy(\.isPrinted) else {
            throw refuse("the host contains a character that is not printable")
        }
        self = .host(String(host), port: port)
        self.isSecured = isSecured
        self.usesDatagrams = usesDatagrams
    }

    /// The endpoint as text, in the format that ``init(parsing:)`` reads.
    ///
    /// The text is safe to log: control and format characters are escaped, a user name and password in the host are
    /// replaced by `(redacted)`, and a host or path of more than 256 characters is cut.
    public var description: String {
        let scheme = (isSecured ? "tls://" : "") + (usesDatagrams ? "udp://" : "")
        return switch target {
        case .host(let host, let port): scheme + Self.bracketed(host.withoutCredentials.escaped()) + ":\(port)"
        case .unix(let path): scheme + "unix:\(path.escaped())"
        }
    }

    private static func bracketed(_ host: String) -> String { host.contains(":") ? "[\(host)]" : host }
}

extension Endpoint: ExpressibleByStringLiteral {
    /// Creates an endpoint from a string literal. An invalid literal is a programming error and stops the program. For
    /// text from other sources use ``init(parsing:)``, which throws.
    public init(stringLiteral text: String) {
        do {
            self = try Endpoint(parsing: text)
        } catch {
            fatalError("\(error)")  // not a precondition, whose message is not printed in release builds
        }
    }
}

/// The error that ``Endpoint/init(parsing:)`` throws for text that is not a valid endpoint.
public struct EndpointError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The rejected text, unescaped. It may contain a password or control characters, so it must not be logged.
    package let text: String
    /// A human-readable description of what is wrong with the text.
    package let reason: String

    /// The text, the reason, and the valid formats. The text is escaped, and anything before an `@` is replaced by
    /// `(redacted)`.
    public var description: String {
        "invalid endpoint \"\(text.withoutCredentials.escaped())\": \(reason) (use \"host:port\", \"[ipv6]:port\" or \"unix:path\"; with TLS, \"tls://host:port\"; with UDP, \"udp://host:port\")"
    }
}

// A host may have a user name and password before it, which the descriptions replace.

extension Endpoint: CustomReflectable {
    /// Empty, so that `dump` shows only the description.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension EndpointError: CustomReflectable {
    /// Empty, so that `dump` shows only the description.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
