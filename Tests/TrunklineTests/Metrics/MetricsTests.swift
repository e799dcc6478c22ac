import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLoopback

/// What `Client.metrics` counts and measures.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct MetricsTests {}

extension MetricsTests {
    private typealias Failure = ClientMetrics.Failure

    @Test func everyEndIsCountedByItsCodeAndFate() throws {
        let reaction: LoopbackServer.Handler = { request in
            switch request.body {
            case "silent": .noReply
            case "error": .status(7)
            default: .echo
            }
        }
        try simulate(speaking: statusLayout, handler: reaction) { service, client in
            try await client.connect()
            for number in 0..<5 { try await expectEcho("\(number)", by: client) }
            _ = await failure { () throws(ClientError) in try await client.send(ask("error")) }
            _ = await failure { () throws(ClientError) in try await client.send(ask("silent"), timeout: .seconds(1)) }
            let handle = client.start(ask("silent"))
            try await service.server.waitForRequests(8)
            handle.cancel()
            _ = await failure(of: handle)
            let metrics = await client.metrics
            #expect(metrics.requests == 8 && metrics.responses == 6 && metrics.failed == 2 && metrics.pending == 0)
            let expected = [
                Failure(.rejected, .answered): 1, Failure(.timedOut, .unknown): 1, Failure(.cancelled, .unknown): 1,
            ]
            #expect(metrics.failures == expected)
            #expect(metrics.refusals.isEmpty && metrics.abandoned == 2)
            let durations = metrics.failureDurations
            #expect(durations.mapValues(\.count) == [.rejected: 1, .timedOut: 1, .cancelled: 1])
            #expect(try #require(durations[.timedOut]?.mean) >= .seconds(1))
            // The rest are those of the calls that succeeded.
            var successes = metrics.callDurations
            for failures in durations.values { successes.remove(failures) }
            let failed = durations.values.reduce(Duration.zero) { $0 + $1.sum }
            #expect(successes.count == 5 && successes.sum + failed == metrics.callDurations.sum)
            #expect(await client.diagnostics.audit() == [])
        }
    }

    @Test func callsThatWereNotAcceptedAreCountedApart() throws {
        try simulate { service, client in
            service.network.refuseConnections(to: "db")
            let impatient = CallOptions(waitsForReady: false)
            _ = await failure { () throws(ClientError) in try await client.send(ask("a"), options: impatient) }
            var metrics = await client.metrics
            #expect(metrics.refusals == [.unavailable: 1] && metrics.requests == 0 && metrics.failures.isEmpty)
            await client.closeNow()
            _ = await failure { () throws(ClientError) in try await client.send(ask("b")) }
            metrics = await client.metrics
            #expect(metrics.refusals == [.unavailable: 1, .closed: 1] && metrics.requests == 0)
        }
    }

    @Test func requestsAboveTheLimitAreRefused() throws {
        let options = ClientOptions { ($0.requests.maximumInFlight, $0.requests.maximumWaiting) = (1, 2) }
        try simulate(options: options, handler: { _ in .after(.seconds(1), .echo) }) { _, client in
            try await client.connect()
            let results = await client.send(all: (0..<5).map { ask($0) })
            #expect(results.filter { $0.error == nil }.count == 3)
            let metrics = await client.metrics
            #expect(metrics.refusals == [.overloaded: 2] && metrics.requests == 3 && metrics.responses == 3)
        }
    }

    /// One request, whatever the number of its tries, with the fate of all of them.
    @Test(arguments: [true, false])
    func aRetriedRequestIsCountedOnce(succeeds: Bool) throws {
        let options = ClientOptions { $0.requests.retry = .idempotent(tries: 3) }
        try simulate(options: options, handler: { $0.body == "a" ? .noReply : .echo }) { service, client in
            try await client.connect()
            let handle = client.start(ask(succeeds ? "b" : "a"), timeout: .seconds(5))
            if !succeeds { try await service.server.waitForRequests(1) }
            service.network.reset("db")
            if !succeeds { service.network.refuseConnections(to: "db") }
            if succeeds { try await expectBody("b", of: handle) } else { _ = await failure(of: handle) }
            let metrics = await client.metrics
            #expect(metrics.requests == 1 && metrics.callDurations.count == 1)
            if succeeds {
                #expect(metrics.failures.isEmpty && metrics.responses == 1)
            } else {
                #expect(metrics.failures == [Failure(.timedOut, .unknown): 1])
                #expect(metrics.failed == 1 && metrics.retries == 1)
            }
        }
    }

