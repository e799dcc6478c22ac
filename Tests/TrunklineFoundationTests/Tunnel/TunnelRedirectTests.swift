import Foundation
import Testing
import Trunkline
import TrunklineFoundation
import TrunklineHTTP
import TrunklineTesting

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Redirects, and which credentials and cookies follow them.
@Suite(.tags(.realThreads), .serialized, .timeLimit(.minutes(5)))
struct TunnelRedirectTests {}

extension TunnelRedirectTests {
    @Test(arguments: [HTTPTunnel.Policy.linkOnly, .directOnly])
    func redirectsAreFollowed(policy: HTTPTunnel.Policy) async throws {
        try await Tunnelled.with(
            { request in
                if let status = Int(request.target.dropFirst()) {
                    return .response(status, ["Location": "end?\(status)"], "moved")
                }
                return .response(
                    200,
                    [:],
                    Bytes(
                        "\(request.method) \(request.target) \(String(request.body)) \(request.headers["Authorization"] ?? "")"
                    )
                )
            },
            policy: policy
        ) { setup in
            for (status, said) in [(301, "GET"), (302, "GET"), (303, "GET"), (307, "POST"), (308, "POST")] {
                let request = setup.request("/\(status)", "POST", ["Authorization": "a"])
                let (data, response) = try await setup.tunnel.upload(for: request, from: Data("tea".utf8))
                #expect(
                    String(decoding: data, as: UTF8.self) == "\(said) /end?\(status) \(said == "POST" ? "tea" : "") a"
                )
                #expect(response.url == setup.origin.url("/end?\(status)"))
            }
            let (_, response) = try await setup.tunnel.data(for: setup.request("/303", "HEAD"))
            #expect((response as? HTTPURLResponse)?.statusCode == 200)
        }
    }

    /// The server has performed the POST. Regression: the error of the GET that followed, fate `notSent`, was that of the
    /// call.
    @Test func aFailureAfterARedirectIsNotThatOfARequestThatWasNotSent() async throws {
        let options = ClientOptions {
            $0.requests.timeout = .seconds(200)
            $0.reconnecting.maximumAttempts = 1
        }
        let redirect = Frame(.response, type: 0x403, body: "HTTP/1.1 303 See Other\r\nLocation: /end\r\n\r\n")
        try await Tunnelled.with(
            { _ in .reply("tea") },
            client: options,
            atGateway: { _ in .sequence([.reply(redirect), .close]) }
        ) { setup in
            // Otherwise the link may still be in the listener's backlog, and is lost with it.
            try await setup.server.wait(within: patience) { $0.connectionCount == 1 }
            await setup.server.stopAccepting()
            let error = await urlError {
                _ = try await setup.tunnel.upload(for: setup.request("/", "POST"), from: Data("tea".utf8))
            }
            let cause = error?.userInfo[NSUnderlyingErrorKey] as? ClientError
            #expect(cause?.fate == .unknown)
        }
    }

    @Test func endlessRedirectsAreAnError() async throws {
        try await Tunnelled.with({ _ in .response(302, ["Location": "/"]) }) { setup in
            let error = await urlError { _ = try await setup.tunnel.data(for: setup.request("/")) }
            #expect(error?.code == .httpTooManyRedirects)
            #expect(await setup.origin.server.journal.requestCount == 21)
        }
    }

    @Test(arguments: [HTTPTunnel.Policy.linkOnly, .directOnly])
    func credentialsStayWithTheirOrigin(policy: HTTPTunnel.Policy) async throws {
        let said: @Sendable (HTTP1Request) -> Bytes = { request in
            Bytes("\(request.headers["Authorization"] ?? "none"), \(request.headers["Cookie"] ?? "none")")
        }
        try await Origin.with({ .reply(said($0)) }) { other in
            let elsewhere = other.url("/").absoluteString
            try await Tunnelled.with(
                {
                    switch $0.target {
                    case "/away": .response(307, ["Location": elsewhere])
                    case "/near": .response(307, ["Location": "/end"])
                    default: .reply(said($0))
                    }
                },
                policy: policy,
                others: [other.url("/")]
            ) { setup in
                for (path, expected) in [("/away", "none, none"), ("/near", "secret, a=1")] {
                    let request = setup.request(path, "GET", ["Authorization": "secret", "Cookie": "a=1"])
                    let (data, _) = try await setup.tunnel.data(for: request)
                    #expect(String(decoding: data, as: UTF8.self) == expected)
                }
            }
        }
    }

    @Test func cookiesAreKeptInTheGivenStorage() async throws {
        var options = HTTPTunnel.Options()
        options.cookieStorage = URLSessionConfiguration.ephemeral.httpCookieStorage
        try await Tunnelled.with(
            { .response(200, ["Set-Cookie": "a=1; Path=/"], Bytes($0.headers["Cookie"] ?? "none")) },
            options: options
        ) {
            setup in
            for expected in ["none", "a=1"] {
                let (data, _) = try await setup.tunnel.data(for: setup.request("/"))
                #expect(String(decoding: data, as: UTF8.self) == expected)
            }
            var without = setup.request("/")
            without.httpShouldHandleCookies = false
            let (data, _) = try await setup.tunnel.data(for: without)
            #expect(data == Data("none".utf8))
        }
    }
}
