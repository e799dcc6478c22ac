import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts

/// Frames with a tag that responses repeat: what DNS does with its question.
///
/// The codec reads some bodies as signs: "malformed" marks the response as malformed, "malformed all" one that answers
/// every request, "ranges" names too many ranges of serials, "end" in a goAway ends its link at once, and "stray" is a
/// response that belongs to no request.
struct TaggedCodec: FrameCodec, ResponseCheckingCodec, ServerSideCodec {
    var layout = TaggedCodec.layout(serials: 1...255)

    static func layout(serials: ClosedRange<SerialNumber>) -> FrameLayout {
        FrameLayout {
            Field.type(UInt8.self)
            Field.serial(UInt8.self)
            Field.integer("tag", UInt32.self, default: 0)
            Field.length(UInt8.self, counting: .body)
            Field.body
        }
        .roles {
            $0.ping = 1
            $0.push = 2
            $0.part = 4
            $0.goAway = 5
            $0.serials = serials
            $0.responsesRepeat = [.field("tag")]
        }
    }

    var matching: ResponseMatching { layout.matching }

    func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard var frame = try layout.decode(&input) else { return nil }
        if frame.body == "malformed" || frame.body == "malformed all" { frame.markMalformed(.malformed) }
        if frame.body == "malformed all" { frame.answers = .all }
        if frame.body == "ranges" {
            frame.answers = .serials(Array(repeating: 1...255, count: Frame.Answers.maximumRanges + 1))
        }
        if frame.kind == .goAway, frame.body == "end" { frame.markLinkEnding(.now) }
        return frame
    }

    func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        try layout.encode(frame, into: &output)
    }

    func check(_ response: Frame, against request: Frame) throws(FrameError) {
        if response.body == "stray" { throw FrameError(.unrelatedResponse, "somebody else's") }
        try layout.check(response, against: request)
    }

    func serverSide() -> any FrameCodec { layout.serverSide() }

    static func ask(_ body: Bytes, tag: UInt64 = 7) -> Request {
        var request = Request(type: 0x10, body: body)
        request["tag"] = tag
        return request
    }

    static func bytes(_ type: UInt8, _ serial: SerialNumber, tag: UInt8, _ body: Bytes) -> Bytes {
        Bytes([type, UInt8(serial), 0, 0, 0, tag, UInt8(body.count)]) + body
    }

    /// Sends what the body of the request names before the right answer, which comes a second later.
    static let handler: LoopbackServer.Handler = { request in
        let serial = request.serial
        let forged: Bytes? =
            switch request.body {
            case "tag": bytes(0x10, serial, tag: 8, "x")
            case "part": bytes(4, serial, tag: 8, "x")
            case "malformed", "malformed all", "ranges": bytes(0x10, serial, tag: 7, request.body)
            case "malformed part": bytes(4, serial, tag: 7, "malformed")
            case "malformed part for all": bytes(4, serial, tag: 7, "malformed all")
            case "part with ranges": bytes(4, serial, tag: 7, "ranges")
            case "stray": bytes(0x10, serial, tag: 7, "stray")
            case "end": bytes(5, 0, tag: 0, "end")
            default: nil
            }
        guard let forged else { return .echo }
        // The right answer must not look like the forged one.
        var answer = Frame(.response, type: 0x10, body: "right")
        answer["tag"] = request["tag"]
        return .sequence([.garbage(forged), .garbage(forged), .after(.seconds(1), .reply(answer))])
    }
}

/// Datagrams that have been copied, delayed or forged: none of them ends a request.
@Suite(.simulated, .timeLimit(.seeded)) struct ForgedDatagramTests {}

extension ForgedDatagramTests {
    /// Regression: the first of them failed the request, with `protocolViolation`, and the right answer was lost. One
    /// that answers all requests failed all of them, and one with too many ranges ended the link.
    @Test(
        arguments: [
            "tag", "part", "malformed", "malformed part", "malformed all", "malformed part for all", "ranges",
            "part with ranges", "stray",
        ] as [Bytes]
    )
    func aForgedAnswerFailsNoRequest(_ what: Bytes) throws {
        try simulateDatagrams(speaking: TaggedCodec(), handler: TaggedCodec.handler) { _, _, client in
            let reply = try await client.send(TaggedCodec.ask(what))
            #expect(reply.body == "right")
            let metrics = await client.metrics
            #expect(metrics.connection.droppedDatagrams == 2)
            #expect(metrics.heldSerials == 0 && metrics.lateResponses == 0 && metrics.unknownResponses == 0)
            #expect(metrics.connection.links == 1 && metrics.responses == 1)
        }
    }

