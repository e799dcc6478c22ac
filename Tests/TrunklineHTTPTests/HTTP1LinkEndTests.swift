import Testing
import Trunkline
import TrunklineHTTP
import TrunklineTesting

@testable import TrunklineLoopback

/// The end of a link of HTTP/1.1, and when the client connects again.
@Suite(.tags(.simulated), .serialized, .timeLimit(.minutes(5)))
struct HTTP1LinkEndTests {}

extension HTTP1LinkEndTests {
    private func state(of client: Client) async -> ConnectionState? {
        for await state in client.states { return state }
        return nil
    }

    // MARK: Idle links

    /// What servers and proxies send before they close an idle link; the second as HAProxy does.
    private static let timeouts: [Bytes] = [
        "HTTP/1.1 408 Request Timeout\r\nContent-Length: 4\r\nConnection: close\r\n\r\nlate",
        "HTTP/1.0 408 Request Time-out\r\nCache-Control: no-cache\r\nConnection: close\r\n\r\n<html><body>\n</body></html>\n",
        "HTTP/1.1 408 Request Timeout\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nlate\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    ]

    /// Regression: the link ended with a protocol violation, and the client connected eight times in 25 s although it
    /// had nothing to send.
    @Test(arguments: timeouts, [false, true])
    func aResponseOnAnIdleLinkIsAnOrderlyClose(_ timeout: Bytes, closes: Bool) throws {
        let farewell = Reaction.sequence([.garbage(timeout)] + (closes ? [.close] : []))
        try simulate(onConnect: .after(.seconds(3), farewell)) { network, server, client in
            try await client.connect()
            try await network.clock.sleep(for: .seconds(25))
            #expect(await server.totalConnections == 1)
            #expect(await client.metrics.connection.disconnects == [.goAway: 1])
            #expect(await state(of: client) == .idle)
            let began = network.clock.now
            let body = try await get("/a", by: client)
            #expect(body == "/a" && began.duration(to: network.clock.now) < .milliseconds(100))
            // The second link was used, and is then idle for as long.
            try await network.clock.sleep(for: .seconds(25))
            #expect(await server.totalConnections == 2)
            #expect(await client.metrics.connection.disconnects == [.goAway: 2])
            let again = try await get("/b", by: client)
            #expect(again == "/b")
        }
    }

    @Test func aKeptWarmLinkIsReplacedAfterATimeoutResponse() throws {
        let options = ClientOptions { $0.reconnecting.keepsLinkWarm = true }
        let farewell = Reaction.sequence([.garbage(Self.timeouts[0]), .close])
        try simulate(onConnect: .after(.seconds(3), farewell), options: options) { network, server, client in
            _ = try await get("/a", by: client)
            try await network.clock.sleep(for: .seconds(4))
            #expect(await server.totalConnections == 2)
        }
    }

    // MARK: Last responses

    private static let lastResponses: [Reaction] = [
        .sequence([.reply(HTTP1Response(headers: ["Connection": "close"], body: "x")), .close]),
        .sequence([.garbage("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx"), .close]),
        .sequence([.garbage("HTTP/1.1 200 OK\r\n\r\nx"), .close]),
    ]

    /// Regression: the client opened a link that it did not need, which held the only slot of a small server.
    @Test(arguments: lastResponses.indices)
    func noLinkIsOpenedAfterALastResponseWhileNothingNeedsOne(_ index: Int) throws {
        try simulate({ _ in Self.lastResponses[index] }) { network, server, client in
            for number in 1...5 {
                let began = network.clock.now
                let body = try await get("/", by: client)
                #expect(body == "x" && began.duration(to: network.clock.now) < .milliseconds(100))
                try await network.clock.sleep(for: .seconds(60))
                #expect(await server.totalConnections == number)
                #expect(await server.connectionCount == 0)
                #expect(await state(of: client) == .idle)
            }
            // Requests that wait for the next link get it without a back-off.
            let began = network.clock.now
            try await withThrowingTaskGroup(of: String.self) { group in
                for _ in 0..<20 { group.addTask { try await get("/", by: client, retry: .idempotent(tries: 50)) } }
                for try await body in group { #expect(body == "x") }
            }
            #expect(began.duration(to: network.clock.now) < .seconds(30))
        }
    }

    // MARK: Limits

    /// Regression: a response that exceeded a limit of the client was reported as a violation of the protocol, and
    /// requested three times.
    @Test(arguments: [
        ("Content-Length: 101\r\n\r\n", "100 bytes (maximumBodySize)"),
        ("Transfer-Encoding: chunked\r\n\r\n65\r\n", "100 bytes (maximumBodySize)"),
        ("X: \(String(repeating: "a", count: 200))\r\n", "200 bytes (maximumHeadSize)"),
        (String(repeating: "X: a\r\n", count: 6), "5 fields (maximumFields)"),
    ])
    func aResponseAboveALimitOfTheClientIsNotItsServersViolation(_ rest: String, _ limit: String) throws {
        let codec = HTTP1Codec(host: "h") {
            ($0.maximumBodySize, $0.maximumHeadSize, $0.maximumFields) = (100, 200, 5)
        }
        let answer: @Sendable (HTTP1Request) -> Reaction? = { request in
            request.target == "/large" ? .garbage(Bytes("HTTP/1.1 200 OK\r\n\(rest)")) : nil
        }
        try simulate(speaking: codec, answer) { _, server, client in
            let requests = try ["/a", "/large", "/b", "/c"].map { try Request(HTTP1Request(.get, $0)) }
            let results = await client.send(all: requests, options: CallOptions(retry: .idempotent()))
            // The others are lost with the link, and sent again.
            for (index, body) in ["/a", nil, "/b", "/c"].enumerated() where body != nil {
                #expect(try HTTP1Response(results[index].get()).body == Bytes(body ?? ""))
            }
            let error = await failure { () throws(ClientError) in try results[1].get() }
            #expect(error?.code == .overloaded && error?.fate == .unknown)
            #expect((error?.cause as? FrameError)?.message.contains(limit) == true, "\(error as Any)")
            let large = await server.received.filter { (try? HTTP1Request($0))?.target == "/large" }
            #expect(large.count == 1)
            let causes = await client.metrics.connection.disconnects
            #expect(
                Dictionary(uniqueKeysWithValues: causes.map { ($0.key.rawValue, $0.value) }) == ["limitExceeded": 1]
            )
        }
    }
}
