import Testing
import Trunkline
import TrunklineTesting

@testable import TrunklineLoopback

private let lines = DelimitedCodec(delimiter: "\r\n", maximumFrameSize: 64)
    .heartbeat(ping: "PING", pong: "PONG")
    .reading { frame in
        if frame.body.hasPrefix(">") { frame.kind = .push }
        if frame.body.hasPrefix("-") { frame.isErrorResponse = true }
    }
private let pipelined = LengthPrefixedCodec(.varint, maximumFrameSize: 64)
private let numbered = LengthPrefixedCodec(UInt32.self, maximumFrameSize: 64)
    .serial(at: 0, UInt16.self)
    .heartbeat(ping: "?", pong: "!")

/// The codecs that need no layout, with a real client and a real server.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct CodecLoopbackTests {}

extension CodecLoopbackTests {
    private func with(
        _ codec: some FrameCodec,
        options: ClientOptions = quickOptions(),
        handler: @escaping LoopbackServer.Handler = { _ in .echo },
        _ body: nonisolated(nonsending) (LoopbackServer, Client) async throws -> Void
    ) async throws {
        try await withServer(speaking: codec, handler: handler) { server in
            try await withClient(to: server.endpoint, speaking: codec, options: options) { client in
                try await body(server, client)
            }
        }
    }

    /// The body of the request `number`: two bytes for a serial number, and the number.
    private func body(_ number: Int) -> Bytes { Bytes("..\(number)") }

    private func number(in response: Response) -> Int? { Int(String(Bytes(response.body.dropFirst(2)))) }

    @Test(arguments: [lines, pipelined, numbered] as [any FrameCodec])
    func aThousandRequestsGetTheirResponses(codec: any FrameCodec) async throws {
        try await with(codec) { _, client in
            let results = await client.send(all: (0..<1000).map { Request(body: body($0)) })
            #expect(results.compactMap { try? number(in: $0.get()) } == Array(0..<1000))
        }
    }

    @Test(arguments: [lines, pipelined, numbered] as [any FrameCodec])
    func responsesInPiecesArriveWhole(codec: any FrameCodec) async throws {
        try await with(codec, handler: { _ in .oneByteAtATime() }) { _, client in
            for index in 0..<3 {
                let reply = try await client.send(Request(body: body(index)))
                #expect(number(in: reply) == index)
            }
        }
    }

    @Test func responsesOutOfOrderFindTheirRequestsBySerial() async throws {
        try await with(numbered, handler: { _ in .shuffled(window: 100, seed: 5) }) { _, client in
            let results = await client.send(all: (0..<100).map { Request(body: body($0)) })
            #expect(results.compactMap { try? number(in: $0.get()) } == Array(0..<100))
        }
    }

