import Foundation
import Testing
import Trunkline
import TrunklineHTTP
import TrunklineTesting

/// The header of the PROXY protocol, read by HAProxy, which accepts no connection without it.
@Suite(
    .tags(.realThreads),
    .serialized,
    .timeLimit(.minutes(5)),
    .enabled(if: ServerProcess.isAvailable("haproxy"), "HAProxy is not installed"),
    .enabled(if: ServerProcess.isAvailable("microsocks"), "microsocks is not installed")
)
struct ProxyHeaderTests {}

extension ProxyHeaderTests {
    /// Starts HAProxy. It answers each request with the addresses that it was told.
    private func startHAProxy(
        overTLS: Bool
    ) async throws -> (process: ServerProcess, port: UInt16, credentials: Credentials) {
        try await ServerProcess.atFreePort { port in
            var made: Credentials?
            let process = try await ServerProcess("haproxy", sign: "s") { socketPath in
                let credentials = try Credentials(besides: socketPath)
                made = credentials
                try FileManager.default.moveItem(atPath: credentials.key, toPath: credentials.certificate + ".key")
                let file = credentials.directory + "/configuration"
                let text = """
                    defaults
                        mode http
                        timeout connect 5s
                        timeout client 60s
                        timeout server 60s
                    listen l
                        bind 127.0.0.1:\(port) accept-proxy \(overTLS ? "ssl crt \(credentials.certificate)" : "")
                        bind unix@\(socketPath)
                        http-request return status 200 content-type text/plain lf-string "%[src] %[dst] %[dst_port]"

                    """
                try text.write(toFile: file, atomically: true, encoding: .utf8)
                return ["-db", "-q", "-f", file]
            }
            return (process, port, try #require(made))
        }
    }

    private func answer(
        of port: UInt16,
        overTLS: Bool,
        _ credentials: Credentials,
        _ change: (inout ClientOptions) -> Void
    ) async throws -> Bytes {
        let endpoint = try Endpoint(parsing: "\(overTLS ? "tls://" : "")127.0.0.1:\(port)")
        let options = credentials.options(change)
        return try await withClient(to: endpoint, speaking: HTTP1Codec(host: "a"), options: options) { client in
            try await client.send(HTTP1Request(.get, "/")).body
        }
    }

    @Test(arguments: ProxyHeader.allCases, [false, true])
    func itHasTheAddressesOfTheLink(_ version: ProxyHeader, overTLS: Bool) async throws {
        let (process, port, credentials) = try await startHAProxy(overTLS: overTLS)
        defer { process.stop() }
        let told = try await answer(of: port, overTLS: overTLS, credentials) { options in
            options.connecting.proxyHeader = version
            options.connecting.sourceAddress = "127.0.0.5"
        }
        #expect(told == "127.0.0.5 127.0.0.1 \(port)")
    }

    /// First the exchange with the proxy, then the header, without addresses, then TLS.
    @Test(arguments: ProxyHeader.allCases, [false, true])
    func itFollowsTheExchangeWithAProxy(_ version: ProxyHeader, overTLS: Bool) async throws {
        let (process, port, credentials) = try await startHAProxy(overTLS: overTLS)
        defer { process.stop() }
        let (socks, socksPort) = try await ServerProcess.atFreePort { port in
            let socks = try await ServerProcess("microsocks", port: port) { _ in ["-i", "127.0.0.1", "-p", "\(port)"] }
            return (socks, port)
        }
        defer { socks.stop() }
        let told = try await answer(of: port, overTLS: overTLS, credentials) { options in
            options.connecting.proxy = .socks5("127.0.0.1", port: socksPort)
            options.connecting.proxyHeader = version
        }
        #expect(told == "127.0.0.1 127.0.0.1 \(port)")
    }

    @Test func aServerThatExpectsItRefusesOthers() async throws {
        let (process, port, credentials) = try await startHAProxy(overTLS: false)
        defer { process.stop() }
        await #expect(throws: ClientError.self) {
            try await answer(of: port, overTLS: false, credentials) { $0.requests.timeout = .seconds(2) }
        }
    }
}
