import Foundation
import Testing
import Trunkline
import TrunklineDiagnostics
import TrunklineTesting

/// Incidents over real sockets, dumped as the article on recordings says. The article's assertion passes on each dump,
/// with the options of the recorded client.
@Suite(.tags(.realThreads), .timeLimit(.minutes(10)))
struct ReplayLoopbackTests {}

extension ReplayLoopbackTests {
    /// How many times a recording is replayed, each with another order of what happens at the same instant.
    private static let seeds: [UInt64] = [1, 2]

    /// Replays the text of `recording`, and expects no differences.
    private func expectNoDifferences(
        _ recording: Recording,
        speaking codec: some FrameCodec = FrameLayout.standard,
        options: ClientOptions,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let again = try Recording(jsonLines: recording.jsonLines)
        #expect(again == recording, sourceLocation: sourceLocation)
        for seed in Self.seeds {
            let network = SimulatedNetwork(seed: seed)
            let replay = try await network.run {
                try await network.replay(again, speaking: codec, options: options)
            }
            #expect(replay.differences.isEmpty, "\(replay.differences.prefix(5))", sourceLocation: sourceLocation)
        }
    }

    /// The options of the recorded client, and the dumps that its recorder makes.
    private func recorded(
        on causes: Set<DisconnectCause>,
        bytes: Int = 1 << 20,
        _ change: (inout ClientOptions) -> Void = { _ in }
    ) -> (options: ClientOptions, dumps: AsyncStream<Recording>) {
        let (dumps, continuation) = AsyncStream.makeStream(of: Recording.self)
        let options = ClientOptions {
            $0.connecting.timeout = patience
            $0.handshake.timeout = patience
            $0.requests.timeout = patience
            $0.recorder = .ring(bytes: bytes)
            $0.recorder?.dumpsAutomatically(on: causes) { recording, _ in continuation.yield(recording) }
            change(&$0)
        }
        return (options, dumps)
    }

    private func first(of dumps: AsyncStream<Recording>) async throws -> Recording {
        try #require(await dumps.first { _ in true })
    }

    /// Calls of `count` tasks, one after the other in each task, until they are stopped.
    private func load(_ client: Client, count: Int, pause: Duration = .milliseconds(1)) -> Task<Void, Never> {
        // Unstructured: the test stops it. It ends then, with the last call of each task.
        Task {
            await withTaskGroup { group in
                for number in 0..<count {
                    group.addTask {
                        while !Task.isCancelled {
                            _ = try? await client.send(ask(number), timeout: .seconds(5))
                            try? await Task.sleep(for: pause)
                        }
                    }
                }
            }
        }
    }

    private func stop(_ load: Task<Void, Never>) async {
        load.cancel()
        await load.value
    }

    /// A login whose answer the client checks.
    @Sendable private static func logIn(_ handshaker: Handshaker) async throws {
        let answer = try await handshaker.send(Request(type: 0x411, body: "secret"))
        guard answer.body == "welcome" else { throw HandshakeRefusal("\(answer.body)") }
    }

    @Sendable private static func logInOrEcho(_ request: Frame) -> Reaction {
        request.type == 0x411 ? .reply("welcome") : .echo
    }

    // MARK: Half-open

    @Test(arguments: [16 << 20, 65_536]) func aHalfOpenLinkReplays(bytes: Int) async throws {
        let (options, dumps) = recorded(on: [.halfOpen], bytes: bytes) {
            $0.liveness.interval = .seconds(1)
            $0.liveness.probeAfter = .seconds(1)
            $0.liveness.deadline = .seconds(3)
        }
        try await withLoopbackServer(speaking: .standard) { server in
            try await withClient(to: server.endpoint, speaking: .standard, options: options) { client in
                let load = load(client, count: 20)
                try await server.wait(within: .seconds(300)) { $0.requestCount > 800 }
                await server.pauseReading()
                // Everything else may have been answered.
                let held = client.start(ask("held"), timeout: .never)
                let dump = try await first(of: dumps)
                #expect(await failure(of: held)?.code == .connectionLost)
                #expect(dump.isComplete == (bytes > 65_536))
                #expect(dump.outcomes.values.contains(.failed(code: "connectionLost", fate: "unknown")))
                await server.resumeReading()
                try await expectEcho("after", by: client)
                await stop(load)
                try await expectNoDifferences(dump, options: options)
                let later = try #require(await client.diagnostics.recording)
                try await expectNoDifferences(later, options: options)
            }
        }
    }

