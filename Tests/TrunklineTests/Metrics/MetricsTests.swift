import Testing
import TrunklineTesting

@testable import Trunkline

/// What `Client.metrics` counts and measures.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct MetricsTests {
    private typealias Failure = Client.Metrics.Failure

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
        let options = ClientOptions { $0.requests.retry = .idempotent(attempts: 3) }
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
            $0.requests.retry = .idempotent(attempts: 3, backoff: Backoff(minimum: .seconds(2)))
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
            #expect(await client.audit() == [])
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
}
