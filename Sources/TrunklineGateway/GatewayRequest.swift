import Foundation
import Trunkline
import TrunklineFoundation
import TrunklineHTTP

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// A request as a gateway reads it: from the first piece of its message, strictly.
struct GatewayRequest {
    let request: HTTP1Request
    let url: URL
    let origin: HTTPOrigin
    /// How many bytes of content the client takes at first.
    let window: Int
    /// How long its body says that it is.
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
            throw GatewayRefusal(.malformed, "the target is no http URL in absolute form (RFC 9112 §3.2.2)")
        }
        (self.url, self.origin) = (url, origin)
        // Two fields that name the recipient must name the same one, as the bytes have it.
        let authority = target.drop { $0 != ":" }.dropFirst(3).prefix { $0 != "/" && $0 != "?" }
        guard request.headers["Host"]?.lowercased() == authority.lowercased() else {
            throw GatewayRefusal(.malformed, "Host and target name two recipients (RFC 9112 §3.2)")
        }
        guard let text = request.headers[TunnelWire.windowField], text.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
            let window = Int(text), window >= TunnelWire.windows.lowerBound
        else { throw GatewayRefusal(.malformed, "a request without \(TunnelWire.windowField)") }
        self.window = min(window, TunnelWire.windows.upperBound)
        // Methods have their letters as they are (RFC 9110 §9.1), but a URLRequest makes a CONNECT of connect.
        guard !["CONNECT", "TRACE"].contains(request.method.name.uppercased()),
            forwarded.httpMethod == request.method.name
        else { throw GatewayRefusal(.malformed, "\(request.method) is not for gateways") }
    }

    /// Whether `piece` begins as a request of a tunnel does: a method, a blank, and a target in absolute form.
    static func isBeginning(_ piece: Bytes) -> Bool {
        let words = piece.prefix(64).split(separator: 0x20, maxSplits: 1, omittingEmptySubsequences: false)
        guard words.count == 2, !words[0].isEmpty, words[0].allSatisfy({ (0x21...0x7E).contains($0) }) else {
            return false
        }
        let target = String(decoding: words[1].prefix(8), as: UTF8.self).lowercased()
        return target.hasPrefix("http://") || target == "https://"
    }

    /// The request for the origin.
    var forwarded: URLRequest {
        var forwarded = URLRequest(url: url, cachePolicy: .reloadIgnoringLocalCacheData)
        forwarded.httpMethod = request.method.name
        forwarded.httpShouldHandleCookies = false
        let fields = request.headers.endToEnd.filtering {
            // A URLSession decodes what it asks for itself.
            !["host", "content-length", "accept-encoding", "expect"].contains($0)
                && !$0.hasPrefix(TunnelWire.reservedPrefix)
        }
        for (name, _) in fields { forwarded.setValue(fields[name], forHTTPHeaderField: name) }
        return forwarded
    }

    // MARK: Whether it may be asked

    /// Refuses an origin that is not on the list.
    func check(against origins: [HTTPOrigin.Identity: HTTPOrigin]) throws(GatewayRefusal) {
        guard origins[origin.identity] != nil else {
            throw GatewayRefusal(.forbidden, "\(origin) is not an origin that this gateway asks")
        }
    }

    /// Refuses an origin on the list whose name leads to where it must not. Looks it up for as long as `limit`.
    func checkAddresses(
        against origins: [HTTPOrigin.Identity: HTTPOrigin],
        _ resolver: Resolver,
        within limit: Duration
    ) async throws {
        // An address on the list was meant; a name may lead anywhere.
        if origins[origin.identity]?.allowsPrivateAddresses == true || origin.isAddress { return }
        let lookup = OriginLookup(origin.host, resolver)
        let addresses: [SocketAddress]
        do { addresses = try await withTimeout(limit) { try await lookup.addresses() } } catch let error as ClientError
        {
            throw GatewayRefusal(.unreachable, "looking up \(origin.host): \(error.message)", .cannotFindHost)
        }
        guard !addresses.isEmpty else {
            throw GatewayRefusal(.unreachable, "\(origin.host) is not known", .cannotFindHost)
        }
        guard addresses.allSatisfy(\.isPublic) else {
            throw GatewayRefusal(
                .forbidden,
                "\(origin.host) is on this machine or this network; allow it by allowingPrivateAddresses"
            )
        }
    }
}
