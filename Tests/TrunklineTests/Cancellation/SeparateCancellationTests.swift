import Synchronization
import Testing

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineTesting

/// Cancellation over a second connection, as in PostgreSQL's protocol ("Canceling Requests in Progress"): the client opens
/// a new connection and sends CancelRequest with the process and the secret of BackendKeyData. The server signals the
/// process and closes that connection. The signal cancels whatever the process works on when it arrives, or nothing.
@Suite(.simulated, .timeLimit(.seeded))
struct SeparateCancellationTests {}

extension SeparateCancellationTests {
    /// The processes of a server, one for each connection.
    private final class Processes: Sendable {
        private struct State {
            /// The text of the query that each process works on, and whether it was signalled meanwhile.
            var running: [UInt32: (query: String, isCancelled: Bool)] = [:]
            /// The queries that were cancelled, in order, each after its process.
            var cancelled: [String] = []
            /// The processes that were signalled, whatever they did.
            var signals: [UInt32] = []
        }

        private let state = Mutex(State())
        private let clock: SimulatedClock
        /// How long the server takes to signal a process after it has read CancelRequest.
        private let signalDelay: @Sendable () -> Duration

        init(_ clock: SimulatedClock, _ signalDelay: @escaping @Sendable () -> Duration) {
            (self.clock, self.signalDelay) = (clock, signalDelay)
        }

        var cancelled: [String] { state.withLock { $0.cancelled } }
        var signals: [UInt32] { state.withLock { $0.signals } }

        func answer(_ frame: Frame) -> Reaction {
            let words = String(frame.body).split(separator: " ", maxSplits: 1).map(String.init)
            switch frame.type {
            case PostgresCodec.startup:
                let key = BackendKey(process: UInt32(words[0]) ?? 0, secret: 0x5EC4E7)
                return .sequence([
                    .part(Frame(.part, type: UInt32(UInt8(ascii: "R")), body: [0, 0, 0, 0])),
                    .part(Frame(.part, type: UInt32(UInt8(ascii: "K")), body: key.bytes)),
                    .reply(Frame(.response, type: UInt32(UInt8(ascii: "Z")))),
                ])
            case PostgresCodec.cancel:
                return .perform { _ in
                    try await self.clock.sleep(for: self.signalDelay())
                    if let key = BackendKey(frame.body), key.secret == 0x5EC4E7 { self.signal(key.process) }
                }
            case PostgresCodec.query:
                return .perform { try await self.run(words[1], UInt32(words[0]) ?? 0, $0) }
            default: return .close
            }
        }

        private func signal(_ process: UInt32) {
            state.withLock { state in
                state.signals.append(process)
                guard let running = state.running[process], !running.isCancelled else { return }
                state.running[process]?.isCancelled = true
                state.cancelled.append("\(process) \(running.query)")
            }
        }

        /// `pg_sleep(milliseconds)`, and then the text of the query.
        private func run(_ text: String, _ process: UInt32, _ exchange: ServerExchange) async throws {
            let query = String(text.prefix { $0 != "\0" })
            let end = clock.now.advanced(by: .milliseconds(query.split(separator: "(").last.flatMap { Int($0) } ?? 0))
            state.withLock { $0.running[process] = (query, false) }
            defer { state.withLock { $0.running[process] = nil } }
            while clock.now < end, !isCancelled(process) { try await clock.sleep(for: .milliseconds(5)) }
            if isCancelled(process) {
                try await exchange.part(Frame(.part, type: UInt32(UInt8(ascii: "E")), body: "C57014"))
            } else {
                try await exchange.part(Frame(.part, type: UInt32(UInt8(ascii: "D")), body: Bytes(query)))
            }
            state.withLock { $0.running[process] = nil }
            try await exchange.reply(Frame(.response, type: UInt32(UInt8(ascii: "Z"))))
        }

        private func isCancelled(_ process: UInt32) -> Bool {
            state.withLock { $0.running[process]?.isCancelled == true }
        }
    }

    /// What the calls of the hook were given.
    private final class Calls: Sendable {
        private let calls = Mutex<[AbandonedRequest]>([])
        var all: [AbandonedRequest] { calls.withLock { $0 } }
        func note(_ request: AbandonedRequest) { calls.withLock { $0.append(request) } }
    }

    private struct Service {
        let network: SimulatedNetwork
        let client: Client
        let processes: Processes
        let calls: Calls
        func pass(_ duration: Duration) async throws { try await network.clock.sleep(for: duration) }
    }

    private static func query(_ text: String) -> Request {
        Request(type: PostgresCodec.query, body: Bytes("\(text)\0"))
    }

    private static func sleep(_ milliseconds: Int, _ name: String = "") -> Request {
        query("SELECT \(name)pg_sleep(\(milliseconds)")
    }

