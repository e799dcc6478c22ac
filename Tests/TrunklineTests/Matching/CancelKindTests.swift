import Testing
import Trunkline

@testable import TrunklineLoopback
@testable import TrunklineTesting

/// Cancel frames that are requests of their own, and those after which nothing comes: Abandon and Cancel of LDAP (RFC 4511,
/// section 4.11; RFC 3909), and Tflush of 9P. By `flush(5)` of Plan 9, "the server must answer the flush message", the
/// request may be answered before that, and its tag may be used again when the answer to the flush has come.
@Suite(.simulated, .timeLimit(.seeded))
struct CancelKindTests {}

extension CancelKindTests {
    private func simulate(
        _ codec: TagCodec,
        _ options: ClientOptions = ClientOptions(),
        seed: UInt64 = 1,
        answersCancelled: Bool = false,
        answering handler: @escaping LoopbackServer.Handler = { TagCodec.answer(to: $0) },
        _ body: @escaping @Sendable (SimulatedNetwork, LoopbackServer, Client) async throws -> Void
    ) throws {
        let server = LoopbackServer.Options { $0.answersCancelled = answersCancelled }
        try TrunklineTests.simulate(seed: seed, speaking: codec, server: server, options: options, handler: handler) {
            try await body($0.network, $0.server, $1)
        }
    }

    private func ask(_ text: String) -> Request { Request(body: Bytes(text)) }

    /// Starts requests that the server does not answer, and cancels them when it has received them.
    private func cancel(_ count: Int, _ server: LoopbackServer, _ client: Client) async throws {
        let before = await server.journal.requestCount
        let handles = (0..<count).map { _ in client.start(ask("wait")) }
        try await server.waitForRequests(before + count)
        for handle in handles { handle.cancel() }
        for handle in handles { #expect(await failure(of: handle)?.code == .cancelled) }
    }

    @Test(arguments: [CancelKind.unanswered, .unansweredRequest])
    func nothingIsHeldAfterACancelFrameWithoutAnAnswer(_ kind: CancelKind) throws {
        let options = ClientOptions { $0.requests.maximumInFlight = 4 }
        try simulate(TagCodec(kind, 1...9), options) { network, server, client in
            for _ in 0..<10 { try await cancel(4, server, client) }
            let metrics = await client.metrics
            #expect(metrics.abandoned == 0 && metrics.connection.links == 1)
            let body = try await client.send(ask("echo")).body
            #expect(body == "echo")
            #expect(network.clock.now < .init(offset: .seconds(2)))
            let cancels = await server.journal.cancels
            #expect(cancels.count == 40)
            if kind == .unansweredRequest {
                #expect(cancels.allSatisfy { $0.serial != $0.cancelledSerial && $0.cancelledSerial != nil })
            }
        }
    }

    /// Its response had been sent before the server read the cancel frame.
    @Test(arguments: [CancelKind.unanswered, .unansweredRequest])
    func aResponseThatCrossesTheCancelFrameReachesNobody(_ kind: CancelKind) throws {
        let handler: LoopbackServer.Handler = { $0.kind == .cancel ? .noReply : .after(.milliseconds(50), .echo) }
        try simulate(TagCodec(kind, 1...9), answering: handler) { network, _, client in
            var conditions = NetworkConditions()
            conditions.latency = .milliseconds(20)...(.milliseconds(20))
            network.setConditions(conditions)
            _ = try await client.send(ask("ready"))
            let handle = client.start(ask("late"))
            try await network.clock.sleep(for: .milliseconds(80))
            handle.cancel()
            let results = await client.send(all: (0..<6).map { ask("\($0)") })
            let bodies = try results.map { try $0.get().body }
            #expect(bodies == (0..<6).map { Bytes("\($0)") })
            let metrics = await client.metrics
            #expect(metrics.lateResponses == 1 && metrics.unknownResponses == 0)
        }
    }

    @Test func theAnswerToAFlushFreesBothSerials() throws {
        let options = ClientOptions { $0.requests.maximumInFlight = 3 }
        try simulate(TagCodec(.flush, 1...4), options) { network, server, client in
            try await cancel(3, server, client)
            // Three requests and one flush have all serials. There is none for the other two flushes, which are not sent.
            try await network.clock.sleep(for: .milliseconds(100))
            #expect(await server.journal.cancels.count == 1)
            #expect(await client.metrics.abandoned == 2)
            let body = try await client.send(ask("echo")).body
            #expect(body == "echo")
        }
        try simulate(TagCodec(.flush, 1...100), options) { network, server, client in
            for _ in 0..<50 { try await cancel(3, server, client) }
            #expect(await client.metrics.connection.links == 1)
            try await network.clock.sleep(for: .milliseconds(100))
            #expect(await client.metrics.abandoned == 0)
            #expect(await server.journal.cancels.count == 150)
        }
    }

    /// The server answers the request although it is cancelled, and the cancel frame too.
    @Test func aCancelFrameAndItsRequestAreAnswered() throws {
        try simulate(TagCodec(.answeredRequest, 1...4), answersCancelled: true) { network, server, client in
            for _ in 0..<20 {
                let handle = client.start(ask("slow"))
                _ = try await server.waitForRequest { $0.body == "slow" }
                handle.cancel()
                try await network.clock.sleep(for: .milliseconds(100))
            }
            let metrics = await client.metrics
            #expect(metrics.abandoned == 0 && metrics.lateResponses == 20 && metrics.unknownResponses == 0)
        }
    }

    @Test func aLateResponseIsGivenToTheApplication() throws {
        let (responses, continuation) = AsyncStream.makeStream(of: LateResponse.self)
        let options = ClientOptions { $0.requests.lateResponse = { continuation.yield($0) } }
        try simulate(
            TagCodec(.answered, 1...9),
            options,
            answersCancelled: true,
            answering: { $0.kind == .cancel ? .noReply : .after(.seconds(2), .echo) }
        ) { _, _, client in
            let error = await failure(of: client.start(Request(type: 5, body: "create"), timeout: .seconds(1)))
            #expect(error?.code == .timedOut)
            var iterator = responses.makeAsyncIterator()
            let late = await iterator.next()
            #expect(late?.response.body == "create" && late?.requestType == 5 && late?.isErrorResponse == false)
            #expect(late?.endpoint.description.contains("db:7000") == true && late?.id == 1 && late?.session == 1)
            // An answer in time is not late.
            _ = try await client.send(ask("wait"), timeout: .seconds(5))
            #expect(await client.metrics.lateResponses == 1)
        }
        continuation.finish()
    }

    /// Calls that are cancelled at any time, with few serials: none receives the response to another.
    @Test(arguments: [CancelKind.answered, .answeredRequest, .flush, .unanswered, .unansweredRequest])
    func noResponseReachesAnotherCall(_ kind: CancelKind) throws {
        for seed in seeds(6) {
            // Without an answer, a round through all serials must be longer than the way to the server and back.
            let isUnanswered = kind == .unanswered || kind == .unansweredRequest
            let codec = TagCodec(kind, 1...(isUnanswered ? 100 : 40))
            let options = ClientOptions { $0.requests.maximumInFlight = 16 }
            let answersCancelled = kind == .answered || kind == .answeredRequest
            try simulate(codec, options, seed: seed, answersCancelled: answersCancelled) { network, _, client in
                var conditions = NetworkConditions()
                conditions.latency = .milliseconds(1)...(.milliseconds(9))
                network.setConditions(conditions)
                await withTaskGroup { group in
                    for caller in 0..<20 {
                        group.addTask(executorPreference: network.executor) {
                            var random = SeededGenerator(seed: seed * 100 + UInt64(caller))
                            for call in 0..<10 {
                                let text = "\(caller)-\(call) \(["echo", "slow"].randomElement(using: &random)!)"
                                let handle = client.start(ask(text))
                                if Bool.random(using: &random) {
                                    let delay = Int.random(in: 0...60, using: &random)
                                    try? await network.clock.sleep(for: .milliseconds(delay))
                                    handle.cancel()
                                }
                                do throws(ClientError) {
                                    let body = try await handle.value.body
                                    #expect(body == Bytes(text), "seed \(seed)")
                                } catch {
                                    #expect(error.code == .cancelled, "seed \(seed): \(error)")
                                }
                            }
                        }
                    }
                }
                let metrics = await client.metrics
                #expect(metrics.requests == 200 && metrics.pending == 0, "seed \(seed)")
                #expect(metrics.requests == metrics.responses + metrics.failed, "seed \(seed)")
                #expect(metrics.connection.links == 1, "seed \(seed)")
                try await network.clock.sleep(for: .seconds(70))
                #expect(await client.metrics.abandoned == 0, "seed \(seed)")
            }
        }
    }
}

/// Lines with tags, as in 9P: `ask tag text`, `answer tag text`, `cancel tag cancelled`.
private struct TagCodec: FrameCodec, CancellingCodec, ServerSideCodec {
    let kind: CancelKind
    let range: ClosedRange<SerialNumber>
    var isServer = false

