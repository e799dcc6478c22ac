import Foundation
import Testing
import Trunkline
import TrunklineFoundation
import TrunklineTesting

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// A plain `URLSession`, by way of a tunnel and without: the same answers.
@Suite(.serialized, .timeLimit(.minutes(5)))
struct TunnelURLProtocolTests {
    private func fetch(_ request: URLRequest, in session: URLSession) async throws -> (Data, HTTPURLResponse) {
        let (data, response) = try await session.data(for: request)
        return (data, try #require(response as? HTTPURLResponse))
    }

    @Test func answersAreThoseOfAPlainSession() async throws {
        let content = Bytes(pattern(500_000))
        try await Tunnelled.with({ request in
            switch request.target {
            case "/large": .response(200, ["Content-Type": "image/png", "ETag": "\"a\""], content)
            case "/moved": .response(302, ["Location": "/large"])
            case "/none": .response(404, ["X-A": "1, 2"], "none")
            case "/fresh": .response(304, ["ETag": "\"a\""])
            default: .reply(Bytes("\(request.method) \(String(request.body)) \(request.headers["X-A"] ?? "")"))
            }
        }) { setup in
            let root = setup.origin.root
            let registration = TunnelURLProtocol.register(setup.tunnel) {
                $0.url?.absoluteString.hasPrefix(root) ?? false
            }
            defer { registration.unregister() }
            let configuration = URLSessionConfiguration.ephemeral
            let direct = URLSession(configuration: configuration)
            configuration.protocolClasses = [TunnelURLProtocol.self]
            let tunnelled = URLSession(configuration: configuration)
            for (path, method) in [
                ("/large", "GET"), ("/large", "HEAD"), ("/moved", "GET"), ("/none", "GET"), ("/fresh", "GET"),
                ("/", "DELETE"),
                ("/", "POST"), ("/", "PUT"),
            ] {
                var request = setup.request(path, method, ["X-A": "tea"])
                if method == "POST" || method == "PUT" { request.httpBody = Data("milk".utf8) }
                let (data, response) = try await fetch(request, in: direct)
                let (sameData, same) = try await fetch(request, in: tunnelled)
                #expect(data == sameData && response.statusCode == same.statusCode && response.url == same.url)
                #expect(
                    response.mimeType == same.mimeType && response.expectedContentLength == same.expectedContentLength
                )
                let fields = response.allHeaderFields as? [String: String]
                #expect(fields == same.allHeaderFields as? [String: String], "\(method) \(path)")
            }
            #expect(setup.tunnel.statistics.link == 9)
        }
    }

    @Test func cancellingATaskReachesTheOrigin() async throws {
        try await Tunnelled.with({ _ in .noReply }) { setup in
            let root = setup.origin.root
            let registration = TunnelURLProtocol.register(setup.tunnel) {
                $0.url?.absoluteString.hasPrefix(root) ?? false
            }
            defer { registration.unregister() }
            let configuration = URLSessionConfiguration.ephemeral
            configuration.protocolClasses = [TunnelURLProtocol.self]
            let session = URLSession(configuration: configuration)
            let asking = Task { () async throws -> Void in _ = try await session.data(for: setup.request("/")) }
            try await setup.origin.server.waitForRequests(1)
            asking.cancel()
            let error = await urlError { try await asking.value }
            #expect(error?.code == .cancelled)
            try await setup.server.waitForCancel()
            try await setup.origin.server.wait { $0.connectionCount == 0 }
        }
    }
}
