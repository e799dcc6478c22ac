import TrunklineCore
import TrunklineHTTP

#if canImport(FoundationNetworking)
    import Foundation
    public import FoundationNetworking
#else
    public import Foundation
#endif

/// Sendable: the superclass is, and this class adds only constants.
final class TunnelResponse: HTTPURLResponse, @unchecked Sendable {
    let way: HTTPTunnel.Route
    /// `nil` unless the response is the gateway's own.
    let verdict: GatewayVerdict?

    init?(_ url: URL, _ status: Int, _ fields: [String: String], _ route: HTTPTunnel.Route, _ verdict: GatewayVerdict?)
    {
        (way, self.verdict) = (route, verdict)
        super.init(url: url, statusCode: status, httpVersion: "HTTP/1.1", headerFields: fields)
    }

    convenience init?(_ response: HTTP1Response, from url: URL) {
        let fields = Self.merged(response.headers.map { ($0.name, $0.value) })
        let verdict = response.headers[TunnelWire.gatewayField].flatMap { GatewayVerdict($0) }
        self.init(url, response.status, fields, .link, verdict)
    }

    convenience init?(_ response: HTTPURLResponse, from url: URL) {
        let fields = response.allHeaderFields.compactMap { key, value in
            (key as? String).flatMap { name in (value as? String).map { (name, $0) } }
        }
        // Sorted, because a dictionary has no order.
        self.init(url, response.statusCode, Self.merged(fields.sorted { $0.0 < $1.0 }), .direct, nil)
    }

    /// RFC 9110 §5.3 (names that differ only in case) and §5.5 (white space). The URLSession of Linux does neither.
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

    /// The route is not archived.
    required init?(coder: NSCoder) { nil }
}

extension URLResponse {
    /// The route by which the response arrived; `nil` if it was not returned by a tunnel.
    public var route: HTTPTunnel.Route? { (self as? TunnelResponse)?.way }
}