    @Test func messagesAndRequestsThatCannotBeSentAreCounted() throws {
        try simulate { _, client in
            try await client.post(ask("message"))
            let tooLong = Request(type: 0x402, body: Bytes(repeating: 0, count: 17 * 1024 * 1024))
            let error = await failure { () throws(ClientError) in try await client.send(tooLong) }
            #expect(error?.code == .invalidRequest)
            let metrics = await client.metrics
            #expect(metrics.written == 1 && metrics.failures == [Failure(.invalidRequest, .notSent): 1])
        }
    }

    /// A call counts for the link on which it ended, also if that link is draining, or ends with the answer.
    @Test func callsAreMeasuredByEndpoint() throws {
        let handler: LoopbackServer.Handler = { request in
            switch request.body {
            case "slow": .after(.seconds(2), .echo)
            case "late": .sequence([.after(.seconds(2), .status(5)), .close])
            case "last": .sequence([.status(5), .close])
            case "lost": .noReply
            default: .echo
            }
        }
        try simulate(speaking: statusLayout, handler: handler) { service, first in
            await first.closeNow()
            let (db, other) = (service.endpoint("db:7000"), service.endpoint("other:1"))
            let second = try await service.startServer(at: "other:1", speaking: statusLayout, handler: handler)
            let client = service.client(of: ["db:7000", "other:1"], speaking: statusLayout)
            try await expectEcho("a", by: client)
            _ = await failure { () throws(ClientError) in try await client.send(ask("lost"), timeout: .seconds(1)) }
            let slow = [client.start(ask("slow")), client.start(ask("late"))]
            try await service.server.waitForRequests(4)
            try await client.switchEndpoint(to: other)
            while await client.metrics.connection.link?.endpoint != other { try await service.pass(.milliseconds(1)) }
            for _ in 0..<3 { try await expectEcho("b", by: client) }
            #expect(try await slow[0].value.body == "slow")
            #expect(await failure(of: slow[1])?.code == .rejected)
            var durations = await client.metrics.durationsByEndpoint
            #expect(durations.mapValues(\.all.count) == [db: 4, other: 3])
            #expect(durations[db]?.failures.mapValues(\.count) == [.timedOut: 1, .rejected: 1])
            #expect(durations[db]?.successes.count == 2 && durations[other]?.failures == [:])

            // The present link ends with the answer.
            #expect(await failure { () throws(ClientError) in try await client.send(ask("last")) }?.code == .rejected)
            durations = await client.metrics.durationsByEndpoint
            #expect(durations[other]?.failures.mapValues(\.count) == [.rejected: 1])

            // Without a link, a call that waits has no endpoint.
            for host in ["db", "other"] { service.network.refuseConnections(to: host) }
            for server in [service.server, second] { await server.disconnectAll(reset: true) }
            try await service.pass(.milliseconds(100))
            _ = await failure { () throws(ClientError) in try await client.send(ask("c"), timeout: .seconds(1)) }
            let metrics = await client.metrics
            #expect(metrics.durationsByEndpoint[nil]?.failures.keys.first == .timedOut)
            #expect(metrics.callDurations.count == 9 && metrics.failureDurations[.timedOut]?.count == 2)
            #expect(await client.diagnostics.audit() == [])
            await client.closeNow()
            await second.stop()
        }
    }

