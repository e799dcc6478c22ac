import Testing

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// `post` and `write` return when the kernel has the last byte. This holds over TLS, too, where up to 64 KiB of
/// encrypted bytes may wait for the socket.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct WriteCompletionTests {}

extension WriteCompletionTests {
    private struct Scene: Sendable {
        let network: SimulatedNetwork
        let tls: any TLSContext
        let server: TestServer
        let peer: TestPeer
        let client: Client
        let connection: Connection

        func pass(_ duration: Duration) async throws { try await network.clock.sleep(for: duration) }

        /// Writes more than the socket takes on the connection without a client, which closes meanwhile if
        /// `closing` is true.
        func expectWrite(of body: Bytes, closing: Bool) async throws {
            try await connection.write(Frame(.request, type: 0x410, body: "first"))
            let peer = await server.peers[1]
            await peer.setReading(false)
            let writing = Progress()
            async let write: Void = writing.note {
                try await connection.write(Frame(.request, type: 0x410, body: body))
            }
            try await pass(.seconds(1))
            async let close: Void = { if closing { await connection.close() } }()
            try await pass(.seconds(1))
            #expect(writing.outcome == nil)
            await peer.setReading(true)
            await write
            #expect(writing.outcome == "done")
            await close
            let count = 29 + body.count
            #expect(await peer.received(atLeast: count).count == count)
        }
    }

    /// Runs `body` with a client, and a connection without a client, of a server over TLS that does not read.
    private func run(_ body: @escaping @Sendable (Scene) async throws -> Void) throws {
        let authority = try TestAuthority()
        let tls = try authority.serverContext()
        var conditions = NetworkConditions()
        (conditions.sendBuffer, conditions.receiveWindow) = (2000, 2000)
        let network = SimulatedNetwork(seed: 1, conditions: conditions)
        let server = TestServer(on: network.loop, echoes: false, tls: tls)
        try network.runBlocking {
            try await server.listen(on: network.address("db"))
            let options = ClientOptions { options in
                options.tls.roots = .only(authority.root)
                options.reconnecting.policy = nil
                options.requests.timeout = .seconds(600)
                options.liveness.heartbeat = .none
            }
            let endpoint = Endpoint.host("db", port: 7000).secured()
            let client = Client(to: endpoint, speaking: .standard, options: options, on: network.loops)
            let connection = Connection(
                to: [endpoint],
                speaking: .standard,
                options: ConnectionOptions(options),
                on: network.loops
            )
            try await client.connect()
            await server.peers[0].wait { $0.events.contains("connected") }
            await server.peers[0].setReading(false)
            let peer = await server.peers[0]
            try await body(
                Scene(
                    network: network,
                    tls: tls,
                    server: server,
                    peer: peer,
                    client: client,
                    connection: connection
                )
            )
            await client.closeNow()
            await connection.closeNow()
            for peer in await server.peers { await peer.close() }
            await server.stop()
        }
    }

    /// Small enough for TLS to encrypt at once, but too large for the socket.
    fileprivate static let body = filled(20_000)

    @Test func postReturnsWhenTheSocketHasTheLastByte() throws {
        try run { scene in
            let posting = Progress()
            async let post: Void = posting.note { try await scene.client.post(Request(type: 0x410, body: Self.body)) }
            try await scene.pass(.seconds(5))
            #expect(posting.outcome == nil)
            await scene.peer.setReading(true)
            await post
            #expect(posting.outcome == "done")
            #expect(await scene.peer.received(atLeast: 20_012).count == 20_012)
        }
    }

    @Test func laterPostsWaitForTheirOwnBytes() throws {
        try run { scene in
            let posting = Progress()
            async let first: Void = posting.note { try await scene.client.post(Request(type: 0x410, body: Self.body)) }
            try await scene.pass(.seconds(1))
            async let second: Void = posting.note { try await scene.client.post(Request(type: 0x411, body: "x")) }
            try await scene.pass(.seconds(1))
            #expect(posting.count == 0)
            await scene.peer.setReading(true)
            _ = await (first, second)
            #expect(posting.count == 2 && posting.outcome == "done")
            #expect(await scene.peer.received(atLeast: 20_025).count == 20_025)
        }
    }

    /// TLS accepts more bytes as soon as there is room, so a busy link always has bytes that wait for the socket.
    @Test func postsOnABusyLinkReturnWhenTheSocketHasTheirOwnBytes() throws {
        try run { scene in
            let posting = Progress()
            await withTaskGroup(of: Void.self) { group in
                for _ in 0..<200 {
                    group.addTask {
                        await posting.note { try await scene.client.post(Request(type: 0x410, body: filled(1000))) }
                    }
                }
                try? await scene.pass(.seconds(1))
                #expect(posting.count < 10)
                await scene.peer.setReading(true)
                _ = await scene.peer.received(atLeast: 100_000)
                #expect(posting.count > 0 && posting.count < 200)
            }
            #expect(posting.count == 200 && posting.outcome == "done")
        }
    }

