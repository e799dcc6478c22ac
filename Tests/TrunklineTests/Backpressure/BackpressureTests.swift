import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLoopback

/// Links whose received frames are not consumed, because the buffer of a subscriber or of a streamed reply is full.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct BackpressureTests {}

extension BackpressureTests {
    /// For "flood" the server sends `count` pushes of 1000 bytes. It echoes "last" and closes the link. It echoes
    /// everything else.
    private static func handler(_ count: Int) -> LoopbackServer.Handler {
        { request in
            guard request.body == "flood" else { return request.body == "last" ? .sequence([.echo, .close]) : .echo }
            return .sequence(
                (0..<count).map {
                    .push(Frame(.push, type: 2, body: filled(1000, with: UInt8(truncatingIfNeeded: $0))))
                }
            )
        }
    }

    /// Runs `body` with a client whose subscriber reads none of `count` pushes. Its buffer holds two, then
    /// reading is suspended.
    private func simulateFull(
        _ count: Int,
        _ change: (inout ClientOptions) -> Void = { _ in },
        _ body: @escaping @Sendable (SimulatedService, Client, PushStream) async throws -> Void
    ) throws {
        let options = ClientOptions(change)
        try simulate(options: options, handler: Self.handler(count)) { service, client in
            let pushes = client.pushes(buffering: PushBuffering(maximumCount: 2, overflow: .suspendReading))
            try await client.post(ask("flood"))
            try await service.pass(.seconds(1))
            #expect(await client.connection.isPaused)
            try await body(service, client, pushes)
        }
    }

    /// Regression: the pings were not even read.
    @Test func theServersPingsAreAnsweredWhileASubscriberReadsNothing() throws {
        try simulateFull(20) { service, client, pushes in
            for _ in 0..<5 {
                try await service.server.ping()
                try await service.pass(.seconds(20))
            }
            #expect(await service.server.journal.pongCount == 5)
            #expect(await client.metrics.connection.links == 1)
            var numbers: [UInt8] = []
            for await frame in pushes.messages.prefix(20) { numbers.append(frame.body.first ?? 255) }
            #expect(numbers == Array(0..<20))
        }
    }

    @Test func theServersPingsAreAnsweredWhileAReplyIsNotRead() throws {
        let handler: LoopbackServer.Handler = { _ in .parts(numbers(50), every: .milliseconds(10)) }
        try simulate(speaking: PartsCodec.standard, handler: handler) { service, client in
            let stream = client.stream(ask("x"), buffering: ReplyBuffering(maximumCount: 2))
            try await service.pass(.seconds(2))
            #expect(await client.connection.isPaused)
            try await service.server.ping()
            try await service.pass(.seconds(1))
            #expect(await service.server.journal.pongCount == 1)
            #expect(await words(of: stream) == numbers(50).map { "+" + String($0) } + ["x"])
        }
    }

    /// Regression: the link was kept as long as the subscriber did not read.
    @Test func aDeadLinkIsNoticedWhileASubscriberReadsNothing() throws {
        try simulateFull(20) { service, client, pushes in
            try await service.pass(.seconds(100))
            #expect(await client.metrics.connection.disconnects.isEmpty)
            service.network.halfOpen("db")
            try await service.pass(.seconds(41))
            #expect(await client.metrics.connection.disconnects == [.halfOpen: 1])
            var (count, isReconnected) = (0, false)
            for await push in pushes {
                if case .message = push { count += 1 }
                if case .reconnected = push { isReconnected = true }
                if isReconnected { break }
            }
            #expect(count == 20)
        }
    }

    @Test func aHeldResponseIsDeliveredAfterItsLinkIsLost() throws {
        try simulateFull(20) { service, client, pushes in
            let handle = client.start(ask("last"), timeout: .seconds(60))
            try await service.pass(.seconds(2))
            try await expectBody("last", of: handle)
            #expect(await client.metrics.connection.disconnects == [.closedByServer: 1])
            withExtendedLifetime(pushes) {}
        }
    }