    @Test func theNumberOfMeasuredEndpointsIsBounded() {
        var durations = CallDurationCounter()
        for number in 1...100 as ClosedRange<UInt64> {
            let session = SessionID(number)
            durations.begin(session, to: .host("\(number)", port: 1))
            #expect(durations.byEndpoint.count == min(65, Int(number)))
            durations.record(nanoseconds: 1000, on: session)
            durations.record(nanoseconds: 2000, .timedOut, on: session)
            durations.end(session)
        }
        durations.record(nanoseconds: 3000, .closed, on: nil)
        durations.record(nanoseconds: 3000, on: nil)
        durations.begin(101, to: .host("1", port: 1))
        durations.record(nanoseconds: 3000, .closed, on: nil)
        let all = durations.byEndpoint
        #expect(all.count == 65 && all[nil]?.all.count == 75)
        #expect(all[nil]?.failures.mapValues(\.count) == [.timedOut: 36, .closed: 2])
        #expect(all[.host("1", port: 1)]?.all.sum == .microseconds(3))
    }

    @Test func nothingIsKeptOfLinksThatHaveDrained() throws {
        try simulate { service, client in
            for number in 1...5 {
                try await expectEcho("a", by: client)
                await client.renewLink()
                let session = try #require(await client.dispatcher.session)
                try await service.pass(.seconds(1))
                #expect(try #require(await client.dispatcher.session) > session)
                #expect(await client.drainingInCounter.isEmpty)
                #expect(await client.metrics.callDurations.count == number)
            }
        }
    }

    @Test func callDurationsIncludeTheWaitForALink() throws {
        try simulate(handler: { _ in .after(.milliseconds(100), .echo) }) { service, client in
            service.network.refuseConnections(to: "db")
            let early = client.start(ask("early"), timeout: .seconds(60))
            try await service.pass(.seconds(20))
            #expect(await client.metrics.waiting.forLink == 1)
            #expect(await client.metrics.callDurations.count == 0)
            service.network.acceptConnections(to: "db")
            try await expectBody("early", of: early)
            for number in 0..<99 { try await expectEcho("\(number)", by: client) }
            let durations = await client.metrics.callDurations
            #expect(durations.count == 100)
            let median = try #require(durations.percentile(50))
            #expect(median >= .milliseconds(100) && median < .milliseconds(120))
            #expect(try #require(durations.percentile(100)) >= .seconds(20))
        }
    }

    @Test func requestsAreCountedByWhatTheyWaitFor() throws {
        let options = ClientOptions {
            $0.requests.maximumInFlight = 1
            $0.requests.retry = .idempotent(tries: 3, backoff: Backoff(minimum: .seconds(2)))
        }
        try simulate(options: options, handler: { _ in .noReply }) { service, client in
            try await client.connect()
            let handles = (0..<3).map { client.start(ask($0), timeout: .seconds(60)) }
            try await service.server.waitForRequests(1)
            var waiting = await client.metrics.waiting
            #expect(waiting.forTurn == 2 && waiting.total == 2)
            service.network.refuseConnections(to: "db")
            service.network.reset("db")
            try await service.pass(.milliseconds(5))
            waiting = await client.metrics.waiting
            #expect(waiting.forBackOff == 1 && waiting.forLink == 2 && waiting.forTurn == 0)
            #expect(await client.diagnostics.audit() == [])
            for handle in handles { handle.cancel() }
        }
    }

    @Test(arguments: [true, false])
    func bytesAndFramesAreCountedInBothDirections(overTLS: Bool) throws {
        let options = ClientOptions { $0.liveness.heartbeat = .none }
        try simulate(options: options, overTLS: overTLS) { _, client in
            for number in 10..<20 { try await expectEcho(Bytes("\(number)"), by: client) }
            try await client.post(ask(filled(5000)))
            let metrics = await client.metrics.connection
            #expect(metrics.framesSent == 11 && metrics.framesReceived == 10)
            #expect(metrics.bytesSent == 10 * 14 + 5012 && metrics.bytesReceived == 10 * 14)
            #expect(await client.metrics.written == 1)
        }
    }

