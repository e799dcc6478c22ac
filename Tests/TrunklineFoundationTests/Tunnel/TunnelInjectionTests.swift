import Foundation
import Testing
import Trunkline
import TrunklineFoundation
import TrunklineHTTP
import TrunklineTesting

@testable import TrunklineLoopback

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Ambiguous requests and responses: the client does not send the ones, and does not accept the others.
@Suite(.tags(.realThreads), .serialized, .timeLimit(.minutes(5)))
struct TunnelInjectionTests {}

extension TunnelInjectionTests {
    private static let injections = [
        "a\r\nY: b", "a\nY: b", "a\rY: b", "a\u{0}b", "a\r\n\r\nGET /evil HTTP/1.1\r\n", "\u{7F}", "\u{1}",
    ]

    @Test(arguments: [HTTPTunnel.Policy.linkOnly, .directOnly])
    func sessionFieldsCannotInjectOtherFields(policy: HTTPTunnel.Policy) async throws {
        for text in Self.injections {
            // Not through the URLRequest, which may remove invalid values.
            let options = HTTPTunnel.Options { $0.httpAdditionalHeaders = ["X": text] }
            try await Tunnelled.with({ _ in .reply("tea") }, policy: policy, options: options) { setup in
                let error = await urlError { _ = try await setup.tunnel.data(for: setup.request("/")) }
                #expect(error?.code == .badURL, "\(text.debugDescription)")
                try await expectHarmless(setup)
            }
        }
    }

    @Test(arguments: [HTTPTunnel.Policy.linkOnly, .directOnly], ["X", "Cookie"])
    func requestFieldsCannotInjectOtherFields(policy: HTTPTunnel.Policy, name: String) async throws {
        try await Tunnelled.with({ _ in .reply("tea") }, policy: policy) { setup in
            for text in Self.injections {
                let request = setup.request("/", "GET", [name: text])
                // A URLRequest removes values with a line break or a NUL, at least on Linux. Then there is nothing to
                // refuse.
                let isKept = request.value(forHTTPHeaderField: name) != nil
                let error = await urlError { _ = try await setup.tunnel.data(for: request) }
                #expect(error?.code == (isKept ? .badURL : nil), "\(text.debugDescription)")
            }
            try await expectHarmless(setup)
        }
    }

    @Test(arguments: [HTTPTunnel.Policy.linkOnly, .directOnly])
    func namesAndMethodsMustBeTokens(policy: HTTPTunnel.Policy) async throws {
        for text in ["X Y", "X:Y", "X\r\nY", "X\t", " X", "X\u{0}", "", "X\u{E9}"] {
            let options = HTTPTunnel.Options { $0.httpAdditionalHeaders = [text: "a"] }
            try await Tunnelled.with({ _ in .reply("tea") }, policy: policy, options: options) { setup in
                let error = await urlError { _ = try await setup.tunnel.data(for: setup.request("/")) }
                #expect(error?.code == .badURL, "\(text.debugDescription)")
                try await expectHarmless(setup)
            }
        }
        try await Tunnelled.with({ _ in .reply("tea") }, policy: policy) { setup in
            for text in ["GET ", "G\rET", "GET\r\nY: b", "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET", "G\u{0}", "GÉT"] {
                let error = await urlError { _ = try await setup.tunnel.data(for: setup.request("/", text)) }
                #expect(error?.code == .badURL, "\(text.debugDescription)")
            }
            try await expectHarmless(setup)
        }
    }

    @Test(arguments: [HTTPTunnel.Policy.linkOnly, .directOnly])
    func percentEncodedCharactersStayEncoded(policy: HTTPTunnel.Policy) async throws {
        try await Tunnelled.with({ .reply(Bytes($0.target)) }, policy: policy) { setup in
            let path = "/a%0D%0AY:%20b%00?q=%0d%0aHost:%20x&r=%20"
            let (data, _) = try await setup.tunnel.data(for: setup.request(path))
            #expect(String(decoding: data, as: UTF8.self) == path)
            try await expectHarmless(setup, target: path)
        }
    }

    /// Expects that the origin has received plain requests only.
    private func expectHarmless(_ setup: Tunnelled, target: String = "/") async throws {
        let received = try await setup.origin.server.journal.requests.map { try HTTP1Request($0) }
        for request in received {
            #expect(request.target == target && request.method == .get && request.body.isEmpty)
            #expect(request.headers["Y"] == nil && request.headers.values(of: "Host").count == 1)
            #expect(request.headers["Content-Length"] == nil && request.headers["Transfer-Encoding"] == nil)
        }
    }