    /// Opens a connection to the server of `request`, sends CancelRequest, and waits until the server closes it.
    private static func cancel(_ request: AbandonedRequest, in network: SimulatedNetwork) async throws {
        let key = try #require(request.serverInfo(as: BackendKey.self))
        let connection = network.connection(to: [request.endpoint], speaking: PostgresCodec(), overTLS: false)
        var reports = connection.disconnects.makeAsyncIterator()
        try await connection.write(Frame(.request, type: PostgresCodec.cancel, body: key.bytes))
        _ = await reports.next()
        await connection.closeNow()
    }

    private func simulate(
        seed: UInt64 = 1,
        _ codec: PostgresCodec = PostgresCodec(),
        signalDelay: @escaping @Sendable () -> Duration = { .zero },
        cancelling: (@Sendable (AbandonedRequest, SimulatedNetwork) async throws -> Void)? = nil,
        _ change: (inout ClientOptions) -> Void = { _ in },
        _ body: @escaping @Sendable (Service) async throws -> Void
    ) throws {
        let network = SimulatedNetwork(seed: seed)
        let calls = Calls()
        let options = ClientOptions { options in
            options.handshake.perform = { link in
                let response = try await link.send(Request(type: PostgresCodec.startup, body: "user\0me\0\0"))
                await link.setServerInfo(try #require(BackendKey(Bytes(response.body.dropFirst(4)))))
            }
            options.requests.cancelling = { request in
                calls.note(request)
                guard let cancelling else { return try await Self.cancel(request, in: network) }
                try await cancelling(request, network)
            }
            options.requests.timeout = .seconds(60)
            change(&options)
        }
        try network.runBlocking {
            let processes = Processes(network.clock, signalDelay)
            let server = try await network.serve(at: "db:5432", speaking: codec, overTLS: false) {
                processes.answer($0)
            }
            let client = network.client(of: ["db:5432"], speaking: codec, options: options, overTLS: false)
            try await body(Service(network: network, client: client, processes: processes, calls: calls))
            #expect(await client.diagnostics.audit() == [])
            await client.closeNow()
            #expect(await client.connection.entered { $0.requests.cancellations.isEmpty })
            try await network.clock.sleep(for: .seconds(5))
            await server.stop()
        }
        #expect(network.openLinks == 0)
    }

    /// Expects that the server answers a query of its own, soon.
    private func expectAnswer(_ service: Service, within limit: Duration = .milliseconds(50)) async throws {
        let began = service.network.clock.now
        let reply = try await service.client.send(Self.query("SELECT 1"))
        #expect(reply.body == "SELECT 1")
        #expect(began.duration(to: service.network.clock.now) < limit)
    }

    // MARK: Cancelled requests

    @Test func aCancelledQueryEndsOnTheServer() throws {
        try simulate { service in
            let handle = service.client.start(Self.sleep(30_000))
            try await service.pass(.milliseconds(100))
            #expect(handle.session == 1)
            #expect(await service.client.serverInfo(as: BackendKey.self, of: 1)?.process == 1)
            handle.cancel()
            let error = await failure(of: handle)
            #expect(error?.code == .cancelled && error?.fate == .unknown)
            try await expectAnswer(service)
            #expect(service.processes.cancelled == ["1 SELECT pg_sleep(30000"])
            let call = try #require(service.calls.all.first)
            #expect(service.calls.all.count == 1 && !call.isTimedOut && call.serial == 0 && call.session == 1)
            #expect(call.request == Self.sleep(30_000) && call.endpoint == "db:5432")
            #expect(call.address?.hasSuffix(":5432") == true)
            #expect(call.serverInfo(as: String.self) == nil)
            #expect(
                "\(call)" == "request \(call.id) of type 0x51 on link 1 to db:5432" && !"\(call)".contains("5EC4E7")
            )
            #expect(await service.client.metrics.connection.links == 1)
            #expect(await service.client.metrics.lateResponses == 1)
        }
    }

    @Test func queriesThatTimeOutEndOnTheServer() throws {
        try simulate { service in
            for number in 1...10 {
                let error = await failure { () throws(ClientError) in
                    try await service.client.send(Self.sleep(30_000), timeout: .milliseconds(500))
                }
                #expect(error?.code == .timedOut)
                try await expectAnswer(service)
                #expect(service.processes.cancelled.count == number)
            }
            #expect(service.calls.all.allSatisfy { $0.isTimedOut })
            #expect(await service.client.metrics.connection.links == 1)
        }
    }

