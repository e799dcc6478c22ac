import Foundation
import Testing
import Trunkline
import TrunklineFoundation
import TrunklineTesting

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// The same calls to nginx and Python by three ways: status, body and fields are the same, and so are errors.
@Suite(.tags(.realThreads))
enum ThreeWaysTests {}

extension ThreeWaysTests {
    private static let moves = [301, 302, 303, 307, 308]

    @Suite(
        .serialized,
        .timeLimit(.minutes(5)),
        .enabled(if: ServerProcess.isAvailable("python3"), "python3 is not installed")
    )
    struct Python {
        private func with(
            _ body: nonisolated(nonsending) (PythonServer, ThreeWays) async throws -> Void
        ) async throws {
            let server = try await PythonServer()
            defer { server.stop() }
            try await ThreeWays.with(port: server.port) { try await body(server, $0) }
        }

        @Test func methodsAndFieldsAreTheSame() async throws {
            try await with { _, ways in
                let fields = [
                    "X-A": "tea, \"milk\"", "Authorization": "Basic YQ==", "Cookie": "a=1", "Range": "bytes=0-1",
                ]
                for (method, body) in [
                    ("GET", nil), ("HEAD", nil), ("DELETE", nil), ("OPTIONS", nil), ("POST", "tea"), ("POST", ""),
                    ("PUT", "tea"), ("PUT", String(repeating: "tea", count: 50_000)), ("PATCH", "tea"),
                ] {
                    let answer = try await ways.expectSame(ways.request("/said?q=%20", method, fields, body: body))
                    #expect(answer.status == 200 && answer.field("Server") != nil)
                }
            }
        }

        /// A plain session sends such a body in chunks. The gateway sends it with its length, because it has the whole
        /// body before it sends the request.
        @Test func bodiesFromStreamsAreTheSame() async throws {
            try await with { _, ways in
                for (method, count) in [("POST", 3), ("PUT", 3), ("POST", 300_000), ("PUT", 300_000)] {
                    let content = NginxServer.content(at: 0, count: count)
                    for way in ThreeWays.Way.allCases {
                        let request = try ways.request("/said", method, ["X-A": "b", "Content-Type": "image/png"])
                        let (said, head) = try await ways.fetch(request, streaming: content, by: way)
                        #expect(head.statusCode == 200 && said.starts(with: Data("\(method) /said ".utf8) + content))
                        let fields = way == .plain ? "Transfer-Encoding: chunked" : "Content-Length: \(count)"
                        let names = String(decoding: said.suffix(100), as: UTF8.self)
                        #expect(
                            names.contains(fields) && names.contains("X-A: b"),
                            "\(method) \(count) by \(way): \(names)"
                        )
                    }
                }
            }
        }

        @Test func aBodyProducedWhileItIsSentArrives() async throws {
            try await with { _, ways in
                for policy in [HTTPTunnel.Policy.linkOnly, .directOnly] {
                    for count in [0, 1, 2_000_003] {
                        let request = try ways.request("/said", "POST")
                        let pieces = Pieces(count: count)
                        let (said, _) = try await ways.tunnel.upload(for: request, from: pieces, policy: policy)
                        let content = NginxServer.content(at: 0, count: count)
                        #expect(said.starts(with: Data("POST /said ".utf8) + content + Data("\n".utf8)))
                    }
                }
            }
        }

        @Test func statusesAndEncodingsAreTheSame() async throws {
            try await with { _, ways in
                for path in ["/nowhere", "/several", "/chunked", "/ended", "/zipped", "/fresh"] {
                    for method in ["GET", "HEAD"] { try await ways.expectSame(ways.request(path, method)) }
                }
                let fresh = try await ways.expectSame(ways.request("/fresh", "GET", ["If-None-Match": "\"tea\""]))
                #expect(fresh.status == 304 && fresh.body.isEmpty && fresh.field("ETag") == "\"tea\"")
                let zipped = try await ways.expectSame(ways.request("/zipped"))
                #expect(zipped.body == Data(String(repeating: "tea ", count: 10_000).utf8))
            }
        }

        @Test func redirectsAreTheSame() async throws {
            try await with { _, ways in
                try await ways.expectSame(ways.request("/absolute"))
                for status in moves {
                    for method in status == 303 ? ["GET", "DELETE"] : ["GET", "HEAD", "DELETE"] {
                        let answer = try await ways.expectSame(ways.request("/\(status)", method, ["X-A": "b"]))
                        #expect(answer.status == 200 && answer.url == "\(ways.root)/said?from=\(status)")
                    }
                    for method in ["POST", "PUT"] {
                        let request = try ways.request("/\(status)", method, ["X-A": "b"], body: "tea")
                        let becomesGet = status == 303 || method == "POST" && status < 303
                        let all: [ThreeWays.Way] =
                            becomesGet ? [.plain, .tunnel, .urlProtocol] : [.tunnel, .urlProtocol]
                        let answer = try await ways.expectSame(request, by: all)
                        let said = "\(becomesGet ? "GET" : method) /said?from=\(status) \(becomesGet ? "" : "tea")\n"
                        #expect(String(decoding: answer.body, as: UTF8.self).hasPrefix(said))
                    }
                }
                await ways.expectSameError(try ways.request("/round"), .httpTooManyRedirects)
            }
        }

