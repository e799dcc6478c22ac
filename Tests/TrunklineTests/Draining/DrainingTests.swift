import Testing
import Trunkline

@testable import TrunklineLoopback
@testable import TrunklineTesting

/// Changing from one endpoint to another while requests are in flight.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct DrainingTests {}

extension DrainingTests {
    /// A protocol whose server can announce shutdown, with a retry delay in seconds: "!60".
    struct PoliteCodec: FrameCodec, CancellingCodec, GoAwayCodec, ServerSideCodec {
        var layout = FrameLayout.standard
        var matching: ResponseMatching { layout.matching }

        mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
            guard var frame = try layout.decode(&input) else { return nil }
            if frame.kind == .push, frame.body.first == UInt8(ascii: "!") { frame.kind = .goAway }
            return frame
        }

        mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
            try layout.encode(frame, into: &output)
        }

        func cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame? {
            layout.cancelFrame(for: serial, type: type)
        }

        func retryAfter(in goAway: Frame) -> Duration? { Int(String(goAway.body).dropFirst()).map { .seconds($0) } }
        func serverSide() -> any FrameCodec { layout.serverSide() }
    }

    /// Runs `body` with a client of two servers at "a:1" and "b:1". The servers answer "slow" after a second, and
    /// everything else at once.
    private func simulateTwo(
        options: ClientOptions = ClientOptions(),
        speaking codec: some FrameCodec = PoliteCodec(),
        _ body: @escaping @Sendable (SimulatedNetwork, LoopbackServer, LoopbackServer, Client) async throws -> Void
    ) throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            let handler: LoopbackServer.Handler = { $0.body == "slow" ? .after(.seconds(1), .echo) : .echo }
            let first = try await network.serve(at: "a:1", speaking: codec, handler: handler)
            let second = try await network.serve(at: "b:1", speaking: codec, handler: handler)
            let client = network.client(of: ["a:1", "b:1"], speaking: codec, options: options)
            try await body(network, first, second, client)
            await client.close()
            await first.stop()
            await second.stop()
        }
        #expect(network.openLinks == 0)
    }

    @Test func aSwitchLetsRequestsInFlightFinishOnTheOldLink() throws {
        try simulateTwo { network, first, second, client in
            let slow = client.start(ask("slow"))
            _ = try await first.waitForRequest { $0.body == "slow" }
            var reports = client.disconnects.makeAsyncIterator()
            try await client.switchEndpoint(to: second.endpoint)
            await client.becomesReady(at: second.endpoint)
            try await expectEcho("quick", by: client)
            #expect(await second.received.map(\.body) == ["quick"])
            #expect(await first.connectionCount == 1)
            try await expectBody("slow", of: slow)
            let report = await reports.next()
            #expect(report?.endpoint == first.endpoint && report?.phase == .draining && report?.requestsLost == 0)
            #expect(report?.cause == .closedLocally && report?.endedBy == .client)
            try await network.clock.sleep(for: .seconds(2))
            #expect(await first.connectionCount == 0)
            #expect(await first.received.map(\.body) == ["slow"])
        }
    }

    /// Regression: the client first tried the server that no longer answered, for 3 s.
    @Test func afterAHalfOpenLinkTheHealthyServerIsTriedFirst() throws {
        try simulateTwo(speaking: FrameLayout.standard) { network, first, second, client in
            for number in 0..<20 {
                try await expectEcho(Bytes("\(number)"), by: client)
                try await network.clock.sleep(for: .seconds(1))
            }
            network.halfOpen("a")
            var reports = client.disconnects.makeAsyncIterator()
            let lost = client.start(ask("lost"), timeout: .seconds(60))
            #expect(await reports.next()?.cause == .halfOpen)
            #expect(await failure(of: lost)?.code == .connectionLost)
            let began = network.clock.now.offset
            try await expectEcho("next", by: client)
            #expect(network.clock.now.offset - began < .milliseconds(500))
            #expect(await client.metrics.connection.failedAttempts == 0)
            #expect(await second.received.map(\.body) == ["next"])
            network.heal("a")
        }
    }

    /// Regression: one-way messages on a link did not count as demand for the next one. They waited for the
    /// whole back-off.
    @Test func unwrittenMessagesGoOutOnTheNextLinkAtOnceAfterAGoAway() throws {
        let options = ClientOptions {
            $0.reconnecting.policy = Backoff(minimum: .seconds(60), cap: .seconds(60))
            $0.requests.timeout = .seconds(600)
        }
        try simulateTwo(options: options) { network, first, second, client in
            try await expectEcho("a", by: client)
            await first.pauseReading()
            let large = Task(executorPreference: network.executor) { try await client.post(ask(filled(300_000))) }
            try await network.clock.sleep(for: .seconds(1))
            for number in 0..<10 { try await client.enqueue(ask(number)) }
            try await network.clock.sleep(for: .seconds(1))
            try await first.push(Frame(.push, type: 2, body: "?"))
            try await network.clock.sleep(for: .seconds(1))
            try await first.push(Frame(.push, type: 2, body: "!"))
            try await network.clock.sleep(for: .seconds(1))
            #expect(await second.received.map(\.body) == (0..<10).map { Bytes("\($0)") })
            await first.resumeReading()
            try await large.value
            #expect(await client.metrics.connection.links == 2)
        }
    }

    @Test func aRequestOnADrainingLinkTimesOutThere() throws {
        try simulateTwo { network, first, second, client in
            let slow = client.start(ask("slow"), timeout: .milliseconds(500))
            _ = try await first.waitForRequest { $0.body == "slow" }
            try await client.switchEndpoint(to: second.endpoint)
            await client.becomesReady(at: second.endpoint)
            let error = await failure(of: slow)
            #expect(error?.code == .timedOut && error?.fate == .unknown)
            // The cancel frame was sent on the link of its request.
            try await network.clock.sleep(for: .seconds(2))
            #expect(await first.journal.cancelCount == 1)
            #expect(await second.journal.cancelCount == 0)
            #expect(await first.connectionCount == 0)
        }
    }

    @Test func losingADrainingLinkFailsOnlyItsOwnRequests() throws {
        try simulateTwo { network, first, second, client in
            let lost = client.start(ask("slow"))
            _ = try await first.waitForRequest { $0.body == "slow" }
            try await client.switchEndpoint(to: second.endpoint)
            await client.becomesReady(at: second.endpoint)
            let kept = client.start(ask("slow"))
            _ = try await second.waitForRequest { $0.body == "slow" }
            network.reset("a")
            let error = await failure(of: lost)
            #expect(error?.code == .connectionLost && error?.fate == .unknown)
            try await expectBody("slow", of: kept)
        }
    }

    @Test func losingTheNewLinkDoesNotAffectTheDrainingOne() throws {
        try simulateTwo { network, first, second, client in
            let kept = client.start(ask("slow"))
            _ = try await first.waitForRequest { $0.body == "slow" }
            try await client.switchEndpoint(to: second.endpoint)
            await client.becomesReady(at: second.endpoint)
            let lost = client.start(ask("slow"))
            _ = try await second.waitForRequest { $0.body == "slow" }
            network.reset("b")
            let error = await failure(of: lost)
            #expect(error?.code == .connectionLost && error?.fate == .unknown)
            try await expectBody("slow", of: kept)
        }
    }

    /// Regression: requests that end with their link ended with *any* link. A request in flight on a draining link
    /// failed when the new link was lost, and its caller received `notSent`.
    @Test func losingTheNewLinkDoesNotFailRequestsThatEndWithTheDrainingOne() throws {
        try simulateTwo { network, first, second, client in
            try await client.connect()
            let kept = [
                client.start(ask("slow"), options: CallOptions(retry: .never)),
                client.start(ask("slow"), options: CallOptions(waitsForReady: false)),
            ]
            _ = try await first.waitForRequest { $0.body == "slow" }
            try await client.switchEndpoint(to: second.endpoint)
            await client.becomesReady(at: second.endpoint)
            try await expectEcho("quick", by: client)
            network.reset("b")
            for handle in kept { try await expectBody("slow", of: handle) }
        }
    }

    @Test func aServerThatSentGoAwayIsAvoidedForItsRetryDelay() throws {
        try simulateTwo { network, first, second, client in
            try await client.connect()
            let slow = client.start(ask("slow"))
            _ = try await first.waitForRequest { $0.body == "slow" }
            try await first.push(Frame(.push, type: 2, body: "!60"))
            var states = client.states.makeAsyncIterator()
            while let state = await states.next() {
                if case .ready(second.endpoint, _) = state { break }
            }
            try await expectEcho("quick", by: client)
            try await expectBody("slow", of: slow)
            #expect(await second.received.map(\.body) == ["quick"])
            // The second server announces shutdown too. The first one may not be tried before its minute is over.
            try await second.push(Frame(.push, type: 2, body: "!5"))
            let began = network.clock.now.offset
            try await network.clock.sleep(for: .seconds(1))
            // The link stays in use until there is another one.
            try await expectEcho("late", by: client)
            #expect(await second.received.map(\.body) == ["quick", "late"])
            #expect(await second.totalConnections == 1)
            while await second.totalConnections == 1 { try await network.clock.sleep(for: .milliseconds(10)) }
            #expect(network.clock.now.offset - began >= .seconds(5))
            #expect(await first.totalConnections == 1)
        }
    }

    @Test func matchedInOrderEachLinkHasItsOwnOrder() throws {
        try simulateTwo(speaking: inOrderLayout) { network, first, second, client in
            let slow = client.start(Request(body: "slow"))
            _ = try await first.waitForRequest { $0.body == "slow" }
            try await client.switchEndpoint(to: second.endpoint)
            await client.becomesReady(at: second.endpoint)
            let reply = try await client.send(Request(body: "quick"))
            #expect(reply.body == "quick")
            try await expectBody("slow", of: slow)
        }
    }

    @Test func anEndpointWithTooManyFailedRequestsIsReplaced() throws {
        let options = ClientOptions { $0.requests.timeout = .seconds(1) }
        try simulateTwo(options: options) { network, first, second, client in
            // At most 100 requests. Every ninth is answered too late.
            for number in 0..<100 where await second.totalConnections == 0 {
                if number % 9 == 8 {
                    await first.script(.after(.seconds(2), .echo))
                    let error = await failure { () throws(ClientError) in try await client.send(ask("late")) }
                    #expect(error?.code == .timedOut)
                } else {
                    try await expectEcho(Bytes("\(number)"), by: client)
                }
            }
            try await expectEcho("b", by: client)
            #expect(await second.received.last?.body == "b")
            let answered = await first.received.count { $0.kind == .request && $0.body != "late" }
            #expect(answered >= 30 && answered <= 45)
            #expect(await first.received.count { $0.body == "late" } == 4)
        }
    }

    /// Regression: a link on which nothing was ever sent ended at the same position in the order as the link before it.
    /// Its end also removed the order of that link.
    @Test func losingAnIdleDrainingLinkKeepsTheOrderOfOtherLinks() throws {
        try simulateTwo(speaking: inOrderLayout) { network, first, second, client in
            let slow = client.start(Request(body: "slow"))
            _ = try await first.waitForRequest { $0.body == "slow" }
            try await client.switchEndpoint(to: second.endpoint)
            await client.becomesReady(at: second.endpoint)
            try await client.switchEndpoint(to: first.endpoint)
            await client.becomesReady(at: first.endpoint)
            await second.disconnectAll()
            try await expectBody("slow", of: slow)
        }
    }

    /// Regression: a suspension by the client counted as many failures of the endpoint, which was replaced at once.
    @Test func suspendingDoesNotCountAsAFailureOfTheEndpoint() throws {
        try simulateTwo { network, first, second, client in
            let handles = (0..<50).map { _ in client.start(ask("slow")) }
            try await first.waitForRequests(50)
            await client.suspend()
            for handle in handles { #expect(await failure(of: handle)?.code == .connectionLost) }
            await client.resume()
            try await expectEcho("quick", by: client)
            #expect(await first.received.last?.body == "quick")
            #expect(await second.totalConnections == 0)
        }
    }

    @Test func linksThatTheClientEndsAreReportedToo() throws {
        try simulateTwo { network, first, second, client in
            let reports = client.disconnects
            try await client.connect()
            await client.suspend()
            await client.resume()
            try await expectEcho("a", by: client)
            await client.close()
            var causes: [DisconnectCause] = []
            for await report in reports {
                causes.append(report.cause)
                #expect(report.phase == .ready || report.phase == .draining)
                #expect(report.endedBy == .client)
            }
            #expect(causes == [.closedLocally, .closedLocally])
            let metrics = await client.metrics.connection
            #expect(metrics.links == 2 && metrics.attempts == 2 && metrics.failedAttempts == 0)
        }
    }

    @Test func closingEndsDrainingLinks() throws {
        try simulateTwo { network, first, second, client in
            let slow = client.start(ask("slow"))
            _ = try await first.waitForRequest { $0.body == "slow" }
            try await client.switchEndpoint(to: second.endpoint)
            await client.becomesReady(at: second.endpoint)
            try await expectEcho("quick", by: client)
            await client.closeNow()
            let error = await failure(of: slow)
            #expect(error?.code == .closed && error?.fate == .unknown)
        }
    }
}

/// A length and a body. Responses are matched in order.
private let inOrderLayout = FrameLayout {
    Field.length(UInt32.self, counting: .body)
    Field.body
}
