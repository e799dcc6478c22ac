import Testing

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// A server that sends a large amount of data at once gets its share of the client's event loop, and no more.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct ReadFairnessTests {}

extension ReadFairnessTests {
    /// Runs `body` with a server at "db" that sends `count` pushes on each new link.
    private static func flood(
        _ count: Int,
        seed: UInt64,
        tls: (any TLSContext)? = nil,
        _ body: @escaping @Sendable (SimulatedNetwork, TestServer) async throws -> Void
    ) throws {
        let network = SimulatedNetwork(seed: seed, conditions: .wide)
        let server = TestServer(on: network.loop, echoes: false, banner: numberedPushes(count), tls: tls)
        try network.runBlocking {
            try await server.listen(on: network.address("db"))
            try await body(network, server)
            await server.stop()
        }
    }

    /// The standard layout. Counts how many frames are decoded in each turn of the event loop.
    private struct CountingCodec: FrameCodec, HeartbeatCodec, CancellingCodec, ServerSideCodec {
        var base: FrameLayout = .standard
        let turns: Turns
        /// Called for each frame.
        var work: @Sendable () -> Void = {}

        var matching: ResponseMatching { base.matching }
        mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
            let frame = try base.decode(&input)
            if frame != nil {
                work()
                turns.note()
            }
            return frame
        }
        mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
            try base.encode(frame, into: &output)
        }
        func ping(number: UInt64) -> Frame? { base.ping(number: number) }
        func pong(answering ping: Frame) -> Frame? { base.pong(answering: ping) }
        func cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame? { base.cancelFrame(for: serial, type: type) }
        func serverSide() -> any FrameCodec { base.serverSide() }
    }

    private final class Turns: Sendable {
        private let loop: SimulatedEventLoop
        private let state = Lock((turn: 0, inTurn: 0, most: 0, count: 0))

        init(of loop: SimulatedEventLoop) { self.loop = loop }

        func note() {
            let turn = loop.turns
            state.withLock { state in
                if turn != state.turn { (state.turn, state.inTurn, state.count) = (turn, 0, state.count + 1) }
                state.inTurn += 1
                state.most = max(state.most, state.inTurn)
            }
        }

        /// The most frames in one turn.
        var most: Int { state.withLock { $0.most } }
        /// How many turns had frames.
        var count: Int { state.withLock { $0.count } }
    }

    /// Regression: one turn took 90,000 pushes of 12 bytes. This delayed every other client of the event loop by 14 ms.
    @Test func aFloodOfSmallFramesIsSpreadOverTurns() throws {
        let count = 20_000
        try Self.flood(count, seed: 1) { network, _ in
            let turns = Turns(of: network.loop)
            let client = Client(to: "db:7000", speaking: CountingCodec(turns: turns), on: network.loops)
            await expectNumberedPushes(count, from: client.pushes(buffering: PushBuffering(maximumCount: count)))
            #expect(turns.most <= ReadShare.frames && turns.count >= count / ReadShare.frames, "\(turns.most)")
            await client.closeNow()
        }
    }

    /// The time is checked after every 256 frames. It ends a turn early if a frame takes 3 µs, but not if
    /// it takes 1 µs.
    @Test(arguments: [(Duration.microseconds(3), 256), (.microseconds(1), ReadShare.frames)])
    func aFloodOfFramesThatTakeLongToDecodeIsSpreadOverMoreTurns(cost: Duration, most: Int) throws {
        let count = 5000
        let network = SimulatedNetwork(seed: 6, conditions: .wide)
        let server = TestServer(on: network.loop, echoes: false, banner: numberedPushes(count))
        try network.runBlocking {
            try await server.listen(on: network.address("db"))
            let turns = Turns(of: network.loop)
            let codec = CountingCodec(turns: turns) { network.stall(for: cost) }
            let client = Client(to: "db:7000", speaking: codec, on: network.loops)
            await expectNumberedPushes(count, from: client.pushes(buffering: PushBuffering(maximumCount: count)))
            #expect(turns.most == most)
            await client.closeNow()
            await server.stop()
        }
    }

    /// A share is used up when any of its limits is reached.
    @Test(arguments: [
        (1, 1, Duration.microseconds(499), true), (1, 1, .microseconds(500), false),
        (1, ReadShare.frames - 1, .zero, true), (1, ReadShare.frames, .zero, false),
        ((1 << 20) - 1, 1, .zero, true), (1 << 20, 1, .zero, false),
    ])
    func aShareEndsAtItsLimitOfBytesFramesOrTime(bytes: Int, frames: Int, time: Duration, goesOn: Bool) {
        let start = Instant(nanoseconds: 1_000_000_000)
        var share = ReadShare()
        #expect(share.goesOn(after: bytes, frames, since: start, at: start.advanced(by: time)) == goesOn)
    }

    /// Frames that are left over from a turn are delivered before the end of the link.
    @Test func leftoverFramesAreDeliveredBeforeTheEndOfTheLink() throws {
        let count = 5000
        try Self.flood(count, seed: 2) { network, server in
            let options = ClientOptions { $0.reconnecting.policy = nil }
            let client = Client(to: "db:7000", speaking: .standard, options: options, on: network.loops)
            let pushes = client.pushes(buffering: PushBuffering(maximumCount: count))
            try await client.connect()
            await server.peers[0].finish()
            await expectNumberedPushes(count, from: pushes)
            await client.closeNow()
        }
    }

    /// Reading is suspended again and again while complete frames are left over. The socket does not
    /// report these again.
    @Test func aSubscriberThatSuspendsReadingReceivesEverything() throws {
        let count = 5000
        try Self.flood(count, seed: 3) { network, _ in
            let client = Client(to: "db:7000", speaking: .standard, on: network.loops)
            let buffering = PushBuffering(maximumCount: 10, overflow: .suspendReading)
            await expectNumberedPushes(count, from: client.pushes(buffering: buffering))
            await client.closeNow()
        }
    }

    /// Between two frames the caller requests none, so the connection holds what comes.
    @Test func aConnectionWithoutAClientReceivesEverything() throws {
        let count = 3000
        try Self.flood(count, seed: 4) { network, _ in
            let connection = Connection(to: "db:7000", speaking: .standard, on: network.loops)
            try await connection.withFrames { frames in
                var next: SerialNumber = 0
                for await frame in frames {
                    #expect(frame.serial == next)
                    next += 1
                    if next == count { break }
                }
            }
            await connection.closeNow()
        }
    }

    /// Regression: one mebibyte in records of one byte blocked the event loop for 2.3 s.
    @Test func aFloodOfTinyRecordsIsSpreadOverTurns() throws {
        let count = 500
        let authority = try TestAuthority()
        try Self.flood(0, seed: 5, tls: try authority.serverContext()) { network, server in
            let options = ClientOptions { $0.tls.roots = .only(authority.root) }
            let endpoint = Endpoint.host("db", port: 7000).secured()
            let turns = Turns(of: network.loop)
            let codec = CountingCodec(turns: turns)
            let client = Client(to: endpoint, speaking: codec, options: options, on: network.loops)
            let pushes = client.pushes(buffering: PushBuffering(maximumCount: count))
            try await client.connect()
            let peer = await server.peers[0]
            await peer.wait { $0.events.contains("connected") }
            await peer.writeSingly(numberedPushes(count))
            await expectNumberedPushes(count, from: pushes)
            // At most four reads of the socket, 128 records each.
            #expect(turns.most <= 4 * 128 / 12 + 1 && turns.count >= count * 12 / (4 * 128), "\(turns.most)")
            await client.closeNow()
            await peer.close()
        }
    }

    /// Regression: TLS has read everything from the socket, and reports once that it has more. The report came while
    /// reading was scheduled and was dropped. Frames behind a goAway were then not read until the socket had more data.
    @Test(arguments: 0..<UInt64(10))
    func framesThatTLSHoldsBehindAGoAwayAreDelivered(seed: UInt64) throws {
        let count = 40
        let network = SimulatedNetwork(seed: seed, conditions: .wide)
        let authority = try TestAuthority()
        let server = TestServer(on: network.loop, echoes: false, tls: try authority.serverContext())
        try network.runBlocking {
            try await server.listen(on: network.address("db"))
            let options = ClientOptions {
                $0.tls.roots = .only(authority.root)
                $0.failover.drainTimeout = .seconds(5)
            }
            let endpoint = Endpoint.host("db", port: 7000).secured()
            let client = Client(to: endpoint, speaking: PartsCodec.standard, options: options, on: network.loops)
            let pushes = client.pushes(buffering: PushBuffering(maximumCount: count))
            try await client.connect()
            let handle = client.start(ask("a"))
            let peer = await server.peers[0]
            await peer.wait { $0.received.count >= 12 + 1 }
            let goAway: [UInt8] = [0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0]
            let response: [UInt8] = [0, 0, 4, 0x10, 0, 0, 0, 50, 0, 0, 0, 1, 0x61]
            await peer.writeSingly(goAway + numberedPushes(count) + response)
            let began = network.clock.now.offset
            try await expectBody("a", of: handle)
            let took = network.clock.now.offset - began
            #expect(took < .milliseconds(10), "\(took)")
            await expectNumberedPushes(count, from: pushes)
            await client.closeNow()
            for peer in await server.peers { await peer.close() }
            await server.stop()
        }
    }

    /// Regression: while a draining link had more to read in every turn, the readiness of the other link's
    /// socket was ignored.
    @Test func aFloodOnADrainingLinkDoesNotDelayTheReadyOne() throws {
        let count = 50_000
        let network = SimulatedNetwork(seed: 9, conditions: .wide)
        let server = TestServer(on: network.loop, echoes: false)
        try network.runBlocking {
            try await server.listen(on: network.address("db"))
            let other = try await network.serve(at: "other:1", speaking: .standard, overTLS: false)
            // The flood takes 150 ms.
            let codec = CountingCodec(turns: Turns(of: network.loop)) { network.stall(for: .microseconds(3)) }
            let endpoints = [Endpoint.host("db", port: 7000), other.endpoint]
            let client = Client(to: endpoints, speaking: codec, on: network.loops)
            let pushes = client.pushes(buffering: PushBuffering(maximumCount: count))
            try await client.connect()
            let stays = client.start(ask("stays"))
            let peer = await server.peers[0]
            await peer.wait { $0.received.count >= 12 + 5 }
            try await client.switchEndpoint(to: other.endpoint)
            await client.becomesReady(at: other.endpoint)
            try await expectEcho("before", by: client)
            await peer.write(numberedPushes(count))
            try await network.clock.sleep(for: .milliseconds(2))
            let began = network.clock.now.offset
            try await expectEcho("meanwhile", by: client)
            let took = network.clock.now.offset - began
            #expect(took < .milliseconds(20), "\(took)")
            await expectNumberedPushes(count, from: pushes)
            #expect(stays.state == .written)
            await client.closeNow()
            await peer.close()
            await server.stop()
            await other.stop()
        }
    }

    /// Regression: when a write found the connection closed, the data that the server had sent before was read to its
    /// end in one turn: a million records of one byte, or 87,000 frames. A request that is made meanwhile goes out on
    /// the next link.
    @Test(arguments: [false, true], [false, true])
    func dataLeftOnABrokenLinkIsReadOverSeveralTurns(overTLS: Bool, isDraining: Bool) throws {
        // Over TLS the kernel holds at most 64 KiB of records at once.
        let count = overTLS ? 200 : 5000
        let network = SimulatedNetwork(seed: 7, conditions: .wide)
        let authority = try TestAuthority()
        let tls = overTLS ? try authority.serverContext() : nil
        let server = TestServer(on: network.loop, echoes: false, tls: tls)
        try network.runBlocking {
            try await server.listen(on: network.address("db"))
            let other = try await network.serve(at: "other:1", speaking: .standard, overTLS: false)
            let options = ClientOptions { $0.tls.roots = .only(authority.root) }
            let db = Endpoint.host("db", port: 7000)
            let turns = Turns(of: network.loop)
            let codec = InterruptedCodec(base: CountingCodec(turns: turns)) { network.reset("db") }
            let endpoints = [overTLS ? db.secured() : db] + (isDraining ? [other.endpoint] : [])
            let client = Client(to: endpoints, speaking: codec, options: options, on: network.loops)
            let pushes = client.pushes(buffering: PushBuffering(maximumCount: count))
            try await client.connect()
            let pending = client.start(ask("stays"))
            let peer = await server.peers[0]
            await peer.wait { $0.received.count >= 12 + 5 }
            if isDraining {
                try await client.switchEndpoint(to: other.endpoint)
                await client.becomesReady(at: other.endpoint)
            }
            let words = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0] + numberedPushes(count)
            if overTLS { await peer.writeSingly(words) } else { await peer.write(words) }
            var (next, meanwhile): (SerialNumber, PendingRequest<Response>?) = (0, nil)
            for await frame in pushes.messages.prefix(count) {
                #expect(frame.serial == next)
                next += 1
                if meanwhile == nil {
                    meanwhile = client.start(ask("meanwhile"))
                    // The present link is not lost yet.
                    if !isDraining { #expect(await client.metrics.connection.disconnects == [:]) }
                }
            }
            #expect(next == count)
            #expect(turns.most <= (overTLS ? 4 * 128 / 12 + 1 : ReadShare.frames), "\(turns.most)")
            #expect(turns.count >= (overTLS ? count * 12 / (4 * 128) : count / ReadShare.frames), "\(turns.count)")
            #expect(await failure(of: pending)?.code == .connectionLost)
            #expect(await client.metrics.connection.disconnects == [.reset: 1])
            if isDraining {
                try await expectBody("meanwhile", of: try #require(meanwhile))
            } else {
                while await server.peers.count < 2 { try await network.clock.sleep(for: .milliseconds(10)) }
                await server.peers[1].wait { $0.received.count >= 12 + 9 }
            }
            await client.closeNow()
            await server.stop()
            await other.stop()
        }
    }

    /// The data that the server sent before the reset is not consumed. A link in use then ends when there is no room to
    /// hold more. A draining link ends when its drain timeout is over.
    @Test(arguments: [false, true])
    func aSubscriberThatSuspendsReadingDoesNotKeepABrokenLink(isDraining: Bool) throws {
        let count = 5000
        try Self.flood(count, seed: 8) { network, server in
            let other = try await network.serve(at: "other:1", speaking: .standard, overTLS: false)
            let options = ClientOptions {
                $0.inbound.maximumHeld = 32 * 1024
                $0.failover.drainTimeout = .seconds(5)
                $0.liveness.heartbeat = .none
            }
            let codec = InterruptedCodec(base: FrameLayout.standard) { network.reset("db") }
            let endpoints = [Endpoint.host("db", port: 7000), other.endpoint]
            let client = Client(to: endpoints, speaking: codec, options: options, on: network.loops)
            let stream = client.pushes(buffering: PushBuffering(maximumCount: 10, overflow: .suspendReading))
            try await client.connect()
            let handle = client.start(ask("x"), timeout: .seconds(60))
            let peer = await server.peers[0]
            await peer.wait { $0.received.count >= 12 + 1 }
            try await network.clock.sleep(for: .milliseconds(100))
            if isDraining {
                try await client.switchEndpoint(to: other.endpoint)
                await client.becomesReady(at: other.endpoint)
            }
            handle.cancel()
            try await network.clock.sleep(for: .milliseconds(1))
            #expect(await client.metrics.connection.disconnects == (isDraining ? [:] : [.reset: 1]))
            try await network.clock.sleep(for: .seconds(5))
            #expect(await client.metrics.connection.disconnects == [.reset: 1])
            // The held frames arrive, in order.
            var next: SerialNumber = 0
            for await frame in stream.messages.prefix(100) {
                #expect(frame.serial == next)
                next += 1
            }
            #expect(next == 100)
            await client.closeNow()
            await other.stop()
        }
    }
}
