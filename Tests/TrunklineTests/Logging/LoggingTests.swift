import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLogging

/// Keeps the records that it receives.
final class LogCollector: Sendable {
    private let collected = Lock<[LogRecord]>([])

    var records: [LogRecord] { collected.withLock { $0 } }
    var events: [String] { records.map(\.event) }
    /// Every character of the log.
    var text: String { records.map { "\($0) \($0.fields)" }.joined(separator: "\n") }

    func logging(_ level: LogRecord.Level = .info) -> ClientLogging {
        ClientLogging(level: level, name: "test") { record in self.collected.withLock { $0.append(record) } }
    }

    func record(_ event: String) -> LogRecord? { records.last { $0.event == event } }
}

/// The log of clients in the simulation.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct LoggingTests {
    private let log = LogCollector()

    private func options(
        _ level: LogRecord.Level = .info,
        _ change: (inout ClientOptions) -> Void = { _ in }
    ) -> ClientOptions {
        ClientOptions {
            $0.logging = log.logging(level)
            change(&$0)
        }
    }

    @Test func aHealthyClientLogsThreeLines() throws {
        try simulate(options: options()) { service, client in
            for number in 0..<100 {
                try await expectEcho("\(number)", by: client)
                try await service.pass(.seconds(60))
            }
        }
        #expect(log.events == ["client.created", "client.ready", "client.closed"])
        #expect(log.records.allSatisfy { $0.level == .info && $0.client == "test" })
        #expect(log.record("client.closed")?.message.contains("100 requests: 100 answered") == true)
    }

    @Test func aHalfOpenLinkIsNamed() throws {
        try simulate(options: options()) { service, client in
            try await expectEcho("a", by: client)
            service.network.halfOpen("db")
            let error = await failure { () throws(ClientError) in try await client.send(ask("b"), timeout: .seconds(60))
            }
            #expect(error?.code == .connectionLost)
            service.network.heal("db")
            try await service.pass(.seconds(60))
        }
        let loss = try #require(log.record("link.lost"))
        #expect(loss.level == .warning && loss.message.contains("not even the answer to a ping"))
        #expect(loss.message.contains("1 request lost") && loss.message.contains("next attempt"))
        #expect(log.events.prefix(4) == ["client.created", "client.ready", "link.lost", "requests.failed"])
    }

    /// The bound of the documentation: 14 lines from the loss to the recovery.
    @Test func anHourWithoutAServerIsFewLines() throws {
        try simulate(options: options()) { service, client in
            let pushes = client.pushes()
            try await expectEcho("a", by: client)
            service.network.refuseConnections(to: "db")
            service.network.reset("db")
            try await service.pass(.seconds(3600))
            service.network.acceptConnections(to: "db")
            try await service.pass(.seconds(120))
            withExtendedLifetime(pushes) {}
        }
        let events = Array(log.events.dropFirst(2).dropLast())
        #expect(events.count <= 16 && events.first == "link.lost" && events.last == "link.ready")
        #expect(events.contains("attempt.failed") && events.contains("links.unstable"))
        #expect(log.record("link.ready")?.message.contains("failed attempts; there was no link for 60") == true)
    }

    @Test func exhaustedSerialsAreNamedWithTheirNumbers() throws {
        let handler: LoopbackServer.Handler = { _ in .after(.seconds(5), .echo) }
        try simulate(speaking: standardLayout(serials: 1...8), options: options(), handler: handler) {
            service,
            client in
            try await client.connect()
            let handles = (0..<40).map { client.start(ask($0)) }
            try await service.pass(.seconds(4))
            for handle in handles { _ = try? await handle.value }
            try await service.pass(.seconds(60))
        }
        let limit = try #require(log.record("limit.reached"))
        #expect(limit.level == .warning && limit.message.contains("all serial numbers of the link are in use"))
        #expect(limit.message.contains("8 in flight") && limit.message.contains("waiting"))
        #expect(log.events.contains("requests.failed"))
    }

    @Test func failuresDoNotCauseTheEventsOfRequests() throws {
        try simulate(options: options(), handler: { _ in .noReply }) { _, client in
            #expect(client.driver.observation?.wantsRequests != true)
            _ = await failure { () throws(ClientError) in try await client.send(ask("a"), timeout: .seconds(1)) }
        }
        #expect(log.record("requests.failed")?.message.contains("deadline exceeded after 1 s: ") == true)
        #expect(log.record("requests.failed")?.message.contains("written on session") == true)
    }

    @Test func anObserverOfFailuresReceivesNothingElse() throws {
        let collector = EventCollector(.failures)
        let options = ClientOptions { $0.observers = [collector] }
        let handler: LoopbackServer.Handler = { $0.body == "lost" ? .noReply : .echo }
        try simulate(options: options, handler: handler) { _, client in
            #expect(client.driver.observation?.wantsRequests != true)
            try await expectEcho("a", by: client)
            _ = await failure { () throws(ClientError) in try await client.send(ask("lost"), timeout: .seconds(1)) }
        }
        #expect(collector.names == ["request.failed"])
        #expect(collector.events.allSatisfy { $0.kind == .requests })
    }

    @Test func errorResponsesAndDroppedPushesAreWritten() throws {
        let handler: LoopbackServer.Handler = { request in
            if request.body == "push" {
                return .sequence((0..<20).map { .push(Frame(.push, type: 2, body: Bytes("\($0)"))) } + [.echo])
            }
            return .status(500, "secret")
        }
        try simulate(speaking: statusLayout, options: options(), handler: handler) { service, client in
            let dropping = client.pushes(buffering: PushBuffering(maximumCount: 5, overflow: .dropOldest))
            for _ in 0..<10 { _ = await failure { () throws(ClientError) in try await client.send(ask("a")) } }
            _ = try? await client.send(ask("push"))
            try await service.pass(.seconds(60))
            withExtendedLifetime(dropping) {}
        }
        #expect(log.record("requests.rejected")?.message.contains("with status 500") == true)
        let dropped = log.record("pushes.dropped")?.message
        #expect(dropped?.hasPrefix("15 pushes were dropped") == true && dropped?.contains(": 15 all [") == true)
        #expect(dropped?.hasSuffix("db:7000]") == true)
    }

    /// Bodies, named fields, and the bodies of error responses and of malformed replies never reach the log.
    @Test func noSecretIsLogged() throws {
        let secret: Bytes = "hunter2"
        let handler: LoopbackServer.Handler = { request in
            switch request.type {
            case 0x410: .status(401, secret)
            case 0x411: .noReply
            default: .garbage("hunter2 hunter2 hunter2 hunter2")
            }
        }
        let logins = Lock(0)
        let options = options(.debug) {
            $0.requests.timeout = .seconds(1)
            $0.handshake.perform = { handshaker in
                do {
                    _ = try await handshaker.send(Request(type: 0x410, body: secret))
                } catch {
                    // The first login fails with the error of the server.
                    if logins.withLock({ count in exchange(&count, with: count + 1) }) == 0 { throw error }
                }
            }
        }
        let layout = FrameLayout {
            Field.type(UInt32.self)
            Field.serial(UInt32.self)
            Field.status(UInt32.self)
            Field.bytes("token", 7, default: Array("nothing".utf8))
            Field.length(UInt32.self, counting: .body)
            Field.body
        }
        .roles {
            $0.ping = 0x1
            $0.push = .types(0x2...0x400)
            $0.cancel = 0x401
            $0.serials = 50...
        }
        try simulate(speaking: layout, options: options, handler: handler) { service, client in
            for type: UInt32 in [0x410, 0x411, 0x412, 0x410] {
                var request = Request(type: type, body: secret)
                request[bytes: "token"] = secret
                let sent = request
                _ = await failure { () throws(ClientError) in try await client.send(sent) }
            }
            try await service.pass(.seconds(60))
        }
        #expect(!log.text.contains("hunter2") && log.events.count > 20)
    }

    /// The errors of a handshake closure may contain anything.
    @Test func noTextOfAnErrorOfTheHandshakeIsLogged() throws {
        struct LoginError: Error, CustomStringConvertible { var description: String { "no login with hunter2" } }
        let options = options(.debug) { $0.handshake.perform = { _ in throw LoginError() } }
        try simulate(options: options) { _, client in
            _ = await failure { () throws(ClientError) in try await client.send(ask("a"), timeout: .seconds(5)) }
        }
        #expect(!log.text.contains("hunter2") && log.text.contains("LoginError"))
    }

    @Test func aClientThatIsDeallocatedSaysSo() throws {
        let network = SimulatedNetwork(seed: 1)
        let options = options()
        try network.runBlocking {
            let server = try await network.serve(at: "db:7000", speaking: FrameLayout.standard, overTLS: false) { _ in
                .echo
            }
            var client: Client? = network.client(
                of: ["db:7000"],
                speaking: FrameLayout.standard,
                options: options,
                overTLS: false
            )
            _ = try await client?.send(ask("a"))
            client = nil
            try await network.clock.sleep(for: .seconds(5))
            await server.stop()
        }
        #expect(log.events == ["client.created", "client.ready", "client.deallocated"])
    }
}