    // MARK: Reset

    @Test(arguments: [1 << 20, 65_536]) func aResetUnderLoadReplays(bytes: Int) async throws {
        let (options, dumps) = recorded(on: [.reset], bytes: bytes) { $0.handshake.perform = Self.logIn }
        let handler: LoopbackServer.Handler = { request in
            if request.type == 0x411 { return .reply("welcome") }
            if request.body == "held" { return .noReply }
            let number = Array(request.body).last ?? 0
            return .after(.milliseconds(Int(number % 10)), .echo)
        }
        try await withLoopbackServer(speaking: .standard, handler: handler) { server in
            try await withClient(to: server.endpoint, speaking: .standard, options: options) { client in
                let load = load(client, count: 300)
                try await server.wait(within: .seconds(300)) { $0.requestCount > 1200 }
                // On a busy machine, everything else may have been answered.
                let held = client.start(ask("held"), timeout: .never)
                _ = try await server.waitForRequest(within: .seconds(300)) { $0.body == "held" }
                await server.disconnectAll(reset: true)
                #expect(await failure(of: held)?.code == .connectionLost)
                let dump = try await first(of: dumps)
                // The outcomes that the loss causes are in the dump. In a small one they have overwritten the calls.
                let isLost = dump.outcomes.values.contains(.failed(code: "connectionLost", fate: "unknown"))
                #expect(isLost || bytes == 65_536)
                try await expectEcho("after", by: client)
                await stop(load)
                try await expectNoDifferences(dump, options: options)
                let later = try #require(await client.diagnostics.recording)
                try await expectNoDifferences(later, options: options)
            }
        }
    }

    /// Regression: each retry took the answer of a later call, which then had none. No call is cancelled here: its
    /// answer would be left for another one.
    @Test func aReplayWithOtherRetriesAnswersEveryCall() async throws {
        let options = ClientOptions { $0.recorder = .ring(bytes: 4 << 20) }
        let handler: LoopbackServer.Handler = { $0.body == "reset" ? .reset : .after(.milliseconds(5), .echo) }
        let recording = try await withLoopbackServer(speaking: .standard, handler: handler) { server in
            try await withClient(to: server.endpoint, speaking: .standard, options: options) { client in
                await withTaskGroup { group in
                    for number in 0..<50 {
                        group.addTask { for _ in 0..<20 { _ = try? await client.send(ask(number)) } }
                    }
                    group.addTask {
                        _ = try? await server.wait(within: .seconds(300)) { $0.requestCount > 300 }
                        // The request that causes the reset is lost in any case.
                        _ = try? await client.send(ask("reset"), timeout: .never)
                    }
                }
                return try #require(await client.diagnostics.recording)
            }
        }
        let retrying = ClientOptions {
            $0 = options
            $0.requests.retry = .idempotent(tries: 3)
        }
        let network = SimulatedNetwork(seed: 1)
        let replay = try await network.run {
            try await network.replay(recording, speaking: .standard, options: retrying)
        }
        let outcomes = replay.outcomes.filter { $0.original == .answered(status: 0, isError: false) }
        #expect(!outcomes.isEmpty && outcomes.allSatisfy { $0.replayed == .answered(status: 0, isError: false) })
        let lost = replay.outcomes.filter { $0.original == .failed(code: "connectionLost", fate: "unknown") }
        #expect(!lost.isEmpty && lost.allSatisfy { $0.replayed == .answered(status: 0, isError: false) }, "\(lost)")
    }

    // MARK: Serials

