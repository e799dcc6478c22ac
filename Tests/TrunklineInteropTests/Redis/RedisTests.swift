import Foundation
import Testing
import Trunkline

/// A redis-server for one test, which saves nothing, and its clients.
struct RedisServer {
    let process: ServerProcess

    init() async throws {
        process = try await ServerProcess("redis-server") { socketPath in
            let directory = URL(fileURLWithPath: socketPath).deletingLastPathComponent().path
            return [
                "--port", "0", "--unixsocket", socketPath, "--dir", directory, "--save", "", "--appendonly", "no",
                "--enable-debug-command", "local", "--loglevel", "warning", "--logfile", directory + "/log",
            ]
        }
    }

    /// The options of a client that speaks RESP3, which it requests on every new link.
    static var resp3: ClientOptions {
        ClientOptions { options in
            options.handshake.perform = { link in _ = try await link.send(Command("HELLO", "3")) }
            // These tests do not depend on time, and the machine may be busy.
            options.handshake.timeout = .seconds(60)
            options.connecting.timeout = .seconds(60)
            options.requests.timeout = .seconds(500)
        }
    }

    func client(_ codec: RESPCodec = RESPCodec(), options: ClientOptions = resp3) -> Client {
        Client(to: .unix(path: process.socketPath), speaking: codec, options: options)
    }

    /// Runs `body` with a new server and two clients, and closes all of them afterwards.
    static func run(_ body: (RedisServer, Client, _ other: Client) async throws -> Void) async throws {
        let server = try await RedisServer()
        let (client, other) = (server.client(), server.client())
        do {
            try await body(server, client, other)
        } catch {
            await client.closeNow()
            await other.closeNow()
            server.process.stop()
            throw error
        }
        await client.close()
        await other.close()
        server.process.stop()
    }

    /// Waits until `isSo` returns true: an event in another process, which sends no notification.
    static func wait(until isSo: () async throws -> Bool) async throws {
        while try await !isSo() { try await Task.sleep(for: .milliseconds(2)) }
    }
}

/// Serialized, because each test needs the whole processor.
@Suite(
    .tags(.realThreads),
    .serialized,
    .enabled(if: ServerProcess.isAvailable("redis-server"), "redis-server is not installed")
)
struct RedisTests {}

extension RedisTests {
    // MARK: Pipelining

    @Test(.timeLimit(.minutes(10)))
    func everyCommandOfALargeBatchHasItsReply() async throws {
        let count = TestEnvironment.scaled(100_000)
        try await RedisServer.run { _, client, _ in
            let results = await client.send(all: (1...count).map { _ in Command("INCR", "counter") })
            let wrong = results.enumerated().filter { index, result in (try? result.get()) != .integer(index + 1) }
            #expect(wrong.isEmpty)
            let counter = try await client.send(Command("GET", "counter"))
            #expect(counter == .string(Bytes("\(count)")))
            #expect(await client.metrics.connection.links == 1)
        }
    }

    @Test(.timeLimit(.minutes(10)))
    func everyConcurrentCommandHasItsReply() async throws {
        let callers = TestEnvironment.scaled(1000)
        try await RedisServer.run { _, client, _ in
            let wrong = await withTaskGroup(of: Int.self) { group in
                for caller in 0..<callers {
                    group.addTask {
                        var wrong = 0
                        for index in 0..<100 {
                            let text = Bytes("\(caller)-\(index)")
                            let reply = try? await client.send(Command("ECHO", text))
                            if reply != .string(text) { wrong += 1 }
                        }
                        return wrong
                    }
                }
                return await group.reduce(0, +)
            }
            #expect(wrong == 0)
            let metrics = await client.metrics
            #expect(metrics.responses == callers * 100 && metrics.unknownResponses == 0)
        }
    }

    // MARK: Values

