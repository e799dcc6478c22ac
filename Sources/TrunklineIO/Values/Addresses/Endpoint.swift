/// A server to connect to: a host and port, the path of a Unix domain socket, a child process, and others.
///
/// An endpoint can be written as a string literal: `"gateway.example:7000"`, `"10.0.0.7:7000"`, `"[::1]:7000"`,
/// `"unix:/run/acme.sock"` or `"vsock://2:7000"`. With TLS, it begins with `tls://`: `"tls://gateway.example:7443"`,
/// and with UDP, it begins with `udp://`: `"udp://gateway.example:7000"`. Commands and descriptors have no such text.
/// <doc:Transports> says which one to use.
public struct Endpoint: Hashable, Sendable, CustomStringConvertible {
    package enum Target: Hashable, Sendable {
        case host(String, port: UInt16)
        case unix(path: String)
        case vsock(cid: UInt32, port: UInt32)
        indirect case command(ChildCommand)
        case descriptors(DescriptorPair)
    }

    package let target: Target

    /// The name or IP address of the server, without brackets; `nil` for other endpoints than a host and port. A user
    /// name and password are replaced by `(redacted)`.
    public var host: String? { if case .host(let host, _) = target { host.withoutCredentials } else { nil } }
    /// The port; `nil` for other endpoints than a host and port.
    public var port: UInt16? { if case .host(_, let port) = target { port } else { nil } }
    /// The path of the Unix domain socket; `nil` for other endpoints.
    public var path: String? { if case .unix(let path) = target { path } else { nil } }

    /// Whether links to this endpoint are secured with TLS. This is part of the endpoint's identity: the same address
    /// with and without TLS is two endpoints.
    public private(set) var isSecured = false

    /// Whether links to this endpoint exchange datagrams (UDP) instead of a stream of bytes. This is part of the
    /// endpoint's identity, too. <doc:Transports#Datagrams> describes what differs.
    public private(set) var usesDatagrams = false

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

    /// Creates an endpoint for the server that listens at a port of a virtual machine or of its host (`vsock(7)`).
    /// Linux only: elsewhere every attempt fails with ``TransportError/Code-swift.enum/invalidAddress``.
    ///
    /// - Parameters:
    ///   - cid: The context: 2 is the host, 1 this machine itself, and a hypervisor gives larger numbers to its
    ///     machines.
    ///   - port: The port, which has 32 bits.
    public static func vsock(cid: UInt32, port: UInt32) -> Endpoint { Endpoint(target: .vsock(cid: cid, port: port)) }

