import Foundation
import Testing
import Trunkline
import TrunklineTesting

/// Links through real proxies: microsocks, tinyproxy and Squid.
@Suite(.tags(.realThreads), .serialized) struct ProxyInteropTests {}

extension ProxyInteropTests {
    private static let user = (username: "edge", password: "secret")

    private static func socks(_ port: UInt16, _ username: String?, _ password: String) -> Proxy {
        .socks5("127.0.0.1", port: port, username: username, password: password)
    }

    private static func http(_ port: UInt16, _ username: String?, _ password: String) -> Proxy {
        .http("127.0.0.1", port: port, username: username, password: password)
    }

    @Test(
        .enabled(if: ServerProcess.isAvailable("microsocks"), "microsocks is not installed"),
        .timeLimit(.minutes(5)),
        arguments: [false, true]
    ) func microsocks(withPassword: Bool) async throws {
        let login = withPassword ? ["-u", Self.user.username, "-P", Self.user.password] : []
        try await check(Self.socks, withPassword, refused: .refused) { port in
            try await ServerProcess("microsocks", port: port) { _ in ["-i", "127.0.0.1", "-p", "\(port)"] + login }
        }
    }

    @Test(
        .enabled(if: ServerProcess.isAvailable("microsocks"), "microsocks is not installed"),
        .timeLimit(.minutes(5))
    ) func tlsBeginsLaterThroughAProxy() async throws {
        let (process, port) = try await ServerProcess.atFreePort { port in
            let process = try await ServerProcess("microsocks", port: port) { _ in ["-i", "127.0.0.1", "-p", "\(port)"]
            }
            return (process, port)
        }
        defer { process.stop() }
        let authority = try TestAuthority()
        let identity = try authority.identity(for: "localhost")
        let server = try await LoopbackServer.start(
            speaking: .standard,
            options: LoopbackServer.Options { $0.tls = .init(identity) { $0.beginsAtOnce = false } }
        ) { request in request.type == 0x411 ? .sequence([.reply("go on"), .startTLS]) : .echo }
        let options = ClientOptions { options in
            options.connecting.proxy = Self.socks(port, nil, "")
            options.tls.roots = .only(authority.root)
            options.tls.serverName = "localhost"
            options.handshake.perform = { link in
                _ = try await link.send(Request(type: 0x411, body: "TLS?"))
                try await link.startTLS()
            }
            options.connecting.timeout = .seconds(60)
            options.handshake.timeout = .seconds(60)
            options.requests.timeout = .seconds(120)
        }
        try await withClient(to: server.endpoint, speaking: .standard, options: options) { client in
            let reply = try await client.send(Request(type: 0x410, body: "hello"))
            #expect(reply.body == "hello")
            #expect(await client.diagnostics.tlsSession?.version == "TLSv1.3")
        }
        await server.stop()
    }

    @Test(
        .enabled(if: ServerProcess.isAvailable("tinyproxy"), "tinyproxy is not installed"),
        .timeLimit(.minutes(5)),
        arguments: [false, true]
    ) func tinyproxy(withPassword: Bool) async throws {
        try await check(Self.http, withPassword, refused: .other(500)) { port in
            let login = withPassword ? "BasicAuth \(Self.user.username) \(Self.user.password)\n" : ""
            let text =
                "Port \(port)\nListen 127.0.0.1\nAllow 127.0.0.1\nTimeout 600\nMaxClients 100\nLogLevel Critical\n\(login)"
            return try await ServerProcess("tinyproxy", port: port) { socketPath in
                let file = URL(fileURLWithPath: socketPath).deletingLastPathComponent().appendingPathComponent("c")
                try text.write(to: file, atomically: true, encoding: .utf8)
                return ["-d", "-c", file.path]
            }
        }
    }