    /// Regression: the calls returned only when the socket had all bytes of the link.
    @Test func partsOnABusyLinkReturnWhenTheSocketHasTheirOwnBytes() throws {
        var conditions = NetworkConditions()
        (conditions.sendBuffer, conditions.receiveWindow) = (2000, 2000)
        let network = SimulatedNetwork(seed: 1, conditions: conditions)
        let writing = Progress()
        try network.runBlocking {
            let handler: LoopbackServer.Handler = { _ in
                .perform { exchange in
                    await withTaskGroup(of: Void.self) { group in
                        for _ in 0..<600 {
                            group.addTask { await writing.note { try await exchange.part(filled(1000)) } }
                        }
                    }
                    try await exchange.reply("end")
                }
            }
            let server = try await network.serve(at: "db:7000", speaking: .standard, overTLS: true, handler: handler)
            let client = network.client(of: ["db:7000"], speaking: .standard, overTLS: true)
            var (received, returned) = (0, 0)
            for try await frame in client.stream(whole("get"), timeout: .seconds(600)) {
                received += frame.body.count
                if received == 400_000 { returned = writing.count }
            }
            #expect(received == 600_003)
            #expect((1..<600).contains(returned))
            #expect(writing.count == 600 && writing.outcome == "done")
            await client.close()
            await server.stop()
        }
    }

    /// Regression: with an empty outbound queue and no waiting caller, a closing connection did not learn when TLS had
    /// no bytes left. It checked this every 2 s.
    @Test(arguments: [false, true])
    func closingEndsWhenTheSocketHasTheLastByteOfAnAbandonedRequest(isMessage: Bool) throws {
        try run { scene in
            let request = Request(type: 0x410, body: Self.body)
            let error = await failure { () throws(ClientError) in
                if isMessage {
                    try await scene.client.post(request, timeout: .milliseconds(500))
                } else {
                    _ = try await scene.client.send(request, timeout: .milliseconds(500))
                }
            }
            #expect(error?.code == .timedOut && error?.fate == .unknown)
            let began = scene.network.clock.now.offset
            async let closing: Void = scene.client.close()
            try await scene.pass(.milliseconds(4500))
            await scene.peer.setReading(true)
            await closing
            let took = scene.network.clock.now.offset - began
            #expect(took >= .milliseconds(4500) && took < .seconds(5), "\(took)")
            // Including the cancel frame.
            let count = 20_012 + (isMessage ? 0 : 12)
            #expect(await scene.peer.received(atLeast: count).count == count)
        }
    }

    /// The message may have been carried out: the server has a part of it, and perhaps all.
    @Test func losingTheLinkDuringAPostLeavesTheFateUnknown() throws {
        try run { scene in
            let posting = Progress()
            async let post: Void = posting.note { try await scene.client.post(Request(type: 0x410, body: Self.body)) }
            try await scene.pass(.seconds(1))
            #expect(posting.outcome == nil)
            scene.network.reset("db")
            await post
            #expect(posting.outcome == "connectionLost unknown")
        }
    }

    /// Bytes that wait for the socket stay with their link. Regression: their caller returned too early, or not
    /// before its deadline.
    @Test func aPostOnALinkThatBeginsToDrainReturnsWhenTheSocketHasTheLastByte() throws {
        try run { scene in
            let posting = Progress()
            async let post: Void = posting.note { try await scene.client.post(Request(type: 0x410, body: Self.body)) }
            try await scene.pass(.seconds(1))
            let other = TestServer(on: scene.network.loop, echoes: false, tls: scene.tls)
            try await other.listen(on: scene.network.address("db", port: 7001))
            let endpoint = Endpoint.host("db", port: 7001).secured()
            await scene.client.replaceEndpoints([Endpoint.host("db", port: 7000).secured(), endpoint])
            try await scene.client.switchEndpoint(to: endpoint)
            try await scene.pass(.seconds(5))
            #expect(await other.peers.count == 1)
            #expect(posting.outcome == nil)
            await scene.peer.setReading(true)
            try await scene.pass(.seconds(5))
            #expect(posting.outcome == "done")
            await post
            #expect(await scene.peer.received(atLeast: 20_012).count == 20_012)
            await scene.client.closeNow()
            for peer in await other.peers { await peer.close() }
            await other.stop()
        }
    }

    @Test func writeReturnsWhenTheSocketHasTheLastByte() throws {
        try run { scene in
            try await scene.expectWrite(of: Self.body, closing: false)
        }
    }

    /// Regression: everything was encrypted, at once or later, so nothing seemed to be left to write.
    /// Closing discarded it.
    @Test(arguments: [body, filled(200_000)])
    func aWriteOnAClosingConnectionReturnsWhenTheSocketHasTheLastByte(body: Bytes) throws {
        try run { scene in
            try await scene.expectWrite(of: body, closing: true)
        }
    }
}

/// The number of tasks that have ended, and the latest outcome.
private final class Progress: Sendable {
    private let state = Lock((count: 0, outcome: String?.none))

    var outcome: String? { state.withLock { $0.outcome } }
    var count: Int { state.withLock { $0.count } }

    func note(_ body: () async throws -> Void) async {
        var outcome = "done"
        do {
            try await body()
        } catch let error as ClientError {
            outcome = "\(error.code) \(error.fate)"
        } catch {
            outcome = "\(error)"
        }
        state.withLock { [outcome] in
            $0.count += 1
            $0.outcome = outcome
        }
    }
}
