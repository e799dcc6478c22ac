/// A server to connect to: a host and port, or the path of a Unix domain socket.
///
/// Written as a string: `"gateway.example:7000"`, `"10.0.0.7:7000"`, `"[::1]:7000"`, `"unix:/run/acme.sock"`.
public struct Endpoint: Hashable, Sendable, CustomStringConvertible {
    /// What an endpoint names.
    package enum Target: Hashable, Sendable {
        case host(String, port: UInt16)
        case unix(path: String)
    }

    package let target: Target

    /// The server at `host` (a name, an IPv4 or an IPv6 address without brackets), resolved at every connect.
    public static func host(_ host: String, port: UInt16) -> Endpoint {
        Endpoint(target: .host(host, port: port))
    }

    /// The server that listens on the Unix domain socket at `path` (at most 107 bytes on Linux, 103 on Darwin).
    public static func unix(path: String) -> Endpoint {
        Endpoint(target: .unix(path: path))
    }

    package init(target: Target) { self.target = target }

    /// Reads an endpoint as it is written; `nil` when `text` is none.
    public init?(_ text: String) {
        if text.hasPrefix("unix:") {
            let path = String(text.dropFirst(5))
            guard !path.isEmpty, !path.utf8.contains(0) else { return nil }
            self = .unix(path: path)
            return
        }
        guard let colon = text.lastIndex(of: ":"),
            let port = UInt16(text[text.index(after: colon)...]), port > 0
        else { return nil }
        var host = text[..<colon]
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = host.dropFirst().dropLast()
        } else if host.contains(":") {
            return nil  // an IPv6 address needs brackets, or its last group would be taken for the port
        }
        guard !host.isEmpty, !host.utf8.contains(0) else { return nil }
        self = .host(String(host), port: port)
    }

    /// The endpoint as it is written.
    public var description: String {
        switch target {
        case .host(let host, let port): host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
        case .unix(let path): "unix:\(path)"
        }
    }
}

extension Endpoint: ExpressibleByStringLiteral {
    /// The endpoint that a literal names. A literal that names none is a programming error and stops the program;
    /// for text from a configuration use `Endpoint(_:)`, which returns `nil`.
    public init(stringLiteral text: String) {
        guard let endpoint = Endpoint(text) else {
            preconditionFailure("\"\(text)\" is no endpoint; write \"host:port\", \"[ipv6]:port\" or \"unix:path\"")
        }
        self = endpoint
    }
}
