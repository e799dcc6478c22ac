import Foundation
import Synchronization
import Testing
import Trunkline

/// PostgreSQL: a query is cancelled by a second connection, with a secret from the handshake of the first.
@Suite(
    .tags(.realThreads),
    .timeLimit(.minutes(10)),
    .enabled(if: Postgres.isAvailable, "PostgreSQL is not installed")
)
struct PostgresTests {
    /// The key of a connection ("BackendKeyData").
    private struct BackendKey { let bytes: Bytes }

    /// Cancels a query as section "Canceling Requests in Progress" of the manual describes it.
    @Sendable private static func cancel(_ request: AbandonedRequest) async throws {
        guard let key = request.serverInfo(as: BackendKey.self) else { return }
        let connection = Connection(to: request.endpoint, speaking: PostgresCodec())
        var ends = connection.disconnects.makeAsyncIterator()
        let body = Bytes([0x04, 0xD2, 0x16, 0x2E] + Array(key.bytes))
        try await connection.write(Frame(.request, type: PostgresCodec.Message.cancelRequest.rawValue, body: body))
        // The server closes the connection when it has sent the signal.
        _ = await ends.next()
        await connection.close()
    }

    private func withClient(
        of database: String = "postgres",
        _ change: (inout ClientOptions) -> Void = { _ in },
        _ body: nonisolated(nonsending) (Client, Postgres) async throws -> Void
    ) async throws {
        let postgres = try await Postgres()
        let options = ClientOptions { options in
            options.handshake.perform = { link in
                let key = try await link.send(PostgresCodec.startup(database: database))
                await link.setServerInfo(BackendKey(bytes: key.body))
            }
            options.connecting.timeout = .seconds(60)
            options.handshake.timeout = .seconds(60)
            options.requests.timeout = .seconds(120)
            options.requests.cancelling = { try await Self.cancel($0) }
            options.requests.cancellingTimeout = .seconds(60)
            change(&options)
        }
        let client = Client(to: postgres.endpoint, speaking: PostgresCodec(), options: options)
        do {
            try await body(client, postgres)
        } catch {
            await client.close()
            await postgres.stop()
            throw error
        }
        #expect(await client.diagnostics.audit() == [])
        await client.close()
        await postgres.stop()
    }

    private func query(_ text: String) -> Request { PostgresCodec.Message.query(Bytes(text)) }

    /// Waits until the server executes `pg_sleep`.
    private func untilAQuerySleeps(on postgres: Postgres) async throws {
        let options = ClientOptions { options in
            options.handshake.perform = { _ = try await $0.send(PostgresCodec.startup(database: "postgres")) }
            options.connecting.timeout = .seconds(60)
            options.handshake.timeout = .seconds(60)
        }
        try await Trunkline.withClient(to: postgres.endpoint, speaking: PostgresCodec(), options: options) { client in
            let sleeping = query("select count(*) from pg_stat_activity where wait_event = 'PgSleep'")
            while try await client.send(sleeping, timeout: .seconds(120)).body != "1" {
                try await Task.sleep(for: .milliseconds(5))
            }
        }
    }

    @Test func aQueryIsCancelledOnTheServer() async throws {
        let (responses, continuation) = AsyncStream.makeStream(of: LateResponse.self)
        try await withClient {
            $0.requests.lateResponse = { continuation.yield($0) }
        } _: { client, postgres in
            let handle = client.start(query("select pg_sleep(1000)"))
            // A query that was not written yet is not sent, and the server forgets the signal if it came before the
            // query.
            try await untilAQuerySleeps(on: postgres)
            handle.cancel()
            await #expect(throws: ClientError.self) { try await handle.value }
            let answer = try await client.send(query("select 7")).body
            #expect(answer == "7")
            let late = await responses.first { _ in true }
            // query_canceled ("PostgreSQL Error Codes").
            #expect(late?.reason?.name == "57014")
            let metrics = await client.metrics
            #expect(metrics.connection.links == 1 && metrics.abandoned == 0)
        }
    }

    /// Callers cancel some of their queries at any time. No other query is cancelled, and each gets its own answer.
    @Test func aCancellationNeverMeetsAnotherQuery() async throws {
        let cancelled = Mutex(0)
        try await withClient { options in
            options.requests.lateResponse = { late in
                if late.reason?.name == "57014" { cancelled.withLock { $0 += 1 } }
            }
        } _: { client, _ in
            await withTaskGroup { group in
                for caller in 0..<8 {
                    group.addTask {
                        for number in 0..<25 {
                            let text = "\(caller)-\(number)"
                            let isCancelled = number % 3 == caller % 3
                            let seconds = isCancelled ? "0.05" : "0.00\(number % 10)"
                            let handle = client.start(query("select '\(text)' from pg_sleep(\(seconds))"))
                            if isCancelled {
                                while handle.session == nil { try? await Task.sleep(for: .milliseconds(1)) }
                                try? await Task.sleep(for: .milliseconds(.random(in: 0...60)))
                                handle.cancel()
                            }
                            do throws(ClientError) {
                                let body = try await handle.value.body
                                #expect(body == Bytes(text))
                            } catch {
                                #expect(isCancelled && error.code == .cancelled, "\(error)")
                            }
                        }
                    }
                }
            }
            let metrics = await client.metrics
            #expect(metrics.connection.links == 1 && metrics.requests == 200)
            #expect(metrics.requests == metrics.responses + metrics.failed)
            print("PostgreSQL has cancelled \(cancelled.withLock { $0 }) of \(metrics.failed) queries")
        }
    }

