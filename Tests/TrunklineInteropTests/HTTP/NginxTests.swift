import Foundation
import Testing
import Trunkline
import TrunklineHTTP

/// HTTP/1.1 with nginx.
@Suite(
    .tags(.realThreads),
    .serialized,
    .timeLimit(.minutes(5)),
    .enabled(if: ServerProcess.isAvailable("nginx"), "nginx is not installed")
)
struct NginxTests {}

extension NginxTests {
    private func withServer(
        speaking codec: HTTP1Codec = HTTP1Codec(host: "nginx.test"),
        _ change: (inout ClientOptions) -> Void = { _ in },
        _ body: nonisolated(nonsending) (NginxServer, Client) async throws -> Void
    ) async throws {
        let server = try await NginxServer()
        defer { server.stop() }
        let options = ClientOptions { options in
            options.requests.timeout = .seconds(60)
            change(&options)
        }
        try await withClient(to: server.endpoint, speaking: codec, options: options) { client in
            try await body(server, client)
        }
    }

    private func number(_ number: Int, at path: String = "/number") throws -> Request {
        try Request(HTTP1Request(.get, "\(path)?n=\(number)"))
    }

    private func text(_ result: Result<Response, ClientError>) throws -> String {
        String(try HTTP1Response(result.get()).body)
    }

    // MARK: Pipelining

    @Test func aThousandRequestsInFlightAreAnsweredInOrder() async throws {
        try await withServer { _, client in
            for _ in 0..<10 {
                let results = await client.send(all: try (0..<1000).map { try number($0) })
                for (index, result) in results.enumerated() { #expect(try text(result) == "\(index)") }
            }
            let metrics = await client.metrics
            #expect(metrics.connection.links == 1 && metrics.responses == 10_000)
        }
    }

    @Test func errorStatusesAreResponsesUnlessRejected() async throws {
        try await withServer(speaking: HTTP1Codec(host: "nginx.test", rejecting: 500...599)) { server, client in
            let missing = try await client.send(HTTP1Request(.get, "/missing"))
            #expect(missing.status == 404 && missing.reason == "Not Found" && !missing.body.isEmpty)
            let error = await #expect(throws: ClientError.self) {
                _ = try await client.send(HTTP1Request(.get, "/fails"))
            }
            #expect(error?.code == .rejected && error?.fate == .answered && error?.response?.status == 500)
            try await server.writeFile("a", count: 10)
            let first = try await client.send(HTTP1Request(.get, "/a"))
            let tag = try #require(first.headers["ETag"])
            let second = try await client.send(HTTP1Request(.get, "/a", headers: ["If-None-Match": tag]))
            #expect(second.status == 304 && second.body.isEmpty)
            #expect(await client.metrics.connection.links == 1)
        }
    }

    @Test func responsesToHeadHaveNoContent() async throws {
        try await withServer { server, client in
            try await server.writeFile("a", count: 70_000)
            let requests = try [.head, .get, .head, .head, .get].map { try Request(HTTP1Request($0, "/a")) }
            var counts: [Int] = []
            for result in await client.send(all: requests) {
                let response = try HTTP1Response(result.get())
                #expect(response.status == 200 && response.headers["content-length"] == "70000")
                counts.append(response.body.count)
            }
            #expect(counts == [0, 70_000, 0, 0, 70_000])
            #expect(await client.metrics.connection.links == 1)
        }
    }

    /// No request is lost behind one that closes the link or is not idempotent, because nothing is sent behind it.
    @Test func closesAndPostsLoseNoOtherRequest() async throws {
        try await withServer { _, client in
            let requests = try (0..<30).map { index in
                let headers: HTTP1Headers = index % 10 == 9 ? ["Connection": "close"] : [:]
                return try Request(HTTP1Request(index % 3 == 0 ? .post : .get, "/number?n=\(index)", headers: headers))
            }
            for (index, result) in await client.send(all: requests, options: CallOptions(retry: .never)).enumerated() {
                #expect(try text(result) == "\(index)")
            }
            let metrics = await client.metrics.connection
            #expect(metrics.disconnects == [.goAway: 3] && metrics.failedAttempts == 0)
        }
    }

    // MARK: Content

    @Test(arguments: [0, 1, 5000, 3_000_000])
    func chunkedContentArrivesUnchanged(_ count: Int) async throws {
        try await withServer { server, client in
            try await server.writeFile("a", count: count)
            let request = HTTP1Request(.get, "/trailed/a?n=\(count)", headers: ["TE": "trailers"])
            for _ in 0..<3 {
                let response = try await client.send(request)
                #expect(response.headers["Transfer-Encoding"] == "chunked")
                #expect(Data(response.body) == NginxServer.content(at: 0, count: count))
                #expect(response.trailers["x-length"] == "\(count)" && response.trailers.count == 1)
            }
            #expect(await client.metrics.connection.links == 1)
        }
    }

