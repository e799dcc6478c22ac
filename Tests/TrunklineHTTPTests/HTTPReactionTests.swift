import Testing
import Trunkline
import TrunklineHTTP
import TrunklineTesting

@testable import TrunklineLoopback

/// The reactions of a test server know nothing of HTTP, but still make responses that the client understands. They used
/// to be no messages, so nothing was sent, and the client waited until its timeout.
@Suite(.tags(.realThreads))
struct HTTPReactionTests {}

extension HTTPReactionTests {
    private func with(
        rejecting rejected: ClosedRange<Int>? = nil,
        _ handler: @escaping LoopbackServer.Handler,
        _ body: nonisolated(nonsending) (LoopbackServer, Client) async throws -> Void
    ) async throws {
        let codec = HTTP1Codec(host: "h", rejecting: rejected)
        try await withServerAndClient(speaking: codec, handler: handler, body)
    }

    @Test(arguments: [HTTP1Request.Method.get, .post, .head])
    func bytesAreTheContentOfAResponseWithStatus200(method: HTTP1Request.Method) async throws {
        try await with({ _ in .reply("hello") }) { _, client in
            for _ in 0..<2 {
                let response = try await client.send(HTTP1Request(method, "/"))
                #expect(response.status == 200)
                #expect(response.headers["Content-Length"] == "5")
                #expect(response.body == (method == .head ? "" : "hello"))
            }
        }
    }

    @Test func anEchoHasTheContentOfTheRequest() async throws {
        try await with({ _ in .echo }) { _, client in
            let response = try await client.send(HTTP1Request(.put, "/a", headers: ["X": "1"], body: "tea"))
            #expect(response.status == 200 && response.body == "tea" && response.headers["X"] == nil)
            let chunks: HTTP1Headers = ["Transfer-Encoding": "chunked"]
            let chunked = HTTP1Request(.put, "/a", headers: chunks, body: "3\r\ntea\r\n0\r\nT: 1\r\n\r\n")
            let answer = try await client.send(chunked)
            #expect(answer.body == "tea")
        }
    }

    @Test func aStatusIsTheStatusOfTheResponse() async throws {
        try await with(
            rejecting: 400...599,
            { $0.type == HTTP1Request.Method.get.type ? .status(404, "none\n") : .status(204) }
        ) {
            _,
            client in
            let error = await failure { () throws(ClientError) in try await client.send(HTTP1Request(.get, "/")) }
            #expect(error?.code == .rejected && error?.response?.status == 404)
            let text = "rejected (answered): GET: the server answered with status 404, body of 5 bytes"
            #expect(error.map { "\($0)" } == text)
            let response = try await client.send(HTTP1Request(.delete, "/"))
            #expect(response.status == 204 && response.body.isEmpty)
        }
    }

    @Test func completeMessagesAreSentUnchanged() async throws {
        let message = try HTTP1Response(201, reason: "Made", headers: ["Location": "/1"]).frame()
        try await with({ _ in .reply(message) }) { _, client in
            let response = try await client.send(HTTP1Request(.post, "/"))
            #expect(response.status == 201 && response.reason == "Made" && response.headers["location"] == "/1")
        }
    }

    @Test(arguments: [Reaction.reply("c"), .status(200, "c"), .oneByteAtATime(.reply("c"))])
    func partsAreSentAsChunks(last: Reaction) async throws {
        try await with({ _ in .parts(["a", "", "b"], then: last) }) { _, client in
            for method in [HTTP1Request.Method.get, .head, .get] {
                let response = try await client.send(HTTP1Request(method, "/"))
                #expect(response.headers["Transfer-Encoding"] == "chunked")
                #expect(response.body == (method == .head ? "" : "abc"))
            }
        }
    }

    @Test func aStreamHasTheHeadThenTheContent() async throws {
        try await with({ _ in .parts(["a", "b"], every: .milliseconds(1), then: .after(.milliseconds(1), .reply(""))) })
        {
            _,
            client in
            var (heads, content) = (0, Bytes())
            for try await part in HTTP1ReplyStream(client.stream(try Request(HTTP1Request(.get, "/")))) {
                switch part {
                case .head(let response):
                    heads += 1
                    #expect(content.isEmpty && response.status == 200 && response.body.isEmpty)
                case .content(let bytes): content += bytes
                case .trailers: Issue.record("the response has no trailers")
                }
            }
            #expect(heads == 1 && content == "ab")
        }
    }

    @Test func aStreamOfACompleteResponseHasTheSameParts() async throws {
        let fields: HTTP1Headers = ["Transfer-Encoding": "chunked"]
        let message = try HTTP1Response(headers: fields, body: "3\r\ntea\r\n0\r\nT: 1\r\n\r\n").frame()
        try await with({ _ in .reply(message) }) { _, client in
            var parts: [HTTP1Part] = []
            let reply = HTTP1ReplyStream(client.stream(try Request(HTTP1Request(.get, "/"))))
            for try await part in reply { parts.append(part) }
            #expect(parts == [.head(HTTP1Response(200, headers: fields)), .content("tea"), .trailers(["T": "1"])])
        }
    }

    /// Trailers that arrive after the head was delivered are in the last frame, which also has the length of the head.
    @Test(arguments: [1, 7, 1000])
    func trailersEndAStream(piece: Int) async throws {
        let fields: HTTP1Headers = ["Transfer-Encoding": "chunked"]
        let message = try HTTP1Response(headers: fields, body: "3\r\ntea\r\n0\r\nT: 1\r\n\r\n").frame()
        try await with({ _ in .inPieces(of: piece, .reply(message)) }) { _, client in
            var (content, trailers) = (Bytes(), HTTP1Headers())
            for try await part in HTTP1ReplyStream(client.stream(try Request(HTTP1Request(.get, "/")))) {
                if case .content(let bytes) = part { content += bytes }
                if case .trailers(let fields) = part { trailers = fields }
            }
            #expect(content == "tea" && trailers == ["T": "1"])
        }
    }

    @Test(
        arguments: [
            .push(Frame(.push, body: "news")), .parts(["a"], then: .status(500)), .parts(["a"], then: .ping),
            .status(99),
            .status(204, "content"), .reply("HTTP/1.1 nonsense"), .part(Frame(.part, status: 304)),
        ] as [Reaction]
    )
    func aReactionThatIsInvalidInHTTPEndsTheLinkAtOnce(reaction: Reaction) async throws {
        try await with({ _ in reaction }) { server, client in
            let error = await failure { () throws(ClientError) in try await client.send(HTTP1Request(.get, "/")) }
            #expect(error?.code == .connectionLost)
            #expect(await server.journal.lastEncodingFailure?.code == .malformed)
        }
    }
}
