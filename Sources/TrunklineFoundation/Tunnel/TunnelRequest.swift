import Foundation
import TrunklineCore
import TrunklineHTTP

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// The parts of a `URLRequest` that the tunnel uses, with defaults applied. A redirect creates the next request.
struct TunnelRequest: Sendable {
    var url: URL
    var method: String
    var headers: HTTP1Headers
    var body: TunnelBody
    var timeout: Duration
    var handlesCookies: Bool

    /// RFC 9110 §9.2.2.
    var isIdempotent: Bool { ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"].contains(method) }

    var isStream: Bool { if case .stream = body { true } else { false } }

    init(_ request: URLRequest, _ body: TunnelBody, adding fields: [String: String]) throws(URLError) {
        guard let url = request.url else { throw URLError(.badURL) }
        method = request.httpMethod ?? "GET"
        // The value may be anything, even NaN. Clocks trap on very large values, so it is clamped to a hundred years.
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
        // From here on only the field contains the credentials: errors and the response's URL do not.
        self.url = url.withoutCredentials
        if case .none = body {
        } else {
            guard method != "GET" else {
                throw URLError(.dataLengthExceedsMaximum, reason: "a GET request must not have a body")
            }
            // The same default as URLSession's.
            if method == "POST", body.count != 0, headers["Content-Type"] == nil {
                headers["Content-Type"] = "application/x-www-form-urlencoded"
            }
        }
        try checkURL()
    }

    private func checkURL() throws(URLError) {
        guard ["http", "https"].contains(url.scheme?.lowercased()) else { throw URLError(.unsupportedURL) }
        guard let host = url.host(percentEncoded: false), !host.isEmpty else {
            throw URLError(.badURL, reason: "the URL has no host")
        }
        // A resolver may read a name with a zero byte as another name.
        guard host.unicodeScalars.allSatisfy({ $0.isPrinted && $0 != " " }) else {
            throw URLError(.badURL, reason: "the URL's host contains a space or a nonprintable character")
        }
    }

    /// Returns scheme, host and port (RFC 6454). Credentials and cookies of one origin must not be sent to another.
    static func origin(of url: URL) -> String {
        let scheme = url.scheme?.lowercased() ?? ""
        return "\(scheme)://\(url.host()?.lowercased() ?? ""):\(url.port ?? (scheme == "https" ? 443 : 80))"
    }

    /// Returns the head for the gateway, with the target in absolute form.
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
                throw FrameError(
                    .illegalLength,
                    "the head of \(head.count) bytes exceeds the limit of \(HTTP1Opening.maximumHead) bytes"
                )
            }
            return head
        } catch {
            throw URLError(.badURL, reason: "\(error)", underlying: error)
        }
    }

    func direct() throws(URLError) -> URLRequest {
        // Rejects messages with a changed meaning, such as line breaks in fields: URLSession accepts some of them.
        _ = try head(window: 0)
        var request = URLRequest(url: url, cachePolicy: .reloadIgnoringLocalCacheData)
        request.httpMethod = method
        request.httpShouldHandleCookies = false
        for (name, value) in headers {
            request.setValue(headers[name] ?? value, forHTTPHeaderField: name)
        }
        return request
    }

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
