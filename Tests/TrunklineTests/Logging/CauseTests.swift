import Testing

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLogging
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// The log, the errors and the metrics name the cause of a problem, in the simulation.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct CauseTests {
    private let log = LogCollector()

    private func options(_ change: (inout ClientOptions) -> Void = { _ in }) -> ClientOptions {
        ClientOptions {
            $0.logging = log.logging()
            change(&$0)
        }
    }

    // MARK: The process of the client

    /// The requests of a process that is stopped are late, and the server is not to blame: its link stays.
    @Test func aStoppedProcessDoesNotBlameItsServer() throws {
        let options = options {
            $0.liveness.interval = .seconds(3)
            $0.liveness.deadline = .seconds(4)
            $0.liveness.maximumStalls = 1
        }
        try simulate(options: options, handler: { $0.body == "slow" ? .after(.seconds(30), .echo) : .echo }) {
            service,
            client in
            try await expectEcho("a", by: client)
            let handles = (0..<50).map { _ in client.start(ask("slow"), timeout: .seconds(8)) }
            try await service.server.waitForRequests(51)
            service.network.stopProcess(for: .seconds(15))
            for handle in handles {
                let error = await failure(of: handle)
                #expect(error?.code == .timedOut)
                #expect(error?.timeline?.tries.last?.loopDelay == .seconds(15))
                #expect(error.map { "\($0)".contains("this process did not run for 15 s of that time") } == true)
            }
            try await expectEcho("b", by: client)
            let metrics = await client.metrics.connection
            #expect(metrics.links == 1 && metrics.disconnects == [:])
            #expect(metrics.loopDelays.count == 1 && metrics.loopDelays.sum == .seconds(15))
        }
        let late = try #require(log.record("loop.late"))
        #expect(late.level == .warning && late.message.hasPrefix("this process did not run for 15 s: it was stopped"))
        #expect(log.events == ["client.created", "client.ready", "loop.late", "requests.failed", "client.closed"])
    }

    @Test func shortDelaysAreCountedUntilTheyMatter() throws {
        try simulate(options: options()) { service, client in
            try await expectEcho("a", by: client)
            for _ in 0..<5 {
                service.network.stall(for: .milliseconds(300))
                try await service.pass(.milliseconds(10))
            }
            #expect(await client.metrics.connection.loopDelays.count == 5)
        }
        let late = try #require(log.record("loop.late"))
        #expect(late.message.contains("the event loop was late 4 times in"), "\(late)")
        #expect(
            late.message.contains("for 1.2 s in all; the longest: one turn of the event loop took 300 ms:"),
            "\(late)"
        )
    }

    // MARK: The path

    /// A load balancer that resets links that were idle for 20 s.
    @Test func aBalancerThatEndsIdleLinksIsSuspected() throws {
        let collector = EventCollector(.links)
        let options = options { $0.observers = [collector] }
        try simulate(options: options) { service, client in
            for number in 0..<2 {
                try await expectEcho("\(number)", by: client)
                try await service.pass(.seconds(20))
                service.network.reset("db")
                try await service.pass(.seconds(100))
            }
        }
        let reports = collector.events.compactMap { event in
            if case .linkEnded(let report) = event.content, report.cause == .reset { report } else { nil }
        }
        #expect(reports.map(\.idleTime) == [.seconds(20), .seconds(20)])
        #expect(
            log.text.contains("it was idle for 20 s: if the server or a load balancer closes idle connections, let")
        )
        #expect(reports.last.map { "\($0)" }?.contains("it was idle for 20 s, like the link before") == true)
    }

    /// A handshake that gets no answer named only the endpoint.
    @Test func aFailedHandshakeNamesTheAddress() throws {
        let options = options { $0.handshake.perform = { link in _ = try await link.send(ask("login")) } }
        var address: String?
        try simulate(options: options, handler: { _ in .noReply }) { service, client in
            _ = await failure { () throws(ClientError) in try await client.send(ask("a"), timeout: .seconds(4)) }
        }
        address = log.records.first { $0.event == "attempt.failed" }?.fields.first { $0.name == "address" }.map {
            "\($0.value)"
        }
        let line = try #require(log.records.first { $0.event == "attempt.failed" }?.message)
        let shown = try #require(address)
        #expect(shown.hasSuffix(":7000") && shown != "db:7000")
        #expect(line.contains("db:7000 (\(shown)) failed while handshaking: timedOut"), "\(line)")
    }

    /// The port belongs to an HTTP server.
    @Test(arguments: [true, false]) func anotherServiceIsNamed(hasHandshake: Bool) throws {
        let options = options {
            if hasHandshake { $0.handshake.perform = { link in _ = try await link.send(ask("login")) } }
        }
        let answer = Bytes("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        try simulate(options: options, handler: { _ in .garbage(answer) }) { service, client in
            _ = await failure { () throws(ClientError) in try await client.send(ask("a"), timeout: .seconds(4)) }
        }
        #expect(log.text.contains("the server answers with HTTP: check the host and the port"), "\(log.text)")
        #expect(!log.text.contains("expect TLS") && !log.text.contains("400"))
    }

    /// Each client had a line, "4 more lines about 144 of 4 servers", as if the servers had a part in it.
    @Test func aClusterSaysOnceThatItsProcessWasStopped() throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking { [self] in
            var servers: [LoopbackServer] = []
            for name in ["a", "b", "c", "d"] {
                servers.append(try await network.startServer(at: .host(name, port: 1), speaking: .standard))
            }
            let cluster = Cluster(
                discovering: .static(servers.map { ClusterEndpoint($0.endpoint) }),
                speaking: .standard,
                options: options(),
                on: network.loops
            )
            for _ in 0..<20 { _ = try await cluster.send(ask("a")) }
            for _ in 0..<3 {
                network.stopProcess(for: .seconds(15))
                try await network.clock.sleep(for: .seconds(20))
            }
            try await network.clock.sleep(for: .seconds(60))
            await cluster.close()
            for server in servers { await server.stop() }
        }
        let lines = log.records.filter { $0.event == "loop.late" }
        // One for each time, which is longer ago than the interval of summaries.
        #expect(lines.count == 3, "\(lines)")
        #expect(lines.allSatisfy { $0.message.hasPrefix("this process did not run for 15 s: it was stopped") })
        #expect(!lines.contains { "\($0)".contains("server") && !"\($0)".contains("What a server did not do") })
    }

    /// A codec for which what arrives is expensive to decode, if it is much.
    private struct ExpensiveCodec: FrameCodec {
        var base = LengthPrefixedCodec(UInt32.self)
        let network: SimulatedNetwork

        var matching: ResponseMatching { base.matching }
        mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
            let frame = try base.decode(&input)
            if (frame?.body.count ?? 0) > 10_000 { network.stall(for: .milliseconds(1500)) }
            return frame
        }
        mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
            try base.encode(frame, into: &output)
        }
    }

    /// The line said that code on the executor or an observer took the time.
    @Test func aCodecThatTakesLongIsNamed() throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking { [self] in
            let server = try await network.startServer(at: "db:7000", speaking: LengthPrefixedCodec(UInt32.self)) { _ in
                .reply(Frame(.response, body: Bytes(repeating: 1, count: 100_000)))
            }
            let client = Client(
                to: server.endpoint,
                speaking: ExpensiveCodec(network: network),
                options: options(),
                on: network.loops
            )
            _ = try await client.send(Request(body: "a"))
            await client.close()
            await server.stop()
        }
        let late = try #require(log.record("loop.late"))
        let prefix =
            "one turn of the event loop took 1.5 s, most of it in the codec that decodes what db:7000 has sent:"
        #expect(late.message.hasPrefix(prefix), "\(late)")
        #expect(late.fields.contains { $0.name == "reason" && "\($0.value)" == "decoding" })
    }

    // MARK: Links that the client leaves

    @Test func aLinkLeftForSilenceNamesTheRule() throws {
        let options = options {
            $0.liveness.heartbeat = .none
            $0.liveness.maximumStalls = 3
        }
        try simulate(options: options, handler: { _ in .noReply }) { service, client in
            for _ in 0..<8 {
                _ = await failure { () throws(ClientError) in try await client.send(ask("a"), timeout: .seconds(2)) }
            }
        }
        let left = try #require(log.record("link.draining"))
        let rule =
            "requests in a row timed out within 6 s, and no frame came from the server (liveness.maximumStalls is 3)"
        #expect(left.message.contains(rule), "\(left)")
    }

    @Test func aLinkLeftForItsErrorRateNamesTheNumbers() throws {
        let options = options { $0.failover.errorRate = .init() }
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            let bad = try await network.startServer(
                at: "a:7000",
                speaking: .standard,
                handler: { $0.body == "lost" ? .noReply : .echo }
            )
            let good = try await network.startServer(at: "b:7000", speaking: .standard)
            let client = network.client(
                of: ["a:7000", "b:7000"],
                speaking: .standard,
                options: options,
                overTLS: false
            )
            for number in 0..<50 {
                let body: Bytes = number % 5 == 0 ? "lost" : "a"
                _ = try? await client.send(ask(body), timeout: .milliseconds(100))
            }
            try await network.clock.sleep(for: .seconds(1))
            #expect(await client.metrics.connection.link?.endpoint == "b:7000")
            await client.closeNow()
            for server in [bad, good] { await server.stop() }
        }
        let text = log.text
        #expect(text.contains("requests failed within 30 s (failover.errorRate allows a share of 0.1 of at least 40)"))
    }

    @Test(arguments: [true, false])
    func aPlannedChangeNamesItsReason(isRenewal: Bool) async throws {
        let collector = EventCollector(.links)
        let options = ClientOptions { $0.observers = [collector] }
        try simulate(options: options) { service, client in
            try await expectEcho("a", by: client)
            if isRenewal { await client.renewLink() } else { await client.suspend() }
            try await service.pass(.seconds(1))
        }
        let reports = collector.events.compactMap { event in
            if case .linkEnded(let report) = event.content { report } else { nil }
        }
        if isRenewal {
            #expect(reports.first?.departure == "renewLink() was called")
        } else {
            #expect(reports.first.map { "\($0)".contains("suspend() was called") } == true)
        }
    }

    /// The link kept the reason of a renewal that had failed, and the next one, by age, gave it.
    @Test func aRenewalThatFailedDoesNotNameTheNextOne() throws {
        let collector = EventCollector(.links)
        let options = ClientOptions {
            $0.observers = [collector]
            $0.failover.maximumLinkAge = .seconds(60)
            $0.reconnecting.policy = NoRetries()
        }
        try simulate(options: options) { service, client in
            try await expectEcho("a", by: client)
            service.network.refuseConnections(to: "db")
            await client.renewLink()
            try await service.pass(.seconds(1))
            service.network.acceptConnections(to: "db")
            try await service.pass(.seconds(60))
        }
        let departures = collector.events.compactMap { event in
            if case .linkEnded(let report) = event.content { report.departure } else { nil }
        }
        #expect(departures == ["it has reached the age of failover.maximumLinkAge"])
    }

    // MARK: Answers

    @Test func answersForNobodyAreSampled() throws {
        let handler: LoopbackServer.Handler = { _ in .sequence([.unknownSerial, .echo]) }
        try simulate(options: options(), handler: handler) { service, client in
            for _ in 0..<20 { try await expectEcho("a", by: client) }
            try await service.pass(.seconds(60))
            #expect(await client.metrics.unknownResponses == 20)
        }
        let lines = log.records.filter { $0.event == "responses.unknown" }
        #expect(lines.count == 2 && lines[1].level == .warning)
        #expect(lines[1].message.contains("19 responses came"), "\(lines)")
        #expect(lines[1].message.contains("the latest, 30 s ago: serial "))
    }

    private struct Undecodable: TypedRequest {
        static var type: UInt32 { 0x402 }
        static var name: String? { "an undecodable one" }
        func encode() throws -> Bytes { "secret" }
        static func decode(_ response: Response, for request: Undecodable) throws -> Int {
            throw HandshakeRefusal("not a number")
        }
    }

    /// A cluster used to count and log none.
    @Test func responsesThatACallerOfAClusterCannotDecodeAreCounted() throws {
        try simulate(overTLS: false) { [self] service, _ in
            let cluster = Cluster(
                discovering: .static([ClusterEndpoint("db:7000")]),
                speaking: .standard,
                options: options(),
                on: service.network.loops
            )
            let error = await failure { () throws(ClientError) in _ = try await cluster.send(Undecodable()) }
            #expect(error?.code == .invalidResponse)
            let metrics = await cluster.metrics
            #expect(metrics.undecodableResponses == 1 && metrics.responses == 1 && metrics.failures.isEmpty)
            await cluster.close()
        }
        #expect(log.record("responses.undecodable")?.message.contains("1 response could not be decoded") == true)
        #expect(!log.text.contains("secret"))
    }

    /// Handles and streams looked for a client, and hedged requests and subscriptions for nothing at all.
    @Test func everyCallOfAClusterCountsWhatItCannotDecode() throws {
        try simulate(overTLS: false) { [self] service, _ in
            let cluster = Cluster(
                discovering: .static([ClusterEndpoint("db:7000")]),
                speaking: .standard,
                options: options(),
                on: service.network.loops
            )
            var errors = [
                await failure { () throws(ClientError) in _ = try await cluster.start(Undecodable()).value },
                await failure { () throws(ClientError) in for try await _ in try cluster.stream(Undecodable()) {} },
                await failure { () throws(ClientError) in
                    _ = try await cluster.send(Undecodable(), hedge: .after(.seconds(1)))
                },
                await failure { () throws(ClientError) in _ = try await cluster.send(Undecodable(), key: 7) },
                await failure { () throws(ClientError) in _ = try await cluster.subscribe(Undecodable()) },
            ]
            for scope in [Cluster.SubscriptionScope.one, .all] {
                errors.append(
                    await failure { () throws(ClientError) in
                        _ = try await cluster.subscribe(Undecodable(), on: scope)
                    }
                )
            }
            for case .failure(let error) in await cluster.send(all: [Undecodable()]) { errors.append(error) }
            #expect(errors.map { $0?.code } == Array(repeating: .invalidResponse, count: 8))
            #expect(errors.map { $0?.requestName } == Array(repeating: "an undecodable one", count: 8))
            #expect(await cluster.metrics.undecodableResponses == 8)
            await cluster.close()
        }
    }

    /// Responses that are malformed, or too large together with their last frame. The first were logged as
    /// `requests.rejected … with status 0`, as if the server had refused the requests, and the others not at all.
    @Test func responsesThatNoCallerCanReceiveHaveTheirOwnLine() throws {
        let collector = EventCollector(.failures)
        let options = options {
            $0.observers = [collector]
            $0.requests.maximumReplySize = 10
        }
        var conditions = NetworkConditions()
        conditions.fragmentation = 0
        let handler: LoopbackServer.Handler = { WordsCodec.answer(to: $0) }
        try simulate(conditions: conditions, speaking: BadWords(), options: options, handler: handler) {
            service,
            client in
            let malformed = await failure(of: client.start(Request(type: 7, body: "!ask 7 * bad secret")))
            #expect(malformed?.code == .protocolViolation && malformed?.fate == .answered)
            let large = await failure(of: client.start(ask("!part * 12345678|part * 12345678|ask 7 * end")))
            #expect(large?.code == .overloaded)
            let rejected = await failure(of: client.start(ask("!error * 3 NO")))
            #expect(rejected?.code == .rejected)
            try await service.pass(.seconds(1))
            let metrics = await client.metrics
            #expect(metrics.rejections == ["NO": 1])
            #expect(metrics.failures[.init(.protocolViolation, .answered)] == 1)
            try await service.pass(.seconds(60))
        }
        #expect(collector.names.filter { $0 == "response.invalid" }.count == 2)
        #expect(collector.names.filter { $0 == "request.rejected" }.count == 1)
        let lines = log.records.filter { $0.event == "responses.invalid" }.map(\.message).joined(separator: "\n")
        #expect(lines.contains("to type 0x7, malformed"), "\(log.text)")
        #expect(lines.contains("the response is malformed"))
        #expect(lines.contains("beyond a limit"))
        let rejections = log.records.filter { $0.event == "requests.rejected" }.map(\.message)
        #expect(rejections.count == 1 && rejections[0].contains("the server answered 1 of 3 requests with an error"))
        #expect(!log.text.contains("secret"))
    }

    @Test func responsesThatCannotBeDecodedAreCounted() throws {
        try simulate(options: options()) { service, client in
            for _ in 0..<3 {
                let error = await failure { () throws(ClientError) in _ = try await client.send(Undecodable()) }
                #expect(error?.code == .invalidResponse)
            }
            let handle = try client.start(Undecodable())
            #expect(await failure { () throws(ClientError) in _ = try await handle.value }?.code == .invalidResponse)
            try await service.pass(.seconds(60))
            let metrics = await client.metrics
            #expect(metrics.undecodableResponses == 4 && metrics.responses == 4)
        }
        #expect(log.record("responses.undecodable")?.message.contains("3 responses could not be decoded") == true)
        #expect(!log.text.contains("secret"))
    }

    // MARK: Logins

    /// Fifty workers whose login is refused log in once, and once more after the pause.
    @Test func aRefusedLoginPausesAllDemand() throws {
        let options = options {
            $0.handshake.perform = { handshaker in
                _ = try await handshaker.send(ask("password"))
                throw HandshakeRefusal("wrong password")
            }
        }
        try simulate(options: options) { service, client in
            await withTaskGroup { group in
                for _ in 0..<50 {
                    group.addTask {
                        for _ in 0..<5 {
                            _ = await failure { () throws(ClientError) in
                                try await client.send(ask("a"), timeout: .seconds(8))
                            }
                        }
                    }
                }
            }
            let metrics = await client.metrics.connection
            #expect(metrics.attempts == 2, "\(metrics.attempts) attempts")
        }
        let failed = try #require(log.record("attempt.failed"))
        #expect(failed.level == .error && failed.message.contains("wrong password"))
    }

    // MARK: Addresses

    @Test func aDeadAddressIsNamedAndRemembered() throws {
        let network = SimulatedNetwork(seed: 1)
        let options = options()
        try network.runBlocking {
            let server = try await network.startServer(at: "b:7000", speaking: .standard)
            network.setName("db.test", hosts: ["10.9.9.9", "b"])
            network.swallowConnections(to: "10.9.9.9")
            let client = network.client(of: ["db.test:7000"], speaking: .standard, options: options, overTLS: false)
            let began = network.clock.now
            try await client.connect()
            #expect(began.duration(to: network.clock.now) >= .milliseconds(250))
            #expect(await client.metrics.connection.addressFailures == ["10.9.9.9:7000": 1])
            await client.renewLink()
            try await network.clock.sleep(for: .seconds(1))
            // The second link did not try it.
            let metrics = await client.metrics.connection
            #expect(metrics.addressFailures == ["10.9.9.9:7000": 1] && metrics.links == 2)
            await client.closeNow()
            await server.stop()
        }
        let dead = try #require(log.record("address.failed"))
        #expect(dead.level == .warning && dead.message.hasPrefix("db.test:7000: the address 10.9.9.9:7000 cannot be"))
    }

    @Test func anErrorHasTheLastCauseOfEachEndpoint() throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            network.host("a")
            network.host("b")
            network.swallowConnections(to: "b")
            let options = ClientOptions {
                $0.reconnecting.maximumAttempts = 4
                $0.connecting.timeout = .seconds(1)
            }
            let client = network.client(
                of: ["a:7000", "b:7000"],
                speaking: .standard,
                options: options,
                overTLS: false
            )
            let error = await failure { () throws(ClientError) in
                try await client.send(ask("a"), timeout: .seconds(60))
            }
            let text = "\(error, default: "")"
            #expect(text.contains("; a:7000: refused") && text.contains("; b:7000: timedOut"), "\(text)")
            await client.closeNow()
        }
    }

    // MARK: Outages

    /// Also an outage that is only counted ends with a line of its own.
    @Test func everyOutageEndsWithALine() throws {
        try simulate(options: options()) { service, client in
            for _ in 0..<4 {
                try await expectEcho("a", by: client)
                service.network.reset("db")
                try await service.pass(.seconds(1))
            }
            try await service.pass(.seconds(120))
        }
        let last = log.records.last {
            $0.event == "link.ready" || $0.event == "links.unstable" || $0.event == "link.lost"
        }
        #expect(last?.event == "link.ready")
        #expect(last?.message.contains("there was no link for") == true, "\(log.text)")
    }
}

/// Lines of words, of which those that begin with "bad" are malformed.
private struct BadWords: FrameCodec, ServerSideCodec {
    var base = WordsCodec()

    var matching: ResponseMatching { base.matching }

    func serverSide() -> any FrameCodec { base.serverSide() }

    func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard var frame = try base.decode(&input) else { return nil }
        if frame.kind == .response, String(frame.body).hasPrefix("bad") { frame.markMalformed(.unexpectedBytes) }
        return frame
    }

    func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        try base.encode(frame, into: &output)
    }
}
