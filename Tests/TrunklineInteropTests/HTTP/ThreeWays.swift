import Foundation
import Testing
import Trunkline
import TrunklineFoundation
import TrunklineGateway
import TrunklineTesting

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// The content of every file of nginx, made as it is sent.
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

/// For machines that have much else to do.
let patientOptions = ClientOptions { $0.requests.timeout = .seconds(200) }

/// The ways from one piece of an app to one origin: a tunnel, a `URLSession` that uses it, and a plain `URLSession`.
struct ThreeWays {
    enum Way: Sendable, CaseIterable {
        case tunnel, urlProtocol, plain
    }

    /// What came, without what is documented to differ.
    struct Answer: Hashable {
        var status: Int
        var url: String
        var fields: [String: String]
        var mimeType: String?
        var body: Data

        /// The field called `name`, whatever the size of its letters.
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

    /// The answer to a request whose body is read from a stream: it is another one for each way.
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

    // MARK: The same

    /// Asks several ways and returns what each of them said.
    @discardableResult
    func expectSame(_ request: URLRequest, by ways: [Way] = Way.allCases) async throws -> Answer {
        let expected = Self.answer(try await fetch(request, by: ways[0]))
        for way in ways.dropFirst() {
            let answer = Self.answer(try await fetch(request, by: way))
            #expect(answer == expected, "\(request.httpMethod ?? "") \(request.url?.path ?? "") by \(way)")
        }
        return expected
    }

    /// Asks all three ways at once, and expects that they fail alike.
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

    /// The documented differences of what comes over a link:
    /// - Fields that concern one connection alone are not passed on (RFC 9110 §7.6.1): `Connection`, `Keep-Alive` and
    ///   `Transfer-Encoding` here.
    /// - What had a coding comes decoded, without `Content-Encoding` and without the `Content-Length` of what is not there any
    ///   more; a plain session decodes it and leaves the fields as they are. A response to HEAD keeps them.
    /// - Fields whose names differ in the size of letters are one, and blanks around a value are none of it (RFC 9110 §5). The
    ///   plain session of Linux keeps both.
    /// - `Date` has the time of each answer, which is no difference of the ways.
    ///
    /// And those that are not taken out here, of the plain session of Linux: after a redirect it sends a request without its
    /// body, also where the method stays (307 and 308, and 301 and 302 but for POST), and asks with GET instead of HEAD after
    /// a 303.
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