    /// Creates an endpoint for a program that is started as a child process, and spoken to over its standard input and
    /// output.
    ///
    /// Each attempt to connect starts the program, and each link has a process of its own. If the process ends, the
    /// link is lost with ``TransportError/Code-swift.enum/exited(_:)``, and the reconnect policy starts the program
    /// again. What it writes to standard error goes to the log
    /// (``ClientEvent/Content-swift.enum/processOutput(_:session:line:omitted:)``).
    ///
    /// The process leads a process group. It has no other descriptors of this process, and the default action for every
    /// signal. When the client closes the link, it closes the standard input and sends `SIGTERM` to the group after 1
    /// s, and `SIGKILL` after another second. If the client gives the link up, it sends `SIGTERM` at once. When the
    /// process itself has ended, the rest of its group receives `SIGKILL`. <doc:Transports#Child-processes> has the
    /// rules and an example.
    ///
    /// A program that does not exist is an error of each attempt, ``TransportError/Code-swift.enum/invalidAddress``
    /// with the error number of the system, and is tried again: it may be installed later. An empty executable, a name
    /// of a variable with `=`, and text with a zero byte are permanent errors, and so is ``secured()``.
    ///
    /// - Parameters:
    ///   - executable: A path, or a name without a slash, which is looked up in the `PATH` of this process.
    ///   - arguments: The arguments after the name of the program. They appear in descriptions and in the log, so do
    ///     not pass secrets in them.
    ///   - environment: Variables to set. They appear nowhere.
    ///   - inheritsEnvironment: Whether the program also has the variables of this process. Default `true`.
    ///   - workingDirectory: The directory in which the program starts, and to which a relative `executable` refers.
    ///     The default is the directory of this process.
    public static func command(
        _ executable: String,
        _ arguments: [String] = [],
        environment: [String: String] = [:],
        inheritsEnvironment: Bool = true,
        workingDirectory: String? = nil
    ) -> Endpoint {
        Endpoint(
            target: .command(
                ChildCommand(
                    executable,
                    arguments,
                    environment: environment,
                    inheritsEnvironment: inheritsEnvironment,
                    workingDirectory: workingDirectory
                )
            )
        )
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
        if text.hasPrefix("vsock://") {
            let numbers = text.dropFirst(8).split(separator: ":", omittingEmptySubsequences: false).map {
                UInt32(strict: $0)
            }
            guard numbers.count == 2, let cid = numbers[0], let port = numbers[1] else {
                throw refuse("a vsock endpoint is \"vsock://cid:port\", with two numbers of 32 bits")
            }
            guard !usesDatagrams else { throw refuse("\"vsock://\" cannot follow \"udp://\"") }
            self = .vsock(cid: cid, port: port)
            self.isSecured = isSecured
            return
        }
        if text.hasPrefix("command("), text.hasSuffix(")") {
            throw refuse("a command cannot be read from text; create it with Endpoint.command")
        }
        if text.hasPrefix("descriptors("), text.hasSuffix(")") {
            throw refuse("descriptors cannot be read from text; create them with Endpoint.descriptors")
        }
        if text.contains("://") {
            throw refuse(
                "an endpoint may begin with \"tls://\", \"udp://\", \"vsock://\" or \"tls://vsock://\" only"
            )
        }
        guard let colon = text.lastIndex(of: ":") else { throw refuse("the port is missing") }
        guard let port = UInt16(strict: text[text.index(after: colon)...]), port > 0 else {
            throw refuse("the port is not a number from 1 to 65535")
        }
        var host = text[..<colon]
        guard !host.contains("@") else { throw refuse("a user name or password is not allowed") }
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = host.dropFirst().dropLast()
        } else if host.contains(":") {
            // Otherwise the last group of the address would be read as the port.
            let isAddress = host.contains("::") || host.count { $0 == ":" } >= 6
            guard isAddress else { throw refuse("the host before the port contains a colon") }
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

    /// The endpoint as text, in the format that ``init(parsing:)`` reads, except for commands and descriptors.
    ///
    /// The text is safe to log: control and format characters are escaped, a user name and password in the host are
    /// replaced by `(redacted)`, and a host, path or command of more than 256 characters is cut. The environment of a
    /// command is not shown.
    public var description: String {
        let scheme = (isSecured ? "tls://" : "") + (usesDatagrams ? "udp://" : "")
        return switch target {
        case .host(let host, let port): scheme + Self.bracketed(host.withoutCredentials.escaped()) + ":\(port)"
        case .unix(let path): scheme + "unix:\(path.escaped())"
        case .vsock(let cid, let port): scheme + "vsock://\(cid):\(port)"
        case .command(let command): scheme + "\(command)"
        case .descriptors(let pair): scheme + "\(pair)"
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
    /// Unescaped. It may contain a password or control characters, so it must not be logged.
    let text: String
    let reason: String

    /// The text, the reason, and the valid formats. The text is escaped, and anything before an `@` is replaced by
    /// `(redacted)`.
    public var description: String {
        "invalid endpoint \"\(text.withoutCredentials.escaped())\": \(reason) (use \"host:port\", \"[ipv6]:port\", \"unix:path\" or \"vsock://cid:port\"; with TLS, \"tls://host:port\"; with UDP, \"udp://host:port\")"
    }
}

extension Endpoint: CustomReflectable {
    /// Empty, so that `dump` shows only the description.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension EndpointError: CustomReflectable {
    /// Empty, so that `dump` shows only the description.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
