import Testing

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// How waiting callers end when a client, a connection or a link closes, and how long closing takes.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct ClosingTests {}

extension ClosingTests {
    /// Regression: half of a frame is in the kernel when `closeNow` is called. Its writer received `notSent`, and would
    /// have sent the frame again although the server had begun to read it.
    @Test func aPartlyWrittenFrameHasFateUnknownAfterCloseNow() throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            let server = try await network.serve(at: "db:7000", speaking: .standard) { _ in .noReply }
            let connection = network.connection(to: ["db:7000"], speaking: .standard)
            try await connection.write(Frame(.request, type: 0x410))
            await server.pauseReading()
            async let large = failure { () throws(ClientError) in
                try await connection.write(Frame(.request, type: 0x410, body: filled(1_000_000)))
            }
            try await network.clock.sleep(for: .seconds(1))
            async let waiting = failure { () throws(ClientError) in
                try await connection.write(Frame(.request, type: 0x410, body: filled(10)))
            }
            try await network.clock.sleep(for: .seconds(1))
            await connection.closeNow()
            let errors = await [large, waiting]
            #expect(errors.map { $0?.code } == [.closed, .closed])
            #expect(errors.map { $0?.fate } == [.unknown, .notSent])
            await server.stop()
        }
    }

    /// Regression: `disconnects` ended when the connection was deallocated, not when it was closed. A task that
    /// iterated it and held the client waited for ever. A report that waited for the user's probe also kept a timer.
    @Test func reportsEndWhenTheClientIsClosed() throws {
        let network = SimulatedNetwork(seed: 1)
        let options = ClientOptions { options in
            options.reconnecting.policy = Backoff(minimum: .seconds(60), cap: .seconds(60))
            options.diagnosis.probe = { _ in
                (try? await network.clock.sleep(for: .seconds(2))) == nil
            }
        }
        try network.runBlocking {
            let server = try await network.serve(at: "db:7000", speaking: .standard)
            let client = network.client(of: ["db:7000"], speaking: .standard, options: options)
            let reports = client.disconnects
            try await client.connect()
            network.reset("db")
            try await network.clock.sleep(for: .seconds(1))
            await client.closeNow()
            var causes: [DisconnectCause] = []
            for await report in reports {
                causes.append(report.cause)
                #expect(report.isNetworkUp == nil)
            }
            #expect(causes == [.reset])
            #expect(network.clock.now.offset < .milliseconds(1100))
            await server.stop()
        }
        #expect(network.loop.timers.armedCount == 0)
    }

    /// Regression: the deadlines of requests that had ended were still watched after the end. A timer of a closed
    /// client fired as late as the longest timeout.
    @Test func aClosedClientHasNoTimer() throws {
        try simulate { service, client in
            try await expectEcho("a", by: client, timeout: .seconds(3600))
            let handle = client.start(ask("b"), timeout: .seconds(7200))
            await client.closeNow()
            _ = await failure(of: handle)
            let deadline = await client.nextDeadline
            #expect(deadline == nil)
        }
    }

    /// A handle outlives its client. A request that was not written then has the fate `notSent`, and may be sent
    /// again elsewhere.
    @Test func handlesOfADeallocatedClientReportTheRightFate() throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            let server = try await network.serve(at: "db:7000", speaking: .standard) { _ in .noReply }
            var client: Client? = network.client(of: ["db:7000"], speaking: .standard)
            let written = client?.start(ask("a"))
            try await server.waitForRequests(1)
            await server.pauseReading()
            let half = client?.start(ask(filled(1_000_000)))
            let unsent = client?.start(ask("b"))
            try await network.clock.sleep(for: .seconds(1))
            client = nil
            var fates: [ClientError.Fate?] = []
            for handle in [written, half, unsent] {
                let error = await failure { () throws(ClientError) in try await handle?.value }
                #expect(error?.code == .closed)
                fates.append(error?.fate)
            }
            #expect(fates == [.unknown, .unknown, .notSent])
            await server.stop()
        }
    }

    /// The last frame of a server.
    enum LastFrame: CaseIterable, Sendable {
        case response, malformedPart, goAway

        func frame(_ serial: SerialNumber) -> Frame {
            switch self {
            case .response: return Frame(.response, type: 0x410, serial: serial, body: "late")
            case .malformedPart:
                var part = Frame(.part, type: 0x410, serial: serial)
                part.malformedReason = .malformed
                return part
            case .goAway: return Frame(.goAway)
            }
        }
    }

    /// Regression: the client was deallocated, and a frame came before its connection was closed. Handles and accepted
    /// messages that the frame concerned never ended.
    @Test(arguments: LastFrame.allCases)
    func aFrameReceivedAfterDeallocationLeavesNoHandleWaiting(_ last: LastFrame) throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            let server = try await network.serve(at: "db:7000", speaking: .standard) { _ in .noReply }
            let owner = Lock<Client?>(network.client(of: ["db:7000"], speaking: .standard))
            let connection = try #require(owner.withLock { $0?.connection })
            let room = try #require(owner.withLock { $0?.messageRoom })
            let written = try #require(owner.withLock { $0?.start(ask("a")) })
            try await server.waitForRequests(1)
            await server.pauseReading()
            let half = try #require(owner.withLock { $0?.start(ask(filled(1_000_000))) })
            let unsent = try #require(owner.withLock { $0?.start(ask("b")) })
            try owner.withLock { client in Result { try client?.tryEnqueue(ask("c")) } }.get()
            try await network.clock.sleep(for: .seconds(1))
            #expect(unsent.serial != nil && !room.isEmpty)
            let isAlone = await connection.take(last.frame(written.serial ?? 0), afterDropping: owner)
            #expect(isAlone)
            let errors = [await failure(of: written), await failure(of: half), await failure(of: unsent)]
            #expect(errors.map { $0?.code } == [.closed, .closed, .closed])
            #expect(errors.map { $0?.fate } == [.unknown, .unknown, .notSent])
            #expect(room.isEmpty && room.failures == 1)
            await server.stop()
        }
    }

    /// Regression: a frame that was lost with a link that the peer reset failed with `closed`. The policy was also
    /// asked for the next attempt. When it ended reconnecting, a frame that had not started failed with `unavailable`.
    @Test(arguments: [false, true])
    func errorsOfWritesWhileClosingDependOnWhichSideEndedTheLink(byPeer: Bool) throws {
        let network = SimulatedNetwork(seed: 1)
        let options = ClientOptions { $0.reconnecting.policy = nil }
        try network.runBlocking {
            let server = try await network.serve(at: "db:7000", speaking: .standard) { _ in .noReply }
            let connection = network.connection(to: ["db:7000"], speaking: .standard, options: options)
            try await connection.write(Frame(.request, type: 0x410))
            await server.pauseReading()
            async let half = failure { () throws(ClientError) in
                try await connection.write(Frame(.request, type: 0x410, body: filled(1_000_000)))
            }
            try await network.clock.sleep(for: .seconds(1))
            async let unsent = failure { () throws(ClientError) in
                try await connection.write(Frame(.request, type: 0x410, body: filled(10)))
            }
            try await network.clock.sleep(for: .seconds(1))
            let reports = connection.disconnects
            async let closing: Void = connection.close()
            try await network.clock.sleep(for: .seconds(1))
            if byPeer { network.reset("db") } else { await connection.closeNow() }
            await closing
            let errors = await [half, unsent]
            #expect(errors.map { $0?.code } == [byPeer ? .connectionLost : .closed, .closed])
            #expect(errors.map { $0?.fate } == [.unknown, .notSent])
            var causes: [DisconnectCause] = []
            for await report in reports {
                causes.append(report.cause)
                #expect(report.phase == .draining && report.requestsLost == (byPeer ? 1 : 0))
            }
            #expect(causes == [byPeer ? .reset : .closedLocally])
            #expect(await connection.metrics.attempts == 1)
            await server.stop()
        }
    }

    /// A closing client waits for its requests first.
    @Test(arguments: [false, true])
    func errorsOfRequestsWhileClosingDependOnWhichSideEndedTheLink(byPeer: Bool) throws {
        try simulate(handler: { _ in .noReply }) { service, client in
            let handle = client.start(ask("a"), timeout: .seconds(600))
            let stream = client.stream(ask("b"), partTimeout: .seconds(600))
            try await service.server.waitForRequests(2)
            async let closing: Void = client.close()
            try await service.pass(.seconds(1))
            if byPeer { service.network.reset("db") } else { await client.closeNow() }
            await closing
            let error = await failure(of: handle)
            #expect(error?.code == (byPeer ? .connectionLost : .closed) && error?.fate == .unknown)
            #expect(await words(of: stream) == [byPeer ? "connectionLost unknown" : "closed unknown"])
        }
    }

    /// An owner that records whether the connection calls it during one of its own calls.
    private final class Owner: ConnectionOwner, Sendable {
        private let state = Lock((isCalling: false, wasInterrupted: false))

        var wasInterrupted: Bool { state.withLock { $0.wasInterrupted } }

        func handle(_ events: inout [ConnectionEvent]) {
            state.withLock { if $0.isCalling { $0.wasInterrupted = true } }
            events.removeAll()
        }

        func calling<Result>(_ body: () -> Result) -> Result {
            state.withLock { $0.isCalling = true }
            defer { state.withLock { $0.isCalling = false } }
            return body()
        }
    }

    /// Regression: closing published the report that waited for the user's probe. This delivered the connection's own
    /// events before closing was complete.
    @Test func closingDuringAProbeDoesNotCallTheOwner() throws {
        let network = SimulatedNetwork(seed: 1)
        let options = ClientOptions { options in
            options.reconnecting.policy = Backoff(minimum: .seconds(60), cap: .seconds(60))
            options.diagnosis.probe = { _ in
                (try? await network.clock.sleep(for: .seconds(2))) == nil
            }
        }
        try network.runBlocking {
            let server = try await network.serve(at: "db:7000", speaking: .standard)
            let connection = network.connection(to: ["db:7000"], speaking: .standard, options: options)
            let (owner, reports) = (Owner(), connection.disconnects)
            _ = await connection.work(for: owner) { $0.connectIfNeeded() }
            try await server.waitForConnections(1)
            network.reset("db")
            try await network.clock.sleep(for: .seconds(1))
            let last = await connection.work(for: owner) { connection in
                owner.calling { connection.finishClosing() }
            }
            #expect(last == ["closed"] && !owner.wasInterrupted)
            var causes: [DisconnectCause] = []
            for await report in reports { causes.append(report.cause) }
            #expect(causes == [.reset])
            await server.stop()
        }
    }

    /// Regression: the last request timed out at 4 s. Then the connection waited another drain timeout for the server
    /// to read the cancel frame, 9 s in all.
    @Test func closeTakesTheDrainTimeoutOnlyOnce() throws {
        let options = ClientOptions { $0.requests.drainTimeout = .seconds(5) }
        try simulate(options: options, handler: { _ in .noReply }) { service, client in
            try await client.connect()
            await service.server.pauseReading()
            let handle = client.start(ask(filled(1_000_000)), timeout: .seconds(4))
            let began = service.now
            await client.close()
            let took = service.now - began
            #expect(took == .seconds(5))
            #expect(await failure(of: handle)?.code == .timedOut)
        }
    }

    /// Regression: requests of a caller on the event loop take a faster path than `cancelAll`, so `cancelAll` also
    /// cancelled a request that was started after it.
    @Test func cancelAllSparesRequestsStartedAfterIt() throws {
        try simulate { _, client in
            try await client.connect()
            let (first, second) = await withTaskExecutorPreference(client.executor) {
                let first = client.start(ask("a"))
                client.cancelAll()
                return (first, client.start(ask("b")))
            }
            #expect(await failure(of: first)?.code == .cancelled)
            try await expectBody("b", of: second)
        }
    }

    /// Regression: a stream of states that no task iterates was kept until the connection was closed.
    @Test func deallocatedStateStreamsAreRemoved() throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            let connection = network.connection(to: ["db:7000"], speaking: .standard)
            for _ in 0..<10 { _ = connection.states }
            try await network.clock.sleep(for: .seconds(1))
            #expect(await connection.entered { $0.readers.states.streams.isEmpty })
            await connection.closeNow()
        }
    }

    /// Regression: every ping of a server that does not read left a pong in the queue.
    @Test func pongsToAServerThatDoesNotReadAreLimited() throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            let codec = AnsweringCodec()
            let server = try await network.serve(at: "db:7000", speaking: codec)
            let client = network.client(of: ["db:7000"], speaking: codec)
            try await client.connect()
            await server.pauseReading()
            for _ in 0..<20_000 { _ = try await server.ping() }
            try await network.clock.sleep(for: .seconds(10))
            // The kernels' buffers hold 128 KiB, about 11,000 pongs.
            #expect(await client.unwrittenBytes < 100_000)
            await server.resumeReading()
            try await expectEcho("a", by: client)
            await client.closeNow()
            await server.stop()
        }
    }
}

