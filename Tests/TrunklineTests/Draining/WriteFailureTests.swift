import Synchronization
import Testing
import Trunkline

@testable import TrunklineLoopback
@testable import TrunklineTesting

/// Writes that find the link closed while the data read from it is still being handled.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct WriteFailureTests {}

extension WriteFailureTests {
    /// Regression: the write of the pong failed, the rest of the link's data was read, and the same frames were handled
    /// again, among them the ping. This repeated until the stack overflowed.
    @Test func framesReceivedBeforeAResetInAHandshakeAreHandledOnce() throws {
        let network = SimulatedNetwork(seed: 1)
        let pongs = Mutex(0)
        let codec = InterruptedCodec(base: PartsCodec.inOrder) {
            let isFirst = pongs.withLock { pongs in
                pongs += 1
                return pongs == 1
            }
            if isFirst { network.reset("db") }
        }
        let heard = Mutex<[Bytes]>([])
        let options = ClientOptions {
            $0.handshake.perform = { handshaker in
                for _ in 0..<2 {
                    let frame = try await handshaker.nextMessage()
                    heard.withLock { $0.append(frame.body) }
                }
            }
        }
        let serverOptions = LoopbackServer.Options {
            $0.onConnect = .sequence([
                .push(Frame(.push, type: 2, body: "hello")), .ping, .push(Frame(.push, type: 2, body: "there")),
            ])
        }
        try network.runBlocking {
            let server = try await network.serve(at: "db:1", speaking: PartsCodec.inOrder, options: serverOptions)
            let client = network.client(of: ["db:1"], speaking: codec, options: options)
            try await expectEcho("a", by: client)
            #expect(heard.withLock { $0 } == ["hello", "there", "hello", "there"])
            let metrics = await client.metrics
            #expect(metrics.connection.attempts == 2 && metrics.connection.disconnects == [.reset: 1])
            #expect(pongs.withLock { $0 } == 2)
            await client.close()
            await server.stop()
        }
        #expect(network.openLinks == 0)
    }

    /// Regression: on a draining link, a malformed part is followed by the response to another request. The
    /// cancel frame was written at once, found the link closed, and ended it before the response, which had been
    /// read, was handled.
    @Test func aCancelFrameThatFindsADrainingLinkClosedLosesNoResponse() throws {
        let network = SimulatedNetwork(seed: 1)
        let codec = InterruptedCodec(base: PartsCodec.standard) { network.reset("a") }
        // A part of the reply to the request with serial 50, the client's first one.
        let header: [UInt8] = [0x80, 0, 4, 0x10, 0, 0, 0, 50, 0, 0, 0, 7]
        let malformed = Reaction.garbage(Bytes(header + Array("garbled".utf8)))
        try network.runBlocking {
            let handler: LoopbackServer.Handler = {
                $0.body == "bad" ? .noReply : .after(.seconds(1), .sequence([malformed, .echo]))
            }
            let first = try await network.serve(at: "a:1", speaking: PartsCodec.standard, handler: handler)
            let second = try await network.serve(at: "b:1", speaking: PartsCodec.standard)
            let client = network.client(of: ["a:1", "b:1"], speaking: codec)
            let (bad, good) = (client.start(ask("bad")), client.start(ask("good")))
            try await first.waitForRequests(2)
            try await client.switchEndpoint(to: second.endpoint)
            try await expectBody("good", of: good)
            let error = await failure(of: bad)
            #expect(error?.code == .protocolViolation && error?.fate == .unknown)
            try await expectEcho("elsewhere", by: client)
            await client.close()
            await first.stop()
            await second.stop()
        }
        #expect(network.openLinks == 0)
    }

