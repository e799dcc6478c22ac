import Synchronization
import Testing
import Trunkline
import TrunklineTesting

@Suite(.simulated, .timeLimit(.minutes(5)))
struct SubscriptionTests {
    /// Regression: a client that only subscribed never connected, because only requests and `connect()` made it
    /// establish a link.
    @Test func aSubscriberMakesTheClientConnect() throws {
        try simulate { service, client in
            let pushes = client.pushes().messages
            try await service.server.waitForConnections(1)
            try await service.server.push(Frame(.push, type: 0x2, body: "news"))
            for await message in pushes {
                #expect(message.body == "news")
                break
            }
        }
    }

    // MARK: Without a response

    @Test func aSubscriptionWithoutAResponseIsRestoredBeforeTheLinkIsReady() throws {
        let options = ClientOptions { $0.handshake.perform = { _ = try await $0.send(ask("login")) } }
        let handler: LoopbackServer.Handler = { String($0.body).hasPrefix("quiet") ? .noReply : .echo }
        try simulate(options: options, handler: handler) { service, client in
            _ = try await client.subscribe(ask("loud"))
            let first = try await client.subscribe(posting: ask("quiet 1"))
            _ = try await client.subscribe(posting: ask("quiet 2"))
            #expect(first.response == nil)
            try await service.server.waitForRequests(4)
            service.network.reset("db")
            try await expectEcho("a", by: client)
            await first.end()
            service.network.reset("db")
            try await expectEcho("b", by: client)
            let received = await service.server.received.map(\.body)
            #expect(
                received == [
                    "login", "loud", "quiet 1", "quiet 2", "login", "quiet 1", "quiet 2", "loud", "a", "login",
                    "quiet 2",
                    "loud", "b",
                ]
            )
        }
    }

    @Test func manySubscriptionsWithoutResponsesAreRestoredTogether() throws {
        let count = 2000
        try simulate(handler: { $0.type == 0x420 ? .noReply : .echo }) { service, client in
            for number in 0..<count {
                _ = try await client.subscribe(posting: Request(type: 0x420, body: Bytes("\(number)")))
            }
            service.network.reset("db")
            try await expectEcho("a", by: client)
            let received = await service.server.received.suffix(count + 1).map(\.body)
            #expect(received == (0..<count).map { Bytes("\($0)") } + ["a"])
            #expect(await client.metrics.connection.attempts == 2)
        }
    }

    @Test func subscriptionsWithoutResponsesThatTheServerKeepsAreNotRestored() throws {
        let options = ClientOptions { $0.handshake.perform = { await $0.keepSubscriptions() } }
        try simulate(options: options, handler: { $0.body == "quiet" ? .noReply : .echo }) { service, client in
            _ = try await client.subscribe(posting: ask("quiet"))
            try await service.server.waitForRequests(1)
            service.network.reset("db")
            try await expectEcho("a", by: client)
            #expect(await service.server.received.map(\.body) == ["quiet", "a"])
        }
    }

    /// Regression: a link lost during the restoration lost the subscriptions that were not written yet.
    @Test func afterALossDuringRestorationTheNextLinkRestoresAll() throws {
        var conditions = NetworkConditions()
        conditions.sendBuffer = 1000
        conditions.receiveWindow = 1000
        let handler: LoopbackServer.Handler = { $0.type == 0x420 ? .noReply : .echo }
        try simulate(conditions: conditions, overTLS: false, handler: handler) { service, client in
            for number in 0..<20 {
                let body = Bytes("\(number)" + String(repeating: "x", count: 500))
                _ = try await client.subscribe(posting: Request(type: 0x420, body: body))
            }
            try await service.server.waitForRequests(20)
            await service.server.forget()
            service.network.reset("db")
            let reply = client.start(ask("a"))
            try await service.server.waitForRequests(5)
            service.network.reset("db")
            try await expectBody("a", of: reply)
            let received = await service.server.received.suffix(21).map { String($0.body.prefix { $0 != 120 }) }
            #expect(received == (0..<20).map { "\($0)" } + ["a"])
        }
    }

    /// Regression: each response came with the end of its link, so another link had begun before every registration.
    /// The request was sent again on the next link, without end.
    @Test func subscribingEndsAlthoughLinksKeepClosing() throws {
        let options = ClientOptions { options in
            options.requests.timeout = nil
            options.reconnecting.policy = Backoff(base: .seconds(1), cap: .seconds(1))
        }
        var conditions = NetworkConditions()
        conditions.latency = .milliseconds(1)...(.milliseconds(1))
        conditions.fragmentation = 0
        // Only requests of a handshake, recognized by their serials, leave the link open.
        let flapping: LoopbackServer.Handler = { $0.serial < 1 << 31 ? .sequence([.echo, .close]) : .echo }
        try simulate(conditions: conditions, options: options, handler: flapping) { service, client in
            try await expectEcho("a", by: client)
            try await service.pass(.milliseconds(5))
            let subscription = try await withTimeout(.seconds(60), clock: service.network.clock) {
                try await client.subscribe(ask("topic"))
            }
            #expect(subscription.response?.body == "topic")
            // Registered: the next link restores it.
            try await expectEcho("b", by: client)
            #expect(await service.server.received.map(\.body) == ["a", "topic", "topic", "b"])
        }
    }

    /// The first link is lost before the request is written, so the request goes out on the second link. The client
    /// cannot know that, and sends it again. Regression: losing the link at that moment failed the call although the
    /// server had accepted the subscription.
    @Test func losingTheLinkWhileASubscriptionIsRepeatedDoesNotFailTheCall() throws {
        let options = ClientOptions { options in
            options.requests.maximumInFlight = 1
            options.reconnecting.policy = Backoff(base: .milliseconds(1), cap: .milliseconds(1))
        }
        let topics = Mutex(0)
        let handler: LoopbackServer.Handler = { request in
            guard request.body == "topic" else { return request.body == "first" ? .noReply : .echo }
            return topics.withLock { count in
                count += 1
                return count == 2 ? .reset : .echo
            }
        }
        try simulate(options: options, handler: handler) { service, client in
            let first = client.start(ask("first"))
            _ = try await service.server.waitForRequest { $0.body == "first" }
            let subscribing = Task(executorPreference: service.network.executor) {
                try await client.subscribe(ask("topic"))
            }
            try await service.pass(.milliseconds(10))
            service.network.reset("db")
            #expect(await failure(of: first)?.code == .connectionLost)
            #expect(try await subscribing.value.response?.body == "topic")
            try await expectEcho("a", by: client)
            #expect(await service.server.received.map(\.body) == ["first", "topic", "topic", "topic", "a"])
        }
    }

    /// Regression: restoring sent up to 64 requests at once to a server with a limit of one at a time.
    @Test(arguments: [(1, 64, 1), (3, 64, 3), (8, 2, 2), (1024, 4, 4)])
    func restoringObeysALimitThatProtectsTheServer(limit: Int, window: Int, most: Int) throws {
        let network = SimulatedNetwork(seed: 1)
        let time = Duration.milliseconds(100)
        let arrivals = Mutex<(all: [Duration], most: Int)>(([], 0))
        let options = ClientOptions {
            $0.requests.maximumInFlight = limit
            $0.handshake.maximumInFlight = window
        }
        try network.runBlocking {
            let server = try await network.serve(at: "db:7000", speaking: .standard) { _ in
                let now = network.clock.now.offset
                arrivals.withLock {
                    $0.all.append(now)
                    $0.most = max($0.most, $0.all.count { now - $0 < time })
                }
                return .after(time, .echo)
            }
            let client = network.client(of: ["db:7000"], speaking: .standard, options: options)
            for index in 0..<5 { _ = try await client.subscribe(ask(index)) }
            network.reset("db")
            try await expectEcho("a", by: client)
            #expect(arrivals.withLock { $0.most } == most)
            #expect(await server.received.count == 11)
            await client.close()
            await server.stop()
        }
    }
}
