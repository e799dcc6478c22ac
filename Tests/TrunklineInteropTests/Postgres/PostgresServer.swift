import Foundation
import Testing
import Trunkline

/// A PostgreSQL server with an empty cluster for one test. It accepts every user on its socket.
struct Postgres {
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

// MARK: - Clients

extension Postgres {
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

    /// Runs `body` with a client of a new server.
    static func withClient(
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
}