    /// Over TLS, a turn may decrypt records that were read in an earlier one.
    @Test func manySmallFramesOverTLSAreCountedOnce() throws {
        let options = ClientOptions { $0.liveness.heartbeat = .none }
        let handler: LoopbackServer.Handler = { _ in .parts((0..<2000).map { Bytes("\(1000 + $0)") }) }
        try simulate(options: options, overTLS: true, handler: handler) { _, client in
            let reply = try await client.send(ask("go"))
            #expect(reply.body.count == 8002)  // the last frame is the echo
            let metrics = await client.metrics.connection
            #expect(metrics.framesReceived == 2001 && metrics.bytesReceived == 2000 * 16 + 14)
        }
    }

    @Test func aHandshakeWithoutAnAnswerIsMeasured() throws {
        let options = ClientOptions { $0.handshake.perform = { try await $0.post(ask("hello")) } }
        try simulate(options: options) { _, client in
            try await client.connect()
            #expect(await client.metrics.connection.handshakeDurations.count == 1)
        }
    }

    @Test func connectingAndTheHandshakeAreMeasured() throws {
        let options = ClientOptions {
            $0.handshake.perform = { handshaker in _ = try await handshaker.send(ask("hello")) }
            $0.connecting.timeout = .seconds(30)
            $0.handshake.timeout = .seconds(20)
        }
        try simulate(options: options, handler: { $0.body == "hello" ? .after(.seconds(3), .echo) : .echo }) {
            service,
            client in
            try await client.connect()
            let metrics = await client.metrics.connection
            #expect(metrics.connectDurations.count == 1 && metrics.handshakeDurations.count == 1)
            #expect(try #require(metrics.handshakeDurations.mean) >= .seconds(3))
            #expect(try #require(metrics.connectDurations.mean) < .seconds(3))
            service.network.reset("db")
            try await expectEcho("again", by: client)
            #expect(await client.metrics.connection.handshakeDurations.count == 2)
            #expect(await client.metrics.callDurations.count == 1)  // without those of the handshake
        }
    }

    // MARK: Waiting and links

    @Test func waitingAndTheTimeOnALinkAreMeasuredApart() throws {
        let options = ClientOptions { $0.requests.maximumInFlight = 1 }
        try simulate(options: options, handler: { _ in .after(.seconds(1), .echo) }) { _, client in
            try await client.connect()
            let results = await client.send(all: (0..<4).map { ask($0) }, timeout: .seconds(60))
            #expect(results.allSatisfy { $0.error == nil })
            let metrics = await client.metrics
            let (queueing, attempts) = (metrics.queueDurations, metrics.tryDurations)
            #expect(queueing.count == 4 && attempts.count == 4)
            #expect(try #require(queueing.percentile(25)) < .milliseconds(100))
            #expect(try #require(queueing.percentile(100)) >= .seconds(3))
            #expect(try #require(attempts.percentile(1)) >= .seconds(1))
            #expect(try #require(attempts.percentile(100)) < .milliseconds(1200))
            #expect(queueing.sum + attempts.sum == metrics.callDurations.sum)
            #expect(await client.diagnostics.audit() == [])
        }
    }

    @Test func everyTryIsMeasuredWithoutItsBackOff() throws {
        let options = ClientOptions {
            $0.requests.retry = .idempotent(tries: 2, backoff: Backoff(minimum: .seconds(4)))
        }
        try simulate(options: options, handler: { $0.body == "a" ? .noReply : .echo }) { service, client in
            try await client.connect()
            let handle = client.start(ask("a"), timeout: .seconds(60))
            try await service.server.waitForRequests(1)
            try await service.pass(.seconds(1))
            service.network.reset("db")
            try await service.server.waitForRequests(2)
            #expect(await client.metrics.tryDurations.count == 1)
            handle.cancel()
            _ = await failure(of: handle)
            let metrics = await client.metrics
            #expect(metrics.tryDurations.count == 2 && metrics.queueDurations.count == 2)
            #expect(try #require(metrics.queueDurations.percentile(100)) < .seconds(1))
            let tries = metrics.queueDurations.sum + metrics.tryDurations.sum
            #expect(metrics.callDurations.sum - tries >= .seconds(4))
            #expect(await client.diagnostics.audit() == [])
        }
    }