    @Test func errorsHaveTheirNameAndText() async throws {
        try await withClient { client, _ in
            let error = await #expect(throws: ClientError.self) { try await client.send(query("select 1/0")) }
            #expect(error?.code == .rejected && error?.fate == .answered)
            #expect(error?.reason == ServerReason("22012", text: "division by zero"))
            #expect(await client.metrics.rejections.keys.contains("22012"))
        }
    }

    /// "FATAL" is a farewell: the server says why it closes the connection.
    @Test func aTerminatedSessionSaysWhy() async throws {
        try await withClient { client, _ in
            let error = await #expect(throws: ClientError.self) {
                try await client.send(query("select pg_terminate_backend(pg_backend_pid()), pg_sleep(60)"))
            }
            #expect(error?.code == .connectionLost && error?.fate == .unknown)
            #expect(error?.reason?.name == "57P01")
            #expect(await client.metrics.connection.linkEndReasons["57P01"] == 1)
            let answer = try await client.send(query("select 7")).body
            #expect(answer == "7")
        }
    }

    @Test func aRefusedLoginSaysWhy() async throws {
        try await withClient(of: "nowhere") {
            $0.reconnecting.maximumAttempts = 1
        } _: { client, _ in
            var reason: ServerReason?
            repeat {
                let error = await #expect(throws: ClientError.self) { try await client.send(query("select 7")) }
                reason = error?.reason
            } while reason?.name == "57P03"  // cannot_connect_now: it is starting
            // invalid_catalog_name
            #expect(reason?.name == "3D000")
        }
    }
}

/// A PostgreSQL server with an empty cluster for one test. It accepts every user on its socket.
private struct Postgres {
    private let server: ServerProcess
    let endpoint: Endpoint

    static var isAvailable: Bool { programs != nil || TestEnvironment.requiresServers }

    /// The directory of its programs. They are not in `PATH`, because several versions can be installed.
    private static let programs: String? = {
        let versions = (try? FileManager.default.contentsOfDirectory(atPath: "/usr/lib/postgresql")) ?? []
        let programs = versions.sorted().map { "/usr/lib/postgresql/\($0)/bin" }
            .last { FileManager.default.isExecutableFile(atPath: "\($0)/initdb") }
        if programs == nil { print("Skipped: PostgreSQL is not installed (Debian: apt-get install postgresql).") }
        return programs
    }()

    init() async throws {
        let programs = try #require(Self.programs)
        // It refuses to run as root.
        let user = getuid() == 0 ? ["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"] : []
        let program = getuid() == 0 ? "setpriv" : "env"
        let name = ".s.PGSQL.5432"
        server = try await ServerProcess(program, sign: name, stopSignal: SIGQUIT) { socketPath in
            let directory = URL(fileURLWithPath: socketPath).deletingLastPathComponent()
            let data = directory.appendingPathComponent("data").path
            try await elsewhere {
                if getuid() == 0, let postgres = unsafe getpwnam("postgres") {
                    _ = unsafe chown(directory.path, postgres.pointee.pw_uid, postgres.pointee.pw_gid)
                }
                let initialize = Process()
                initialize.executableURL = URL(fileURLWithPath: ServerProcess.find(program) ?? program)
                initialize.arguments =
                    user + [
                        "\(programs)/initdb", "-D", data, "-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8",
                    ]
                initialize.currentDirectoryURL = directory
                initialize.standardOutput = FileHandle.nullDevice
                initialize.standardError = FileHandle.nullDevice
                try initialize.run()
                initialize.waitUntilExit()
            }
            let settings = [
                "listen_addresses=", "unix_socket_directories=\(directory.path)", "fsync=off", "log_min_messages=panic",
                "dynamic_shared_memory_type=mmap",
            ]
            return user + ["\(programs)/postgres", "-D", data] + settings.flatMap { ["-c", $0] }
        }
        endpoint = .unix(path: server.directory.appendingPathComponent(name).path)
    }

    func stop() async {
        await server.kill()
        server.stop()
    }
}