/// The standard layout with pongs as answers to pings.
private struct AnsweringCodec: FrameCodec, HeartbeatCodec, ServerSideCodec {
    private let layout: FrameLayout = .standard
    var matching: ResponseMatching { layout.matching }

    mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? { try layout.decode(&input) }

    mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        try layout.encode(frame, into: &output)
    }

    func ping(number: UInt64) -> Frame? { nil }
    func pong(answering ping: Frame) -> Frame? { Frame(.pong, serial: ping.serial) }

    func serverSide() -> any FrameCodec { layout.serverSide() }
}

extension Connection {
    /// Releases `client`, and handles `frame` before anything else happens. Returns whether the client was deallocated.
    fileprivate func take(_ frame: Frame, afterDropping client: Lock<Client?>) -> Bool {
        client.withLock { $0 = nil }
        let isAlone = driver.port.owner == nil
        driver.entered { driver in
            var frames = [frame]
            if let ready = driver.ready { driver.io.deliver(&frames, ready) }
        }
        return isAlone
    }

    /// Runs `body` as a call of `owner`, and ends the owner's batch. Returns the names of the events.
    fileprivate func work(for owner: any ConnectionOwner, _ body: @Sendable (ConnectionDriver) -> Void) -> [String] {
        _ = driver.port.begin()
        defer { driver.port.end() }
        body(driver)
        var queue = RequestQueue(maximumWaiting: 0, maximumBytes: 0)
        var parts = RequestParts()
        let (events, _) = driver.requests.work(on: &queue, &parts, demand: .request, watchesErrors: false, for: owner)
        return events.compactMap { event in
            switch event {
            case .lost: "lost"
            case .closed: "closed"
            case .taken: nil
            default: "other"
            }
        }
    }
}

extension Client {
    /// When the client is going to check its requests again.
    fileprivate var unwrittenBytes: Int {
        driver.links.all[0].state.machine.outbound.byteCount
    }
    fileprivate var nextDeadline: Instant? { clock.deadline ?? dispatcher.requests.nextDeadline }
}
