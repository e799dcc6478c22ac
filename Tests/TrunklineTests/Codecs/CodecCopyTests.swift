import Testing

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// Every member of a codec that concerns one link runs on the copy of that link, on the client and on the test server.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct CodecCopyTests {}

extension CodecCopyTests {
    /// What the members of `CountingCodec` were called with: how many frames the copy had decoded by then.
    final class Calls: Sendable {
        private let counts = Lock<[String: [Int]]>([:])

        func note(_ member: String, _ decoded: Int) {
            counts.withLock { $0[member, default: []].append(decoded) }
        }

        /// Whether `member` was called, the last time on a copy that has decoded frames.
        func hasStateOfLink(_ member: String) -> Bool { counts.withLock { $0[member]?.last ?? 0 } > 0 }
    }

    /// The standard layout, which counts the frames that each copy decodes. A push of type 2 is a `goAway`.
    struct CountingCodec: FrameCodec, HeartbeatCodec, CancellingCodec, ClosingCodec, GoAwayCodec, PipeliningCodec,
        ServerSideCodec
    {
        var base: any FrameCodec = FrameLayout.standard
        var matching: ResponseMatching = FrameLayout.standard.matching
        var side = "client"
        let calls: Calls
        var decoded = 0

        mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
            guard var frame = try base.decode(&input) else { return nil }
            decoded += 1
            if frame.kind == .push, frame.type == 2 { frame.kind = .goAway }
            return frame
        }
        mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
            try base.encode(frame, into: &output)
        }
        var pongsLookLikePings: Bool { ProtocolCodec(base).pongsLookLikePings }
        func ping(number: UInt64) -> Frame? {
            calls.note("\(side) ping", decoded)
            return LinkCodec(base).ping(number: number)
        }
        func pong(answering ping: Frame) -> Frame? {
            calls.note("\(side) pong", decoded)
            return LinkCodec(base).pong(answering: ping)
        }
        func cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame? {
            calls.note("\(side) cancelFrame", decoded)
            return LinkCodec(base).cancelFrame(for: serial, type: type)
        }
        func closingFrame() -> Frame? {
            calls.note("\(side) closingFrame", decoded)
            return nil
        }
        func retryAfter(in goAway: Frame) -> Duration? {
            calls.note("\(side) retryAfter", decoded)
            return nil
        }
        func mayPipeline(behind request: Frame) -> Bool {
            calls.note("\(side) mayPipeline", decoded)
            return true
        }
        func serverSide() -> any FrameCodec {
            var codec = self
            (codec.base, codec.side) = (ProtocolCodec(base).serverSide(), "server")
            return codec
        }
    }

    /// Regression: `ping`, `pong`, `cancelFrame`, `retryAfter` and `mayPipeline` ran on a codec without the state of the
    /// link.
    @Test func membersThatConcernALinkRunOnItsCopy() throws {
        let calls = Calls()
        let handler: LoopbackServer.Handler = { $0.body == "slow" ? .noReply : .echo }
        try simulate(speaking: CountingCodec(calls: calls), handler: handler) { service, client in
            try await expectEcho("a", by: client)
            try await service.server.ping()
            try await service.pass(.seconds(1))
            #expect(calls.hasStateOfLink("client pong"))
            #expect(calls.hasStateOfLink("server ping"))
            let slow = client.start(ask("slow"))
            try await service.server.waitForRequests(2)
            slow.cancel()
            _ = await failure(of: slow)
            #expect(calls.hasStateOfLink("client cancelFrame"))
            try await service.pass(.seconds(35))
            #expect(calls.hasStateOfLink("client ping"))
            #expect(calls.hasStateOfLink("server pong"))
            try await service.server.push(Frame(.push, type: 2))
            try await service.pass(.seconds(1))
            #expect(calls.hasStateOfLink("client retryAfter"))
            try await expectEcho("b", by: client)
            await client.close()
            #expect(calls.hasStateOfLink("client closingFrame"))
        }
    }

    @Test func aProtocolMatchedInOrderAsksTheCopyOfTheLinkToo() throws {
        let calls = Calls()
        var options = ClientOptions()
        options.handshake.perform = { handshaker in
            _ = await handshaker.send(all: [ask("user"), ask("password"), ask("database")])
            #expect(!calls.hasStateOfLink("client mayPipeline"))
            _ = await handshaker.send(all: [ask("user"), ask("password")])
            #expect(calls.hasStateOfLink("client mayPipeline"))
            calls.note("client mayPipeline", 0)
        }
        let codec = CountingCodec(matching: .inOrder, calls: calls)
        try simulate(speaking: codec, options: options) { _, client in
            try await expectEcho("a", by: client)
            try await expectEcho("b", by: client)
            #expect(calls.hasStateOfLink("client mayPipeline"))
        }
    }

    // MARK: Codecs without a heartbeat now

    /// How a protocol says that it has no ping now.
    enum Refusal: CaseIterable { case noPing, throwing }

    /// The standard layout, in which no pings are allowed between the requests "idle" and "done".
    struct IdlingCodec: FrameCodec, HeartbeatCodec, SentFrameCodec, ServerSideCodec {
        var base = FrameLayout.standard
        let refusal: Refusal
        var isIdling = false

        var matching: ResponseMatching { base.matching }
        mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? { try base.decode(&input) }
        mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
            if frame.kind == .ping, isIdling { throw FrameError(.malformed, "no ping while idling") }
            try base.encode(frame, into: &output)
        }
        mutating func noteSent(_ frame: Frame) {
            if frame.body == "idle" { isIdling = true }
            if frame.body == "done" { isIdling = false }
        }
        var pongsLookLikePings: Bool { base.pongsLookLikePings }
        func ping(number: UInt64) -> Frame? {
            isIdling && refusal == .noPing ? nil : base.ping(number: number)
        }
        func pong(answering ping: Frame) -> Frame? { base.pong(answering: ping) }
        func serverSide() -> any FrameCodec { base.serverSide() }
    }

    /// Regression: pings were sent at a time when the protocol forbids them. If the codec could not encode them, the
    /// link was closed.
    @Test(arguments: Refusal.allCases)
    func aCodecWithoutAPingNowKeepsItsLink(_ refusal: Refusal) throws {
        try simulate(speaking: IdlingCodec(refusal: refusal)) { service, client in
            try await expectEcho("idle", by: client)
            try await service.pass(.seconds(600))
            #expect(await service.server.journal.pingCount == 0)
            #expect(await client.metrics.connection.links == 1)
            try await expectEcho("done", by: client)
            try await service.pass(.seconds(100))
            #expect(await service.server.journal.pingCount > 0)
            // From now on a dead link is noticed as before.
            service.network.halfOpen("db")
            try await service.pass(.seconds(41))
            let metrics = await client.metrics.connection
            #expect(metrics.disconnects == [.halfOpen: 1])
        }
    }

    /// Without a ping, the rules apply that hold for protocols without heartbeats.
    @Test(arguments: Refusal.allCases)
    func withoutAPingNowTimeoutsAndIncompleteFramesEndTheLink(_ refusal: Refusal) throws {
        let handler: LoopbackServer.Handler = { $0.body == "half" ? .hangMidFrame() : .echo }
        let codec = IdlingCodec(refusal: refusal)
        try simulate(speaking: codec, handler: handler) { service, client in
            let spare = try await service.startServer(at: "spare:7000", speaking: codec)
            let other = service.client(of: ["db:7000", "spare:7000"], speaking: codec)
            try await expectEcho("idle", by: other)
            await service.server.fallSilent()
            for _ in 0..<4 { _ = try? await other.send(ask("a"), timeout: .seconds(2)) }
            try await expectEcho("b", by: other)
            #expect(await spare.totalConnections == 1)
            await service.server.speakAgain()
            await other.close()
            await spare.stop()
            try await expectEcho("idle", by: client)
            let half = client.start(ask("half"), timeout: .seconds(60))
            let error = await failure(of: half)
            #expect(error?.code == .connectionLost && (error?.cause as? TransportError)?.code == .halfOpen)
            #expect(service.now < .seconds(60))
        }
    }

    /// The subscriptions of a handshake may leave the link without a ping from the beginning.
    @Test func aLinkThatBecomesReadyWithoutAPingHasOneLater() throws {
        var options = ClientOptions()
        options.handshake.perform = { _ = try await $0.send(ask("idle")) }
        try simulate(speaking: IdlingCodec(refusal: .noPing), options: options) { service, client in
            try await client.connect()
            try await service.pass(.seconds(100))
            #expect(await service.server.journal.pingCount == 0)
            try await expectEcho("done", by: client)
            try await service.pass(.seconds(100))
            #expect(await service.server.journal.pingCount > 0)
            #expect(await client.metrics.connection.links == 1)
        }
    }
}
