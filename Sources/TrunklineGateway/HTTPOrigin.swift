import Foundation
import TrunklineCore

/// The scheme, host and port of an HTTP server (RFC 6454), for a gateway's list of allowed origins.
///
/// Write an origin as a string literal, such as `"https://api.example.com"` or `"http://127.0.0.1:8080"`. To read one
/// from a configuration, use ``init(parsing:allowingPrivateAddresses:)``. Wildcards are not supported.
///
/// If the host of an origin is an IP address, that address may be private, for example a loopback address. If the host
/// is a name, it must not resolve to a private address unless ``allowsPrivateAddresses`` is set.
public struct HTTPOrigin: Sendable, Hashable, CustomStringConvertible {
    let scheme: String
    let host: String
    let port: Int
    /// Whether the host's name may resolve to an address that is not public, such as `10.0.0.1` or a loopback address.
    /// Default `false`.
    public var allowsPrivateAddresses = false

    init?(of url: URL) {
        guard let scheme = url.scheme?.lowercased(), ["http", "https"].contains(scheme),
            let host = url.host(percentEncoded: false)?.lowercased(), !host.isEmpty, !host.contains("*"),
            host.unicodeScalars.allSatisfy(\.isPrinted)  // excludes zero bytes, which a resolver may read as the end
        else { return nil }
        self.scheme = scheme
        self.host = host.hasPrefix("[") && host.hasSuffix("]") ? String(host.dropFirst().dropLast()) : host
        port = url.port ?? (scheme == "https" ? 443 : 80)
    }

    /// Creates an origin from a string.
    ///
    /// Returns `nil` if `text` is not an `http` or `https` URL with a host, or if it has a path other than `/`, a
    /// query, a user or a wildcard.
    ///
    /// - Parameters:
    ///   - text: The origin, such as `https://api.example.com`.
    ///   - allowingPrivateAddresses: The value of ``allowsPrivateAddresses``. Default `false`.
    public init?(parsing text: String, allowingPrivateAddresses: Bool = false) {
        guard let url = URL(string: text), ["", "/"].contains(url.path), url.query == nil, url.user == nil else {
            return nil
        }
        self.init(of: url)
        allowsPrivateAddresses = allowingPrivateAddresses
    }

    var isAddress: Bool {
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)
        return host.contains(":") || parts.count == 4 && parts.allSatisfy { UInt8(strict: $0) != nil }
    }

    struct Identity: Hashable {
        let scheme: String
        let host: String
        let port: Int
    }

    var identity: Identity { Identity(scheme: scheme, host: host, port: port) }

    /// The origin as a URL, always with its port.
    public var description: String { "\(scheme)://\(host.contains(":") ? "[\(host)]" : host.escaped()):\(port)" }
}

extension HTTPOrigin: ExpressibleByStringLiteral {
    /// Creates an origin from a string literal. Traps if the literal is not a valid origin.
    public init(stringLiteral text: String) {
        guard let origin = HTTPOrigin(parsing: text) else {
            preconditionFailure("“\(text)” is not a valid origin, such as http://127.0.0.1:8080")
        }
        self = origin
    }
}
