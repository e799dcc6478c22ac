import Testing
import TrunklineDiagnostics

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// Child processes in the simulation, whose server plays them.
@Suite(.simulated, .timeLimit(.seeded))
struct SimulatedChildTests {}

extension SimulatedChildTests {
    private static let tool = Endpoint.command("tool", ["--stdio"], environment: ["KEY": "secret"])

    private func run(
        seed: UInt64 = 1,
        handler: @escaping LoopbackServer.Handler = { _ in .echo },
        _ change: (inout ClientOptions) -> Void = { _ in },
        _ body: @escaping @Sendable (SimulatedNetwork, LoopbackServer, Client) async throws -> Void
    ) throws {
        let network = SimulatedNetwork(seed: seed)
        let options = ClientOptions {
            $0.reconnecting.policy = Backoff(base: .milliseconds(10), cap: .milliseconds(100))
            change(&$0)
        }
        try network.runBlocking {
            let server = try await network.serve(at: Self.tool, speaking: .standard, overTLS: false, handler: handler)
            let client = network.client(of: [Self.tool], speaking: .standard, options: options, overTLS: false)
            try await body(network, server, client)
            #expect(await client.diagnostics.audit() == [])
            await client.close()
            await server.stop()
        }
        #expect(network.openLinks == 0)
    }

    @Test func aServerPlaysTheChild() throws {
        try run { _, server, client in
            #expect(server.endpoint == Self.tool)
            try await expectEcho("a", by: client)
            #expect(await client.diagnostics.path == .local)
        }
    }

    @Test(arguments: [ProcessExit.signal(9), .signal(11), .status(3)])
    func aCrashEndsTheLinkWithItsExit(_ exit: ProcessExit) throws {
        try run(handler: { $0.body == "silence" ? .noReply : .echo }) { network, server, client in
            try await expectEcho("a", by: client)
            let waiting = client.start(ask("silence"))
            try await network.clock.sleep(for: .milliseconds(50))
            var reports = client.disconnects.makeAsyncIterator()
            network.crash(Self.tool, exit: exit)
            let error = await failure(of: waiting)
            #expect(error?.fate == .unknown && (error?.cause as? TransportError)?.exit == exit)
            let report = await reports.next()
            #expect(report?.exit == exit && report?.cause == .exited && report?.requestsLost == 1)
            try await expectEcho("b", by: client)  // in another process
            #expect(await server.totalConnections == 2)
        }
    }

    @Test func theEndsOfTheServerAreExits() throws {
        let handler: LoopbackServer.Handler = { request in
            switch request.body {
            case "close": .close
            case "reset": .reset
            default: .echo
            }
        }
        try run(handler: handler) { _, _, client in
            for (body, exit) in [("close", ProcessExit.status(0)), ("reset", .signal(9))] as [(Bytes, ProcessExit)] {
                try await expectEcho("a", by: client)
                let error = await failure(of: client.start(ask(body)))
                #expect((error?.cause as? TransportError)?.exit == exit)
            }
        }
    }

    @Test func aCommandWithoutAServerDoesNotExist() throws {
        let network = SimulatedNetwork(seed: 1)
        try network.runBlocking {
            let options = ClientOptions { $0.reconnecting.maximumAttempts = 1 }
            for endpoint in [Endpoint.command("missing"), .descriptors(reading: -1, writing: -1)] {
                let client = network.client(of: [endpoint], speaking: .standard, options: options, overTLS: false)
                let error = await failure { () throws(ClientError) in try await client.connect() }
                #expect((error?.cause as? TransportError)?.code == .invalidAddress)
                await client.close()
            }
        }
    }

    /// A path stands for the command, which cannot be made from its text.
    @Test func aRecordingWithACommandIsReplayed() throws {
        let text = Lock("")
        try run({ $0.recorder = .ring() }) { network, _, client in
            for _ in 0..<3 {
                try await expectEcho("a", by: client)
                network.crash(Self.tool)
                try await network.clock.sleep(for: .seconds(1))
            }
            let recording = try #require(await client.diagnostics.recording)
            text.withLock { $0 = recording.jsonLines }
        }
        #expect(!text.withLock { $0.contains("secret") })
        let recording = try Recording(jsonLines: text.withLock { $0 })
        let network = SimulatedNetwork(seed: 9)
        let replay = try network.runBlocking {
            try await network.replay(recording, speaking: .standard, options: ClientOptions())
        }
        #expect(replay.outcomes.count == 3 && replay.outcomes.allSatisfy { $0.original == $0.replayed })
    }

    /// Children that crash at random instants. Every call ends once, and its fate is true: what did not start can be sent
    /// again, and what the server did not see was not answered.
    @Test func everyCallEndsOnceWhateverCrashes() throws {
        for seed in seeds(30) {
            let (handled, outcomes) = (Lock<[Bytes: Int]>([:]), Lock<[Bytes: [String]]>([:]))
            let handler: LoopbackServer.Handler = { request in
                handled.withLock { $0[request.body, default: 0] += 1 }
                return .after(.milliseconds(Int64(request.body.count % 7) * 3), .echo)
            }
            try run(seed: seed, handler: handler, { $0.requests.timeout = .seconds(60) }) { network, _, client in
                var random = SeededGenerator(seed: seed)
                let pauses = (0..<40).map { _ in Int.random(in: 0...40, using: &random) }
                let exits = (0..<40).map { _ in UInt8.random(in: 0...15, using: &random) }
                await withTaskGroup { group in
                    for number in 0..<200 {
                        let pause = Duration.milliseconds(number * 4)
                        group.addTask(executorPreference: network.executor) {
                            try? await network.clock.sleep(for: pause)
                            let body = Bytes("\(number)" + String(repeating: "x", count: number % 50))
                            var outcome = ""
                            do throws(ClientError) {
                                let options = CallOptions(retry: .never)
                                let reply = try await client.send(ask(body), options: options)
                                outcome = reply.body == body ? "answered" : "wrong answer"
                            } catch {
                                outcome = "\(error.fate)"
                                let exit = (error.cause as? TransportError)?.exit
                                if error.fate == .unknown, exit == nil { outcome = "\(error)" }
                            }
                            outcomes.withLock { $0[body, default: []].append(outcome) }
                        }
                    }
                    group.addTask(executorPreference: network.executor) {
                        for (pause, exit) in zip(pauses, exits) {
                            try? await network.clock.sleep(for: .milliseconds(pause))
                            network.crash(Self.tool, exit: exit < 8 ? .status(exit) : .signal(exit))
                        }
                    }
                }
            }
            let (seen, ended) = (handled.withLock { $0 }, outcomes.withLock { $0 })
            #expect(ended.count == 200, "seed \(seed)")
            for (body, texts) in ended {
                #expect(texts.count == 1, "seed \(seed)")
                switch texts[0] {
                case "answered": #expect(seen[body] == 1, "seed \(seed)")
                case "notSent": #expect(seen[body] == nil, "seed \(seed)")
                case "unknown": #expect(seen[body, default: 0] <= 1, "seed \(seed)")
                default: Issue.record("seed \(seed): \(texts[0])")
                }
            }
        }
    }
}