    /// Regression: the write of the pong failed. Only one more read of the data on the draining link was handled,
    /// at most 256 frames. Over TLS, bytes that the socket has delivered may remain in the TLS engine when no
    /// frames are left.
    @Test(arguments: [(false, 2000), (true, 6000)])
    func framesReceivedOnADrainingLinkAreDeliveredBeforeItsEnd(overTLS: Bool, count: Int) throws {
        let network = SimulatedNetwork(seed: 1, conditions: .wide)
        let codec = InterruptedCodec(base: FrameLayout.standard) { network.reset("a") }
        try network.runBlocking {
            let first = try await network.serve(at: "a:1", speaking: .standard, overTLS: overTLS) { _ in
                .after(.seconds(1), .sequence([.ping, .garbage(Bytes(numberedPushes(count))), .echo]))
            }
            let second = try await network.serve(at: "b:1", speaking: .standard, overTLS: overTLS)
            let client = network.client(of: ["a:1", "b:1"], speaking: codec, overTLS: overTLS)
            let pushes = client.pushes(buffering: PushBuffering(maximumCount: count))
            let handle = client.start(ask("a"))
            try await first.waitForRequests(1)
            try await client.switchEndpoint(to: second.endpoint)
            try await expectBody("a", of: handle)
            await expectNumberedPushes(count, from: pushes)
            #expect(await client.metrics.connection.disconnects == [.reset: 1])
            await client.close()
            await first.stop()
            await second.stop()
        }
        #expect(network.openLinks == 0)
    }

    /// Regression: over TLS one read handles a limited number of records, and reading stopped at the first read that
    /// reached the limit. Of 100 pushes in records of one byte, 20 arrived.
    @Test(arguments: [false, true])
    func framesReceivedInSmallRecordsAreDeliveredBeforeTheEnd(isDraining: Bool) throws {
        let count = 100
        let authority = try TestAuthority()
        let network = SimulatedNetwork(seed: 5, conditions: .wide)
        let server = TestServer(on: network.loop, echoes: false, tls: try authority.serverContext())
        try network.runBlocking {
            try await server.listen(on: network.address("db"))
            let other = try await network.serve(at: "other:1", speaking: .standard, overTLS: false)
            let options = ClientOptions { $0.tls.roots = .only(authority.root) }
            let endpoint = Endpoint.host("db", port: 7000).secured()
            let codec = InterruptedCodec(base: FrameLayout.standard) { network.reset("db") }
            let client = Client(to: [endpoint, other.endpoint], speaking: codec, options: options, on: network.loops)
            let pushes = client.pushes(buffering: PushBuffering(maximumCount: count))
            try await client.connect()
            let pending = client.start(ask("stays"))
            let peer = await server.peers[0]
            await peer.wait { $0.received.count >= 12 + 5 }
            if isDraining {
                try await client.switchEndpoint(to: other.endpoint)
                await client.becomesReady(at: other.endpoint)
            }
            let ping: [UInt8] = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]
            await peer.writeSingly(ping + numberedPushes(count))
            await expectNumberedPushes(count, from: pushes)
            #expect(await failure(of: pending)?.code == .connectionLost)
            await client.closeNow()
            await peer.close()
            await server.stop()
            await other.stop()
        }
    }

    /// Cancel frames on draining links are written at the end of the turn. A client that closes within that turn
    /// closes those links.
    @Test(arguments: [true, false])
    func aCancelFrameOnADrainingLinkIsSentAlsoWhenTheClientCloses(_ atOnce: Bool) throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            let first = try await network.serve(at: "a:1", speaking: .standard) { _ in .noReply }
            let second = try await network.serve(at: "b:1", speaking: .standard)
            let client = network.client(of: ["a:1", "b:1"], speaking: .standard)
            let handle = client.start(ask("x"))
            try await first.waitForRequests(1)
            try await client.switchEndpoint(to: second.endpoint)
            await client.becomesReady(at: second.endpoint)
            handle.cancel()
            if atOnce { await client.closeNow() } else { await client.close() }
            #expect(await failure(of: handle)?.code == .cancelled)
            try await first.waitForCancel()
            await first.stop()
            await second.stop()
        }
        #expect(network.openLinks == 0)
    }
}
