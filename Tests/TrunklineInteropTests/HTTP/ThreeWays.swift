import Foundation
import Testing
import Trunkline
import TrunklineFoundation
import TrunklineGateway
import TrunklineTesting

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// The content of nginx's files, produced while it is sent.
struct Pieces: AsyncSequence, Sendable {
    let count: Int

    struct AsyncIterator: AsyncIteratorProtocol {
        let count: Int
        var offset = 0

        mutating func next() async -> Data? {
            defer { offset += 10_000 }
            return offset < count ? NginxServer.content(at: offset, count: Swift.min(10_000, count - offset)) : nil
        }
    }

    func makeAsyncIterator() -> AsyncIterator { AsyncIterator(count: count) }
}

/// For busy machines.
let patientOptions = ClientOptions { $0.requests.timeout = .seconds(200) }

/// The ways from an app to an origin: a tunnel, a `URLSession` that uses the tunnel, and a plain `URLSession`.
struct ThreeWays {
    enum Way: Sendable, CaseIterable {
        case tunnel, urlProtocol, plain
    }

    /// A response without the documented differences.
    struct Answer: Hashable {
        var status: Int
        var url: String
        var fields: [String: String]
        var mimeType: String?
        var body: Data

        /// The field `name`, ignoring case.
        func field(_ name: String) -> String? { fields.first { $0.key.lowercased() == name.lowercased() }?.value }
    }

    let root: String
    let tunnel: HTTPTunnel
    private let tunnelled: URLSession
    private let plain: URLSession

    /// Opens the ways to the origin at `port` of this machine.
    nonisolated(nonsending) static func with(
        port: UInt16,
        _ body: nonisolated(nonsending) (ThreeWays) async throws -> Void
    ) async throws {
        let root = "http://127.0.0.1:\(port)"
        let gateway = HTTPGateway(allowing: [HTTPOrigin(parsing: root)].compactMap { $0 })
        try await withLoopbackServer(speaking: .standard, handler: gateway.handler) { server in
            try await withClient(to: server.endpoint, speaking: .standard, options: patientOptions) { client in
                try await client.connect()
                let tunnel = HTTPTunnel(client, options: HTTPTunnel.Options { $0.policy = .linkOnly })
                let registration = TunnelURLProtocol.register(tunnel) {
                    $0.url?.absoluteString.hasPrefix(root) ?? false
                }
                defer { registration.unregister() }
                let ways = ThreeWays(root, tunnel)
                defer { for session in [ways.tunnelled, ways.plain] { session.finishTasksAndInvalidate() } }
                try await body(ways)
            }
        }
    }

    private init(_ root: String, _ tunnel: HTTPTunnel) {
        (self.root, self.tunnel) = (root, tunnel)
        let configuration = URLSessionConfiguration.ephemeral
        configuration.urlCache = nil
        configuration.httpCookieStorage = nil
        plain = URLSession(configuration: configuration)
        configuration.protocolClasses = [TunnelURLProtocol.self]
        tunnelled = URLSession(configuration: configuration)
    }

    func request(
        _ path: String,
        _ method: String = "GET",
        _ fields: [String: String] = [:],
        body: String? = nil
    ) throws -> URLRequest {
        var request = URLRequest(
            url: try #require(URL(string: root + path)),
            cachePolicy: .reloadIgnoringLocalCacheData
        )
        request.httpMethod = method
        request.timeoutInterval = 200
        request.httpBody = body.map { Data($0.utf8) }
        for (name, value) in fields { request.setValue(value, forHTTPHeaderField: name) }
        return request
    }

    /// The response to a request whose body is read from a stream. Each way needs its own stream.
    func fetch(_ request: URLRequest, streaming body: Data, by way: Way) async throws -> (Data, HTTPURLResponse) {
        var request = request
        request.httpBodyStream = InputStream(data: body)
        return try await fetch(request, by: way)
    }

    func fetch(_ request: URLRequest, by way: Way) async throws -> (Data, HTTPURLResponse) {
        let (data, response) =
            switch way {
            case .tunnel: try await tunnel.data(for: request)
            case .urlProtocol: try await tunnelled.data(for: request)
            case .plain: try await plain.data(for: request)
            }
        return (data, try #require(response as? HTTPURLResponse))
    }

    // MARK: Comparison

    /// Sends the request by several ways, expects the same response, and returns it.
    @discardableResult
    func expectSame(_ request: URLRequest, by ways: [Way] = Way.allCases) async throws -> Answer {
        let expected = Self.answer(try await fetch(request, by: ways[0]))
        for way in ways.dropFirst() {
            let answer = Self.answer(try await fetch(request, by: way))
            #expect(answer == expected, "\(request.httpMethod ?? "") \(request.url?.path ?? "") by \(way)")
        }
        return expected
    }

    /// Sends the request by all three ways at once, and expects the same error.
    func expectSameError(_ request: URLRequest, _ code: URLError.Code) async {
        await withTaskGroup(of: (Way, URLError?).self) { group in
            for way in Way.allCases {
                group.addTask {
                    do {
                        _ = try await fetch(request, by: way)
                        return (way, nil)
                    } catch {
                        return (way, error as? URLError)
                    }
                }
            }
            for await (way, error) in group {
                #expect(error?.code == code, "\(request.httpMethod ?? "") \(request.url?.path ?? "") by \(way)")
            }
        }
    }

    /// Removes the documented differences of a response that arrives over a link:
    /// - Fields that concern a single connection are not forwarded (RFC 9110 §7.6.1): here `Connection`, `Keep-Alive`
    ///   and `Transfer-Encoding`.
    /// - Encoded content arrives decoded, without `Content-Encoding` and without the `Content-Length` of the encoded
    ///   content. A plain session decodes it and keeps the fields. A response to HEAD keeps them.
    /// - Fields whose names differ only in case are one field, and blanks around a value are removed (RFC 9110 §5). The
    ///   plain session on Linux keeps both.
    /// - `Date` has the time of each response, which is not a difference between the ways.
    ///
    /// The plain session on Linux has other differences, which are not removed here. After a redirect it sends the
    /// request without its body, even if the method stays the same (307 and 308; 301 and 302 except for POST). After a
    /// 303 it uses GET instead of HEAD.
    private static func answer(_ received: (data: Data, head: HTTPURLResponse)) -> Answer {
        let (data, head) = received
        var fields: [String: String] = [:]
        for (name, value) in head.allHeaderFields.map({ ("\($0)", "\($1)") }).sorted(by: { $0.0 < $1.0 }) {
            let name = fields.keys.first { $0.lowercased() == name.lowercased() } ?? name
            let value = value.trimmingCharacters(in: .whitespaces)
            fields[name] = fields[name].map { "\($0), \(value)" } ?? value
        }
        for name in ["Connection", "Keep-Alive", "Transfer-Encoding"] { fields[name] = nil }
        if fields["Content-Encoding"] != nil, !data.isEmpty {
            (fields["Content-Encoding"], fields["Content-Length"]) = (nil, nil)
        }
        if fields["Date"] != nil { fields["Date"] = "now" }
        return Answer(
            status: head.statusCode,
            url: head.url?.absoluteString ?? "",
            fields: fields,
            mimeType: head.mimeType,
            body: data
        )
    }
}
