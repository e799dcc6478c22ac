import Testing

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// What arrived before a deadline is read before the deadline is judged, even if the process did not run meanwhile.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct StoppedProcessTests {}

extension StoppedProcessTests {
    /// Regression: the first turn after the stop fired the timers, and read the answers after that.
    @Test(arguments: 1...30 as ClosedRange<UInt64>)
    func answersThatArriveWhileTheProcessIsStoppedAreNoTimeouts(_ seed: UInt64) throws {
        try simulate(seed: seed, handler: { _ in .after(.seconds(1), .echo) }) { service, client in
            try await client.connect()
            let handles = (0..<50).map { client.start(ask($0), timeout: .seconds(2)) }
            try await service.pass(.milliseconds(500))
            service.network.stopProcess(for: .seconds(4))
            for (number, handle) in handles.enumerated() { try await expectBody(Bytes("\(number)"), of: handle) }
            #expect(service.now > .seconds(4))
            #expect(await service.server.journal.cancelCount == 0)
        }
    }

    /// The answer is behind more pushes than a link reads in one turn. Regression: the deadline was judged after the
    /// first turn.
    @Test(arguments: [20, 6000], [false, true])
    func answersBehindManyPushesAreNoTimeouts(pushes: Int, overTLS: Bool) throws {
        let flood: LoopbackServer.Handler = { _ in
            .sequence((0..<pushes).map { .push(Frame(.push, type: 0x10, serial: SerialNumber($0))) } + [.echo])
        }
        try simulate(conditions: .wide, overTLS: overTLS, handler: flood) { service, client in
            let stream = client.pushes(buffering: PushBuffering(maximumCount: pushes))
            try await client.connect()
            let handle = client.start(ask("a"), timeout: .seconds(2))
            try await service.server.waitForRequests(1)
            service.network.stopProcess(for: .seconds(4))
            try await expectBody("a", of: handle)
            _ = stream
        }
    }

    /// The answer is behind parts for many requests, whose copies are made in several turns. Regression: the deadline
    /// was judged after the first of these turns, although the answer had been read.
    @Test(arguments: 1...10 as ClosedRange<UInt64>)
    func answersBehindPartsForManyRequestsAreNoTimeouts(_ seed: UInt64) throws {
        try simulate(
            seed: seed,
            conditions: .wide,
            speaking: WordsCodec(maximumLine: 200_000),
            handler: { .after(.seconds(1), WordsCodec.answer(to: $0)) }
        ) { service, client in
            try await client.connect()
            let streams = streams(90, client)
            let lines = (0..<200).map { "parts all 0 - \($0)" }.joined(separator: "|")
            let request = Request(type: 2, body: Bytes("!\(lines)|through *"))
            let handle = client.start(request, timeout: .seconds(2))
            try await service.server.waitForRequests(91)
            service.network.stopProcess(for: .seconds(4))
            try await expectBody(Bytes((0..<200).map { "\($0)" }.joined()), of: handle)
            for stream in streams {
                let words = await words(of: stream)
                #expect(words == (0..<200).map { "+\($0)" } + [""], "\(words.count) \(words.suffix(2))")
            }
        }
    }