    @Test(.timeLimit(.minutes(10)))
    func everyTypeOfReplyIsReadInRESP3() async throws {
        try await RedisServer.run { _, client, _ in
            let commands: [(Command, RESPValue)] = [
                (Command("SET", "k", "v"), .string("OK")),
                (Command("GET", "nobody"), .null),
                (Command("RPUSH", "list", "a", "b"), .integer(2)),
                (Command("LRANGE", "list", "0", "-1"), .array([.string("a"), .string("b")])),
                (Command("HSET", "hash", "f", "1"), .integer(1)),
                (Command("HGETALL", "hash"), .map([.string("f"), .string("1")])),
                (Command("SADD", "set", "x"), .integer(1)),
                (Command("SMEMBERS", "set"), .set([.string("x")])),
                (Command("ZADD", "zset", "1.5", "m"), .integer(1)),
                (Command("ZSCORE", "zset", "m"), .double(1.5)),
                (Command("DEBUG", "PROTOCOL", "bignum"), .bigNumber("1234567999999999999999999999999999999")),
                (Command("DEBUG", "PROTOCOL", "true"), .boolean(true)),
                (Command("DEBUG", "PROTOCOL", "verbatim"), .string("This is a verbatim\nstring")),
                (Command("DEBUG", "PROTOCOL", "attrib"), .string("Some real reply following the attribute")),
            ]
            for (command, value) in commands {
                let reply = try await client.send(command)
                #expect(reply == value)
            }
        }
    }

    @Test(.timeLimit(.minutes(10)))
    func valuesOfAMegabyteArriveUnchanged() async throws {
        try await RedisServer.run { _, client, _ in
            try await withThrowingTaskGroup(of: Bool.self) { group in
                for index in 0..<16 {
                    group.addTask {
                        var state = UInt64(index + 1)
                        let words = (0..<128 * 1024).map { _ in
                            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
                            return state
                        }
                        let value = unsafe words.withUnsafeBytes { unsafe Bytes(Array($0)) }
                        _ = try await client.send(Command("SET", "large-\(index)", value))
                        return try await client.send(Command("GET", "large-\(index)")) == .string(value)
                    }
                }
                for try await isSame in group { #expect(isSame) }
            }
        }
    }

    @Test(.timeLimit(.minutes(10)))
    func withoutHelloTheLinkSpeaksRESP2() async throws {
        let server = try await RedisServer()
        defer { server.process.stop() }
        let client = server.client(RESPCodec(version: 2), options: ClientOptions())
        _ = try await client.send(Command("HSET", "hash", "f", "1"))
        #expect(try await client.send(Command("HGETALL", "hash")) == .array([.string("f"), .string("1")]))
        #expect(try await client.send(Command("GET", "nobody")) == .null)
        #expect(try await client.send(Command("ZADD", "zset", "1.5", "m")) == .integer(1))
        #expect(try await client.send(Command("ZSCORE", "zset", "m")) == .string("1.5"))
        let error = await #expect(throws: ClientError.self) { try await client.send(Command("SUBSCRIBE", "news")) }
        #expect(error?.code == .invalidRequest && error?.fate == .notSent)
        await client.close()
    }

    // MARK: Errors

    @Test(.timeLimit(.minutes(10)))
    func errorsAreErrorResponsesWithTheirText() async throws {
        try await RedisServer.run { _, client, _ in
            _ = try await client.send(Command("SET", "text", "no number"))
            let results = await client.send(all: [Command("INCR", "text"), Command("NOSUCH"), Command("GET", "text")])
            let errors = try results.prefix(2).map { result in
                let error = try #require(throws: ClientError.self) { try result.get() }
                #expect(error.code == .rejected && error.fate == .answered)
                return try error.response.flatMap { try RESPValue($0.body).text } ?? ""
            }
            #expect(errors[0] == "ERR value is not an integer or out of range")
            #expect(errors[1].hasPrefix("ERR unknown command 'NOSUCH'"))
            #expect(try results[2].get() == .string("no number"))
        }
    }

    @Test(.timeLimit(.minutes(10)))
    func theRefusalOfAHandshakeIsTheErrorOfWaitingCallers() async throws {
        let server = try await RedisServer()
        defer { server.process.stop() }
        var options = RedisServer.resp3
        options.reconnecting.maximumAttempts = 1
        options.handshake.perform = { link in _ = try await link.send(Command("HELLO", "3", "AUTH", "me", "wrong")) }
        let client = server.client(options: options)
        let error = await #expect(throws: ClientError.self) { try await client.connect() }
        #expect(error?.code == .unavailable)
        let cause = error?.attempts.last?.cause as? ClientError
        #expect(cause?.code == .rejected)
        #expect(try cause?.response.map { try RESPValue($0.body).text?.hasPrefix("WRONGPASS") } == true)
        await client.close()
    }

    // MARK: Cancellation and timeouts

    /// The late replies to cancelled commands arrive in their places, between the replies to other commands.
    @Test(.timeLimit(.minutes(10)))
    func lateRepliesAreDiscardedInTheirPlace() async throws {
        try await RedisServer.run { _, client, other in
            let gate = try client.start(Command("BLPOP", "gate", "0"))
            let calls = try (0..<1000).map { try client.start(Command("ECHO", "\($0)")) }
            // The kernel has all commands, and the server executes none of them while it blocks this link.
            try await RedisServer.wait { calls.allSatisfy { $0.state == .written } }
            gate.cancel()
            for (index, call) in calls.enumerated() where index % 3 == 0 { call.cancel() }
            for (index, call) in calls.enumerated() where index % 3 == 0 {
                let error = await #expect(throws: ClientError.self) { try await call.value }
                #expect(error?.code == .cancelled && error?.fate == .unknown)
            }
            let late = Task { try await client.send(Command("ECHO", "after them")) }
            _ = try await other.send(Command("RPUSH", "gate", "open"))
            for (index, call) in calls.enumerated() where index % 3 != 0 {
                #expect(try await call.value == .string("\(index)"))
            }
            #expect(try await late.value == .string("after them"))
            let metrics = await client.metrics
            #expect(metrics.lateResponses == 335 && metrics.unknownResponses == 0)
            #expect(metrics.connection.links == 1)
        }
    }

    @Test(.timeLimit(.minutes(10)))
    func aCommandThatTimesOutDoesNotAffectOthers() async throws {
        try await RedisServer.run { _, client, other in
            try await client.connect()
            let error = await #expect(throws: ClientError.self) {
                try await client.send(Command("BLPOP", "gate", "0"), timeout: .milliseconds(200))
            }
            #expect(error?.code == .timedOut)
            let next = try client.start(Command("ECHO", "next"))
            _ = try await other.send(Command("RPUSH", "gate", "open"))
            #expect(try await next.value == .string("next"))
            let metrics = await client.metrics
            #expect(metrics.connection.links == 1)
            // On a very busy processor, the command may not even have been written.
            #expect(metrics.lateResponses == (error?.fate == .unknown ? 1 : 0))
        }
    }