    @Test func exhaustedSerialsReplay() async throws {
        let (options, dumps) = recorded(on: [.exhausted]) { $0.requests.quarantine = .seconds(20) }
        let layout = standardLayout(serials: 50...57)
        try await withLoopbackServer(
            speaking: layout,
            handler: { $0.body == "never" ? .noReply : .after(.milliseconds(30), .echo) }
        ) { server in
            try await withClient(to: server.endpoint, speaking: layout, options: options) { client in
                let slow = (0..<200).map { client.start(ask($0), timeout: .milliseconds(100)) }
                for handle in slow { _ = try? await handle.value }
                let before = try #require(await client.diagnostics.recording)
                #expect(before.outcomes.values.contains(.failed(code: "timedOut", fate: "notSent")))
                try await expectNoDifferences(before, speaking: layout, options: options)
                let never = (0..<8).map { _ in client.start(ask("never"), timeout: .milliseconds(200)) }
                let others = (0..<8).map { client.start(ask($0), timeout: .seconds(20)) }
                for handle in never + others { _ = try? await handle.value }
                let dump = try await first(of: dumps)
                try await expectNoDifferences(dump, speaking: layout, options: options)
                let later = try #require(await client.diagnostics.recording)
                try await expectNoDifferences(later, speaking: layout, options: options)
            }
        }
    }

    /// The serials that were in use when the oldest entry was made are so in the replay.
    @Test func serialsInUseBeforeTheOldestEntryReplay() async throws {
        let (options, _) = recorded(on: [], bytes: 65_536) { $0.recorder?.bodies = .none }
        let layout = standardLayout(serials: 50...57)
        try await withLoopbackServer(
            speaking: layout,
            handler: { $0.body == "never" ? .noReply : .after(.milliseconds(1), .echo) }
        ) { server in
            try await withClient(to: server.endpoint, speaking: layout, options: options) { client in
                let never = (0..<7).map { _ in client.start(ask("never"), timeout: .never) }
                for number in 0..<700 { try await expectEcho(Bytes("\(number)"), by: client) }
                // One serial is free, so only some of these are sent in time.
                let some = (0..<200).map { client.start(ask($0), timeout: .milliseconds(20)) }
                for handle in some { _ = try? await handle.value }
                let recording = try #require(await client.diagnostics.recording)
                #expect(!recording.isComplete)
                #expect(recording.outcomes.values.contains(.failed(code: "timedOut", fate: "notSent")))
                try await expectNoDifferences(recording, speaking: layout, options: options)
                for handle in never { handle.cancel() }
            }
        }
    }

    /// The same for serials that are held because their requests were abandoned.
    @Test func serialsInQuarantineBeforeTheOldestEntryReplay() async throws {
        let (options, _) = recorded(on: [], bytes: 65_536) { $0.requests.quarantine = .seconds(3600) }
        let layout = standardLayout(serials: 50...69)
        try await withLoopbackServer(
            speaking: layout,
            handler: { $0.body == "never" ? .noReply : .after(.milliseconds(1), .echo) }
        ) { server in
            try await withClient(to: server.endpoint, speaking: layout, options: options) { client in
                try await expectEcho("before", by: client)
                let never = (0..<9).map { _ in client.start(ask("never"), timeout: .milliseconds(20)) }
                for handle in never { _ = try? await handle.value }
                let others = (0..<10).map { _ in client.start(ask("never"), timeout: .never) }
                for number in 0..<700 { try await expectEcho(Bytes("\(number)"), by: client) }
                let some = (0..<200).map { client.start(ask($0), timeout: .milliseconds(20)) }
                for handle in some { _ = try? await handle.value }
                let recording = try #require(await client.diagnostics.recording)
                #expect(!recording.isComplete)
                #expect(recording.outcomes.values.contains(.failed(code: "timedOut", fate: "notSent")))
                try await expectNoDifferences(recording, speaking: layout, options: options)
                for handle in others { handle.cancel() }
            }
        }
    }

    // MARK: TLS