        @Test func errorsAreTheSame() async throws {
            try await with { server, ways in
                for path in ["/hangs", "/hangs-in-body"] {
                    var request = try ways.request(path)
                    request.timeoutInterval = 1
                    await ways.expectSameError(request, .timedOut)
                }
                server.pause()
                var request = try ways.request("/said")
                request.timeoutInterval = 1
                await ways.expectSameError(request, .timedOut)
                server.resume()
                try await ways.expectSame(ways.request("/said"))
                await server.kill()
                await ways.expectSameError(try ways.request("/said"), .cannotConnectToHost)
                await ways.expectSameError(try ways.request("/said", "POST", body: "tea"), .cannotConnectToHost)
            }
        }

        @Test func cancellingClosesTheConnectionToTheOrigin() async throws {
            try await with { server, ways in
                for way in ThreeWays.Way.allCases {
                    for path in ["/hangs", "/hangs-in-body"] {
                        let request = try ways.request("\(path)?\(way)")
                        let known = server.log
                        let asking = Task { try await ways.fetch(request, by: way).0 }
                        try await waitUntil { server.log == known + "begun \(path)\n" }
                        asking.cancel()
                        let error = await #expect(throws: URLError.self) { try await asking.value }
                        #expect(error?.code == .cancelled)
                        try await waitUntil { server.log == known + "begun \(path)\nclosed \(path)\n" }
                    }
                }
            }
        }
    }

    @Suite(
        .serialized,
        .timeLimit(.minutes(5)),
        .enabled(if: ServerProcess.isAvailable("nginx"), "nginx is not installed")
    )
    struct Nginx {
        private func with(
            _ body: nonisolated(nonsending) (NginxServer, ThreeWays) async throws -> Void
        ) async throws {
            let server = try await NginxServer()
            defer { server.stop() }
            try await ThreeWays.with(port: server.port) { try await body(server, $0) }
        }

        @Test func responsesAreTheSame() async throws {
            try await with { server, ways in
                try await server.writeFile("a", count: 100_000)
                for (path, method) in [
                    ("/a", "GET"), ("/a", "HEAD"), ("/none", "GET"), ("/none", "HEAD"), ("/fails", "GET"),
                    ("/a", "POST"),
                    ("/a", "PUT"), ("/chunked/a", "GET"), ("/ended/a", "GET"), ("/zipped/a", "GET"),
                    ("/zipped/a", "HEAD"),
                    ("/said", "GET"), ("/said", "POST"), ("/said", "PUT"), ("/said", "DELETE"), ("/upload/b", "PUT"),
                    ("/upload/b", "PUT"), ("/upload/b", "GET"),
                ] {
                    let body = method == "POST" || method == "PUT" ? "tea" : nil
                    // The first PUT creates the file, the second replaces it.
                    if path == "/upload/b", method == "PUT" {
                        _ = try await ways.fetch(ways.request(path, method, body: body), by: .plain)
                    }
                    try await ways.expectSame(ways.request(path, method, ["X-A": "b"], body: body))
                }
                let whole = try await ways.expectSame(ways.request("/a"))
                let tag = try #require(whole.field("ETag"))
                let fresh = try await ways.expectSame(ways.request("/a", "GET", ["If-None-Match": tag]))
                #expect(fresh.status == 304 && fresh.body.isEmpty)
                let part = try await ways.expectSame(ways.request("/a", "GET", ["Range": "bytes=10-19"]))
                #expect(part.status == 206 && part.body.count == 10)
                for status in moves {
                    for method in ["GET", "DELETE"] {
                        let answer = try await ways.expectSame(ways.request("/\(status)", method, ["X-A": "b"]))
                        #expect(answer.status == 200 && answer.url == "\(ways.root)/said?from=\(status)")
                    }
                }
            }
        }

        @Test func bodiesOfUnknownLengthArrive() async throws {
            try await with { server, ways in
                let content = NginxServer.content(at: 0, count: 2_000_003)
                func expectContent(at path: String) async throws {
                    #expect(try await ways.fetch(ways.request(path), by: .plain).0 == content)
                }
                for way in ThreeWays.Way.allCases {
                    let request = try ways.request("/upload/\(way)", "PUT")
                    let (_, head) = try await ways.fetch(request, streaming: content, by: way)
                    #expect(head.statusCode == 201)
                    try await expectContent(at: "/upload/\(way)")
                }
                for policy in [HTTPTunnel.Policy.linkOnly, .directOnly] {
                    let path = policy == .linkOnly ? "/upload/link" : "/upload/direct"
                    let request = try ways.request(path, "PUT")
                    let pieces = Pieces(count: content.count)
                    let (_, head) = try await ways.tunnel.upload(for: request, from: pieces, policy: policy)
                    #expect((head as? HTTPURLResponse)?.statusCode == 201)
                    try await expectContent(at: path)
                }
            }
        }

        @Test func errorsAreTheSame() async throws {
            try await with { server, ways in
                server.pause()
                var request = try ways.request("/said")
                request.timeoutInterval = 1
                await ways.expectSameError(request, .timedOut)
                server.resume()
                try await ways.expectSame(ways.request("/said"))
                await server.kill()
                await ways.expectSameError(try ways.request("/said"), .cannotConnectToHost)
            }
        }

        @Test func cancellingClosesTheConnectionToTheOrigin() async throws {
            try await with { server, ways in
                try await server.writeFile("a", count: 1_000_000)
                let (body, response) = try await ways.tunnel.bytes(for: ways.request("/slowly/a"))
                #expect((response as? HTTPURLResponse)?.statusCode == 200)
                body.cancel()
                try await waitUntil { server.ends == "/slowly/a .\n" }
            }
        }
    }

    /// Waits until `isSo` returns true. A test that waits in vain ends at its time limit.
    private static func waitUntil(_ isSo: () -> Bool) async throws {
        while !isSo() { try await Task.sleep(for: .milliseconds(20)) }
    }
}
