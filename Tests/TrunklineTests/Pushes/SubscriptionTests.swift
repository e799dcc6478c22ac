import Synchronization
import Testing
import Trunkline

@testable import TrunklineLoopback
@testable import TrunklineTesting

@Suite(.simulated, .timeLimit(.minutes(5)))
struct SubscriptionTests {}

extension SubscriptionTests {
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

    // MARK: Links that change during the call

    /// A server that takes 300 ms for each subscription, rejects those whose position is in `rejected`, and never
    /// answers "slow".
    private func slowHandler(_ topics: Topics, rejecting rejected: Set<Int> = []) -> LoopbackServer.Handler {
        { request in
            guard request.body == "topic" else { return request.body == "slow" ? .noReply : .echo }
            let number = topics.next()
            return .after(.milliseconds(300), rejected.contains(number) ? .status(403) : .echo)
        }
    }

    /// The server carries out the first request, which is answered on a draining link. The second one waits behind slow
    /// requests until the call times out or is cancelled. Regression: its fate, `notSent`, was that of the call.
    @Test(arguments: [false, true])
    func aSubscriptionThatTheServerHasAcceptedIsNeverNotSent(isCancelled: Bool) throws {
        let (ledger, ending) = (FateLedger(), EndingInterceptor())
        let options = ClientOptions {
            $0.requests.maximumInFlight = 2
            $0.observers = [ledger]
            $0.interceptors = [ending]
        }
        let topics = Topics()
        try simulate(options: options, handler: slowHandler(topics)) { service, client in
            try await client.connect()
            let subscribing = Task(executorPreference: service.network.executor) {
                try await client.subscribe(ask("topic"), timeout: .seconds(2))
            }
            _ = try await service.server.waitForRequest { $0.body == "topic" }
            await client.renewLink()
            try await service.pass(.milliseconds(100))
            let slow = (0..<2).map { _ in client.start(ask("slow"), timeout: .seconds(20)) }
            try await service.pass(.milliseconds(500))
            if isCancelled { subscribing.cancel() }
            let error = await #expect(throws: ClientError.self) { try await subscribing.value }
            #expect(error?.code == (isCancelled ? .cancelled : .timedOut) && error?.fate == .unknown)
            #expect(topics.count == 1)
            // Nobody is told anything else.
            #expect(await client.metrics.failures == [.init(isCancelled ? .cancelled : .timedOut, .unknown): 1])
            #expect(ledger.fates == [.unknown])
            #expect(ending.fates.first == .unknown && ending.count(of: "topic") == 1)
            for handle in slow { handle.cancel() }
            service.network.reset("db")
            try await expectEcho("a", by: client)
            #expect(topics.count == 1)  // nothing is registered
        }
    }

    /// Regression: the subscription was registered before the second request had ended, so every link that began
    /// meanwhile sent it once more, five times in all.
    @Test func aSubscriptionThatFailsIsCarriedOutAtMostTwice() throws {
        let topics = Topics()
        try simulate(speaking: statusLayout, handler: slowHandler(topics, rejecting: [2])) { service, client in
            try await client.connect()
            let subscribing = Task(executorPreference: service.network.executor) {
                try await client.subscribe(ask("topic"))
            }
            _ = try await service.server.waitForRequest { $0.body == "topic" }
            for _ in 0..<4 {
                await client.renewLink()
                try await service.pass(.milliseconds(110))
            }
            let error = await #expect(throws: ClientError.self) { try await subscribing.value }
            #expect(error?.code == .rejected && error?.fate == .answered)
            #expect(topics.count == 2)
            service.network.reset("db")
            try await expectEcho("a", by: client)
            #expect(topics.count == 2)
        }
    }

    /// Begins to subscribe, and replaces the link during the first request and again during the second one.
    private func subscribeDuringTwoChanges(
        _ service: SimulatedService,
        _ client: Client
    ) async throws -> Task<Subscription, any Error> {
        try await client.connect()
        let subscribing = Task(executorPreference: service.network.executor) {
            try await client.subscribe(ask("topic"))
        }
        for number in 1...2 {
            try await service.server.waitForRequests(number)
            await client.renewLink()
            try await service.pass(.milliseconds(100))
        }
        return subscribing
    }

