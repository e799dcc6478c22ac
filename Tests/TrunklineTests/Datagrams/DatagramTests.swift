import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLoopback

/// Links of datagrams, in the simulation.
@Suite(.simulated) struct DatagramTests {}

extension DatagramTests {
    @Test func requestsAndPushesAreDatagrams() throws {
        let options = LoopbackServer.Options { $0.onConnect = .push(Frame(.push, type: 2, body: "welcome")) }
        try simulateDatagrams(server: options) { network, server, client in
            let pushes = client.pushes(ofType: 2)
            let replies = await client.send(all: (0..<100).map { ask($0) })
            for (index, reply) in replies.enumerated() {
                let body = try reply.get().body
                #expect(body == Bytes("\(index)"))
            }
            for try await push in pushes.messages {
                #expect(push.body == "welcome")
                break
            }
            #expect(await client.metrics.repetitions == 0)
            #expect(await server.journal.totalConnections == 1)
            await client.close()
        }
    }

    @Test func messagesAreDatagrams() throws {
        try simulateDatagrams { network, server, client in
            try await client.post(ask("one"))
            try await server.waitForRequests(1)
            #expect(await server.received.map(\.body) == ["one"])
        }
    }

    /// Decision: a name is looked up for each link. One-way messages do not notice that the server has moved, so the age of the
    /// link decides when they follow.
    @Test func messagesFollowANameThatMovesWhenTheirLinkIsRenewed() throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            network.setName("moving", hosts: ["10.1.0.1"])
            let first = try await network.startServer(at: "udp://10.1.0.1:7000", speaking: .standard) { _ in .noReply }
            let second = try await network.startServer(at: "udp://10.1.0.2:7000", speaking: .standard) { _ in .noReply }
            let client = Client(
                to: "udp://moving:7000",
                speaking: .standard,
                options: ClientOptions { $0.failover.maximumLinkAge = .seconds(60) },
                on: network.loops
            )
            for _ in 0..<30 {
                try await client.post(ask("a"))
                try await network.clock.sleep(for: .seconds(1))
            }
            network.setName("moving", hosts: ["10.1.0.2"])
            for _ in 0..<90 {
                try await client.post(ask("b"))
                try await network.clock.sleep(for: .seconds(1))
            }
            let (old, new) = (await first.journal.requestCount, await second.journal.requestCount)
            #expect(old + new == 120)
            #expect(new >= 30, "\(old) at the old address, \(new) at the new one")
            await client.close()
            await first.stop()
            await second.stop()
        }
    }

    // MARK: The window

    /// A burst is not sent at once: each round trip doubles what is sent.
    @Test func aBurstIsSentInGrowingPortions() throws {
        var conditions = NetworkConditions()
        conditions.latency = .milliseconds(10)...(.milliseconds(10))
        try simulateDatagrams(conditions: conditions) { network, server, client in
            try await expectEcho("one", by: client)
            let began = network.clock.now
            let replies = await client.send(all: (0..<600).map { ask($0) })
            for reply in replies { _ = try reply.get() }
            // 64, 128, 256 and the remaining 152, each for 20 ms.
            #expect(began.duration(to: network.clock.now) == .milliseconds(80))
        }
    }

    /// A server that takes long gets no more than it may get at once; the options raise that.
    @Test(arguments: [5, 64, 200]) func unansweredRequestsAreLimited(_ window: Int) throws {
        let collector = EventCollector([.limits])
        let options = ClientOptions {
            $0.observers = [collector]
            if window != 64 { $0.requests.datagramWindow = window }
        }
        try simulateDatagrams(options: options, handler: { _ in .noReply }) { network, server, client in
            let handles = (0..<150).map { number in
                client.start(ask(number), timeout: .seconds(number < window ? 6 : 5))
            }
            var unsent = 0
            for handle in handles {
                let error = await failure(of: handle)
                #expect(error?.code == .timedOut)
                guard error?.fate == .notSent else { continue }
                unsent += 1
                #expect("\(error.map { "\($0)" } ?? "")".contains("\(window) requests are unanswered"))
            }
            #expect(unsent == max(0, 150 - window))
            #expect(await server.received.count == min(150, window))
            let reached = collector.events.filter {
                if case .limitReached(.datagramWindow) = $0.content { true } else { false }
            }
            #expect(reached.isEmpty == (window >= 150))
            // They hold their serials, but no place in the window.
            let next = client.start(ask("next"))
            try await server.waitForRequests(min(150, window) + 1)
            next.cancel()
        }
    }

    // MARK: Losses

    /// Requests that may be performed twice are sent again, with the same serial, until they are answered.
    @Test func repeatableRequestsSurviveLosses() throws {
        let options = repeating { $0.requests.timeout = .seconds(1000) }
        try simulateDatagrams(conditions: lossy(), options: options) { network, server, client in
            try await withThrowingTaskGroup { group in
                for number in 0..<200 {
                    group.addTask(executorPreference: network.executor) {
                        let reply = try await client.send(ask(number))
                        #expect(reply.body == Bytes("\(number)"))
                    }
                }
                try await group.waitForAll()
            }
            let metrics = await client.metrics
            #expect(metrics.repetitions > 20 && metrics.retries == 0)
            #expect(metrics.connection.links == 1)
            // Some were received twice, all under the serial of the first copy.
            let received = await server.received
            #expect(received.count > 200)
            let serials = Dictionary(grouping: received) { $0.body }.mapValues { Set($0.map(\.serial)) }
            #expect(serials.count == 200 && serials.values.allSatisfy { $0.count == 1 })
        }
    }

    /// The first wait is a second; each further one is twice as long.
    @Test func theWaitsDouble() throws {
        try simulateDatagrams(options: repeating(tries: 2), handler: { _ in .noReply }) { network, server, client in
            let times = Lock<[Duration]>([])
            async let watching: Void = {
                for count in 1...6 {
                    try await server.waitForRequests(count, within: .seconds(60))
                    times.withLock { $0.append(network.clock.now.offset) }
                }
            }()
            let error = await failure { () throws(ClientError) in
                try await client.send(ask("hello"), timeout: .seconds(60))
            }
            try await watching
            #expect(error?.code == .timedOut && error?.fate == .unknown)
            let waits = times.withLock { times in zip(times.dropFirst(), times).map { $0 - $1 } }
            for (wait, expected) in zip(waits, [1, 2, 4, 8, 16]) {
                #expect(abs((wait - .seconds(expected)) / .milliseconds(1)) < 20, "\(wait)")
            }
            #expect(await client.metrics.repetitions == 5)
        }
    }

    @Test func otherRequestsAreSentOnce() throws {
        let options = ClientOptions { $0.liveness.maximumStalls = nil }
        try simulateDatagrams(conditions: lossy(0.5, duplication: 0), options: options) { network, server, client in
            var lost = 0
            for number in 0..<50 {
                do throws(ClientError) {
                    _ = try await client.send(ask(number), timeout: .seconds(3))
                } catch {
                    #expect(error.code == .timedOut && error.fate == .unknown)
                    lost += 1
                }
            }
            #expect(lost > 10)
            let bodies = await server.received.filter { $0.kind == .request }.map(\.body)
            #expect(Set(bodies).count == bodies.count)
            #expect(await client.metrics.repetitions == 0)
        }
    }

    @Test func repetitionsTakeTokens() throws {
        let options = repeating {
            var budget = RetryBudget()
            (budget.initial, budget.share, budget.perSecond) = (2, 0, 0)
            $0.requests.retryBudget = budget
            $0.requests.timeout = .seconds(20)
        }
        try simulateDatagrams(options: options, handler: { _ in .noReply }) { network, server, client in
            _ = await failure { () throws(ClientError) in try await client.send(ask("hello")) }
            let metrics = await client.metrics
            #expect(metrics.repetitions == 2 && metrics.retriesRefused >= 1)
        }
    }

    /// A second answer to a serial that would be in use again.
    @Test func aSecondAnswerReachesNoOtherRequest() throws {
        let codec = standardLayout(serials: 1...4)
        // Every request is answered, and once more after the client has sent others with the few serials that there are.
        let handler: LoopbackServer.Handler = { request in
            .sequence([.after(.milliseconds(1500), .echo), .after(.seconds(2), .echo)])
        }
        try simulateDatagrams(speaking: codec, options: repeating(tries: 2), handler: handler) { _, _, client in
            for number in 0..<12 {
                let reply = try await client.send(ask(number))
                #expect(reply.body == Bytes("\(number)"))
            }
            let metrics = await client.metrics
            #expect(metrics.repetitions == 12)
            #expect(metrics.responses == 12)
        }
    }

    /// A request that was sent twice takes no place from others once it is answered.
    @Test func anAnswerFreesThePlaceAtOnce() throws {
        let options = repeating { $0.requests.maximumInFlight = 1 }
        let handler: LoopbackServer.Handler = { _ in .after(.milliseconds(1500), .echo) }
        try simulateDatagrams(options: options, handler: handler) { network, _, client in
            for number in 0..<3 { try await expectEcho(Bytes("\(number)"), by: client) }
            #expect(network.clock.now.offset < .seconds(6))
            #expect(await client.metrics.repetitions == 3)
        }
    }

    /// The parts of replies to two copies could not be told apart.
    @Test func repliesInPartsAreNotMixed() throws {
        let handler: LoopbackServer.Handler = { _ in
            .after(.milliseconds(1500), .parts(["a", "b"]))
        }
        try simulateDatagrams(speaking: PartsCodec(), options: repeating(), handler: handler) { network, _, client in
            let error = await failure { () throws(ClientError) in try await client.send(ask("x")) }
            #expect(error?.code == .protocolViolation && error?.fate == .unknown)
        }
        let slow: LoopbackServer.Handler = { _ in
            .sequence([.part("a"), .after(.seconds(5), .reply(Frame(.response, body: "b")))])
        }
        try simulateDatagrams(speaking: PartsCodec(), options: repeating(), handler: slow) { network, _, client in
            let reply = try await client.send(ask("x"))
            #expect(reply.body == "ab")
            #expect(await client.metrics.repetitions == 0)
        }
    }

    // MARK: Sizes and contents

    @Test func aRequestThatDoesNotFitIsRefused() throws {
        try simulateDatagrams { _, server, client in
            let error = await failure { () throws(ClientError) in try await client.send(ask(filled(1_221))) }
            #expect(error?.code == .invalidRequest && error?.fate == .notSent)
            #expect((error?.cause as? FrameError)?.exceedsLimit == true)
            #expect("\(error.map { "\($0)" } ?? "")".contains("connecting.maximumDatagramSize is 1232"))
            try await expectBody(filled(1_220), of: client.start(ask(filled(1_220))))
        }
    }

    @Test func largerDatagramsCanBeAllowed() throws {
        let options = ClientOptions { $0.connecting.maximumDatagramSize = 1_000_000 }
        try simulateDatagrams(options: options) { _, server, client in
            let body = filled(65_507 - 12)
            try await expectBody(body, of: client.start(ask(body)))
            let error = await failure { () throws(ClientError) in try await client.send(ask(body + [1])) }
            #expect(error?.code == .invalidRequest)
        }
    }

    @Test func whatIsNoFrameIsDropped() throws {
        // A part of a frame, more than a frame, and nonsense; then the answer.
        let whole = Bytes([0, 0, 4, 0x10, 0, 0, 0, 9, 0, 0, 0, 1, 7])
        let handler: LoopbackServer.Handler = { _ in
            .sequence([
                .garbage(Bytes(whole.dropLast(1))), .garbage(whole + [1]), .garbage(filled(300, with: 255)), .echo,
            ])
        }
        try simulateDatagrams(handler: handler) { _, _, client in
            try await expectEcho("hello", by: client)
            let metrics = await client.metrics
            #expect(metrics.connection.droppedDatagrams == 3)
            #expect(metrics.connection.links == 1 && metrics.unknownResponses == 0)
        }
    }

    // MARK: Links

    @Test func aPortWithoutAServerIsACause() throws {
        try simulateDatagrams { network, server, client in
            try await expectEcho("one", by: client)
            await server.stop()
            var ends = client.disconnects.makeAsyncIterator()
            let error = await failure { () throws(ClientError) in try await client.send(ask("two")) }
            #expect(error?.code == .connectionLost && error?.fate == .unknown)
            #expect((error?.cause as? TransportError)?.code == .refused)
            #expect(await ends.next()?.cause == .refused)
            let again = try await network.startServer(at: "udp://db:7000", speaking: FrameLayout.standard)
            try await expectEcho("three", by: client)
            await client.close()
            try await network.clock.sleep(for: .seconds(1))
            await again.stop()
        }
    }

    /// A ping that is lost is repeated.
    @Test func lostPingsLoseNoLink() throws {
        try simulateDatagrams(conditions: lossy(0.3), options: repeating()) { network, server, client in
            try await expectEcho("one", by: client)
            try await network.clock.sleep(for: .seconds(3600))
            let metrics = await client.metrics
            #expect(metrics.connection.links == 1 && metrics.connection.pings > 120)
        }
    }

    /// Pings notice that nothing comes back, as on any link.
    @Test func aSilentLinkIsReplaced() throws {
        try simulateDatagrams(options: repeating()) { network, server, client in
            try await expectEcho("one", by: client)
            var ends = client.disconnects.makeAsyncIterator()
            network.partition("db")
            #expect(await ends.next()?.cause == .halfOpen)
            network.heal("db")
            try await expectEcho("two", by: client)
        }
    }

    /// Without pings, unanswered requests do.
    @Test func unansweredRequestsReplaceALinkWithoutPings() throws {
        let codec = FrameLayout {
            Field.type(UInt32.self)
            Field.serial(UInt32.self)
            Field.length(UInt32.self, counting: .body)
            Field.body
        }
        .roles { $0.push = .types(2...3) }
        let options = ClientOptions { $0.failover.errorRate = nil }
        let endpoints: [Endpoint] = ["udp://other:7000", "udp://db:7000"]
        try simulateDatagrams(speaking: codec, endpoints: endpoints, options: options) { network, server, client in
            network.swallowConnections(to: "other")
            for number in 0..<6 {
                _ = try? await client.send(ask(number), timeout: .seconds(5))
            }
            try await expectEcho("at the other server", by: client)
        }
    }

    /// Matched in order, a lost response would shift all others.
    @Test func protocolsMatchedInOrderAreRefused() throws {
        try simulateDatagrams(speaking: DelimitedCodec(delimiter: "\n")) { _, _, client in
            let error = await failure { () throws(ClientError) in try await client.send(Request(body: "x")) }
            #expect(error?.code == .unavailable && error?.fate == .notSent)
            #expect((error?.cause as? TransportError)?.code == .invalidAddress)
        }
    }

    @Test(arguments: ["TLS", "proxy", "PROXY"]) func whatDatagramsCannotDoIsRefused(_ what: String) throws {
        let options = ClientOptions { options in
            switch what {
            case "proxy": options.connecting.proxy = .socks5("proxy")
            case "PROXY": options.connecting.proxyHeader = .v2
            default: break
            }
        }
        let endpoint: Endpoint = what == "TLS" ? Endpoint.udp("db", port: 7000).secured() : "udp://db:7000"
        try simulateDatagrams(endpoints: [endpoint], options: options) { _, server, client in
            let error = await failure { () throws(ClientError) in try await client.send(ask("x")) }
            #expect(error?.code == .unavailable && error?.fate == .notSent)
            #expect((error?.cause as? TransportError)?.code == .invalidAddress)
            #expect("\(error.map { "\($0)" } ?? "")".contains(what))
            #expect(await server.received.isEmpty)
        }
    }

    @Test func aHandshakeRunsInDatagrams() throws {
        let options = repeating {
            $0.handshake.perform = { link in
                // Any of these may be lost.
                for _ in 0..<10 {
                    if (try? await link.send(ask("login"), timeout: .milliseconds(200))) != nil { return }
                }
                throw HandshakeRefusal("no answer")
            }
        }
        try simulateDatagrams(conditions: lossy(0.4), options: options) { _, server, client in
            try await expectEcho("hello", by: client, timeout: .seconds(100))
            #expect(await server.received.first?.body == "login")
            #expect(await client.metrics.connection.failedAttempts == 0)
        }
    }
}
