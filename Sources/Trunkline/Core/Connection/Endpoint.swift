/// A server to connect to: a host and port, or the path of a Unix domain socket.
///
/// Written as a string: `"gateway.example:7000"`, `"10.0.0.7:7000"`, `"[::1]:7000"`, `"unix:/run/acme.sock"`; with TLS
/// `"tls://gateway.example:7443"`.
public struct Endpoint: Hashable, Sendable, CustomStringConvertible {
    /// What an endpoint names.
    package enum Target: Hashable, Sendable {
        case host(String, port: UInt16)
        case unix(path: String)
    }

    package let target: Target

    /// Whether its links begin with a TLS handshake. Part of its identity: with and without are two endpoints.
    public private(set) var isSecured = false

    /// See `weighing(_:)`.
    package var weight: Double { uncomparedWeight.value }

    private var uncomparedWeight = Uncompared(1.0)

    /// The same endpoint with TLS: `Endpoint.unix(path: "/run/acme.sock").secured()`.
    public func secured() -> Endpoint {
        var endpoint = self
        endpoint.isSecured = true
        return endpoint
    }

    /// The same endpoint with this weight, its share where endpoints are tried in a weighted order: of two, the one with
    /// twice the weight comes first twice as often. Default 1; zero or less comes last. Neither written in the endpoint's
    /// text nor part of its identity: the same server with another weight is an equal endpoint.
    public func weighing(_ weight: Double) -> Endpoint {
        var endpoint = self
        endpoint.uncomparedWeight.value = weight
        return endpoint
    }

    /// The server at `host` (a name, an IPv4 or an IPv6 address), resolved at every connect. With a zero byte in `host` every
    /// attempt fails with `invalidAddress`.
    public static func host(_ host: String, port: UInt16) -> Endpoint {
        let isBracketed = host.hasPrefix("[") && host.hasSuffix("]")
        return Endpoint(target: .host(isBracketed ? String(host.dropFirst().dropLast()) : host, port: port))
    }

    /// The server that listens on the Unix domain socket at `path` (at most 107 bytes on Linux, 103 on Darwin, none of them
    /// zero: else every attempt fails with `invalidAddress`).
    public static func unix(path: String) -> Endpoint {
        Endpoint(target: .unix(path: path))
    }

    package init(target: Target) { self.target = target }

    /// Reads an endpoint as it is written, from a configuration for example.
    public init(parsing text: String) throws(EndpointError) {
        let isSecured = text.hasPrefix("tls://")
        let written = text
        func refuse(_ reason: String) -> EndpointError { EndpointError(text: written, reason: reason) }
        let text = isSecured ? String(text.dropFirst(6)) : text
        if text.hasPrefix("unix:") {
            let path = String(text.dropFirst(5))
            guard !path.isEmpty else { throw refuse("there is no path after \"unix:\"") }
            guard !path.utf8.contains(0) else { throw refuse("the path contains a NUL byte") }
            self = isSecured ? .unix(path: path).secured() : .unix(path: path)
            return
        }
        guard let colon = text.lastIndex(of: ":") else { throw refuse("there is no port") }
        guard let port = UInt16(text[text.index(after: colon)...]), port > 0 else {
            throw refuse("the port is no number from 1 to 65535")
        }
        var host = text[..<colon]
        guard !host.contains("@") else { throw refuse("an endpoint has neither user nor password") }
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = host.dropFirst().dropLast()
        } else if host.contains(":") {
            // Its last group would be taken for the port.
            throw refuse("an IPv6 address needs brackets: \"[::1]:7000\"")
        }
        guard !host.isEmpty else { throw refuse("there is no host before the port") }
        guard host.utf8.allSatisfy({ $0 > 0x20 && $0 != 0x7f }) else {
            throw refuse("the host contains a blank or a control character")
        }
        guard host.unicodeScalars.allSatisfy(\.isPrinted) else {
            throw refuse("the host contains a format character or an unassigned one")
        }
        self = .host(String(host), port: port)
        self.isSecured = isSecured
    }

    /// The endpoint as it is written, with control and format characters escaped: `init(parsing:)` reads those that it
    /// accepts.
    public var description: String {
        let scheme = isSecured ? "tls://" : ""
        return switch target {
        case .host(let host, let port): scheme + Self.bracketed(host.withoutCredentials.escaped()) + ":\(port)"
        case .unix(let path): scheme + "unix:\(path.escaped())"
        }
    }

    private static func bracketed(_ host: String) -> String { host.contains(":") ? "[\(host)]" : host }
}

extension Endpoint: ExpressibleByStringLiteral {
    /// The endpoint that a literal names. A literal that names none is a programming error and stops the program;
    /// for text from elsewhere use `init(parsing:)`, which throws.
    public init(stringLiteral text: String) {
        do {
            self = try Endpoint(parsing: text)
        } catch {
            fatalError("\(error)")  // the message of a precondition is not printed in release builds
        }
    }
}

/// Why a text is no endpoint.
public struct EndpointError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The rejected text, unescaped. It may contain a password or control characters: do not log it.
    package let text: String
    /// What is wrong with it, for people.
    package let reason: String

    /// The text, the reason and what an endpoint looks like. The text is escaped, and without what stands before an `@`.
    public var description: String {
        "\"\(text.withoutCredentials.escaped())\" is no endpoint: \(reason) (write \"host:port\", \"[ipv6]:port\" or \"unix:path\", with TLS \"tls://host:port\")"
    }
}