    /// Regression: it was taken for the response to the abandoned request, whose serial was free for another one.
    @Test func aForgedAnswerIsNoLateResponse() throws {
        let late = Lock<[Bytes]>([])
        let options = ClientOptions { options in
            options.requests.lateResponse = { response in late.withLock { $0.append(response.response.body) } }
        }
        let handler: LoopbackServer.Handler = { request in
            let forged = TaggedCodec.bytes(0x10, request.serial, tag: 7, "malformed")
            return .sequence([.after(.seconds(1), .garbage(forged)), .after(.seconds(2), .echo)])
        }
        try simulateDatagrams(speaking: TaggedCodec(), options: options, handler: handler) { network, _, client in
            let error = await failure(of: client.start(TaggedCodec.ask("right"), timeout: .milliseconds(500)))
            #expect(error?.code == .timedOut)
            try await network.clock.sleep(for: .seconds(5))
            let metrics = await client.metrics
            #expect(metrics.lateResponses == 1 && metrics.unknownResponses == 0 && metrics.heldSerials == 0)
            #expect(metrics.connection.droppedDatagrams == 1)
        }
        #expect(late.withLock { $0 } == ["right"])
    }

    @Test func aForgedAnswerFailsNoRequestThatWasSentTwice() throws {
        let options = repeating { $0.requests.repeatAfter = .milliseconds(600) }
        try simulateDatagrams(speaking: TaggedCodec(), options: options, handler: TaggedCodec.handler) {
            network,
            _,
            client in
            let reply = try await client.send(TaggedCodec.ask("tag"))
            #expect(reply.body == "right")
            #expect(await client.metrics.repetitions == 1)
            #expect(await client.metrics.connection.droppedDatagrams == 4)
        }
    }

    /// Regression: it ended the attempt.
    @Test func aForgedAnswerFailsNoHandshake() throws {
        let options = ClientOptions { options in
            options.reconnecting.maximumAttempts = 1
            (options.connecting.timeout, options.handshake.timeout) = (.seconds(20), .seconds(20))
            options.handshake.perform = { link in
                let reply = try await link.send(TaggedCodec.ask("tag"))
                guard reply.body == "right" else { throw HandshakeRefusal("\(reply.body)") }
                let malformed = try await link.send(TaggedCodec.ask("malformed"))
                guard malformed.body == "right" else { throw HandshakeRefusal("\(malformed.body)") }
            }
        }
        try simulateDatagrams(speaking: TaggedCodec(), options: options, handler: TaggedCodec.handler) { _, _, client in
            let reply = try await client.send(TaggedCodec.ask("hello"))
            #expect(reply.body == "hello")
            #expect(await client.metrics.connection.droppedDatagrams == 4)
        }
    }

    /// Regression: the requests in flight were lost. The server, if it was the server, has answered them on the old
    /// link.
    @Test func aFarewellInADatagramLosesNoRequest() throws {
        try simulateDatagrams(speaking: TaggedCodec(), handler: TaggedCodec.handler) { network, _, client in
            let reply = try await client.send(TaggedCodec.ask("end"))
            #expect(reply.body == "right")
            let next = try await client.send(TaggedCodec.ask("hello"))
            #expect(next.body == "hello")
            #expect(await client.metrics.connection.links == 2)
            #expect(await client.metrics.failed == 0)
        }
    }

