import Foundation
import Testing
import Trunkline
import TrunklineTesting

/// Servers with TLS of their own, or of a proxy in front of them.
@Suite(
    .tags(.realThreads),
    .serialized,
    .enabled(if: ServerProcess.isAvailable("redis-server"), "redis-server is not installed")
)
struct SecuredRedisTests {}

extension SecuredRedisTests {
    @Test(.timeLimit(.minutes(5)))
    func commandsSurviveAKilledLinkOverMutualTLS() async throws {
        let count = TestEnvironment.scaled(20_000)
        let port = try freePort()
        var credentials: Credentials?
        let server = try await ServerProcess("redis-server") { socketPath in
            let files = try Credentials(besides: socketPath)
            credentials = files
            return [
                "--port", "0", "--tls-port", "\(port)", "--unixsocket", socketPath, "--dir", files.directory, "--save",
                "",
                "--appendonly", "no", "--tls-cert-file", files.certificate, "--tls-key-file", files.key,
                "--tls-ca-cert-file", files.root, "--tls-auth-clients", "yes", "--loglevel", "warning",
                "--logfile", files.directory + "/log",
            ]
        }
        defer { server.stop() }
        let files = try #require(credentials)
        let options = files.options { options in
            options.tls.identity = files.client
            options.handshake.perform = { link in _ = try await link.send(Command("HELLO", "3")) }
        }
        let endpoint = Endpoint.host("localhost", port: port).secured()
        try await withClient(to: endpoint, speaking: RESPCodec(), options: options) { client in
            let results = await client.send(all: (1...count).map { _ in Command("INCR", "counter") })
            #expect(results.enumerated().allSatisfy { index, result in (try? result.get()) == .integer(index + 1) })
            let value = Bytes([UInt8](repeating: 7, count: 1_000_000))
            _ = try await client.send(Command("SET", "large", value))
            #expect(try await client.send(Command("GET", "large")) == .string(value))

            // The server closes the connection of this very command.
            _ = try? await client.send(Command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no"))
            #expect(
                try await client.send(Command("GET", "counter"), options: CallOptions(retry: .idempotent()))
                    == .string(Bytes("\(count)"))
            )
            #expect(await client.diagnostics.tlsSession?.isResumed == true)
            #expect(await client.metrics.connection.links == 2)
        }
    }

    @Test(.timeLimit(.minutes(5)))
    func aClientWithoutACertificateIsRefused() async throws {
        let port = try freePort()
        var credentials: Credentials?
        let server = try await ServerProcess("redis-server") { socketPath in
            let files = try Credentials(besides: socketPath)
            credentials = files
            return [
                "--port", "0", "--tls-port", "\(port)", "--unixsocket", socketPath, "--dir", files.directory, "--save",
                "",
                "--tls-cert-file", files.certificate, "--tls-key-file", files.key, "--tls-ca-cert-file", files.root,
            ]
        }
        defer { server.stop() }
        let options = try #require(credentials).options()
        let endpoint = Endpoint.host("localhost", port: port).secured()
        try await withClient(to: endpoint, speaking: RESPCodec(), options: options) { client in
            let error = await #expect(throws: ClientError.self) { try await client.send(Command("PING")) }
            #expect(error?.code == .tlsFailed)
            #expect((error?.cause as? TransportError)?.code == .tls(.alert(116)))
        }
    }
}

@Suite(
    .tags(.realThreads),
    .serialized,
    .enabled(
        if: ServerProcess.isAvailable("memcached") && ServerProcess.isAvailable("stunnel4"),
        "memcached or stunnel4 is not installed"
    )
)
struct StunnelTests {}

extension StunnelTests {
    @Test(.timeLimit(.minutes(5)))
    func memcachedBehindStunnelKeepsEveryValue() async throws {
        let server = try await ServerProcess("memcached") { ["-u", "root", "-m", "256", "-s", $0] }
        defer { server.stop() }
        let port = try freePort()
        let files = try Credentials(besides: server.socketPath)
        let configuration = """
            foreground = yes
            debug = err
            pid =
            [memcached]
            accept = 127.0.0.1:\(port)
            connect = \(server.socketPath)
            cert = \(files.certificate)
            key = \(files.key)

            """
        let path = files.directory + "/stunnel.conf"
        try Data(configuration.utf8).write(to: URL(fileURLWithPath: path))
        let stunnel = Process()
        stunnel.executableURL = URL(fileURLWithPath: try #require(ServerProcess.find("stunnel4")))
        stunnel.arguments = [path]
        stunnel.standardInput = FileHandle.nullDevice
        try stunnel.run()
        defer { Foundation.kill(stunnel.processIdentifier, SIGKILL) }
        let endpoint = Endpoint.host("127.0.0.1", port: port).secured()
        try await withClient(to: endpoint, speaking: Memcached.layout, options: files.options()) { client in
            let wrong = try await withThrowingTaskGroup(of: Bool.self) { group in
                for index in 0..<2000 {
                    group.addTask {
                        let value = MemcachedTests.value(index)
                        _ = try await client.send(Memcached.set("key-\(index)", value))
                        return Memcached.value(of: try await client.send(Memcached.get("key-\(index)"))) != value
                    }
                }
                return try await group.reduce(into: 0) { wrong, isWrong in wrong += isWrong ? 1 : 0 }
            }
            #expect(wrong == 0)
            #expect(await client.metrics.connection.links == 1)
        }
    }
}
