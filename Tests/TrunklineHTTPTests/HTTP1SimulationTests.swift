import Testing
import Trunkline
import TrunklineHTTP
import TrunklineTesting

@testable import TrunklineLoopback

/// HTTP/1.1 between a client and a test server of this package.
@Suite(.tags(.simulated), .serialized, .timeLimit(.minutes(5)))
struct HTTP1SimulationTests {}

extension HTTP1SimulationTests {
    @Test func requestsAndResponsesAreSentAsValues() throws {
        let answer: @Sendable (HTTP1Request) -> Reaction? = { request in
            #expect(request.headers["host"] == "h")
            var headers = request.headers
            headers["Content-Length"] = nil
            return .reply(HTTP1Response(418, reason: "I'm a teapot", headers: headers, body: request.body))
        }
        try simulate(answer) { _, _, client in
            let request = HTTP1Request(.post, "/a", headers: ["X": "1", "x": "2"], body: "tea")
            let response = try await client.send(request)
            #expect(response.status == 418 && response.reason == "I'm a teapot" && response.body == "tea")
            #expect(response.headers.values(of: "x") == ["1", "2"])
        }
    }

    @Test func responsesInPiecesReachTheirRequests() throws {
        let answer: @Sendable (HTTP1Request) -> Reaction? = { request in
            .inPieces(of: 1, .reply(HTTP1Response(body: Bytes(request.target))))
        }
        try simulate(answer) { _, _, client in
            let requests = try (0..<50).map { try Request(HTTP1Request($0 % 3 == 0 ? .head : .get, "/\($0)")) }
            for (index, result) in await client.send(all: requests).enumerated() {
                let response = try HTTP1Response(result.get())
                #expect(response.body == Bytes(index % 3 == 0 ? "" : "/\(index)"))
            }
        }
    }

    @Test func theLateResponseToAnAbandonedRequestIsDiscardedInItsPlace() throws {
        try simulate { _, server, client in
            let handles = try (0..<20).map {
                client.start(try Request(HTTP1Request($0 % 2 == 0 ? .head : .get, "/\($0)")))
            }
            for handle in handles[5..<10] { handle.cancel() }
            for (index, handle) in handles.enumerated() where !(5..<10).contains(index) {
                let response = try HTTP1Response(try await handle.value)
                #expect(response.body == Bytes(index % 2 == 0 ? "" : "/\(index)"))
            }
        }
    }

    @Test func anInvalidRequestFailsWithoutAffectingOthers() throws {
        try simulate { _, server, client in
            _ = try await get("/a", by: client)
            let injected = await failure { () throws(ClientError) in
                try await client.send(HTTP1Request(.get, "/", headers: ["X": "a\r\nEvil: b"]))
            }
            #expect(injected?.code == .invalidRequest && injected?.fate == .notSent)
            let length = await failure { () throws(ClientError) in
                try await client.send(HTTP1Request(.post, "/", headers: ["Content-Length": "9"], body: "x"))
            }
            #expect(length?.code == .invalidRequest && length?.fate == .notSent)
            #expect((length?.cause as? FrameError)?.code == .illegalLength)
            let after = try await get("/b", by: client)
            #expect(after == "/b")
            #expect(await server.totalConnections == 1)
            #expect(await server.received.count == 2)
        }
    }

    @Test func aResponseThatEndsWithTheConnectionIsComplete() throws {
        let answer: @Sendable (HTTP1Request) -> Reaction? = { request in
            .sequence([.inPieces(of: 3, .garbage("HTTP/1.0 200 OK\r\n\r\n\(request.target)")), .close])
        }
        let options = ClientOptions { $0.requests.maximumInFlight = 1 }
        try simulate(options: options, answer) { _, _, client in
            for index in 0..<20 {
                let body = try await get("/\(index)", by: client, retry: .never)
                #expect(body == "/\(index)")
            }
            #expect(await client.metrics.connection.disconnects[.goAway] == 20)
        }
    }

    /// The head of the response used to be lost, because it is in a part before the last.
    @Test func anErrorResponseInPartsIsComplete() throws {
        let answer: @Sendable (HTTP1Request) -> Reaction? = { request in
            .inPieces(
                of: 9,
                .garbage("HTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nsorry\r\n3\r\n!!!\r\n0\r\n\r\n")
            )
        }
        try simulate(speaking: HTTP1Codec(host: "h", rejecting: 500...599), answer) { _, _, client in
            let error = await failure { () throws(ClientError) in try await client.send(HTTP1Request(.get, "/a")) }
            #expect(error?.code == .rejected && error?.fate == .answered)
            guard let frame = error?.response else { return }
            let response = try HTTP1Response(frame)
            #expect(response.status == 503 && response.body == "sorry!!!" && response.reason == "No")
        }
    }