    /// The link changes during the first request and again during the second one. The call does not send a third one:
    /// it replaces the link, and the handshake of the next one restores the subscription.
    @Test func aLinkThatDoesNotKnowANewSubscriptionIsReplaced() throws {
        let topics = Topics()
        try simulate(handler: slowHandler(topics)) { service, client in
            let subscribing = try await subscribeDuringTwoChanges(service, client)
            #expect(try await subscribing.value.response?.body == "topic")
            #expect(topics.count == 2)
            try await service.pass(.seconds(2))
            #expect(topics.count == 3)
            #expect(await client.metrics.connection.links == 4)
            #expect(await client.metrics.connection.disconnects.values.reduce(0, +) == 3)
        }
    }

    /// Regression: the renewal was omitted because another one was in progress. When that was given up, the ready link
    /// remained without the subscription.
    @Test func aLinkThatDoesNotKnowANewSubscriptionIsReplacedAfterAChangeThatFails() throws {
        let topics = Topics()
        let options = ClientOptions {
            $0.reconnecting.policy = Backoff(minimum: .milliseconds(500), cap: .milliseconds(500))
            $0.reconnecting.maximumAttempts = 2
        }
        try simulate(options: options, handler: slowHandler(topics)) { service, client in
            let subscribing = try await subscribeDuringTwoChanges(service, client)
            await service.server.stopAccepting()
            await client.renewLink()
            #expect(try await subscribing.value.response?.body == "topic")
            try await service.pass(.seconds(2))
            try await service.server.resumeAccepting()
            #expect(await client.metrics.connection.attemptFailures.values.reduce(0, +) == 2)
            try await service.pass(.seconds(58))
            #expect(topics.count == 2)
            try await service.pass(.seconds(2))
            #expect(topics.count == 3)
            #expect(await client.metrics.connection.links == 4)
        }
    }

    /// The second request ends with its link, when nothing else needs another one.
    @Test func aSubscriptionWhoseLinkEndsMakesTheClientConnect() throws {
        let topics = Topics()
        let handler: LoopbackServer.Handler = { _ in
            switch topics.next() {
            case 1: .after(.milliseconds(300), .echo)
            case 2: .close
            default: .echo
            }
        }
        try simulate(handler: handler) { service, client in
            try await client.connect()
            let subscribing = Task(executorPreference: service.network.executor) {
                try await client.subscribe(ask("topic"))
            }
            try await service.server.waitForRequests(1)
            await client.renewLink()
            #expect(try await subscribing.value.response?.body == "topic")
            #expect(topics.count == 2)
            try await service.server.waitForRequests(3)
            #expect(await service.server.received.map(\.body) == ["topic", "topic", "topic"])
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

/// Counts the requests that subscribe.
private final class Topics: Sendable {
    private let counted = Mutex(0)
    var count: Int { counted.withLock { $0 } }

    func next() -> Int {
        counted.withLock { count in
            count += 1
            return count
        }
    }
}

/// Notes the fates of the requests that fail.
private final class FateLedger: ClientObserver {
    let delivery = EventDelivery.onEventLoop
    private let noted = Mutex<[ClientError.Fate]>([])
    var fates: [ClientError.Fate] { noted.withLock { $0 } }

    func observe(_ events: [ClientEvent]) {
        for event in events {
            if case .requestFailed(_, let error, _) = event.content { noted.withLock { $0.append(error.fate) } }
        }
    }
}

/// Notes the fates of the calls that fail, and the bodies of all calls.
private final class EndingInterceptor: ClientInterceptor {
    private let noted = Mutex<(fates: [ClientError.Fate], bodies: [Bytes])>(([], []))
    var fates: [ClientError.Fate] { noted.withLock { $0.fates } }
    func count(of body: Bytes) -> Int { noted.withLock { $0.bodies.count { $0 == body } } }

    func intercept(_ call: inout ClientCall) throws(ClientError) -> Completion? {
        noted.withLock { $0.bodies.append(call.request.body) }
        return { [self] result, _ in
            if case .failure(let error) = result { noted.withLock { $0.fates.append(error.fate) } }
        }
    }
}