    /// A planned change has replaced the link of the request. Regression: there was only the key of the latest link.
    @Test func theKeyIsThatOfTheLinkOfTheRequest() throws {
        try simulate { service in
            let old = service.client.start(Self.sleep(30_000, "old "))
            try await service.pass(.milliseconds(100))
            await service.client.renewLink()
            try await service.pass(.milliseconds(100))
            let new = service.client.start(Self.sleep(300, "new "))
            try await service.pass(.milliseconds(100))
            #expect(old.session == 1 && new.session == 2)
            #expect(await service.client.serverInfo(as: BackendKey.self)?.process == 2)
            #expect(await service.client.serverInfo(as: BackendKey.self, of: 1)?.process == 1)
            old.cancel()
            #expect(try await new.value.body == "SELECT new pg_sleep(300")
            #expect(service.processes.signals == [1] && service.calls.all.map(\.session) == [1])
            try await service.pass(.seconds(1))
            #expect(await service.client.serverInfo(as: BackendKey.self, of: 1) == nil)
        }
    }

    @Test func aRequestThatIsNotSentOrIsAnsweredIsNotCancelled() throws {
        try simulate { service in
            let first = service.client.start(Self.sleep(200))
            let second = service.client.start(Self.sleep(200))
            try await service.pass(.milliseconds(50))
            second.cancel()  // it waits for the first one
            _ = try await first.value
            first.cancel()
            try await service.pass(.seconds(1))
            #expect(service.calls.all.isEmpty)
            try await expectAnswer(service)
        }
    }

    /// Matched in order, the server could have begun the next query when the cancellation arrives.
    @Test func aQueryThatOthersFollowIsNotCancelled() throws {
        try simulate(PostgresCodec(pipelines: true)) { service in
            let handles = (0..<3).map { service.client.start(Self.sleep(200, "\($0) ")) }
            try await service.pass(.milliseconds(50))
            handles[0].cancel()
            handles[1].cancel()
            #expect(try await handles[2].value.body == "SELECT 2 pg_sleep(200")
            // The last one is alone.
            let last = service.client.start(Self.sleep(30_000))
            try await service.pass(.milliseconds(50))
            last.cancel()
            try await expectAnswer(service)
            #expect(service.calls.all.count == 1 && service.processes.cancelled == ["1 SELECT pg_sleep(30000"])
        }
    }

    // MARK: The link meanwhile

    /// The query ends by itself before the signal. Nothing follows it on the link until the signal has been sent.
    @Test func nothingFollowsUntilTheCancellationHasEnded() throws {
        try simulate(signalDelay: { .seconds(1) }) { service in
            let handle = service.client.start(Self.sleep(300))
            try await service.pass(.milliseconds(100))
            handle.cancel()
            let next = service.client.start(Self.sleep(2000))
            try await service.pass(.milliseconds(600))
            #expect(next.state == .queued)
            #expect(try await next.value.body == "SELECT pg_sleep(2000")
            #expect(service.processes.signals == [1] && service.processes.cancelled.isEmpty)
            #expect(await service.client.metrics.connection.links == 1)
        }
    }

    /// A cancellation that has failed may still arrive. So its link takes no further requests.
    @Test func afterAFailedCancellationTheLinkIsReplaced() throws {
        struct Unreachable: Error {}
        for isLate in [false, true] {
            try simulate(
                cancelling: { request, network in
                    if !isLate { throw Unreachable() }
                    // Ignores the cancellation of its task.
                    _ = await Task(executorPreference: network.executor) { [clock = network.clock] in
                        try? await clock.sleep(for: .seconds(1))
                    }.value
                    try await network.clock.sleep(for: .seconds(60))
                }
            ) { service in
                let handle = service.client.start(Self.sleep(5000))
                try await service.pass(.milliseconds(100))
                handle.cancel()
                var reports = service.client.disconnects.makeAsyncIterator()
                let began = service.network.clock.now
                #expect(try await service.client.send(Self.query("SELECT 1")).body == "SELECT 1")
                let wait = began.duration(to: service.network.clock.now)
                #expect(isLate ? wait > .seconds(1.9) && wait < .seconds(2.2) : wait < .milliseconds(100))
                #expect(await service.client.metrics.connection.links == 2)
                #expect(await service.client.metrics.connection.disconnects == [.unanswered: 1])
                let reason = await reports.next()?.description ?? ""
                #expect(reason.contains("requests.cancelling"), "\(reason)")
            }
        }
    }

    @Test func closingEndsTheCancellation() throws {
        let isCancelled = Mutex(false)
        try simulate(
            cancelling: { _, network in
                do { try await network.clock.sleep(for: .seconds(1)) } catch { isCancelled.withLock { $0 = true } }
            }
        ) { service in
            let handle = service.client.start(Self.sleep(5000))
            try await service.pass(.milliseconds(100))
            handle.cancel()
            try await service.pass(.milliseconds(100))
            await service.client.close()
            try await service.pass(.milliseconds(100))
            #expect(isCancelled.withLock { $0 })
        }
    }