    init(_ kind: CancelKind, _ range: ClosedRange<SerialNumber>) { (self.kind, self.range) = (kind, range) }

    var matching: ResponseMatching { .serial(range) }
    func cancelFrame(for serial: SerialNumber, type: UInt32) -> Frame? { Frame(.cancel, serial: serial) }
    func cancelKind(ofType type: UInt32) -> CancelKind { kind }

    func serverSide() -> any FrameCodec {
        var server = self
        server.isServer = true
        return server
    }

    /// Answers requests that end with "slow" after 30 ms, and not those that wait. Answers cancel frames if the protocol
    /// does.
    static func answer(to frame: Frame) -> Reaction {
        let text = String(frame.body)
        if frame.kind == .cancel { return text == "answer" ? .reply(Frame(.response)) : .noReply }
        if text == "wait" { return .noReply }
        return text.hasSuffix("slow") ? .after(.milliseconds(30), .echo) : .echo
    }

    func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard let end = input.firstOffset(of: 0x0A), let line = input.readBytes(end), input.skip(1) else { return nil }
        let words = String(line).split(separator: " ", maxSplits: 2, omittingEmptySubsequences: false)
        guard words.count == 3, let tag = SerialNumber(words[1]) else { throw FrameError(.malformed, "\(line)") }
        switch words[0] {
        case "ask": return Frame(.request, serial: tag, body: Bytes(String(words[2])))
        case "answer": return Frame(.response, serial: tag, body: Bytes(String(words[2])))
        default:
            var frame = Frame(.cancel, serial: tag, body: kind == .flush || kind == .answeredRequest ? "answer" : "")
            frame.cancelledSerial = SerialNumber(words[2])
            return frame
        }
    }

    func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        switch frame.kind {
        case .request: output.append("ask \(frame.serial) \(String(frame.body))\n".utf8)
        case .cancel:
            let cancelled = frame.cancelledSerial.map { "\($0)" } ?? ""
            output.append("cancel \(frame.serial) \(cancelled)\n".utf8)
        default: output.append("answer \(frame.serial) \(String(frame.body))\n".utf8)
        }
    }
}