    // MARK: Transactions

    /// The requests of a batch are contiguous on the wire, so other requests cannot come between them.
    @Test(.timeLimit(.minutes(10)))
    func transactionsOfManyCallersAreBatches() async throws {
        try await RedisServer.run { _, client, _ in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for caller in 0..<200 {
                    group.addTask {
                        let results = await client.send(
                            all: [
                                Command("MULTI"), Command("SET", "tx-\(caller)", "\(caller)"),
                                Command("LPUSH", "tx-\(caller)", "wrong type"), Command("GET", "tx-\(caller)"),
                                Command("EXEC"),
                            ],
                            options: CallOptions(retry: .never)  // half a transaction must not be sent on the next link
                        )
                        #expect(try results[0].get() == .string("OK"))
                        for index in 1...3 { #expect(try results[index].get() == .string("QUEUED")) }
                        let answers = try results[4].get().elements
                        #expect(answers.count == 3 && answers[0] == .string("OK"))
                        #expect(answers.dropFirst().first?.text?.hasPrefix("WRONGTYPE") == true)
                        #expect(answers.last == .string(Bytes("\(caller)")))
                    }
                    group.addTask {
                        let echo = try await client.send(Command("ECHO", "\(caller)"))
                        #expect(echo == .string(Bytes("\(caller)")))
                    }
                }
                try await group.waitForAll()
            }
        }
    }
}
