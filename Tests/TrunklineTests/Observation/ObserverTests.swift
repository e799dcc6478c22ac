import Foundation
import Testing

@testable import TrunklineCore
@testable import TrunklineDiagnostics
@testable import TrunklineIO
@testable import TrunklineLogging
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// Keeps the events that it receives.
final class EventCollector: ClientObserver {
    let interests: ClientEvent.Kinds
    let delivery: EventDelivery
    private let collected = Lock<[ClientEvent]>([])
    private let missedCount = Lock(0)

    init(_ interests: ClientEvent.Kinds = .all, _ delivery: EventDelivery = .onEventLoop) {
        (self.interests, self.delivery) = (interests, delivery)
    }

    func observe(_ events: [ClientEvent]) { collected.withLock { $0 += events } }
    func missed(_ count: Int) { missedCount.withLock { $0 += count } }

    var events: [ClientEvent] { collected.withLock { $0 } }
    var names: [String] { events.map(\.name) }
    var missedEvents: Int { missedCount.withLock { $0 } }
    func names(_ kind: ClientEvent.Kinds) -> [String] { events.filter { kind.contains($0.kind) }.map(\.name) }
}

/// What observers are told.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct ObserverTests {}

extension ObserverTests {
    @Test func theLifeOfARequestIsTold() throws {
        let collector = EventCollector()
        let options = ClientOptions { $0.observers = [collector] }
        try simulate(options: options) { service, client in
            try await expectEcho("a", by: client)
            try await expectEcho("b", by: client)
            try await client.post(ask("c"))
            try await service.pass(.milliseconds(10))
            #expect(
                collector.names([.requests, .steps]) == [
                    "requests.accepted", "request.waiting", "request.admitted", "requests.written", "requests.answered",
                    "requests.accepted", "requests.written", "requests.answered",
                    "requests.accepted", "requests.written", "message.written",
                ]
            )
            let states =
                Wire.isSecured
                ? ["connecting", "resolving", "connecting", "securing", "ready"] : ["resolving", "connecting", "ready"]
            let links = collector.names(.links)
            let told = links.filter { $0.hasPrefix("connection.") }
            #expect(Array(told.prefix(states.count)) == states.map { "connection.\($0)" })
            #expect(links.suffix(2) == ["link.ready", "connection.ready"])
            let times = collector.events.map(\.time)
            #expect(times == times.sorted())
        }
        #expect(collector.names.suffix(3) == ["link.ended", "connection.closed", "client.closed"])
    }

    @Test func failuresAreToldWithTheirTimelines() throws {
        let collector = EventCollector(.requests)
        let options = ClientOptions { $0.observers = [collector] }
        try simulate(options: options, handler: { _ in .noReply }) { service, client in
            _ = await failure { () throws(ClientError) in try await client.send(ask("a"), timeout: .seconds(1)) }
            let handle = client.start(ask("b"))
            try await service.server.waitForRequests(2)
            handle.cancel()
            _ = await failure(of: handle)
            await client.closeNow()
            _ = await failure { () throws(ClientError) in try await client.send(ask("c")) }
            try await service.pass(.milliseconds(10))
            #expect(
                collector.names == [
                    "requests.accepted", "request.failed", "requests.accepted", "request.cancelled", "request.refused",
                ]
            )
            guard case .requestFailed(_, let error, let duration) = collector.events[1].content else { return }
            #expect(error.timeline != nil && duration >= .seconds(1))
            let fields = collector.events[1].fields.map(\.name)
            #expect(fields == ["id", "duration", "code", "fate", "message"])
            #expect(collector.events[4].description.hasPrefix("request.refused code=closed fate=notSent message="))
        }
    }

    @Test func answersSayWhetherTheyAreErrors() throws {
        let collector = EventCollector(.requests)
        let options = ClientOptions { $0.observers = [collector] }
        let handler: LoopbackServer.Handler = { request in
            request.body == "error" ? .after(.seconds(2), .status(7)) : .after(.seconds(1), .echo)
        }
        try simulate(speaking: statusLayout, options: options, handler: handler) { service, client in
            try await client.connect()
            try await expectEcho("a", by: client)
            _ = await failure { () throws(ClientError) in try await client.send(ask("error")) }
            try await service.pass(.milliseconds(10))
        }
        let answered = collector.events.flatMap { event -> [ClientEvent.AnsweredRequest] in
            if case .requestsAnswered(let requests) = event.content { requests } else { [] }
        }
        #expect(answered.map(\.isError) == [false, true])
        #expect(answered.map(\.status) == [0, 7])
        // The flag is packed with the duration, so that an event is not larger.
        #expect(MemoryLayout<ClientEvent.AnsweredRequest>.size == 24)
        let expected: [Duration] = [.seconds(1), .seconds(2)]
        for (request, least) in zip(answered, expected) {
            #expect(request.duration >= least && request.duration < least + .seconds(1))
        }
    }

    @Test func retriesLimitsAndLateResponsesAreTold() throws {
        let collector = EventCollector([.steps, .limits])
        let options = ClientOptions {
            $0.observers = [collector]
            $0.requests.maximumInFlight = 1
            $0.requests.retry = .idempotent(tries: 2)
        }
        let handler: LoopbackServer.Handler = { request in
            request.body == "slow" ? .after(.seconds(2), .echo) : request.body == "never" ? .noReply : .echo
        }
        let answering = LoopbackServer.Options { $0.answersCancelled = true }
        try simulate(server: answering, options: options, handler: handler) { service, client in
            try await client.connect()
            async let late = failure { () throws(ClientError) in
                try await client.send(ask("slow"), timeout: .seconds(1))
            }
            try await service.server.waitForRequests(1)
            async let waiting = client.send(ask("waits"))
            _ = await late
            _ = try await waiting
            #expect(collector.names.contains("request.late_response") && collector.names.contains("limit.reached"))
            #expect(collector.names.last { $0.hasPrefix("limit") } == "limit.cleared")
            let handle = client.start(ask("never"), timeout: .seconds(60))
            try await service.server.waitForRequests(3)
            service.network.reset("db")
            try await service.server.waitForRequests(4)
            #expect(collector.names.contains("request.retrying"))
            handle.cancel()
            let late2 = collector.events.compactMap { event -> RequestID? in
                if case .lateResponse(let id) = event.content { id } else { nil }
            }
            let written = collector.events.compactMap { event -> RequestID? in
                if case .requestsWritten(let ids, _) = event.content { ids.first } else { nil }
            }
            #expect(late2 == [try #require(written.first)])
        }
    }

    @Test func droppedPushesAreToldAndCounted() throws {
        let collector = EventCollector([.pushes, .limits, .endpoints])
        let options = ClientOptions { $0.observers = [collector] }
        let handler: LoopbackServer.Handler = { request in
            .sequence((0..<20).map { .push(Frame(.push, type: 2, body: Bytes("\($0)"))) } + [.echo])
        }
        try simulate(options: options, handler: handler) { service, client in
            let dropping = client.pushes(buffering: PushBuffering(maximumCount: 5, overflow: .dropOldest))
            try await expectEcho("push", by: client)
            try await service.pass(.seconds(1))
            let metrics = await client.metrics
            #expect(metrics.pushesDropped == 15 && metrics.pushesDroppedByStream == ["all": 15])
            let dropped = collector.events.map { event -> Int in
                if case .pushesDropped(let count, _) = event.content { count } else { 0 }
            }
            #expect(dropped.reduce(0, +) == 15)
            await client.replaceEndpoints(["db:7000", "other:1"])
            try await service.pass(.milliseconds(1))
            #expect(collector.events.last?.description == "endpoints.changed endpoints=\"db:7000 other:1\"")
            withExtendedLifetime(dropping) {}
        }
    }

    /// The memory of events is used again, unless an observer has kept them.
    @Test(arguments: [EventDelivery.onEventLoop, .queued()])
    func keptEventsDoNotChange(_ delivery: EventDelivery) throws {
        let collector = EventCollector(.all, delivery)
        let options = ClientOptions { $0.observers = [collector, EventCollector(.links)] }
        try simulate(options: options) { _, client in
            for turn in 1...50 {
                _ = await client.send(all: (0..<turn).map { _ in ask("a") })
            }
        }
        var (accepted, written, answered): ([RequestID], [RequestID], [RequestID]) = ([], [], [])
        for event in collector.events {
            switch event.content {
            case .requestsAccepted(let requests): accepted += requests.map(\.id)
            case .requestsWritten(let ids, _): written += ids
            case .requestsAnswered(let requests): answered += requests.map(\.id)
            default: break
            }
        }
        #expect(accepted.count == 1275 && Set(accepted).count == 1275)
        #expect(written == accepted)
        #expect(answered == accepted)
    }

    /// A limit that ends because the client is closed is told before `close()` returns, at once, and no timer is left.
    @Test(arguments: [EventDelivery.onEventLoop, .queued()])
    func theLastEventsComeBeforeTheEndOfClosing(_ delivery: EventDelivery) throws {
        let collector = EventCollector([.limits, .links], delivery)
        let (log, dumped) = (LogCollector(), Lock(0))
        let options = ClientOptions {
            $0.observers = [collector]
            $0.logging = log.logging()
            $0.recorder = .ring(bytes: 65_536)
            $0.recorder?.dumpsAutomatically(on: [.closedLocally]) { _, _ in dumped.withLock { $0 += 1 } }
            $0.requests.maximumInFlight = 1
        }
        try simulate(options: options, handler: { _ in .noReply }) { service, client in
            let handles = [client.start(ask("a")), client.start(ask("b"))]
            try await service.server.waitForRequests(1)
            let channel = client.pushes(buffering: PushBuffering(maximumCount: 1, overflow: .suspendReading))
            for number in 0..<5 { try await service.server.push(Frame(.push, type: 2, body: Bytes("\(number)"))) }
            try await service.pass(.milliseconds(100))
            #expect(Set(collector.names(.limits)) == ["limit.reached"])
            let before = service.now
            await client.closeNow()
            #expect(service.now == before)
            #expect(log.events.last == "client.closed" && dumped.withLock(\.self) == 1)
            let names = collector.names
            #expect(names.filter { $0 == "limit.reached" }.count == names.filter { $0 == "limit.cleared" }.count)
            #expect(names.contains("connection.closed") && names.contains("limit.cleared"))
            for handle in handles { _ = await failure(of: handle) }
            for await _ in channel {}
            try await service.pass(.milliseconds(10))
            #expect(collector.names == names)
            #expect(service.network.loop.timers.armedCount == 0)
        }
    }

    @Test func anObserverReceivesOnlyWhatItWants() throws {
        let (links, requests) = (EventCollector(.links), EventCollector(.requests))
        let nothing = EventCollector([])
        let options = ClientOptions { $0.observers = [links, requests, nothing] }
        try simulate(options: options) { _, client in
            for number in 0..<5 { try await expectEcho("\(number)", by: client) }
        }
        #expect(Set(requests.names) == ["requests.accepted", "requests.answered"] && requests.names.count == 10)
        #expect(links.events.allSatisfy { $0.kind == .links } && !links.names.isEmpty)
        #expect(nothing.events.isEmpty)
    }

    /// Names are part of the interface: dashboards and alerts use them.
    @Test func everyEventHasANameFieldsAndALine() {
        let error = ClientError(.timedOut, .unknown, "late\nline", cause: TransportError(.reset, "reset"))
        let contents: [(ClientEvent.Content, String)] = [
            (
                .requestsAccepted([3, 4].map { .init(id: $0, session: 1, type: 2, isOneWay: false) }),
                "requests.accepted ids=\"3 4\""
            ),
            (.requestWaiting(id: 1, for: .turn), "request.waiting id=1 for=turn"),
            (.requestAdmitted(id: 1, session: 3), "request.admitted id=1 session=3"),
            (.requestsWritten(ids: [1, 2], session: 3), "requests.written ids=\"1 2\" session=3"),
            (.requestFirstPart(id: 1), "request.first_part id=1"),
            (
                .requestsAnswered([.init(id: 1, nanoseconds: 5_000_000, type: 2, status: 0, isError: false)]),
                "requests.answered ids=1 durations=0.005"
            ),
            (.messageWritten(id: 1, after: .milliseconds(5)), "message.written id=1 duration=0.005"),
            (.requestRetrying(id: 1, tryNumber: 2, delay: .seconds(1)), "request.retrying id=1 try=2 delay=1.0"),
            (.lateResponse(id: 1), "request.late_response id=1"),
            (.stateChanged(.ready("db:1", session: 4)), "connection.ready endpoint=db:1 session=4"),
            (.stateChanged(.noNetwork(cause: .unreachable)), "connection.no_network cause=unreachable"),
            (
                .linkDraining("db:1", session: 4, .goAway, reason: nil),
                "link.draining endpoint=db:1 session=4 cause=goAway"
            ),
            (.limitReached(.serials), "limit.reached limit=serials"),
            (.limitCleared(.streamBuffer), "limit.cleared limit=streamBuffer"),
            (.pushesDropped(7, stream: "key"), "pushes.dropped count=7 stream=key"),
            (
                .serverRequestsRefused(3, because: .overloaded),
                "server_requests.refused count=3 reason=overloaded"
            ),
            (.serverRequestsDropped(2), "server_requests.dropped count=2"),
            (.endpointsChanged([]), "endpoints.changed endpoints=\"\""),
        ]
        for (content, line) in contents { #expect("\(ClientEvent(content, at: .distantPast))" == line) }
        let failed = ClientEvent(.requestFailed(id: 1, error, after: .seconds(1)), at: .distantPast)
        #expect(failed.description.hasPrefix("request.failed id=1 duration=1.0 code=timedOut fate=unknown"))
        #expect(!failed.description.contains("\n") && failed.description.contains("cause="))
    }
}