    // MARK: Responses

    @Test func locationsCannotInjectFields() async throws {
        let locations: [(String, URLError.Code?)] = [
            ("/%0d%0aY: b", nil), ("//evil%0d%0aHost: x/", nil), ("file:///etc/passwd", .unsupportedURL),
            ("ftp://a/", .unsupportedURL), ("http:///", .badURL),
        ]
        for (location, code) in locations {
            try await Tunnelled.with({ request in
                request.target == "/" ? .response(302, ["Location": location]) : .reply("tea")
            }) { setup in
                let error = await urlError { _ = try await setup.tunnel.data(for: setup.request("/")) }
                #expect(error?.code == code, "\(location)")
                let received = try await setup.origin.server.journal.requests.map { try HTTP1Request($0) }
                #expect(received.allSatisfy { $0.headers["Y"] == nil && !$0.target.contains(" ") })
            }
        }
    }

    private static let doubtful = [
        "", "tea", "HTTP/1.1 200 OK", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nX: a\r\n", "HTTP/1.1 200 OK\n\ntea",
        "HTTP/1.0 200 OK\r\n\r\ntea", "HTTP/2 200 OK\r\n\r\ntea", "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 2000 OK\r\n\r\n", "HTTP/1.1 +20 OK\r\n\r\n", "http/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\ntea", "HTTP/1.1 200 OK\r\n X: a\r\n\r\ntea",
        "HTTP/1.1 200 OK\r\nX : a\r\n\r\ntea", "HTTP/1.1 200 OK\r\n: a\r\n\r\ntea", "HTTP/1.1 200 OK\r\nX\r\n\r\ntea",
        "HTTP/1.1 200 OK\r\nX: a\rY: b\r\n\r\ntea", "HTTP/1.1 200 OK\r\nX: a\nY: b\r\n\r\ntea",
        "HTTP/1.1 200 OK\r\nX: a\u{0}\r\n\r\ntea", "HTTP/1.1 200 O\rK\r\n\r\ntea",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\ntea",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\ntea",
        "HTTP/1.1 200 OK\r\nContent-Length: 3, 3\r\n\r\ntea", "HTTP/1.1 200 OK\r\nContent-Length: +3\r\n\r\ntea",
        "HTTP/1.1 200 OK\r\nContent-Length: 0x3\r\n\r\ntea", "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\ntea",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\ntea",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\ntea",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ntea\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\ntea",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\ntea",
        "HTTP/1.1 204 No Content\r\n\r\ntea", "HTTP/1.1 304 Not Modified\r\n\r\ntea",
        "HTTP/1.1 200 OK\r\nX: \(String(repeating: "a", count: 70_000))\r\n\r\ntea",
        "HTTP/1.1 200 OK\r\n\(String(repeating: "X: a\r\n", count: 300))\r\ntea",
    ]

    @Test func aMalformedResponseIsRefusedAndDoesNotAffectOthers() async throws {
        try await Tunnelled.with(
            { $0.target == "/" ? .reply("tea") : .reply("not requested") },
            atGateway: { frame in
                let line = String(frame.body).split(separator: " ", maxSplits: 2)
                guard line.count > 1, let path = URL(string: String(line[1]))?.path, path.hasPrefix("/evil/") else {
                    return nil
                }
                let message = Int(path.dropFirst(6)).map { Self.doubtful[$0] } ?? ""
                return .reply(Frame(.response, type: 0x403, body: Bytes(message)))
            }
        ) { setup in
            for (index, message) in Self.doubtful.enumerated() {
                async let other = setup.tunnel.data(for: setup.request("/"))
                let error = await urlError { _ = try await setup.tunnel.data(for: setup.request("/evil/\(index)")) }
                #expect(error?.code == .badServerResponse, "\(message.prefix(60).debugDescription)")
                let (before, _) = try await other
                let (after, _) = try await setup.tunnel.data(for: setup.request("/"))
                #expect(before == Data("tea".utf8) && after == before)
            }
            #expect(await setup.server.totalConnections == 1)
            #expect(await setup.origin.server.journal.requestCount == 2 * Self.doubtful.count)
        }
    }
}
