import Trunkline
import TrunklineHTTP

#if canImport(FoundationNetworking)
    import Foundation
    public import FoundationNetworking
#else
    public import Foundation
#endif

/// The head of a response that came through a tunnel, or past it.
///
/// Sendable as its superclass is: it adds constants.
final class TunnelResponse: HTTPURLResponse, @unchecked Sendable {
    /// Which way it came.
    let way: HTTPTunnel.Route
    /// What the gateway says of an answer of its own.
    let verdict: GatewayVerdict?

    init?(_ url: URL, _ status: Int, _ fields: [String: String], _ route: HTTPTunnel.Route, _ verdict: GatewayVerdict?)
    {
        (way, self.verdict) = (route, verdict)
        super.init(url: url, statusCode: status, httpVersion: "HTTP/1.1", headerFields: fields)
    }

    /// A response that came over the link.
    convenience init?(_ response: HTTP1Response, from url: URL) {
        let fields = Self.merged(response.headers.map { ($0.name, $0.value) })
        let verdict = response.headers[TunnelWire.gatewayField].flatMap { GatewayVerdict($0) }
        self.init(url, response.status, fields, .link, verdict)
    }

    /// A response of a URLSession.
    convenience init?(_ response: HTTPURLResponse, from url: URL) {
        let fields = response.allHeaderFields.compactMap { key, value in
            (key as? String).flatMap { name in (value as? String).map { (name, $0) } }
        }
        // A dictionary has no order of its own.
        self.init(url, response.statusCode, Self.merged(fields.sorted { $0.0 < $1.0 }), .direct, nil)
    }

    /// One field for each name, whatever the size of its letters (RFC 9110 §5.3), without the blanks around values (§5.5): the
    /// URLSession of Linux does neither.
    private static func merged(_ fields: [(String, String)]) -> [String: String] {
        var merged: [String: String] = [:]
        var names: [String: String] = [:]
        for (name, value) in fields {
            let value = value.trimmingCharacters(in: CharacterSet(charactersIn: " \t"))
            let known = names[name.lowercased(), default: name]
            names[name.lowercased()] = known
            merged[known] = merged[known].map { "\($0), \(value)" } ?? value
        }
        return merged
    }

    /// Not supported: a route is not archived.
    required init?(coder: NSCoder) { nil }
}

extension URLResponse {
    /// Which way it came; `nil` for a response that no tunnel returned.
    public var route: HTTPTunnel.Route? { (self as? TunnelResponse)?.way }
}