/// Delivery by a queue, with real threads.
@Suite(.tags(.realThreads), .serialized, .timeLimit(.minutes(5)))
struct EventQueueTests {}

extension EventQueueTests {
    /// Blocks the thread until `isReleased`, or for two minutes: other tests need the thread.
    private static func block(until isReleased: Lock<Bool>) {
        let limit = ContinuousClock.now + .seconds(120)
        while !isReleased.withLock({ $0 }), ContinuousClock.now < limit { Thread.sleep(forTimeInterval: 0.001) }
    }

    /// Blocks its thread in each call until it is released.
    private final class Slow: ClientObserver {
        let delivery = EventDelivery.queued(capacity: 50)
        let interests = ClientEvent.Kinds.requests
        let isReleased = Lock(false)
        let seen = Lock<(events: Int, missed: Int, calls: Int)>((0, 0, 0))

        func observe(_ events: [ClientEvent]) {
            seen.withLock { ($0.events, $0.calls) = ($0.events + events.count, $0.calls + 1) }
            EventQueueTests.block(until: isReleased)
        }

        func missed(_ count: Int) { seen.withLock { $0.missed += count } }
    }

    @Test(arguments: Mechanism.allCases)
    func aSlowObserverStallsNothingAndLearnsWhatItMissed(mechanism: Mechanism) async throws {
        let slow = Slow()
        let collector = EventCollector(.requests, .queued())
        var options = quickOptions()
        options.observers = [slow, collector]
        defer { slow.isReleased.withLock { $0 = true } }
        try await withServerAndClient(by: mechanism, clientOptions: options) { _, client in
            try await expectEcho("first", by: client)
            for _ in 0..<30_000 where slow.seen.withLock(\.calls) == 0 { await moment() }
            for number in 1..<200 { try await expectEcho("\(number)", by: client) }
            #expect(slow.seen.withLock(\.calls) == 1)
            let queues = await client.metrics.eventQueues
            let queue = try #require(queues["Slow"])
            #expect(queue.capacity == 50 && (1...50).contains(queue.waiting) && queue.missed > 0)
            #expect(queues["EventCollector"]?.missed == 0)
            slow.isReleased.withLock { $0 = true }
            for _ in 0..<30_000 where slow.seen.withLock({ $0.events + $0.missed }) < 400 { await moment() }
        }
        for _ in 0..<30_000 where collector.events.count < 400 { await moment() }
        let seen = slow.seen.withLock { $0 }
        #expect(seen.events + seen.missed == 400 && seen.missed > 0 && seen.events <= 150)
        #expect(collector.events.count == 400 && collector.missedEvents == 0)
    }