    /// The error used to contain the last part alone, without the status line and the content before it.
    @Test(arguments: [1024 * 1024, 57])
    func aRejectedStreamHasTheResponseInItsError(_ limit: Int) throws {
        let answer: @Sendable (HTTP1Request) -> Reaction? = { request in
            .sequence([
                .garbage("HTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nsorry\r\n"),
                .after(.seconds(1), .garbage("3\r\n!!!\r\n")),
                .after(.seconds(1), .garbage("3\r\n???\r\n0\r\nX: y\r\n\r\n")),
            ])
        }
        try simulate(speaking: HTTP1Codec(host: "h", rejecting: 500...599), answer) { _, server, client in
            var (stream, frames) = (0, 0)
            let request = try Request(HTTP1Request(.get, "/a"))
            let error = await failure { () throws(ClientError) in
                stream += 1
                let buffering = ReplyBuffering(maximumCount: 1, maximumBytes: limit)
                for try await _ in client.stream(request, buffering: buffering) { frames += 1 }
            }
            #expect(stream == 1 && frames == 0)
            #expect(error?.code == .rejected && error?.fate == .answered)
            guard let frame = error?.response else { return }
            let response = try HTTP1Response(frame)
            #expect(response.status == 503 && response.reason == "No")
            #expect(response.body == (limit > 57 ? "sorry!!!???" : "sorry!!!??"))
            #expect(frame.body.count <= limit && (frame.malformedReason != nil) == (limit == 57))
            #expect(response.trailers["x"] == (limit > 57 ? "y" : nil))
            #expect(await server.totalConnections == 1)
        }
    }

    /// The parts of an error response are not delivered to the reader. The stream used to time out, although a part
    /// arrived every few seconds.
    @Test func aSlowErrorResponseIsComplete() throws {
        let head: Bytes = "HTTP/1.1 500 Broken\r\nTransfer-Encoding: chunked\r\n\r\n"
        let answer: @Sendable (HTTP1Request) -> Reaction? = { _ in
            let chunks = (0..<4).map { _ in Reaction.after(.seconds(5), .garbage("3\r\nabc\r\n")) }
            return .sequence([.garbage(head)] + chunks + [.after(.seconds(5), .garbage("0\r\n\r\n"))])
        }
        try simulate(speaking: HTTP1Codec(host: "h", rejecting: 500...599), answer) { _, _, client in
            var elements = client.stream(try Request(HTTP1Request(.get, "/"))).makeAsyncIterator()
            let error = await failure { () throws(ClientError) in try await elements.next() }
            #expect(error?.code == .rejected && error?.fate == .answered)
        }
    }

    @Test func aResponseInPartsCanBeReadAsItArrives() throws {
        let answer: @Sendable (HTTP1Request) -> Reaction? = { request in
            .sequence([
                .garbage("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"),
                .after(.seconds(1), .garbage("3\r\n!!!\r\n0\r\n\r\n")),
            ])
        }
        try simulate(answer) { _, _, client in
            var frames: [Frame] = []
            for try await part in client.stream(try Request(HTTP1Request(.get, "/a"))) { frames.append(part.frame) }
            #expect(frames.count > 2 && frames.last?.kind == .response)
            let head = try HTTP1Response(frames[0])
            #expect(head.status == 200 && head.headers["transfer-encoding"] == "chunked" && head.body.isEmpty)
            #expect(frames.dropFirst().map { String($0.body) }.joined() == "hello!!!")
        }
    }

    /// In HTTP, an error is a response like any other.
    @Test func errorsAndNoStoreResponsesAreNotCached() throws {
        try simulate { _, server, client in
            let forbidding = HTTP1Response(headers: ["Cache-Control": "private, No-Store"], body: "secret")
            await server.script(.status(500), .status(404), .reply(try forbidding.frame()))
            let cached = CachingSender(client)
            var ends: [Int] = []
            for _ in 0..<5 {
                ends.append(try await cached.send(HTTP1Request(.get, "/"), cache: .for(.seconds(60))).status)
            }
            #expect(ends == [500, 404, 200, 200, 200])
            #expect(await server.journal.requestCount == 4)
        }
    }

    /// Frames of other protocols can be passed as HTTP messages.
    @Test func aFrameOtherThanAnHTTPMessageIsNeitherReadNorCached() throws {
        let layout = FrameLayout {
            Field.type(UInt32.self)
            Field.serial(UInt32.self)
            Field.length(UInt32.self, counting: .body)
            Field.body
        }
        .roles {
            $0.cancel = 0x10
            $0.part = 0x11
        }
        let answer: @Sendable (HTTP1Request) -> Reaction? = { request in
            request.target == "/parts" ? .parts(["a", "b"], then: .noReply) : .reply("no HTTP")
        }
        try simulate(speaking: layout, answer) { _, server, client in
            let cached = CachingSender(client)
            let error = await failure { () throws(ClientError) in
                try await cached.send(HTTP1Request(.get, "/"), cache: .for(.seconds(60)))
            }
            #expect(error?.code == .protocolViolation && error?.fate == .answered)
            #expect(cached.metrics.count == 0)
            var parts = HTTP1ReplyStream(client.stream(try Request(HTTP1Request(.get, "/parts")))).makeAsyncIterator()
            do throws(ClientError) {
                _ = try await parts.next()
                Issue.record("the stream did not throw")
            } catch {
                #expect(error.code == .protocolViolation)
            }
            let end = try await parts.next()
            #expect(end == nil)
        }
    }

    @Test func anInvalidResponseEndsTheLinkAndTheErrorNamesTheReason() throws {
        let answer: @Sendable (HTTP1Request) -> Reaction? = { request in
            guard request.target == "/bad" else { return nil }
            return .garbage("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n")
        }
        try simulate(answer) { _, _, client in
            let error = await failure { () throws(ClientError) in try await client.send(HTTP1Request(.get, "/bad")) }
            #expect(error?.code == .protocolViolation && error?.fate == .unknown)
            #expect((error?.cause as? FrameError)?.message.contains("both Content-Length") == true)
            let after = try await get("/b", by: client)
            #expect(after == "/b")
        }
    }
}
