package import Foundation
import Trunkline

/// Scheme, host and port of a server of HTTP (RFC 6454), as a gateway's allow-list has them.
///
/// Written as a string: `"https://api.example.com"`, `"http://127.0.0.1:8080"`; `HTTPOrigin(parsing:)` reads one that comes
/// from elsewhere. There are no wildcards. One with an address in place of a name is allowed to be on this machine or this
/// network; one with a name is not, wherever its name leads, unless it says so.
public struct HTTPOrigin: Sendable, Hashable, CustomStringConvertible {
    /// `http` or `https`.
    package let scheme: String
    /// A name or an address, in small letters.
    package let host: String
    /// 80 and 443 unless it is written.
    package let port: Int
    /// Whether the name may lead to an address of this machine or this network.
    public var allowsPrivateAddresses = false

    /// The origin of a URL; `nil` when it has none that a gateway could ask.
    package init?(of url: URL) {
        guard let scheme = url.scheme?.lowercased(), ["http", "https"].contains(scheme),
            let host = url.host(percentEncoded: false)?.lowercased(), !host.isEmpty, !host.contains("*"),
            host.unicodeScalars.allSatisfy(\.isPrinted)  // no zero byte either, behind which another name may stand
        else { return nil }
        self.scheme = scheme
        self.host = host.hasPrefix("[") && host.hasSuffix("]") ? String(host.dropFirst().dropLast()) : host
        port = url.port ?? (scheme == "https" ? 443 : 80)
    }

    /// Reads an origin; `nil` for what is none, has no scheme, or has a path, a query, a user or a wildcard.
    public init?(parsing text: String, allowingPrivateAddresses: Bool = false) {
        guard let url = URL(string: text), ["", "/"].contains(url.path), url.query == nil, url.user == nil else {
            return nil
        }
        self.init(of: url)
        allowsPrivateAddresses = allowingPrivateAddresses
    }

    /// Whether the host is an address as it is usually written, and no name.
    var isAddress: Bool {
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)
        return host.contains(":") || parts.count == 4 && parts.allSatisfy { UInt8($0).map { "\($0)" } == String($0) }
    }

    /// What an origin is looked up by.
    struct Identity: Hashable {
        let scheme: String
        let host: String
        let port: Int
    }

    var identity: Identity { Identity(scheme: scheme, host: host, port: port) }

    /// As it is written, always with its port.
    public var description: String { "\(scheme)://\(host.contains(":") ? "[\(host)]" : host.escaped()):\(port)" }
}

extension HTTPOrigin: ExpressibleByStringLiteral {
    /// The origin of a literal, which must be one.
    public init(stringLiteral text: String) {
        guard let origin = HTTPOrigin(parsing: text) else {
            preconditionFailure("“\(text)” is no origin such as http://127.0.0.1:8080")
        }
        self = origin
    }
}
