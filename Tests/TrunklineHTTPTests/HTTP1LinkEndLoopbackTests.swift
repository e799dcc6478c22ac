import Testing
import Trunkline
import TrunklineHTTP
import TrunklineTesting

@testable import TrunklineLoopback

/// The end of a link of HTTP/1.1 over real sockets.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct HTTP1LinkEndLoopbackTests {}

extension HTTP1LinkEndLoopbackTests {
    @Test func eachRequestHasItsOwnLinkAndThereIsNoOther() async throws {
        let last = Reaction.sequence([.reply(HTTP1Response(headers: ["Connection": "close"], body: "x")), .close])
        try await withServerAndClient(speaking: HTTP1Codec(host: "h")) { _ in
            last
        } _: { server, client in
            for number in 1...10 {
                let body = try await get("/", by: client)
                #expect(body == "x")
                #expect(await server.totalConnections == number)
            }
            #expect(await client.metrics.connection.attempts == 10)
        }
    }
}