    /// Takes its time for each call.
    private final class Unhurried: ClientObserver {
        let interests = ClientEvent.Kinds.links
        let names = Lock<[String]>([])

        func observe(_ events: [ClientEvent]) {
            Thread.sleep(forTimeInterval: 0.003)
            names.withLock { $0 += events.map(\.name) }
        }
    }

    /// When `close()` returns, a program may end: nothing is left to deliver, unless it took longer than 2 s (on a busy
    /// machine).
    @Test(arguments: Mechanism.allCases)
    func everythingIsDeliveredWhenCloseReturns(mechanism: Mechanism) async throws {
        for round in 0..<20 {
            let observers = [Unhurried(), Unhurried()]
            let dumped = Lock<[DisconnectCause]>([])
            let options = ClientOptions {
                $0.observers = observers
                $0.recorder = .ring(bytes: 65_536)
                $0.recorder?.dumpsAutomatically(on: [.closedLocally]) { _, report in
                    Thread.sleep(forTimeInterval: 0.003)
                    dumped.withLock { $0.append(report.cause) }
                }
            }
            try await withServerAndClient(by: mechanism, clientOptions: options) { _, client in
                try await expectEcho("a", by: client)
                let began = ContinuousClock.now
                if round % 2 == 0 { await client.close() } else { await client.closeNow() }
                if began.duration(to: .now) >= .seconds(2) { return }
                for observer in observers { #expect(observer.names.withLock(\.last) == "client.closed") }
                #expect(dumped.withLock(\.self) == [.closedLocally])
            }
        }
    }

    /// Two callers of `close()` return although one observer never does.
    @Test func closingDoesNotWaitForAnObserverThatBlocks() async throws {
        let slow = Slow()
        let collector = EventCollector(.links, .queued())
        let options = ClientOptions { $0.observers = [slow, collector] }
        defer { slow.isReleased.withLock { $0 = true } }
        try await withServerAndClient(by: .epoll, clientOptions: options) { _, client in
            try await expectEcho("a", by: client)
            for _ in 0..<30_000 where slow.seen.withLock(\.calls) == 0 { await moment() }
            async let first: Void = client.close()
            async let second: Void = client.closeNow()
            _ = await (first, second)
            #expect(slow.seen.withLock(\.calls) == 1)
            for _ in 0..<30_000 where collector.names.last != "client.closed" { await moment() }
            #expect(collector.names.last == "client.closed")
            slow.isReleased.withLock { $0 = true }
        }
    }

    /// While the receiver of dumps is busy, at most one recording waits for it.
    @Test func dumpsDoNotPileUp() async throws {
        let isReleased = Lock(false)
        let sessions = Lock<[SessionID]>([])
        defer { isReleased.withLock { $0 = true } }
        var options = quickOptions()
        options.recorder = .ring(bytes: 65_536)
        options.recorder?.dumpsAutomatically(on: [.reset, .closedByServer], atMostEvery: .zero) { _, report in
            sessions.withLock { $0.append(report.session) }
            Self.block(until: isReleased)
        }
        try await withServerAndClient(by: .epoll, clientOptions: options) { server, client in
            for round in 1...5 {
                try await expectEcho("a", by: client)
                await server.disconnectAll(reset: true)
                while await client.metrics.connection.losses.values.reduce(0, +) < round { await moment() }
                while sessions.withLock(\.isEmpty) { await moment() }
            }
            isReleased.withLock { $0 = true }
        }
        for _ in 0..<30_000 where sessions.withLock(\.count) < 2 { await moment() }
        #expect(sessions.withLock(\.self) == [1, 2])
    }
}
