import Foundation
import TrunklineCore
import TrunklineFoundation
import TrunklineHTTP

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// A request as a gateway reads it, strictly, from the first part of its message.
struct GatewayRequest {
    let request: HTTP1Request
    let url: URL
    let origin: HTTPOrigin
    let window: Int
    let contentLength: Int?

    init(_ piece: Bytes) throws(GatewayRefusal) {
        let opening: HTTP1Opening
        do throws(FrameError) { (request, opening) = try HTTP1Opening.request(piece) } catch {
            throw GatewayRefusal(.malformed, "\(error)")
        }
        contentLength = opening.contentLength
        let target = request.target
        guard let url = URL(string: target), let origin = HTTPOrigin(of: url), url.user == nil, url.fragment == nil
        else {
            throw GatewayRefusal(
                .malformed,
                "the target is not an http or https URL in absolute form (RFC 9112 §3.2.2)"
            )
        }
        (self.url, self.origin) = (url, origin)
        let authority = target.drop { $0 != ":" }.dropFirst(3).prefix { $0 != "/" && $0 != "?" }
        guard request.headers["Host"]?.lowercased() == authority.lowercased() else {
            throw GatewayRefusal(.malformed, "Host differs from the target's host (RFC 9112 §3.2)")
        }
        guard let text = request.headers[TunnelWire.windowField],
            let window = Int(strict: text, allowingZeros: true), window >= TunnelWire.windows.lowerBound
        else { throw GatewayRefusal(.malformed, "\(TunnelWire.windowField) must be a number of at least 65536") }
        self.window = min(window, TunnelWire.windows.upperBound)
        // Method names are case-sensitive (RFC 9110 §9.1), but URLRequest changes `connect` to `CONNECT`.
        guard !["CONNECT", "TRACE"].contains(request.method.name.uppercased()),
            forwarded.httpMethod == request.method.name
        else { throw GatewayRefusal(.malformed, "the gateway does not forward \(request.method) requests") }
    }

    static func isBeginning(_ piece: Bytes) -> Bool {
        let words = piece.prefix(64).split(separator: 0x20, maxSplits: 1, omittingEmptySubsequences: false)
        guard words.count == 2, !words[0].isEmpty, words[0].allSatisfy({ (0x21...0x7E).contains($0) }) else {
            return false
        }
        let target = String(decoding: words[1].prefix(8), as: UTF8.self).lowercased()
        return target.hasPrefix("http://") || target == "https://"
    }

    var forwarded: URLRequest {
        var forwarded = URLRequest(url: url, cachePolicy: .reloadIgnoringLocalCacheData)
        forwarded.httpMethod = request.method.name
        forwarded.httpShouldHandleCookies = false
        let fields = request.headers.endToEnd.filtering {
            // URLSession sets its own Accept-Encoding and decodes the response.
            !["host", "content-length", "accept-encoding", "expect"].contains($0)
                && !$0.hasPrefix(TunnelWire.reservedPrefix)
        }
        for (name, _) in fields { forwarded.setValue(fields[name], forHTTPHeaderField: name) }
        return forwarded
    }

    func check(against origins: [HTTPOrigin.Identity: HTTPOrigin]) throws(GatewayRefusal) {
        guard origins[origin.identity] != nil else {
            throw GatewayRefusal(.forbidden, "\(origin) is not on the gateway's list of origins")
        }
    }

    /// Unless the list allows it, the name may not resolve to an address that is not public.
    func checkAddresses(
        against origins: [HTTPOrigin.Identity: HTTPOrigin],
        _ resolver: Resolver,
        within limit: Duration
    ) async throws {
        // An address on the list is allowed as it is.
        if origins[origin.identity]?.allowsPrivateAddresses == true || origin.isAddress { return }
        let lookup = OriginLookup(origin.host, resolver)
        let addresses: [SocketAddress]
        do { addresses = try await withTimeout(limit) { try await lookup.addresses() } } catch let error as ClientError
        {
            throw GatewayRefusal(.unreachable, "the lookup of \(origin.host) failed: \(error.message)", .cannotFindHost)
        }
        guard !addresses.isEmpty else {
            throw GatewayRefusal(.unreachable, "unknown host \(origin.host)", .cannotFindHost)
        }
        guard addresses.allSatisfy(\.isPublic) else {
            throw GatewayRefusal(
                .forbidden,
                "\(origin.host) has an address that is not public; allow it with allowingPrivateAddresses"
            )
        }
    }
}