    @Test func aRequestThatReachesNoLinkHasOnlyWaited() throws {
        try simulate { service, client in
            service.network.refuseConnections(to: "db")
            let request = ask(filled(1000))
            let handle = client.start(request, timeout: .seconds(5))
            try await service.pass(.seconds(1))
            // With the entries of the tables, as the limit counts it.
            #expect(await client.metrics.waitingBytes >= 1000 + 512)
            _ = await failure(of: handle)
            let metrics = await client.metrics
            #expect(metrics.tryDurations.count == 0 && metrics.waitingBytes == 0)
            #expect(try #require(metrics.queueDurations.mean) >= .seconds(5))
            #expect(await client.diagnostics.audit() == [])
        }
    }

    /// A retry that is cancelled in its back-off has neither waited nor been on a link.
    @Test func aTryThatEndsInItsBackOffIsNotMeasured() throws {
        let options = ClientOptions {
            $0.requests.retry = .idempotent(tries: 2, backoff: Backoff(minimum: .seconds(10)))
        }
        try simulate(options: options, handler: { _ in .noReply }) { service, client in
            let handle = client.start(ask("a"), timeout: .seconds(60))
            try await service.server.waitForRequests(1)
            service.network.reset("db")
            try await service.pass(.seconds(1))
            handle.cancel()
            _ = await failure(of: handle)
            let metrics = await client.metrics
            #expect(metrics.tryDurations.count == 1 && metrics.queueDurations.count == 1 && metrics.retries == 1)
            #expect(await client.diagnostics.audit() == [])
        }
    }

    @Test func bytesThatCannotBeWrittenYetAreCounted() throws {
        var conditions = NetworkConditions()
        conditions.bandwidth = 10_000
        // The send buffer takes longer to empty than the default deadline of a ping.
        let options = ClientOptions { $0.liveness.deadline = .seconds(60) }
        try simulate(conditions: conditions, options: options, overTLS: false) { service, client in
            try await client.connect()
            let handle = client.start(ask(filled(1_000_000)), timeout: .seconds(500))
            try await service.pass(.seconds(1))
            let waiting = await client.metrics.connection.bytesToWrite
            #expect(waiting > 100_000 && waiting <= 1_000_100)
            _ = try await handle.value
            #expect(await client.metrics.connection.bytesToWrite == 0)
        }
    }