    /// Matched by serial, the cancellation names the request, which may have company.
    @Test func aCancellationByItsSerialHoldsTheLink() throws {
        let network = SimulatedNetwork(seed: 1)
        let serials = Mutex<[SerialNumber]>([])
        let options = ClientOptions { options in
            options.requests.cancelling = { request in
                serials.withLock { $0.append(request.serial) }
                try await network.clock.sleep(for: .seconds(1))
            }
        }
        try network.runBlocking {
            let server = try await network.serve(at: "db:7000", speaking: FrameLayout.standard, overTLS: false) {
                $0.body == "slow" ? .after(.seconds(3), .echo) : .after(.milliseconds(500), .echo)
            }
            let client = network.client(
                of: ["db:7000"],
                speaking: FrameLayout.standard,
                options: options,
                overTLS: false
            )
            let slow = (0..<2).map { _ in client.start(ask("slow")) }
            let other = client.start(ask("other"))
            try await network.clock.sleep(for: .milliseconds(100))
            let expected = slow.map { $0.serial ?? 0 }
            slow[0].cancel()
            try await network.clock.sleep(for: .milliseconds(100))
            slow[1].cancel()
            let next = client.start(ask("next"))
            try await expectBody("other", of: other)
            try await network.clock.sleep(for: .milliseconds(400))
            #expect(next.state == .queued)
            try await network.clock.sleep(for: .milliseconds(500))
            #expect(next.state == .written)
            try await expectBody("next", of: next)
            #expect(serials.withLock { $0 } == expected)
            await client.closeNow()
            await server.stop()
        }
        #expect(network.openLinks == 0)
    }

    @Test func aStormOfCancellationsRunsFewAtATime() throws {
        let network = SimulatedNetwork(seed: 1)
        let running = Mutex((now: 0, most: 0))
        let calls = Calls()
        let options = ClientOptions { options in
            options.requests.cancelling = { request in
                calls.note(request)
                running.withLock { $0 = ($0.now + 1, max($0.most, $0.now + 1)) }
                try await network.clock.sleep(for: .milliseconds(100))
                running.withLock { $0.now -= 1 }
            }
        }
        try network.runBlocking {
            let server = try await network.serve(at: "db:7000", speaking: FrameLayout.standard, overTLS: false) {
                $0.body == "slow" ? .noReply : .echo
            }
            let client = network.client(
                of: ["db:7000"],
                speaking: FrameLayout.standard,
                options: options,
                overTLS: false
            )
            let handles = (0..<1000).map { _ in client.start(ask("slow")) }
            try await network.clock.sleep(for: .milliseconds(100))
            client.cancelAll()
            for handle in handles { #expect(await failure(of: handle)?.fate == .unknown) }
            try await expectEcho("a", by: client)
            #expect(running.withLock { $0.now == 0 && $0.most == 64 } && calls.all.count == 64)
            await client.closeNow()
            await server.stop()
        }
        #expect(network.openLinks == 0)
    }

    // MARK: Seeds

    /// Queries that were not cancelled are never cancelled by the cancellation of another one.
    @Test(arguments: [PostgresCodec(), PostgresCodec(pipelines: true)])
    func onlyAbandonedQueriesAreCancelled(_ codec: PostgresCodec) async throws {
        let total = Mutex(0)
        for seed in seeds(100) {
            await Task.yield()
            let delays = Mutex(SeededGenerator(seed: seed))
            let signalDelay: @Sendable () -> Duration = {
                delays.withLock { .milliseconds(Int.random(in: 0..<100, using: &$0)) }
            }
            try simulate(seed: seed, codec, signalDelay: signalDelay) { service in
                var random = SeededGenerator(seed: seed)
                for round in 0..<15 {
                    let others = Int.random(in: 0...3, using: &random)
                    async let answers: Void = withTaskGroup { group in
                        for number in 0..<others {
                            group.addTask {
                                let request = Self.sleep((number + 1) * 10, "\(round) \(number) ")
                                do throws(ClientError) {
                                    _ = try await service.client.send(request)
                                } catch {
                                    #expect(error.code == .connectionLost, "seed \(seed): \(error)")
                                }
                            }
                        }
                    }
                    let wait = Duration.milliseconds(Int.random(in: 1..<200, using: &random))
                    let abandoned = service.client.start(
                        Self.sleep(Int.random(in: 1..<200, using: &random), "abandoned ")
                    )
                    try await service.pass(wait)
                    abandoned.cancel()
                    switch Int.random(in: 0..<10, using: &random) {
                    case 0: service.network.reset("db")
                    case 1: await service.client.renewLink()
                    default: break
                    }
                    await answers
                }
                let cancelled = service.processes.cancelled
                #expect(cancelled.allSatisfy { $0.contains("abandoned") }, "seed \(seed): \(cancelled)")
                total.withLock { $0 += cancelled.count }
            }
        }
        // On average, three of the queries of ten seeds.
        #expect(total.withLock { $0 } * 10 > seeds(100).count * 3)
    }
}
