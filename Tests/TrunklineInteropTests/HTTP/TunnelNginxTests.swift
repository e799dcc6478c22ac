import Foundation
import Testing
import Trunkline
import TrunklineFoundation
import TrunklineGateway
import TrunklineTesting

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// HTTP over a link to a gateway in front of nginx.
@Suite(
    .tags(.realThreads),
    .serialized,
    .timeLimit(.minutes(5)),
    .enabled(if: ServerProcess.isAvailable("nginx"), "nginx is not installed")
)
struct TunnelNginxTests {}

extension TunnelNginxTests {
    private static func withTunnel(
        window: Int = 1024 * 1024,
        _ body: nonisolated(nonsending) (NginxServer, String, HTTPTunnel) async throws -> Void
    ) async throws {
        let nginx = try await NginxServer()
        defer { nginx.stop() }
        let root = "http://127.0.0.1:\(nginx.port)"
        let gateway = HTTPGateway(allowing: [HTTPOrigin(parsing: root)].compactMap { $0 })
        try await withLoopbackServer(speaking: .standard, handler: gateway.handler) { server in
            try await withClient(to: server.endpoint, speaking: .standard, options: patientOptions) { client in
                try await client.connect()
                let options = HTTPTunnel.Options { ($0.policy, $0.window) = (.linkOnly, window) }
                try await body(nginx, root, HTTPTunnel(client, options: options))
            }
        }
    }

    private static func url(_ text: String) throws -> URL { try #require(URL(string: text)) }

    /// The bytes of this process in memory; `nil` on systems that do not tell them.
    private static var resident: Int? {
        let text = try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8)
        let pages = text.flatMap { Int($0.split(separator: " ").dropFirst().first ?? "") }
        return pages.map { $0 * Int(sysconf(Int32(_SC_PAGESIZE))) }
    }

    /// Receives a large file, with a pause behind some of its pieces, and expects that little of it is in memory.
    ///
    /// To be run in a separate process, because other tests use memory, too.
    fileprivate static func receive(
        _ count: Int,
        window: Int,
        pause: (_ piece: Int) -> Duration?
    ) async throws {
        try await withTunnel(window: window) { nginx, root, tunnel in
            let distance = 16 << 20
            try await nginx.writeSpots("large", count: count, every: distance)
            let (body, response) = try await tunnel.bytes(for: URLRequest(url: try url("\(root)/large")))
            #expect((response as? HTTPURLResponse)?.statusCode == 200 && response.expectedContentLength == Int64(count))
            let before = try #require(resident)
            var (received, found, most, pieces) = (0, 0, before, 0)
            for try await piece in body {
                found += try #require(NginxServer.spots(in: piece, at: received, every: distance))
                (received, pieces) = (received + piece.count, pieces + 1)
                if pieces.isMultiple(of: 64) { most = max(most, try #require(resident)) }
                if let pause = pause(pieces) { try await Task.sleep(for: pause) }
            }
            #expect(received == count && found == count / distance * NginxServer.pattern.count)
            #expect(most - before < 100 << 20, "\((most - before) >> 20) MiB")
        }
    }

    /// The whole file is at the gateway long before the reader has it.
    @Test(.enabled(if: isAlone, "measures memory; needs TRUNKLINE_ALONE=1"))
    func aGibibyteTakesLittleMemory() async throws {
        await Self.aside {
            await #expect(processExitsWith: .success) {
                try await TunnelNginxTests.receive(1 << 30, window: 1 << 20) { $0 <= 20 ? .milliseconds(100) : nil }
            }
        }
    }

    /// Neither the gateway nor the tunnel holds bytes that the reader has not requested.
    @Test(.enabled(if: isAlone, "measures memory; needs TRUNKLINE_ALONE=1"))
    func aConstantlySlowReaderTakesLittleMemory() async throws {
        await Self.aside {
            await #expect(processExitsWith: .success) {
                try await TunnelNginxTests.receive(256 << 20, window: 64 << 10) {
                    $0.isMultiple(of: 64) ? .milliseconds(2) : nil
                }
            }
        }
    }

    private static let isAlone = resident != nil && TestEnvironment.isAlone

    /// Runs `body` on a separate thread: a test in another process keeps its thread until that process ends, and the
    /// pool has no more threads than the machine has processors.
    private static func aside(_ body: @Sendable () async -> Void) async {
        await withTaskExecutorPreference(EventLoops(count: 1).next().taskExecutor) { await body() }
    }

    @Test func rangesConditionsAndUploadsAreForwarded() async throws {
        try await Self.withTunnel { nginx, root, tunnel in
            try await nginx.writeFile("a", count: 100_000)
            let (whole, response) = try await tunnel.data(from: try Self.url("\(root)/a"))
            #expect(whole == NginxServer.content(at: 0, count: 100_000))
            var request = URLRequest(url: try Self.url("\(root)/a"))
            request.setValue("bytes=10-19", forHTTPHeaderField: "Range")
            let (part, partial) = try await tunnel.data(for: request)
            #expect((partial as? HTTPURLResponse)?.statusCode == 206 && part == whole[10..<20])
            let tag = (response as? HTTPURLResponse)?.value(forHTTPHeaderField: "ETag")
            request = URLRequest(url: try Self.url("\(root)/a"))
            request.setValue(tag, forHTTPHeaderField: "If-None-Match")
            let (none, fresh) = try await tunnel.data(for: request)
            #expect((fresh as? HTTPURLResponse)?.statusCode == 304 && none.isEmpty)
            let (chunks, _) = try await tunnel.data(from: try Self.url("\(root)/chunked/a"))
            #expect(chunks == whole)
            request = URLRequest(url: try Self.url("\(root)/upload/b"))
            request.httpMethod = "PUT"
            let (_, made) = try await tunnel.upload(for: request, from: whole)
            #expect((made as? HTTPURLResponse)?.statusCode == 201)
            let (back, _) = try await tunnel.data(from: try Self.url("\(root)/upload/b"))
            #expect(back == whole)
        }
    }
}