    /// Regression: with one answer in ten copied, some copies met the next request with their serial, which failed.
    @Test func copiedAnswersFailNoRequest() throws {
        var dropped = 0
        for seed in seeds(10) {
            let counted = Lock(0)
            let codec = TaggedCodec(layout: TaggedCodec.layout(serials: 1...8))
            try simulateDatagrams(seed: seed, conditions: lossy(0, duplication: 0.1), speaking: codec) {
                network,
                _,
                client in
                await withTaskGroup { group in
                    for caller in 0..<6 {
                        group.addTask(executorPreference: network.executor) {
                            for call in 0..<100 {
                                let body = Bytes("\(caller)-\(call)")
                                let request = TaggedCodec.ask(body, tag: UInt64(caller * 1000 + call))
                                let reply = try? await client.send(request)
                                #expect(reply?.body == body, "seed \(seed)")
                            }
                        }
                    }
                }
                #expect(await client.metrics.failed == 0, "seed \(seed)")
                let dropped = await client.metrics.connection.droppedDatagrams
                counted.withLock { $0 += dropped }
            }
            dropped += counted.withLock { $0 }
        }
        #expect(dropped > 0)
    }

    // MARK: In a stream

    /// A codec can say that a response belongs to nobody.
    @Test func anUnrelatedResponseInAStreamIsDiscarded() throws {
        try simulate(speaking: TaggedCodec(), handler: TaggedCodec.handler) { _, client in
            let reply = try await client.send(TaggedCodec.ask("stray"))
            #expect(reply.body == "right")
            let metrics = await client.metrics
            #expect(metrics.unknownResponses == 2 && metrics.connection.droppedDatagrams == 0)
            #expect(metrics.heldSerials == 0 && metrics.connection.links == 1)
        }
    }

    /// Lines matched in order, of which those that begin with "*" answer nothing.
    private struct Lines: FrameCodec, ResponseCheckingCodec, ServerSideCodec {
        var lines = DelimitedCodec(delimiter: "\n")
        var matching: ResponseMatching { .inOrder }
        mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? { try lines.decode(&input) }
        mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
            try lines.encode(frame, into: &output)
        }
        func serverSide() -> any FrameCodec { ProtocolCodec(lines).serverSide() }
        func check(_ response: Frame, against request: Frame) throws(FrameError) {
            if response.body.first == UInt8(ascii: "*") { throw FrameError(.unrelatedResponse, "a notice") }
        }
    }

    @Test func anUnrelatedLineTakesNoPlaceInTheOrder() throws {
        let handler: LoopbackServer.Handler = { _ in .sequence([.garbage("* notice\n"), .echo]) }
        try simulate(speaking: Lines(), handler: handler) { _, client in
            let replies = await client.send(all: ["a", "b", "c"].map { Request(body: $0) })
            #expect(replies.map { try? $0.get().body } == ["a", "b", "c"])
            #expect(await client.metrics.unknownResponses == 3)
            #expect(await client.metrics.connection.links == 1)
        }
    }
}

/// The same over the sockets of this host: the forged datagrams come from the port that was asked.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5))) struct ForgedDatagramLoopbackTests {}

extension ForgedDatagramLoopbackTests {
    @Test(arguments: Mechanism.allCases) func forgedAnswersFailNoRequest(_ mechanism: Mechanism) async throws {
        // A forged answer, another one of another kind, and at once the right one.
        let handler: LoopbackServer.Handler = { request in
            let forged = TaggedCodec.bytes(0x10, request.serial, tag: 0xff, "forged")
            let malformed = TaggedCodec.bytes(0x10, request.serial, tag: 7, "malformed")
            return .sequence([.garbage(forged), .garbage(malformed), .echo, .garbage(forged)])
        }
        let serverOptions = LoopbackServer.Options { $0.receivesDatagrams = true }
        try await withServerAndClient(
            by: mechanism,
            speaking: TaggedCodec(layout: TaggedCodec.layout(serials: 1...40)),
            options: serverOptions,
            clientOptions: repeating(),
            overTLS: false,
            handler: handler
        ) { _, client in
            await withTaskGroup { group in
                for caller in 0..<20 {
                    group.addTask {
                        for call in 0..<20 {
                            let body = Bytes("\(caller) \(call)")
                            let reply = try? await client.send(TaggedCodec.ask(body, tag: UInt64(caller)))
                            #expect(reply?.body == body)
                        }
                    }
                }
            }
            let metrics = await client.metrics
            #expect(metrics.failed == 0 && metrics.connection.droppedDatagrams > 0)
        }
    }
}