    /// The server has a certificate of another authority after its restart.
    @Test func aServerWithAnUntrustedNewCertificateReplays() async throws {
        let (old, new) = (try TestAuthority(), try TestAuthority(named: "new"))
        let (options, dumps) = recorded(on: [.tls]) {
            $0.tls.roots = .only(old.root)
            $0.reconnecting.retriesPermanentCauses = false
        }
        // No other test uses the address, so none gets the port meanwhile.
        let names = ["127.0.53.63", "127.0.0.1"]
        func start(_ identity: TLSIdentity, port: UInt16 = 0) async throws -> LoopbackServer {
            try await LoopbackServer.start(
                at: loopback(63, port: port),
                speaking: .standard,
                options: LoopbackServer.Options { $0.tls = .init(identity) }
            )
        }
        let newIdentity = try new.identity(forNames: names)
        let before = try await start(try old.identity(forNames: names))
        let client = Client(to: before.endpoint, speaking: .standard, options: options)
        for number in 0..<10 { try await expectEcho(Bytes("\(number)"), by: client) }
        await before.disconnectAll(reset: true)
        await before.stop()
        let after = try await start(newIdentity, port: before.endpoint.port ?? 0)
        let waiting = (0..<5).map { client.start(ask($0), timeout: .after(patience)) }
        for handle in waiting { #expect(await failure(of: handle)?.code == .tlsFailed) }
        let dump = try await first(of: dumps)
        #expect(dump.outcomes.values.contains(.failed(code: "tlsFailed", fate: "notSent")))
        try await expectNoDifferences(dump, options: options)
        let later = try #require(await client.diagnostics.recording)
        try await expectNoDifferences(later, options: options)
        await client.closeNow()
        await after.stop()
    }

    /// The client's new certificate does not match its key: its next link is not established, and the present one stays.
    @Test(arguments: [1 << 20, 65_536]) func aFailedRotationOfTheClientReplays(bytes: Int) async throws {
        let directory = FileManager.default.temporaryDirectory
            .appendingPathComponent("trunkline-replay-\(UUID().uuidString.prefix(8))").path
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let (servers, workers) = (try TestAuthority(), try TestAuthority(named: "clients"))
        let identity = try workers.identity(for: "worker", usage: .client)
        try identity.certificates.write(toFile: "\(directory)/worker.pem")
        try identity.privateKey.write(toFile: "\(directory)/worker.key")
        let (options, dumps) = recorded(on: [.tls], bytes: bytes) {
            $0.tls.roots = .only(servers.root)
            $0.tls.identity = TLSIdentity(
                certificates: .file("\(directory)/worker.pem"),
                privateKey: .file("\(directory)/worker.key")
            )
            $0.tls.rotationCheck = .milliseconds(50)
            $0.handshake.perform = Self.logIn
        }
        let server = try await LoopbackServer.start(
            speaking: .standard,
            options: LoopbackServer.Options {
                $0.tls = .init((try? servers.identity(for: "127.0.0.1")) ?? identity) {
                    $0.clientRoots = workers.root
                }
            },
            handler: Self.logInOrEcho
        )
        let client = Client(to: server.endpoint, speaking: .standard, options: options)
        let load = load(client, count: 10)
        try await server.wait(within: .seconds(300)) { $0.requestCount > 800 }
        try FileManager.default.removeItem(atPath: "\(directory)/worker.key")
        try workers.identity(for: "worker", usage: .client).privateKey.write(toFile: "\(directory)/worker.key")
        let dump = try await first(of: dumps)
        #expect(dump.events.contains { $0.name == "attempt.failed" && $0["phase"] == .text("securing") })
        try await expectEcho("still", by: client)
        await stop(load)
        try await expectNoDifferences(dump, options: options)
        let later = try #require(await client.diagnostics.recording)
        try await expectNoDifferences(later, options: options)
        await client.closeNow()
        await server.stop()
    }

    // MARK: Failover

    @Test(arguments: [16 << 20, 65_536]) func aFailoverReplays(bytes: Int) async throws {
        let (options, dumps) = recorded(on: [.reset], bytes: bytes) {
            $0.handshake.perform = Self.logIn
            $0.reconnecting.policy = Backoff(base: .milliseconds(10), cap: .milliseconds(50))
        }
        try await withLoopbackServer(speaking: .standard, handler: Self.logInOrEcho) { primary in
            try await withLoopbackServer(speaking: .standard, handler: Self.logInOrEcho) { second in
                let endpoints = [primary.endpoint, second.endpoint]
                try await withClient(to: endpoints, speaking: .standard, options: options) { client in
                    let load = load(client, count: 50)
                    try await primary.wait(within: .seconds(300)) { $0.requestCount > 500 }
                    await primary.kill()
                    let dump = try await first(of: dumps)
                    try await second.wait(within: .seconds(300)) { $0.requestCount > 100 }
                    let soon = try #require(await client.diagnostics.recording)
                    try await second.wait(within: .seconds(300)) { $0.requestCount > 1500 }
                    // The link to the first server is not in a small recording any more.
                    await second.kill()
                    try await primary.resumeAccepting()
                    try await expectEcho("after", by: client)
                    await stop(load)
                    try await expectNoDifferences(dump, options: options)
                    try await expectNoDifferences(soon, options: options)
                    let later = try #require(await client.diagnostics.recording)
                    #expect(later.isComplete == (bytes > 65_536))
                    try await expectNoDifferences(later, options: options)
                }
            }
        }
    }

    /// The policy of a single call is not recorded, but its retries are.
    @Test func retriedCallsReplay() async throws {
        let (options, _) = recorded(on: []) {
            $0.reconnecting.policy = Backoff(base: .milliseconds(10), cap: .milliseconds(50))
        }
        let handler: LoopbackServer.Handler = { _ in .after(.milliseconds(5), .echo) }
        try await withLoopbackServer(speaking: .standard, handler: handler) { server in
            try await withClient(to: server.endpoint, speaking: .standard, options: options) { client in
                try await expectEcho("before", by: client)
                let handles = (0..<20).map {
                    client.start(ask($0), options: CallOptions(retry: .idempotent(tries: 10)))
                }
                try await server.wait(within: .seconds(300)) { $0.requestCount > 10 }
                await server.disconnectAll(reset: true)
                for handle in handles { _ = try await handle.value }
                let recording = try #require(await client.diagnostics.recording)
                try await expectNoDifferences(recording, options: options)
            }
        }
    }

    // MARK: A ring that has wrapped

    @Test func aWrappedRingReplaysItsLastCalls() async throws {
        let (options, dumps) = recorded(on: [.closedByServer], bytes: 65_536) { $0.handshake.perform = Self.logIn }
        try await withLoopbackServer(speaking: .standard, handler: Self.logInOrEcho) { server in
            try await withClient(to: server.endpoint, speaking: .standard, options: options) { client in
                let load = load(client, count: 30)
                try await server.wait(within: .seconds(300)) { $0.requestCount > 1500 }
                await server.disconnectAll()
                let dump = try await first(of: dumps)
                await stop(load)
                #expect(!dump.isComplete)
                try await expectNoDifferences(dump, options: options)
            }
        }
    }

    /// Responses are matched in order: those that belong to requests before the oldest entry must not be mistaken for the
    /// responses to later requests.
    @Test func aWrappedRingOfAProtocolWithoutSerialsReplays() async throws {
        let codec = LengthPrefixedCodec(UInt32.self)
        let (options, dumps) = recorded(on: [.reset], bytes: 65_536)
        let handler: LoopbackServer.Handler = { _ in .after(.microseconds(100), .echo) }
        try await withLoopbackServer(speaking: codec, handler: handler) { server in
            try await withClient(to: server.endpoint, speaking: codec, options: options) { client in
                let load = load(client, count: 30)
                try await server.wait(within: .seconds(300)) { $0.requestCount > 1000 }
                await server.disconnectAll(reset: true)
                let dump = try await first(of: dumps)
                await stop(load)
                #expect(!dump.isComplete)
                try await expectNoDifferences(dump, speaking: codec, options: options)
            }
        }
    }
}
