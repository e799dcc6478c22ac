import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineLoopback

/// What a test can make the server do, and what it can learn from it.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct LoopbackServerTests {}

extension LoopbackServerTests {
    // MARK: Pushes and scripts

    @Test func aPushReachesEveryClient() async throws {
        try await withServerAndClient { server, client in
            try await withClient(to: server.endpoint, speaking: .standard, options: quickOptions()) { other in
                let pushes = [client.pushes(), other.pushes()]
                try await client.connect()
                try await other.connect()
                try await server.waitForConnections(2, within: patience)
                #expect(try await server.push(Frame(.push, type: 2, body: "news")) == 2)
                for stream in pushes {
                    for await frame in stream.messages.prefix(1) { #expect(frame.body == "news") }
                }
            }
        }
    }

    @Test func aPushThatCannotBeEncodedThrows() async throws {
        try await withServerAndClient(speaking: strictLayout) { server, client in
            try await client.connect()
            try await server.waitForConnections(1, within: patience)
            await #expect(throws: FrameError.self) { try await server.push(Frame(.push, type: 0x1_0000)) }
        }
    }

    @Test func aScriptComesBeforeTheHandler() async throws {
        try await withServerAndClient(handler: { _ in .reply("handler") }) { server, client in
            await server.script(.reply("first"), .reply("second"))
            await server.script(.reply("third"), times: 2)
            var texts: [String] = []
            for _ in 0..<5 { texts.append(String(try await client.send(Request(type: 0x410)).body)) }
            #expect(texts == ["first", "second", "third", "third", "handler"])
        }
    }

    @Test func theServerCanSendAFrameOnANewConnection() async throws {
        let options = LoopbackServer.Options { $0.onConnect = .push(Frame(.push, type: 2, body: "welcome")) }
        try await withServerAndClient(options: options) { _, client in
            let pushes = client.pushes()
            try await client.connect()
            for await frame in pushes.messages.prefix(1) { #expect(frame.body == "welcome") }
        }
    }

    @Test func aSubscriberReconnectsToAServerThatClosesEveryConnectionAtOnce() async throws {
        let options = LoopbackServer.Options { $0.onConnect = .close }
        try await withServerAndClient(options: options) { server, client in
            // A subscriber needs a link as long as it exists.
            let pushes = client.pushes()
            try await server.wait(within: patience) { $0.totalConnections >= 3 }
            withExtendedLifetime(pushes) {}
        }
    }

    // MARK: Connections

    @Test func aKilledServerCanBeRestarted() async throws {
        try await withServerAndClient { server, client in
            _ = try await client.send(Request(type: 0x410, body: "before"))
            await server.kill()
            #expect(await server.connectionCount == 0)
            let waiting = client.start(Request(type: 0x410, body: "after"), options: CallOptions(retry: .idempotent()))
            try await server.resumeAccepting()
            let reply = try await waiting.value
            #expect(reply.body == "after")
            #expect(await server.totalConnections == 2)
        }
    }

    @Test func aDisconnectedClientReconnects() async throws {
        for reset in [false, true] {
            let options = quickOptions { $0.reconnecting.keepsLinkWarm = true }
            try await withServerAndClient(clientOptions: options) { server, client in
                _ = try await client.send(Request(type: 0x410))
                await server.disconnectAll(reset: reset)
                // A client that keeps its link warm reconnects although no request waits.
                try await server.wait(within: patience) { $0.totalConnections == 2 && $0.connectionCount == 1 }
                _ = try await client.send(Request(type: 0x410))
            }
        }
    }

    @Test func aServerIsUnavailableUntilItAcceptsConnections() async throws {
        let options = quickOptions { $0.reconnecting.maximumAttempts = 3 }
        try await withServerAndClient(clientOptions: options) { server, client in
            await server.stopAccepting()
            let error = await failure { () throws(ClientError) in try await client.send(Request(type: 0x410)) }
            #expect(error?.code == .unavailable)
            #expect(error?.fate == .notSent)
            #expect(error?.attempts.count == 3)
            #expect((error?.cause as? TransportError)?.code == .refused)
            try await server.resumeAccepting()
            let reply = try await client.send(Request(type: 0x410, body: "back"))
            #expect(reply.body == "back")
        }
    }

    @Test func requestsWaitInTheSocketWhileReadingIsPaused() async throws {
        try await withServerAndClient { server, client in
            try await client.connect()
            await server.pauseReading()
            async let reply = client.send(Request(type: 0x410, body: "patience"))
            while await client.metrics.pending == 0 { await moment() }
            #expect(await server.journal.requestCount == 0)
            await server.resumeReading()
            #expect(try await reply.body == "patience")
        }
    }

    @Test func invalidBytesCloseTheirConnectionOnly() async throws {
        try await withServerAndClient(speaking: strictLayout) { server, client in
            _ = try await client.send(Request(type: 7))
            let vandal = Connection(
                to: server.endpoint,
                speaking: RawCodec(),
                options: ConnectionOptions(quickOptions())
            )
            try await vandal.write(Frame(.request, body: "this is no frame"))
            let journal = try await server.wait(within: patience) { $0.malformedCount == 1 && $0.connectionCount == 1 }
            #expect(journal.lastMalformation?.code == .unexpectedBytes)
            #expect((journal.lastFailure as? FrameError)?.code == .unexpectedBytes)
            _ = try await client.send(Request(type: 7))
            await vandal.closeNow()
        }
    }

    @Test func aClosedClientIsNoLongerCounted() async throws {
        try await withServer(speaking: .standard) { server in
            try await withClient(to: server.endpoint, speaking: .standard, options: quickOptions()) { client in
                _ = try await client.send(Request(type: 0x410))
                #expect(await server.connectionCount == 1)
            }
            try await server.waitForConnections(0, within: patience)
            #expect(await server.totalConnections == 1)
        }
    }

    @Test func aUnixSocketCarriesFramesToo() async throws {
        let path = "/tmp/trunkline-\(UInt64.random(in: 0 ... .max)).sock"
        for _ in 0..<2 {  // the second one finds the path free again
            try await withServerAndClient(options: LoopbackServer.Options { $0.unixPath = path }) { server, client in
                #expect(server.endpoint == Wire.endpoint(.unix(path: path)))
                let reply = try await client.send(Request(type: 0x410, body: "local"))
                #expect(reply.body == "local")
            }
        }
    }

    @Test func aPortThatIsTakenIsAnError() async throws {
        try await withServer(speaking: .standard) { server in
            let port = try #require(UInt16(server.endpoint.description.split(separator: ":").last ?? ""))
            await #expect(throws: TransportError.self) {
                try await LoopbackServer.start(speaking: .standard, options: .init { $0.port = port })
            }
        }
    }

    @Test func aDeallocatedServerClosesItsSockets() async throws {
        var server: LoopbackServer? = try await Wire.startServer(speaking: .standard)
        let endpoint = try #require(server?.endpoint)
        let options = quickOptions { $0.reconnecting.maximumAttempts = 2 }
        try await withClient(to: endpoint, speaking: .standard, options: options) { client in
            _ = try await client.send(Request(type: 0x410))
            server = nil
            var code: ClientError.Code?
            while code != .unavailable {
                do {
                    _ = try await client.send(Request(type: 0x410))
                } catch {
                    code = (error as? ClientError)?.code
                }
            }
        }
    }

    // MARK: Waiting for events

    @Test func waitingForAnEventTimesOut() async throws {
        try await withServer(speaking: .standard) { server in
            let reason = await reasonOfFailure { () throws(LoopbackServer.WaitError) in
                try await server.waitForRequests(1, within: .milliseconds(10))
            }
            #expect(reason == .timedOut)
        }
    }

    @Test func waitingForAnEventCanBeCancelled() async throws {
        try await withServer(speaking: .standard) { server in
            let waiting = Task {  // awaited below
                await reasonOfFailure { () throws(LoopbackServer.WaitError) in
                    try await server.waitForRequests(1, within: patience)
                }
            }
            waiting.cancel()
            #expect(await waiting.value == .cancelled)
        }
    }

    @Test func waitingForAnEventEndsWhenTheServerStops() async throws {
        let server = try await Wire.startServer(speaking: .standard)
        async let reason = reasonOfFailure { () throws(LoopbackServer.WaitError) in
            try await server.waitForRequests(1, within: patience)
        }
        await server.stop()
        #expect(await reason == .stopped)
        await server.stop()
    }

    @Test func theJournalKeepsTheLatestFrames() async throws {
        let options = LoopbackServer.Options { $0.recordedFrames = 3 }
        try await withServerAndClient(options: options) { server, client in
            for index in 0..<5 { _ = try await client.send(Request(type: 0x410, body: Bytes("\(index)"))) }
            #expect(await server.received.map { String($0.body) } == ["2", "3", "4"])
            #expect(await server.journal.requestCount == 5)
            await server.forget()
            #expect(await server.received.isEmpty)
            #expect(await server.journal.requestCount == 0)
            #expect(await server.connectionCount == 1)
        }
    }
}

private func reasonOfFailure(
    _ body: @Sendable () async throws(LoopbackServer.WaitError) -> Void
) async -> LoopbackServer.WaitError.Reason? {
    do throws(LoopbackServer.WaitError) {
        try await body()
        return nil
    } catch {
        return error.reason
    }
}

@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct LoopbackServerDeallocationTests {}

extension LoopbackServerDeallocationTests {
    /// Regression: the last reference to a server was released while the event loop emptied its list of work.
    /// The listener's `deinit` called the loop, whose state was being changed, and the exclusivity check
    /// stopped the program.
    @Test func deallocatedServersAndClientsCloseTheirSockets() async throws {
        func use() async throws -> String {
            let server = try await Wire.startServer(speaking: .standard)
            let client = Client(to: server.endpoint, speaking: .standard, options: quickOptions())
            return String(try await client.send(Request(type: 0x410, body: "alive")).body)
        }
        for _ in 0..<300 {
            let reply = try await use()
            #expect(reply == "alive")
        }
    }
}
