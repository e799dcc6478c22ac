import Foundation
import Trunkline
import TrunklineHTTP

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// A request on its way to one origin: what is left of a `URLRequest` when everything is said.
struct TunnelRequest: Sendable {
    var url: URL
    var method: String
    var headers: HTTP1Headers
    var body: TunnelBody
    var timeout: Duration
    var handlesCookies: Bool

    /// Whether to do it twice is to do it once (RFC 9110 §9.2.2).
    var isIdempotent: Bool { ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"].contains(method) }

    var isStream: Bool { if case .stream = body { true } else { false } }

    init(_ request: URLRequest, _ body: TunnelBody, adding fields: [String: String]) throws(URLError) {
        guard let url = request.url else { throw URLError(.badURL) }
        method = request.httpMethod ?? "GET"
        // Anything may be in it, also no number; a century is as good as for ever, and clocks bear it.
        let interval = request.timeoutInterval
        timeout = interval.isNaN ? .seconds(60) : .seconds(min(max(0, interval), 100 * 365 * 86400))
        handlesCookies = request.httpShouldHandleCookies
        self.url = url
        self.body = body
        headers = HTTP1Headers()
        let own = request.allHTTPHeaderFields ?? [:]
        for (name, value) in fields { headers[name] = value }
        for (name, value) in own { headers[name] = value }
        headers = headers.endToEnd.filtering {
            $0 != "host" && $0 != "content-length" && !$0.hasPrefix(TunnelWire.reservedPrefix)
        }
        if let user = url.user(percentEncoded: false), headers["Authorization"] == nil {
            let pair = Data("\(user):\(url.password(percentEncoded: false) ?? "")".utf8)
            headers["Authorization"] = "Basic \(pair.base64EncodedString())"
        }
        // From here on it is in the field alone: not in errors, nor in the URL of the response.
        self.url = url.withoutCredentials
        if case .none = body {
        } else {
            guard method != "GET" else {
                throw URLError(.dataLengthExceedsMaximum, reason: "a GET cannot have a body")
            }
            // As URLSession has it.
            if method == "POST", body.count != 0, headers["Content-Type"] == nil {
                headers["Content-Type"] = "application/x-www-form-urlencoded"
            }
        }
        try checkURL()
    }

    private func checkURL() throws(URLError) {
        guard ["http", "https"].contains(url.scheme?.lowercased()) else { throw URLError(.unsupportedURL) }
        guard let host = url.host(percentEncoded: false), !host.isEmpty else {
            throw URLError(.badURL, reason: "a URL without a host")
        }
        // A zero byte in it: who resolves it may see another name.
        guard host.unicodeScalars.allSatisfy({ $0.isPrinted && $0 != " " }) else {
            throw URLError(.badURL, reason: "a host with a control or format character in it")
        }
    }

    /// Scheme, host and port: what fields of one origin must not be told to another (RFC 6454).
    static func origin(of url: URL) -> String {
        let scheme = url.scheme?.lowercased() ?? ""
        return "\(scheme)://\(url.host()?.lowercased() ?? ""):\(url.port ?? (scheme == "https" ? 443 : 80))"
    }

    // MARK: Forms

    /// The head for the gateway, with the target in absolute form.
    func head(window: Int) throws(URLError) -> Bytes {
        let port = url.port.map { ":\($0)" } ?? ""
        let host = url.host(percentEncoded: true) ?? ""
        let authority = (host.contains(":") && !host.hasPrefix("[") ? "[\(host)]" : host) + port
        let path = url.path(percentEncoded: true)
        let query = url.query(percentEncoded: true).map { "?\($0)" } ?? ""
        let target = "\(url.scheme?.lowercased() ?? "")://\(authority)\(path.isEmpty ? "/" : path)\(query)"
        var message = HTTP1Request(HTTP1Request.Method(method), target, headers: headers)
        message.headers["Host"] = authority
        message.headers[TunnelWire.windowField] = "\(window)"
        if let count = body.count, count > 0 || ["POST", "PUT", "PATCH"].contains(method) {
            message.headers["Content-Length"] = "\(count)"
        }
        do throws(FrameError) {
            let head = try message.frame().body
            guard head.count <= HTTP1Opening.maximumHead else {
                throw FrameError(.illegalLength, "a head of \(head.count) bytes")
            }
            return head
        } catch {
            throw URLError(.badURL, reason: "\(error)", underlying: error)
        }
    }

    /// The request for a URLSession.
    func direct() throws(URLError) -> URLRequest {
        // Refuses what would not be read as what it is: URLSession lets some of that pass.
        _ = try head(window: 0)
        var request = URLRequest(url: url, cachePolicy: .reloadIgnoringLocalCacheData)
        request.httpMethod = method
        request.httpShouldHandleCookies = false
        for (name, value) in headers {
            request.setValue(headers[name] ?? value, forHTTPHeaderField: name)
        }
        return request
    }

    // MARK: Redirects

    /// Where a response leads; `nil` when nowhere.
    func redirected(by response: HTTPURLResponse) throws(URLError) -> TunnelRequest? {
        guard [301, 302, 303, 307, 308].contains(response.statusCode),
            let location = response.value(forHTTPHeaderField: "Location"),
            let target = URL(string: location, relativeTo: url)?.absoluteURL
        else { return nil }
        var next = self
        next.url = target.withoutCredentials
        try next.checkURL()
        if response.statusCode == 303 && method != "HEAD"
            || [301, 302].contains(response.statusCode) && method == "POST"
        {
            next.method = "GET"
            next.body = .none
            next.headers = headers.filtering { !$0.hasPrefix("content-") }
        }
        guard next.body.isRepeatable else { throw URLError(.requestBodyStreamExhausted) }
        let staysHome = Self.origin(of: url) == Self.origin(of: target)
        next.headers = next.headers.filtering { staysHome || $0 != "authorization" && $0 != "cookie" }
        return next
    }
}
