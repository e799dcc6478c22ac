import Foundation
import Testing
import Trunkline
import TrunklineFoundation
import TrunklineTesting

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// HTTP over a link to a gateway in front of nginx.
@Suite(
    .serialized,
    .timeLimit(.minutes(5)),
    .enabled(if: ServerProcess.isAvailable("nginx"), "nginx is not installed")
)
struct TunnelNginxTests {
    private func withTunnel(
        window: Int = 1024 * 1024,
        _ body: nonisolated(nonsending) (NginxServer, String, HTTPTunnel) async throws -> Void
    ) async throws {
        // A port that was free a moment ago.
        let probe = try await LoopbackServer.start(speaking: .standard)
        let port = try #require(UInt16(String(describing: probe.endpoint).split(separator: ":").last ?? ""))
        await probe.stop()
        let nginx = try NginxServer(port: port)
        defer { nginx.stop() }
        let root = "http://127.0.0.1:\(port)"
        let gateway = HTTPGateway(allowing: [HTTPOrigin(root)].compactMap { $0 })
        try await withLoopbackServer(speaking: .standard, handler: gateway.handler) { server in
            try await withClient(to: server.endpoint, speaking: .standard, options: patientOptions) { client in
                try await client.connect()
                let options = HTTPTunnel.Options { ($0.policy, $0.window) = (.linkOnly, window) }
                try await body(nginx, root, HTTPTunnel(client, options: options))
            }
        }
    }

    private func url(_ text: String) throws -> URL { try #require(URL(string: text)) }

    /// Bytes of this process that are in memory; `nil` where that cannot be told so.
    private var resident: Int? {
        let text = try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8)
        return text.flatMap { Int($0.split(separator: " ").dropFirst().first ?? "") }.map { $0 * 4096 }
    }

    /// How much: `TRUNKLINE_BODY` MiB, or 512.
    private static let size = (ProcessInfo.processInfo.environment["TRUNKLINE_BODY"].flatMap(Int.init) ?? 512) << 20

    @Test func aLargeBodyTakesLittleMemory() async throws {
        try await withTunnel { nginx, root, tunnel in
            let count = Self.size
            try nginx.writeHole("large", count: UInt64(count))
            let (body, response) = try await tunnel.bytes(for: URLRequest(url: try url("\(root)/large")))
            #expect((response as? HTTPURLResponse)?.statusCode == 200 && response.expectedContentLength == Int64(count))
            let before = resident ?? 0
            var (received, most, rest) = (0, before, 20)
            for try await piece in body {
                received += piece.count
                most = max(most, resident ?? 0)
                // All of it is at the gateway long before the reader has it.
                if rest > 0 {
                    rest -= 1
                    try await Task.sleep(for: .milliseconds(100))
                }
            }
            #expect(received == count)
            // Other tests in this process have memory, too.
            #expect(most - before < count / 2, "\((most - before) >> 20) MiB")
            print("\(count >> 20) MiB over the link: \((most - before) >> 20) MiB more in memory")
        }
    }

    /// Neither the gateway nor the tunnel holds what the reader has not asked for.
    @Test func aReaderThatIsSlowAllTheTimeTakesLittleMemory() async throws {
        try await withTunnel(window: 64 * 1024) { nginx, root, tunnel in
            let count = 256 << 20
            try nginx.writeHole("large", count: UInt64(count))
            let (body, _) = try await tunnel.bytes(for: URLRequest(url: try url("\(root)/large")))
            let before = resident ?? 0
            var (received, most, pieces) = (0, before, 0)
            for try await piece in body {
                (received, pieces) = (received + piece.count, pieces + 1)
                guard pieces.isMultiple(of: 64) else { continue }
                most = max(most, resident ?? 0)
                try await Task.sleep(for: .milliseconds(2))
            }
            #expect(received == count)
            #expect(most - before < 100 << 20, "\((most - before) >> 20) MiB")
            print("256 MiB to a slow reader: \((most - before) >> 20) MiB more in memory")
        }
    }

    @Test func rangesConditionsAndUploadsGoThrough() async throws {
        try await withTunnel { nginx, root, tunnel in
            try nginx.writeFile("a", count: 100_000)
            let (whole, response) = try await tunnel.data(from: try url("\(root)/a"))
            #expect(whole == NginxServer.content(at: 0, count: 100_000))
            var request = URLRequest(url: try url("\(root)/a"))
            request.setValue("bytes=10-19", forHTTPHeaderField: "Range")
            let (part, partial) = try await tunnel.data(for: request)
            #expect((partial as? HTTPURLResponse)?.statusCode == 206 && part == whole[10..<20])
            let tag = (response as? HTTPURLResponse)?.value(forHTTPHeaderField: "ETag")
            request = URLRequest(url: try url("\(root)/a"))
            request.setValue(tag, forHTTPHeaderField: "If-None-Match")
            let (none, fresh) = try await tunnel.data(for: request)
            #expect((fresh as? HTTPURLResponse)?.statusCode == 304 && none.isEmpty)
            let (chunks, _) = try await tunnel.data(from: try url("\(root)/chunked/a"))
            #expect(chunks == whole)
            request = URLRequest(url: try url("\(root)/upload/b"))
            request.httpMethod = "PUT"
            let (_, made) = try await tunnel.upload(for: request, from: whole)
            #expect((made as? HTTPURLResponse)?.statusCode == 201)
            let (back, _) = try await tunnel.data(from: try url("\(root)/upload/b"))
            #expect(back == whole)
        }
    }
}