    @Test(arguments: [lines, pipelined, numbered] as [any FrameCodec])
    func lateResponsesAreDiscarded(codec: any FrameCodec) async throws {
        try await with(codec, handler: { _ in .outOfOrder(window: 1000) }) { server, client in
            let handles = (0..<10).map { client.start(Request(body: body($0))) }
            try await server.waitForRequests(10, within: patience)
            for index in [0, 4, 9] { handles[index].cancel() }
            for index in [0, 4, 9] { #expect(await failure(of: handles[index])?.fate == .unknown) }
            await server.releaseHeld()
            for index in [1, 2, 3, 5, 6, 7, 8] {
                let reply = try await handles[index].value
                #expect(number(in: reply) == index)
            }
            let last = client.start(Request(body: body(10)))
            try await server.waitForRequests(11, within: patience)
            await server.releaseHeld()
            let reply = try await last.value
            #expect(number(in: reply) == 10)
            #expect(await client.metrics.lateResponses == 3)
            #expect(await server.totalConnections == 1)
        }
    }

    @Test(arguments: [lines, pipelined, numbered] as [any FrameCodec])
    func aRequestThatIsTooLongFailsAlone(codec: any FrameCodec) async throws {
        try await with(codec) { server, client in
            let results = await client.send(all: [body(0), filled(100), body(1)].map { Request(body: $0) })
            #expect(results.map { (try? $0.get()).flatMap(number) } == [0, nil, 1])
            guard case .failure(let error) = results[1] else { return }
            #expect(error.code == .invalidRequest && error.fate == .notSent)
            #expect((error.cause as? FrameError)?.code == .illegalLength)
            #expect(await server.totalConnections == 1)
        }
    }

    @Test func aRequestWithALineBreakIsInvalid() async throws {
        try await with(lines) { server, client in
            let error = await failure { () throws(ClientError) in try await client.send(Request(body: "a\r\nb")) }
            #expect(error?.code == .invalidRequest && error?.fate == .notSent)
            #expect((error?.cause as? FrameError)?.code == .malformed)
            _ = try await client.send(Request(body: "fine"))
            #expect(await server.received.map(\.body) == ["fine"])
        }
    }

    /// If a response that is too long were only discarded, all later responses would go to the wrong requests.
    @Test func aResponseThatIsTooLongKeepsItsPlaceInTheOrder() async throws {
        let handler: LoopbackServer.Handler = { request in
            switch request.body {
            case "long": .garbage(Bytes([UInt8](repeating: 120, count: 100_000) + [13, 10]))
            case "push": .sequence([.garbage(Bytes(">" + String(repeating: "x", count: 100) + "\r\n")), .echo])
            case "no": .reply("-no")
            default: .echo
            }
        }
        try await with(lines, handler: handler) { server, client in
            let pushes = client.pushes()
            let bodies: [Bytes] = ["a", "long", "b", "push", "c", "no"]
            let results = await client.send(all: bodies.map { Request(body: $0) })
            #expect(results.map { try? $0.get().body } == ["a", nil, "b", "push", "c", nil])
            if case .failure(let error) = results[1] {
                #expect(error.code == .overloaded && error.fate == .answered)
                #expect(error.response?.body.count == 62)
                #expect((error.cause as? FrameError)?.code == .illegalLength)
            }
            if case .failure(let error) = results[5] { #expect(error.code == .rejected) }
            try await server.push(Frame(.push, body: ">news"))
            var seen: [Push] = []
            for await push in pushes.prefix(2) { seen.append(push) }
            guard case .dropped(1) = seen[0], case .message(let news) = seen[1] else {
                Issue.record("pushed: \(seen)")
                return
            }
            #expect(news.body == ">news")
            #expect(await server.totalConnections == 1)
        }
    }

    @Test(arguments: [pipelined, numbered])
    func aLengthAboveTheLimitEndsTheLink(codec: LengthPrefixedCodec) async throws {
        let handler: LoopbackServer.Handler = { $0.body.count > 3 ? .absurdLength : .echo }
        try await with(codec, handler: handler) { server, client in
            let error = await failure { () throws(ClientError) in try await client.send(Request(body: "..long")) }
            #expect(error?.code == .protocolViolation && error?.fate == .unknown)
            _ = try await client.send(Request(body: "..1"))
            #expect(await server.totalConnections == 2)
        }
    }

    @Test(arguments: [lines, numbered] as [any FrameCodec])
    func clientAndServerBothSendHeartbeats(codec: any FrameCodec) async throws {
        let options = quickOptions { $0.liveness.interval = .milliseconds(5) }
        try await with(codec, options: options) { server, client in
            try await client.connect()
            try await server.wait(within: patience) { $0.pingCount >= 3 }
            let pinged = try await server.ping()
            #expect(pinged == 1)
            try await server.wait(within: patience) { $0.pongCount == 1 }
            let reply = try await client.send(Request(body: body(1)))
            #expect(number(in: reply) == 1)
            #expect(await server.totalConnections == 1)
        }
    }

    @Test func aFrameMayHaveTwoParts() async throws {
        let codec = DelimitedCodec(delimiter: "\n", parts: 2)
        let handler: LoopbackServer.Handler = { request in
            let parts = request.body.parts(separatedBy: "\n")
            return .reply(Bytes("OK \(String(parts[0]))\n\(parts[1].count)"))
        }
        try await with(codec, handler: handler) { _, client in
            let reply = try await client.send(Request(body: "PUT key\nvalue"))
            #expect(reply.body.parts(separatedBy: "\n") == ["OK PUT key", "5"])
        }
    }

    @Test func theServerDoesNotSendAFrameThatTheClientWouldMisread() async throws {
        let handler: LoopbackServer.Handler = { _ in .sequence([.echo, .push(Frame(.push, body: "no sign"))]) }
        try await with(lines, handler: handler) { server, client in
            let reply = try await client.send(Request(body: "x"))
            #expect(reply.body == "x")
            #expect(await server.journal.unencodableCount == 1)
            #expect(await server.journal.lastEncodingFailure?.code == .unknownType)
        }
    }
}
