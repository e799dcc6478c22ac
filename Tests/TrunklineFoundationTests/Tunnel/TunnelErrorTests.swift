import Foundation
import Testing
import Trunkline
import TrunklineFoundation
import TrunklineGateway
import TrunklineHTTP
import TrunklineTesting

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Requests that a `URLSession` would refuse, or that would fail in it.
@Suite(.tags(.realThreads), .serialized, .timeLimit(.minutes(5)))
struct TunnelErrorTests {}

extension TunnelErrorTests {
    @Test(arguments: [HTTPTunnel.Policy.linkOnly, .directOnly])
    func invalidRequestsAreRefused(policy: HTTPTunnel.Policy) async throws {
        try await Tunnelled.with({ _ in .echo }, policy: policy) { setup in
            for (text, code) in [
                ("ftp://a/", URLError.Code.unsupportedURL), ("http:///a", .badURL), ("file:///a", .unsupportedURL),
            ] {
                let error = await urlError { _ = try await setup.tunnel.data(from: try #require(URL(string: text))) }
                #expect(error?.code == code, "\(text)")
            }
            var request = setup.request("/")
            request.httpBody = Data("a".utf8)
            let withBody = await urlError { _ = try await setup.tunnel.data(for: request) }
            #expect(withBody?.code == .dataLengthExceedsMaximum)
            for method in ["GET /x HTTP/1.1\r\nHost: a\r\n\r\nGET", "G T", ""] {
                let error = await urlError { _ = try await setup.tunnel.data(for: setup.request("/", method)) }
                #expect(error?.code == .badURL || method.isEmpty, "\(method)")
            }
            let received = try await setup.origin.server.journal.requests.map { try HTTP1Request($0) }
            #expect(received.allSatisfy { $0.headers["X"] == nil && $0.headers["Y"] == nil && $0.target == "/" })
        }
    }

    @Test(arguments: [HTTPTunnel.Policy.linkOnly, .directOnly])
    func anOriginThatIsDownHasTheSameErrorOnBothRoutes(policy: HTTPTunnel.Policy) async throws {
        try await Tunnelled.with({ _ in .echo }, policy: policy) { setup in
            let error = await urlError { _ = try await setup.tunnel.data(from: refusingURL) }
            #expect(error?.code == .cannotConnectToHost)
        }
    }

    @Test(arguments: [HTTPTunnel.Policy.linkOnly, .directOnly])
    func aSlowOriginTimesOut(policy: HTTPTunnel.Policy) async throws {
        try await Tunnelled.with({ $0.target == "/body" ? .part("tea") : .noReply }, policy: policy) { setup in
            for path in ["/head", "/body"] {
                var request = setup.request(path)
                request.timeoutInterval = 1
                let error = await urlError { [request] in _ = try await setup.tunnel.data(for: request) }
                #expect(error?.code == .timedOut)
            }
        }
    }

    @Test(arguments: [HTTPTunnel.Policy.linkOnly, .directOnly])
    func aTruncatedResponseIsAnError(policy: HTTPTunnel.Policy) async throws {
        try await Tunnelled.with(
            {
                $0.target == "/parts"
                    ? .sequence([.part("tea"), .close]) : .closeMidFrame(.reply(Bytes(pattern(100_000))))
            },
            policy: policy
        ) {
            setup in
            for path in ["/parts", "/whole"] {
                let error = await urlError { _ = try await setup.tunnel.data(for: setup.request(path)) }
                #expect(error?.code == .networkConnectionLost, "\(path)")
            }
        }
    }

    /// The upload used to wait for a link beyond every timeout.
    @Test func anUploadWithoutALinkTimesOut() async throws {
        try await Tunnelled.with({ _ in .echo }) { setup in
            await setup.client.suspend()
            var request = setup.request("/", "POST")
            request.timeoutInterval = 0.05
            let (pieces, source) = AsyncStream<Data>.makeStream()
            source.finish()
            let error = await urlError { [request] in _ = try await setup.tunnel.upload(for: request, from: pieces) }
            #expect(error?.code == .timedOut)
        }
    }

    /// The request used to go to the gateway without its body.
    @Test(arguments: [HTTPTunnel.Policy.linkOnly, .preferLink(hedgeAfter: .seconds(3600))])
    func aFileThatCannotBeReadIsAnError(policy: HTTPTunnel.Policy) async throws {
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent("trunkline-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(at: directory) }
        try await Tunnelled.with({ _ in .echo }, policy: policy) { setup in
            let error = await urlError {
                _ = try await setup.tunnel.upload(for: setup.request("/", "POST"), fromFile: directory)
            }
            #expect(error?.code == .cannotOpenFile)
            #expect(setup.gateway.metrics.requests == 0)
        }
    }
}