    @Test(
        .enabled(if: ServerProcess.isAvailable("squid"), "squid is not installed"),
        .timeLimit(.minutes(5))
    ) func squid() async throws {
        try await check(Self.http, false, refused: .hostUnreachable, forbidden: "127.0.0.1:1") { port in
            try await ServerProcess("squid", port: port) { socketPath in
                let directory = URL(fileURLWithPath: socketPath).deletingLastPathComponent()
                try FileManager.default.setAttributes([.posixPermissions: 0o777], ofItemAtPath: directory.path)
                let text = """
                    http_port 127.0.0.1:\(port)
                    acl forbidden port 1
                    http_access deny forbidden
                    http_access allow localhost
                    http_access deny all
                    cache deny all
                    pid_filename \(directory.path)/pid
                    cache_log \(directory.path)/log
                    access_log none
                    coredump_dir \(directory.path)
                    netdb_filename none
                    shutdown_lifetime 0 seconds

                    """
                let file = directory.appendingPathComponent("squid.conf")
                try text.write(to: file, atomically: true, encoding: .utf8)
                return ["-N", "-f", file.path]
            }
        }
    }

    /// Calls through the proxy in plaintext and over TLS; a wrong login; a server that is not there; a proxy that is killed
    /// and comes back.
    private func check(
        _ proxy: (_ port: UInt16, _ username: String?, _ password: String) -> Proxy,
        _ withPassword: Bool,
        refused: ProxyFailure,
        forbidden: Endpoint? = nil,
        _ start: (UInt16) async throws -> ServerProcess
    ) async throws {
        let (process, port) = try await ServerProcess.atFreePort { port in (try await start(port), port) }
        defer { process.stop() }
        let user = Self.user
        let usual = proxy(port, withPassword ? user.username : nil, user.password)
        let authority = try TestAuthority()
        var secured = LoopbackServer.Options()
        secured.tls = .init(try authority.identity(for: "127.0.0.1"))
        for serverOptions in [LoopbackServer.Options(), secured] {
            try await withLoopbackServer(speaking: .standard, options: serverOptions) { server in
                var options = ClientOptions { $0.connecting.proxy = usual }
                options.tls.roots = .only(authority.root)
                try await withClient(to: server.endpoint, speaking: .standard, options: options) { client in
                    let results = await client.send(all: (0..<2000).map { Request(type: 0x410, body: Bytes("\($0)")) })
                    for (index, result) in results.enumerated() {
                        let body = try result.get().body
                        #expect(body == Bytes("\(index)"))
                    }
                    #expect(await server.journal.connectionCount == 1)
                    // The proxy dies.
                    await process.kill()
                    // The first call may still find the link that is lost with the proxy.
                    var error = await failure(of: client)
                    if error?.code == .connectionLost { error = await failure(of: client) }
                    #expect(
                        (error?.cause as? TransportError)?.code == .proxy(.unreachable),
                        "\(String(describing: error))"
                    )
                    try await process.start()
                    let reply = try await client.send(Request(type: 0x410, body: "again"), timeout: .seconds(30))
                    #expect(reply.body == "again")
                }
            }
        }
        if withPassword {
            for (name, expected) in [(nil, ProxyFailure.authenticationRequired), (user.username, .credentialsRefused)] {
                #expect(await cause("127.0.0.1:9", through: proxy(port, name, "wrong")) == .proxy(expected))
            }
        }
        let free = try freePort()
        #expect(await cause(.host("127.0.0.1", port: free), through: usual) == .proxy(refused))
        if let forbidden { #expect(await cause(forbidden, through: usual) == .proxy(.notAllowed)) }
    }

    private func failure(of client: Client) async -> ClientError? {
        do throws(ClientError) {
            _ = try await client.send(Request(type: 0x410, body: "x"), timeout: .seconds(2))
            return nil
        } catch {
            return error
        }
    }

    /// The code of the error of an attempt to connect.
    private func cause(_ endpoint: Endpoint, through proxy: Proxy) async -> TransportError.Code? {
        let options = ClientOptions {
            ($0.connecting.proxy, $0.reconnecting.maximumAttempts) = (proxy, 1)
            $0.connecting.timeout = .seconds(60)
        }
        let client = Client(to: endpoint, speaking: .standard, options: options)
        var code: TransportError.Code?
        do throws(ClientError) { try await client.connect() } catch { code = (error.cause as? TransportError)?.code }
        await client.closeNow()
        return code
    }
}