    @Test func contentThatEndsWithTheConnectionArrivesUnchanged() async throws {
        try await withServer({ $0.requests.maximumInFlight = 1 }) { server, client in
            try await server.writeFile("a", count: 3_000_000)
            for _ in 0..<20 {
                let response = try await client.send(HTTP1Request(.get, "/ended/a"))
                #expect(response.headers["Connection"] == "close" && response.headers["Content-Length"] == nil)
                #expect(Data(response.body) == NginxServer.content(at: 0, count: 3_000_000))
            }
            #expect(try await client.send(HTTP1Request(.get, "/number?n=1")).body == "1")
            let metrics = await client.metrics
            #expect(metrics.connection.links == 21 && metrics.connection.failedAttempts == 0)
        }
    }

    /// A hundred million bytes, of which few are in memory at a time.
    @Test func aLargeFileIsReadAsItArrives() async throws {
        let count = TestEnvironment.scaled(100_000_000)
        try await withServer(speaking: HTTP1Codec(host: "nginx.test") { $0.maximumBodySize = count }) {
            server,
            client in
            try await server.writeFile("large", count: count)
            for path in ["/large", "/chunked/large"] {
                var (offset, head): (Int, HTTP1Response?) = (0, nil)
                for try await part in client.stream(try Request(HTTP1Request(.get, path))) {
                    guard head != nil else {
                        head = try HTTP1Response(part)
                        continue
                    }
                    let expected = NginxServer.content(at: offset, count: part.body.count)
                    guard Data(part.body) == expected else {
                        Issue.record("wrong content from byte \(offset) on")
                        return
                    }
                    offset += part.body.count
                }
                #expect(offset == count && head?.status == 200)
            }
            #expect(await client.metrics.connection.links == 1)
        }
    }

    /// The server asks for the content first. The status 100 is not the final response.
    @Test func interimResponsesAreSkipped() async throws {
        try await withServer { server, client in
            let content = Bytes(NginxServer.content(at: 0, count: 2_000_000))
            var request = HTTP1Request(.put, "/upload/a", headers: ["Expect": "100-continue"], body: content)
            #expect(try await client.send(request).status == 201)
            request.target = "/upload/b"
            request.headers["Transfer-Encoding"] = "chunked"
            request.body = "5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n"
            #expect(try await client.send(request).status == 201)
            #expect(try await client.send(HTTP1Request(.get, "/upload/b")).body == "hello world")
            let read = try await client.send(HTTP1Request(.get, "/upload/a"))
            #expect(read.body == content)
            #expect(try await client.send(HTTP1Request(.delete, "/upload/a")).status == 204)
            #expect(await client.metrics.connection.links == 1)
        }
    }

    // MARK: Links

    /// Every hundredth response is the last of its link.
    @Test func aServerThatClosesAfterAHundredRequestsLosesNoRequest() async throws {
        try await withServer({ $0.requests.maximumInFlight = 1 }) { _, client in
            // They are sent one after the other, which takes a while on a busy machine.
            let results = await client.send(
                all: try (0..<2000).map { try number($0, at: "/few") },
                options: CallOptions(timeout: .seconds(170), retry: .never)
            )
            for (index, result) in results.enumerated() { #expect(try text(result) == "\(index)") }
            let metrics = await client.metrics
            #expect(metrics.connection.links == 21 || metrics.connection.links == 20)
            #expect(metrics.connection.failedAttempts == 0)
            #expect(metrics.connection.disconnects[.goAway] == 20)
        }
    }

    /// The requests behind the hundredth are lost with their link, some of them several times.
    @Test func requestsBehindTheLastResponseAreSentAgain() async throws {
        try await withServer({ ($0.requests.maximumInFlight, $0.requests.retryBudget) = (16, nil) }) { _, client in
            let requests = try (0..<10_000).map { try number($0, at: "/few") }
            let results = await client.send(all: requests, options: CallOptions(retry: .idempotent(tries: 100)))
            for (index, result) in results.enumerated() { #expect(try text(result) == "\(index)") }
            let metrics = await client.metrics
            #expect(metrics.connection.disconnects[.goAway] == 100, "\(metrics)")
        }
    }

    @Test func requestsSurviveARestartOfTheServer() async throws {
        let change = { (options: inout ClientOptions) in
            options.reconnecting.policy = Backoff(base: .milliseconds(5), cap: .milliseconds(50))
            options.requests.retryBudget = nil
        }
        try await withServer(change) { server, client in
            for round in 0..<5 {
                async let results = client.send(
                    all: try (0..<2000).map { try number($0) },
                    options: CallOptions(
                        retry: .idempotent(
                            tries: 100,
                            backoff: Backoff(base: .milliseconds(5), cap: .milliseconds(50))
                        )
                    )
                )
                if round % 2 == 0 { try await Task.sleep(for: .milliseconds(3 * round)) }
                await server.kill()
                try await server.start()
                for (index, result) in try await results.enumerated() { #expect(try text(result) == "\(index)") }
            }
            #expect(await client.metrics.connection.links > 3)
        }
    }
}
