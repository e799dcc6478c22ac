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

/// HTTP over a link, through a gateway, to an origin: requests and their responses.
@Suite(.tags(.realThreads), .serialized, .timeLimit(.minutes(5)))
struct HTTPTunnelTests {}

extension HTTPTunnelTests {
    @Test(arguments: [HTTPTunnel.Policy.linkOnly, .directOnly])
    func aResponseArrivesWithItsFields(policy: HTTPTunnel.Policy) async throws {
        try await Tunnelled.with(
            { request in
                let fields: HTTP1Headers = [
                    "X-Method": request.method.name, "X-A": request.headers["x-a"] ?? "", "Trunkline-X": "1",
                ]
                return .response(200, fields, Bytes("\(request.target)"))
            },
            policy: policy
        ) { setup in
            for path in ["/", "/a%20b?x=%C3%A9&y", "//a", "/?"] {
                let request = setup.request(path, "GET", ["X-A": "tea, \"milk\"", "Connection": "X-B", "X-B": "1"])
                let (data, response) = try await setup.tunnel.data(for: request)
                let head = try #require(response as? HTTPURLResponse)
                #expect(String(decoding: data, as: UTF8.self) == path)
                #expect(head.statusCode == 200 && head.value(forHTTPHeaderField: "X-Method") == "GET")
                #expect(head.value(forHTTPHeaderField: "X-A") == "tea, \"milk\"")
                #expect(response.route == (policy == .linkOnly ? .link : .direct))
                #expect(policy == .directOnly || head.value(forHTTPHeaderField: "Trunkline-X") == nil)
            }
            let received = try await setup.origin.server.journal.requests.map { try HTTP1Request($0) }
            #expect(received.allSatisfy { $0.headers["X-B"] == nil && $0.headers["Trunkline-Window"] == nil })
        }
    }

    @Test(
        arguments: [HTTPTunnel.Policy.linkOnly, .directOnly],
        ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]
    )
    func methodsAndStatusesArriveUnchanged(policy: HTTPTunnel.Policy, method: String) async throws {
        try await Tunnelled.with(
            { .response(Int($0.target.dropFirst()) ?? 0, ["X-M": $0.method.name], $0.target == "/204" ? "" : "tea") },
            policy: policy
        ) {
            setup in
            for status in [200, 404, 500, 401] {
                let (data, response) = try await setup.tunnel.data(for: setup.request("/\(status)", method))
                let head = try #require(response as? HTTPURLResponse)
                #expect(head.statusCode == status && head.value(forHTTPHeaderField: "X-M") == method)
                #expect(data == (method == "HEAD" ? Data() : Data("tea".utf8)))
                #expect(head.value(forHTTPHeaderField: "Content-Length") == "3")
            }
        }
    }

    @Test(arguments: [204, 304]) func responsesWithoutContentAreEmpty(status: Int) async throws {
        try await Tunnelled.with({ _ in .response(status, ["ETag": "\"a\""]) }) { setup in
            let (data, response) = try await setup.tunnel.data(for: setup.request("/"))
            #expect((response as? HTTPURLResponse)?.statusCode == status && data.isEmpty)
        }
    }

    @Test func twoHundredConcurrentRequestsGetTheirOwnResponses() async throws {
        try await Tunnelled.with({ .reply(Bytes($0.target)) }) { setup in
            try await withThrowingTaskGroup(of: Bool.self) { group in
                for number in 0..<200 {
                    group.addTask {
                        let (data, _) = try await setup.tunnel.data(for: setup.request("/\(number)"))
                        return data == Data("/\(number)".utf8)
                    }
                }
                for try await isRight in group { #expect(isRight) }
            }
            #expect(setup.tunnel.metrics.link == 200 && setup.gateway.metrics.answered == 200)
        }
    }
}