    @Test func failedAttemptsAndLostLinksAreCountedApart() throws {
        try simulate { service, client in
            service.network.refuseConnections(to: "db")
            let handle = client.start(ask("a"), timeout: .seconds(60))
            try await service.pass(.seconds(5))
            var metrics = await client.metrics.connection
            #expect(metrics.attemptFailures.keys.sorted { $0.rawValue < $1.rawValue } == [.refused])
            #expect(metrics.attemptFailures[.refused] == metrics.failedAttempts && metrics.losses.isEmpty)
            service.network.acceptConnections(to: "db")
            try await expectBody("a", of: handle)
            service.network.reset("db")
            try await expectEcho("b", by: client)
            metrics = await client.metrics.connection
            #expect(metrics.losses == [.reset: 1] && metrics.links == 2)
            #expect(metrics.link?.endpoint == service.endpoint("db:7000") && metrics.state.isReady)
            #expect(metrics.disconnects == [.refused: metrics.failedAttempts, .reset: 1])
            #expect(await client.diagnostics.audit() == [])
            await client.close()
            metrics = await client.metrics.connection
            #expect(
                metrics.losses == [.reset: 1, .closedLocally: 1] && metrics.link == nil && metrics.state == .closed
            )
            #expect(await client.diagnostics.audit() == [])
        }
    }

    @Test func theRoundTripsOfAllLinksAreMeasured() throws {
        let options = ClientOptions { $0.liveness.interval = .seconds(1) }
        try simulate(options: options) { service, client in
            try await expectEcho("a", by: client)
            try await service.pass(.seconds(10))
            let first = await client.metrics.connection.pingDurations
            #expect(first.count >= 5)
            #expect(first.count == (await client.metrics.connection.pings))
            service.network.reset("db")
            try await expectEcho("b", by: client)
            try await service.pass(.seconds(10))
            let metrics = await client.metrics.connection
            #expect(metrics.pingDurations.count >= first.count + 5)
            let roundTripTime = try #require(await client.diagnostics.roundTripTime)
            #expect(try #require(metrics.pingDurations.percentile(100)) >= roundTripTime.minimum)
            // Only a real system has these.
            #expect(metrics.tcp == nil && metrics.turnDurations.count == 0)
        }
    }

    @Test func pushesAreCountedForEachStream() throws {
        let handler: LoopbackServer.Handler = { request in
            .sequence((0..<20).map { .push(Frame(.push, type: 2, body: Bytes("\($0)"))) } + [.echo])
        }
        try simulate(handler: handler) { service, client in
            let all = client.pushes()
            let few = client.pushes(buffering: PushBuffering(maximumCount: 5, overflow: .dropOldest))
            let newest = client.pushes(buffering: PushBuffering(maximumCount: 5, overflow: .dropNewest))
            let failing = client.pushes(buffering: PushBuffering(maximumCount: 5, overflow: .finish))
            try await expectEcho("push", by: client)
            try await service.pass(.seconds(1))
            let metrics = await client.metrics
            #expect(metrics.pushes == 20)
            #expect(metrics.pushesDelivered == 20 + 20 + 5 + 5 && metrics.pushesDropped == 15 + 15 + 1)
            withExtendedLifetime((all, few, newest, failing)) {}
        }
    }

    /// Beside what is held there is how much may be.
    @Test func valuesThatHaveALimitHaveItBesideThem() throws {
        let options = ClientOptions {
            $0.requests.maximumInFlight = 2000
            $0.requests.maximumWaiting = 7
            $0.outbound.highWatermark = -1
        }
        try simulate(options: options, handler: { _ in .noReply }) { service, client in
            #expect(await client.metrics.limits.serials == 0)
            let calls = (0..<3).map { _ in client.start(Request(type: 0x410), timeout: .never) }
            try await service.pass(.seconds(1))
            calls[0].cancel()
            try await service.pass(.seconds(1))
            let metrics = await client.metrics
            #expect(metrics.inFlight == 3 && metrics.abandoned == 1 && metrics.heldSerials == 3)
            #expect(metrics.limits.inFlight == 2000 && metrics.limits.serials > 60_000)
            #expect(metrics.limits.waiting == 7 && metrics.limits.waitingBytes == 256 << 20)
            #expect(metrics.limits.bytesToWrite == 1)
            for call in calls { call.cancel() }
        }
    }

    /// A large push may take the place of many that have been counted.
    @Test func theNumberOfDeliveredPushesNeverDecreases() throws {
        let handler: LoopbackServer.Handler = { request in
            let bodies = request.body == "large" ? [filled(100)] : (0..<10).map { Bytes("\($0)") }
            return .sequence(bodies.map { .push(Frame(.push, type: 2, body: $0)) } + [.echo])
        }
        try simulate(handler: handler) { service, client in
            let stream = client.pushes(buffering: PushBuffering(maximumBytes: 100, overflow: .dropOldest))
            try await expectEcho("small", by: client)
            try await service.pass(.seconds(1))
            var metrics = await client.metrics
            #expect(metrics.pushesDelivered == 10 && metrics.pushesDropped == 0)
            try await expectEcho("large", by: client)
            try await service.pass(.seconds(1))
            metrics = await client.metrics
            #expect(metrics.pushesDelivered == 11 && metrics.pushesDropped == 10)
            withExtendedLifetime(stream) {}
        }
    }
}