    @Test func responsesWaitBehindHeldFrames() throws {
        try simulateFull(20) { service, client, pushes in
            let handle = client.start(ask("a"), timeout: .seconds(60))
            try await service.pass(.seconds(30))
            #expect(handle.state == .written)
            for await _ in pushes.messages.prefix(20) {}
            try await expectBody("a", of: handle)
        }
    }

    /// The time that requests spend behind held frames does not count against the server.
    @Test func timeoutsWhileReadingIsSuspendedDoNotEndTheLink() throws {
        try simulateFull(20, { $0.liveness.heartbeat = .none }) { service, client, pushes in
            for _ in 0..<60 { _ = client.start(ask("a"), timeout: .seconds(1)) }
            for _ in 0..<20 { _ = try? await client.send(ask("a"), timeout: .seconds(1)) }
            #expect(await client.metrics.connection.disconnects.isEmpty)
            for await _ in pushes.messages.prefix(20) {}
            try await expectEcho("b", by: client)
            #expect(await client.metrics.connection.links == 1)
        }
    }

    /// The standard layout. A response "bye" is the last one of its link.
    private struct ByeCodec: FrameCodec, ServerSideCodec {
        var base = FrameLayout.standard
        var matching: ResponseMatching { base.matching }
        mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
            var frame = try base.decode(&input)
            if frame?.kind == .response, frame?.body == "bye" { frame?.markLinkEnding() }
            return frame
        }
        mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
            try base.encode(frame, into: &output)
        }
        func serverSide() -> any FrameCodec { base.serverSide() }
    }

    /// Frames that are held when a link breaks are handled first. One of them may itself end the link.
    @Test func aHeldFrameMayEndALinkThatHasBroken() throws {
        let handler: LoopbackServer.Handler = { $0.body == "lost" ? .noReply : Self.handler(20)($0) }
        try simulate(speaking: ByeCodec(), handler: handler) { service, client in
            let pushes = client.pushes(buffering: PushBuffering(maximumCount: 2, overflow: .suspendReading))
            try await client.post(ask("flood"))
            try await service.pass(.seconds(1))
            #expect(await client.connection.isPaused)
            let (lost, bye) = (client.start(ask("lost")), client.start(ask("bye")))
            try await service.pass(.seconds(1))
            service.network.reset("db")
            try await service.pass(.seconds(1))
            try await expectBody("bye", of: bye)
            #expect(await failure(of: lost)?.fate == .unknown)
            #expect(await client.metrics.pending == 0)
            withExtendedLifetime(pushes) {}
        }
    }

    // MARK: When the limit of held bytes is reached

    @Test(arguments: [0, 10_000])
    func aResetIsNoticedAlthoughNothingIsRead(_ maximumHeld: Int) throws {
        try simulateFull(600, { $0.inbound.maximumHeld = maximumHeld }) { service, client, pushes in
            #expect(await service.server.journal.bytesSent < 600_000)
            try await service.pass(.seconds(100))
            service.network.reset("db")
            try await service.pass(.seconds(31))
            #expect(await client.metrics.connection.disconnects == [.reset: 1])
            #expect(await client.metrics.connection.links == 2)
            withExtendedLifetime(pushes) {}
        }
    }

    @Test func aLinkThatIsNotReadIsNotClosedForSilence() throws {
        try simulateFull(600, { $0.inbound.maximumHeld = 10_000 }) { service, client, pushes in
            try await service.pass(.seconds(3600))
            #expect(await client.metrics.connection.disconnects.isEmpty)
            var numbers: [UInt8] = []
            for await frame in pushes.messages.prefix(600) { numbers.append(frame.body.first ?? 255) }
            #expect(numbers == (0..<600).map { UInt8(truncatingIfNeeded: $0) })
        }
    }

    // MARK: Links that follow one another

    /// Runs `body` with a server that sends 5,000 pushes of 300 bytes on every link, and the options of a client.
    ///
    /// - Parameter hasHandshake: Whether the pushes come during the handshake, so that all of them are read.
    private func simulateFloods(
        hasHandshake: Bool,
        _ body: @escaping @Sendable (SimulatedService, ClientOptions) async throws -> Void
    ) throws {
        let flood = (0..<5000).map { _ in Reaction.push(Frame(.push, type: 2, body: filled(300))) }
        let serverOptions = LoopbackServer.Options { $0.onConnect = .sequence(flood) }
        let options = ClientOptions {
            // A link that is not read is examined at this interval.
            $0.liveness.interval = .seconds(1)
            $0.inbound.maximumHeld = 200_000
            $0.reconnecting.policy = Backoff(cap: .milliseconds(200))
            if hasHandshake { $0.handshake.perform = { _ = try await $0.send(ask("login")) } }
        }
        try simulate(server: serverOptions) { service, _ in try await body(service, options) }
    }

    /// The most pushes of 300 bytes that links may leave behind: 200,000 bytes and 1 MiB, and what was read together with
    /// the push that filled the buffer.
    private static let mostPushes = (200_000 + 1024 * 1024) / 300 + 512

    /// Regression: every lost link added what it held to a full buffer. With a server that reset its links every second,
    /// a buffer for 4 pushes had 344,696 after half a minute.
    @Test(arguments: [false, true])
    func manyLostLinksDoNotFillABufferBeyondOneLimit(hasHandshake: Bool) throws {
        try simulateFloods(hasHandshake: hasHandshake) { service, options in
            let client = service.client(options: options)
            let pushes = client.pushes(buffering: PushBuffering(maximumCount: 4, overflow: .suspendReading))
            for _ in 0..<60 {
                try await service.pass(.seconds(3))
                service.network.reset("db")
            }
            try await service.pass(.seconds(3))
            #expect(await client.metrics.connection.links > 20)
            let late = client.start(ask("late"), timeout: .seconds(600))
            // The reader catches up, and everything goes on: also the responses.
            let reading = Task(executorPreference: service.network.executor) {
                var (messages, gaps, links) = (0, 0, 0)
                for await push in pushes {
                    switch push {
                    case .message: messages += 1
                    case .dropped(let count): gaps += count
                    case .reconnected: links += 1
                    @unknown default: break
                    }
                }
                return (messages, gaps, links)
            }
            try await expectBody("late", of: late)
            pushes.finish()
            let (messages, gaps, links) = await reading.value
            // What came before the buffer was full, and the last link, which is read to its end.
            #expect(messages <= Self.mostPushes + 10_000 && messages > 5000)
            #expect(links > 0 && (gaps > 0) == hasHandshake)
            #expect(await client.metrics.pushesDropped == gaps)
            await client.closeNow()
        }
    }

    /// The same for the frames of a connection whose consumer asks for none.
    @Test(arguments: [false, true])
    func manyLostLinksDoNotFillTheFramesOfAConnectionBeyondOneLimit(hasHandshake: Bool) throws {
        try simulateFloods(hasHandshake: hasHandshake) { service, options in
            let connection = service.network.connection(to: ["db:7000"], speaking: .standard, options: options)
            try await connection.withFrames { stream in
                var frames = stream.makeAsyncIterator()
                #expect(await frames.next()?.kind == .push)
                for _ in 0..<60 {
                    try await service.pass(.seconds(3))
                    service.network.reset("db")
                }
                try await service.pass(.seconds(3))
                #expect(await connection.metrics.links > 20)
                // With the first and the present link.
                #expect(await connection.inboxCount <= Self.mostPushes + 10_000)
                // It goes on with the frames of the present link.
                var session: SessionID?
                for await case .ready(_, let number) in connection.states {
                    session = number
                    break
                }
                while let frame = await frames.next(), frame.session != session {}
            }
            await connection.close()
        }
    }
}

extension Connection {
    /// The number of frames that no task has taken yet.
    fileprivate var inboxCount: Int { driver.frameUse?.inbox.count ?? 0 }
}