    /// The loop is busy while such copies are made, which is when the link is not read. Regression: the deadline was
    /// judged before the socket was read again.
    @Test func answersThatArriveWhileCopiesAreMadeAreNoTimeouts() throws {
        let network = Lock<SimulatedNetwork?>(nil)
        let options = ClientOptions {
            $0.requests.lateResponse = { _ in network.withLock { $0 }?.stall(for: .seconds(4)) }
        }
        var conditions = NetworkConditions.wide
        conditions.latency = .milliseconds(100)...(.milliseconds(100))
        try simulate(
            conditions: conditions,
            speaking: WordsCodec(maximumLine: 200_000),
            options: options,
            handler: { WordsCodec.answer(to: $0) }
        ) { service, client in
            network.withLock { $0 = service.network }
            try await client.connect()
            let streams = streams(90, client)
            let abandoned = client.start(Request(type: 2, body: "abandoned"))
            let waiting = client.start(Request(type: 2, body: "waiting"), timeout: .milliseconds(1500))
            try await service.server.waitForRequests(92)
            let (first, second) = (try #require(abandoned.serial), try #require(waiting.serial))
            abandoned.cancel()
            _ = await failure(of: abandoned)
            let lines = ["ask 2 \(first) late"] + (0..<100).map { "parts all 0 1 \($0)" } + [""]
            let answer = Reaction.garbage(Bytes("ask 2 \(second) just in time\n"))
            await service.server.script(
                .sequence([.garbage(Bytes(lines.joined(separator: "\n"))), .after(.milliseconds(1), answer)])
            )
            let handle = client.start(Request(type: 2, body: "begin"), timeout: .seconds(60))
            try await expectBody("just in time", of: waiting)
            #expect(service.now > .seconds(4))
            _ = try await client.send(Request(type: 2, body: "!all"))
            _ = try await handle.value
            for stream in streams {
                let words = await words(of: stream)
                #expect(words == (0..<100).map { "+\($0)" } + [""], "\(words.count) \(words.suffix(2))")
            }
        }
    }

    private func streams(_ count: Int, _ client: Client) -> [ReplyStream<Response>] {
        (0..<count).map { number in
            client.stream(
                Request(type: 1, body: Bytes("\(number)")),
                timeout: .seconds(60),
                partTimeout: .seconds(60),
                buffering: ReplyBuffering(maximumCount: 300)
            )
        }
    }

    /// On a link that brings more than the client can read, a deadline is judged after 8 MiB: at 50 µs for each KiB,
    /// after 410 ms.
    @Test func aFloodDoesNotPostponeDeadlinesForEver() throws {
        let network = SimulatedNetwork(seed: 1, conditions: .wide)
        let push: [UInt8] = [0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 4, 0] + [UInt8](repeating: 0, count: 1024)
        var banner: [UInt8] = []
        for _ in 0..<16_000 { banner += push }
        let server = TestServer(on: network.loop, echoes: false, banner: banner)
        try network.runBlocking {
            try await server.listen(on: network.address("db"))
            let options = ClientOptions { $0.liveness.heartbeat = .none }
            let codec = SlowCodec { network.stall(for: .microseconds(50)) }
            let client = Client(to: "db:7000", speaking: codec, options: options, on: network.loops)
            try await client.connect()
            let began = network.clock.now.offset
            let error = await failure { () throws(ClientError) in
                try await client.send(ask("a"), timeout: .milliseconds(100))
            }
            #expect(error?.code == .timedOut)
            let took = network.clock.now.offset - began
            #expect((.milliseconds(400)...(.milliseconds(600))).contains(took), "\(took)")
            await client.closeNow()
            await server.stop()
        }
    }

    /// A heartbeat's answer, and a handshake's, arrive while the process is stopped. Regression: the link was declared
    /// dead, and the handshake began again on a new link.
    @Test(arguments: 1...20 as ClosedRange<UInt64>)
    func heartbeatsAndHandshakesSurviveAStop(_ seed: UInt64) throws {
        var options = ClientOptions {
            $0.liveness.interval = .seconds(3)
            $0.liveness.deadline = .seconds(2)
        }
        options.handshake.perform = { handshaker in
            _ = try await handshaker.send(ask("user"))
            _ = try await handshaker.send(ask("password"))
        }
        let delayed: LoopbackServer.Handler = { _ in .after(.seconds(1), .echo) }
        try simulate(seed: seed, options: options, handler: delayed) { service, client in
            await service.server.answerPings(after: .milliseconds(500))
            async let connecting: Void = client.connect()
            try await service.server.waitForRequests(1)
            service.network.stopProcess(for: .seconds(20))
            try await connecting
            #expect(await service.server.journal.requestCount == 2)
            // The ping is on its way at the beginning of the stop.
            let pings = await service.server.journal.pingCount
            try await service.server.wait { $0.pingCount > pings }
            service.network.stopProcess(for: .seconds(20))
            try await service.pass(.seconds(30))
            let metrics = await client.metrics.connection
            #expect(metrics.links == 1 && metrics.attempts == 1 && metrics.disconnects == [:])
        }
    }

    /// The requests of a draining link are answered while the process is stopped.
    @Test(arguments: 1...20 as ClosedRange<UInt64>)
    func drainingLinksAreReadBeforeTheirDeadline(_ seed: UInt64) throws {
        let options = ClientOptions { $0.failover.drainTimeout = .seconds(2) }
        try simulate(
            seed: seed,
            options: options,
            handler: { _ in .after(.seconds(1), .echo) }
        ) { service, client in
            try await client.connect()
            let handles = (0..<10).map { client.start(ask($0), timeout: .seconds(60)) }
            try await service.server.waitForRequests(10)
            await client.renewLink()
            try await service.pass(.milliseconds(100))
            service.network.stopProcess(for: .seconds(10))
            for (number, handle) in handles.enumerated() { try await expectBody(Bytes("\(number)"), of: handle) }
        }
    }

    /// The answer to an abandoned request arrives while its serial is in quarantine, and the process is stopped until
    /// the quarantine is over. Then the serial must not be given to another request first.
    @Test(arguments: 1...20 as ClosedRange<UInt64>)
    func lateAnswersAreReadBeforeTheirQuarantineEnds(_ seed: UInt64) throws {
        let options = ClientOptions { $0.requests.quarantine = .seconds(2) }
        let handler: LoopbackServer.Handler = { $0.body == "slow" ? .after(.seconds(1), .reply("late")) : .echo }
        let server = LoopbackServer.Options { $0.answersCancelled = true }
        try simulate(
            seed: seed,
            speaking: standardLayout(serials: 50...50),
            server: server,
            options: options,
            handler: handler
        ) { service, client in
            try await client.connect()
            let slow = client.start(ask("slow"))
            try await service.server.waitForRequests(1)
            slow.cancel()
            _ = await failure(of: slow)
            let next = client.start(ask("next"), timeout: .seconds(60))
            service.network.stopProcess(for: .seconds(10))
            try await expectBody("next", of: next)
            #expect(await client.metrics.lateResponses == 1)
        }
    }

    /// The standard layout, whose frames take long to decode.
    private struct SlowCodec: FrameCodec {
        var base: FrameLayout = .standard
        /// Called for each frame.
        let work: @Sendable () -> Void

        init(_ work: @escaping @Sendable () -> Void) { self.work = work }

        var matching: ResponseMatching { base.matching }
        mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
            let frame = try base.decode(&input)
            if frame != nil { work() }
            return frame
        }
        mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
            try base.encode(frame, into: &output)
        }
    }
}
