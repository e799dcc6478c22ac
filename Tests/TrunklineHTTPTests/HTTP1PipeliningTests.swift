import Testing
import Trunkline
import TrunklineHTTP
import TrunklineTesting

@testable import TrunklineLoopback

/// Which requests may follow which on a link of HTTP/1.1, over real sockets.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct HTTP1PipeliningTests {}

extension HTTP1PipeliningTests {
    private static let codec = HTTP1Codec(host: "h")

    /// A server that holds its responses to "/held" back until `releaseHeld()`, and answers other requests with their
    /// target.
    private func withServer(_ body: nonisolated(nonsending) (LoopbackServer, Client) async throws -> Void) async throws
    {
        try await withServerAndClient(
            speaking: Self.codec,
            handler: { frame in
                guard let request = try? HTTP1Request(frame),
                    let response = try? HTTP1Response(body: Bytes(request.target)).frame()
                else { return .reset }
                return request.target == "/held" ? .outOfOrder(window: 100, .reply(response)) : .reply(response)
            },
            body
        )
    }

    private func request(
        _ method: HTTP1Request.Method,
        _ target: String,
        headers: HTTP1Headers = HTTP1Headers()
    ) throws -> Request {
        try Request(HTTP1Request(method, target, headers: headers))
    }

    private func targets(_ server: LoopbackServer) async throws -> [String] {
        try await server.received.map { try HTTP1Request($0).target }
    }

    private func expect(_ target: String, of handle: PendingRequest<Response>) async throws {
        let response = try HTTP1Response(try await handle.value)
        #expect(String(response.body) == target)
    }

    @Test(arguments: ["POST", "PATCH", "LINK"] as [HTTP1Request.Method])
    func nothingIsPipelinedBehindARequestThatIsNotIdempotent(_ method: HTTP1Request.Method) async throws {
        try await withServer { server, client in
            try await client.connect()
            // Without pipelining rules they would be sent in one write and arrive together.
            let handles = [
                client.start(try request(.get, "/before")), client.start(try request(method, "/held")),
                client.start(try request(.get, "/after")), client.start(try request(.put, "/last")),
            ]
            try await expect("/before", of: handles[0])
            try await server.waitForRequests(2, within: patience)
            #expect(try await targets(server) == ["/before", "/held"])
            #expect(handles[1].state == .written && handles[2].state == .queued)
            await server.releaseHeld()
            for (handle, target) in zip(handles[1...], ["/held", "/after", "/last"]) {
                try await expect(target, of: handle)
            }
            #expect(try await targets(server) == ["/before", "/held", "/after", "/last"])
            #expect(await server.totalConnections == 1)
        }
    }

    @Test func idempotentRequestsArePipelined() async throws {
        try await withServer { server, client in
            let methods: [HTTP1Request.Method] = [.get, .put, .head, .delete, .options, .get]
            let handles = try methods.map { client.start(try request($0, "/held")) }
            try await server.waitForRequests(methods.count)
            await server.releaseHeld()
            for handle in handles { _ = try await handle.value }
        }
    }

    /// RFC 9112 §9.6. The server neither closes the connection nor announces it.
    @Test func nothingFollowsARequestWithConnectionClose() async throws {
        try await withServer { server, client in
            for method in [.get, .head, .post] as [HTTP1Request.Method] {
                await server.forget()
                let close = try request(method, "/close", headers: ["connection": "foo, Close"])
                let results = await client.send(
                    all: [close, try request(.get, "/next")],
                    options: CallOptions(retry: .never)
                )
                for result in results { _ = try result.get() }
                #expect(try HTTP1Response(results[1].get()).body == "/next")
                #expect(await server.totalConnections == (method == .get ? 2 : 1))
            }
        }
    }

    /// Otherwise the next requests would wait for an abandoned response, perhaps for ever.
    @Test(arguments: [true, false])
    func requestsBehindAnAbandonedOneAreSentOnAnotherLink(_ isCancelled: Bool) async throws {
        try await withServer { server, client in
            let held = client.start(try request(.post, "/held"), timeout: isCancelled ? .default : .milliseconds(50))
            let next = client.start(try request(.get, "/next"))
            if isCancelled {
                try await server.waitForRequests(1, within: patience)
                held.cancel()
            }
            #expect(await failure(of: held)?.code == (isCancelled ? .cancelled : .timedOut))
            try await expect("/next", of: next)
            #expect(await client.metrics.connection.links <= 2)
        }
    }

    /// The requests in front of it are still in flight, and finish on their link.
    @Test func requestsInFrontOfAnAbandonedOneAreAnswered() async throws {
        try await withServer { server, client in
            let first = client.start(try request(.get, "/held"))
            let second = client.start(try request(.post, "/held"))
            let third = client.start(try request(.get, "/next"))
            try await server.waitForRequests(2, within: patience)
            second.cancel()
            try await expect("/next", of: third)
            await server.releaseHeld()
            try await expect("/held", of: first)
            #expect(await server.totalConnections == 2)
        }
    }

    @Test func aLostLinkReleasesHeldRequests() async throws {
        try await withServer { server, client in
            let held = client.start(try request(.post, "/held"))
            let next = client.start(try request(.get, "/next"))
            try await server.waitForRequests(1, within: patience)
            await server.disconnectAll(reset: true)
            #expect(await failure(of: held)?.fate == .unknown)
            try await expect("/next", of: next)
        }
    }

    /// The server would answer a one-way message, and every later response would go to the wrong request.
    @Test func aRequestCannotBePosted() async throws {
        try await withServer { server, client in
            let message = try request(.get, "/posted")
            let error = await failure { () throws(ClientError) in try await client.post(message) }
            #expect(error?.code == .invalidRequest && error?.fate == .notSent)
            #expect(throws: ClientError.self) { try client.tryEnqueue(message) }
            for result in await client.post(all: [message, message]) {
                let error = #expect(throws: ClientError.self) { try result.get() }
                #expect(error?.code == .invalidRequest && error?.fate == .notSent)
            }
            let response = try await client.send(HTTP1Request(.get, "/next"))
            #expect(response.body == "/next")
            #expect(try await targets(server) == ["/next"])
        }
    }
}
