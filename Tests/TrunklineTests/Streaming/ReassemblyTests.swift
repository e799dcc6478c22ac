import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLoopback

/// Replies in parts for callers that want them as one response.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct ReassemblyTests {}

extension ReassemblyTests {
    private static let handler: LoopbackServer.Handler = { request in
        .parts([Bytes(Array(request.body) + [0x31]), "", Bytes(Array(request.body) + [0x32])], every: .milliseconds(2))
    }

    @Test(arguments: PartsCodec.bothMatchings, [RetryPolicy.ifUnsent, .idempotent()])
    func everyFormOfCallReturnsTheWholeReply(_ codec: PartsCodec, _ retry: RetryPolicy) throws {
        try simulate(speaking: codec, handler: Self.handler) { _, client in
            let reply = try await client.send(ask("a"), options: CallOptions(retry: retry))
            #expect(reply.body == "a1a2a")
            #expect(!reply.isPart)
            let handle = client.start(ask("b"), options: CallOptions(retry: retry))
            let batch = await client.send(all: [ask("c"), ask("d")], options: CallOptions(retry: retry))
            #expect(batch.compactMap { try? $0.get().body } == ["c1c2c", "d1d2d"])
            try await expectBody("b1b2b", of: handle)
            let subscription = try await client.subscribe(ask("e"))
            #expect(subscription.response?.body == "e1e2e")
            #expect(handle.state == .completed)
        }
    }

    @Test func anErrorResponseHasOnlyItsOwnBody() throws {
        let handler: LoopbackServer.Handler = { _ in .parts(["a", "b"], then: .status(500, "broken")) }
        try simulate(speaking: PartsCodec.rich, handler: handler) { _, client in
            let error = await failure { () throws(ClientError) in try await client.send(ask("x")) }
            #expect(error?.code == .rejected)
            #expect(error?.response?.body == "broken")
            #expect(error?.response?.status == 500)
        }
    }

    @Test(arguments: PartsCodec.bothMatchings)
    func aReplyThatIsTooLongFailsAloneAndItsRestIsDiscarded(_ codec: PartsCodec) throws {
        let options = ClientOptions { $0.requests.maximumReplySize = 25 }
        let handler: LoopbackServer.Handler = { .parts(Array(repeating: $0.body, count: 4)) }
        try simulate(speaking: codec, options: options, handler: handler) { service, client in
            let replies = await client.send(all: [ask("12345"), ask("1234567"), ask("1234567890"), ask("54321")])
            guard replies.count == 4 else {
                Issue.record("a result is missing")
                return
            }
            let bodies = replies.map { try? $0.get().body }
            #expect(bodies == ["1234512345123451234512345", nil, nil, "5432154321543215432154321"])
            // The second reply exceeds the limit with its response, the third one before it, but in the same read.
            let errors = replies.map(\.failure)
            #expect(errors[1]?.code == .overloaded && errors[1]?.fate == .answered)
            #expect(errors[2]?.code == .overloaded && errors[2]?.fate == .answered)
            #expect(await service.server.totalConnections == 1)
            #expect(await client.metrics.unknownResponses == 0)
            #expect(await client.metrics.heldSerials == 0)
        }
    }

    /// Regression: parts in the same read as the part that exceeds the limit were counted as if they had reached their
    /// request, and the response was not counted. If it came in the same read, it answered the request; otherwise it is
    /// late.
    @Test(arguments: PartsCodec.bothMatchings, [Duration.zero, .milliseconds(10)])
    func framesBehindAPartThatExceedsTheLimitAreLate(_ codec: PartsCodec, _ pause: Duration) throws {
        let options = ClientOptions { $0.requests.maximumReplySize = 5 }
        let handler: LoopbackServer.Handler = { request in
            let rest = Reaction.parts(["c", "d"])
            return .sequence([.part("1234"), .part("56"), pause == .zero ? rest : .after(pause, rest)])
        }
        let serverOptions = LoopbackServer.Options { $0.answersCancelled = true }
        try simulate(
            conditions: .wide,
            speaking: codec,
            server: serverOptions,
            options: options,
            handler: handler
        ) { service, client in
            let error = await failure { () throws(ClientError) in try await client.send(ask("x")) }
            // The response has arrived in the same read, so the server has answered.
            #expect(error?.code == .overloaded && error?.fate == (pause == .zero ? .answered : .unknown))
            try await service.pass(.seconds(1))
            let metrics = await client.metrics
            #expect(metrics.parts == 2)
            let (responses, late) = pause == .zero ? (1, 0) : (0, 1)
            #expect(metrics.responses == responses && metrics.lateResponses == late)
            #expect(metrics.unknownResponses == 0 && metrics.abandoned == 0 && metrics.requests == 1)
        }
    }

    /// Regression: the request had left its link, whose other frames came in the same read. The error said "on a link
    /// that has ended", while that link was in use, and that the fate was unknown.
    @Test(arguments: [RetryPolicy.ifUnsent, .idempotent()])
    func aReplyThatIsTooLongAndCompleteKeepsItsLinkInTheTimeline(_ retry: RetryPolicy) throws {
        let options = ClientOptions { $0.requests.maximumReplySize = 20_000 }
        let part = Bytes([UInt8](repeating: 1, count: 10_000))
        let handler: LoopbackServer.Handler = { $0.body == "x" ? .parts([part, part, part]) : .echo }
        try simulate(conditions: .wide, speaking: PartsCodec.standard, options: options, handler: handler) {
            service,
            client in
            let timelines = TimelineRecorder()
            let call = CallOptions(retry: retry, recorder: timelines)
            let error = await failure { () throws(ClientError) in try await client.send(ask("x"), options: call) }
            #expect(error?.code == .overloaded && error?.fate == .answered)
            #expect(error?.message.contains("20000 bytes (maximumReplySize)") == true)
            let timeline = error?.timeline
            #expect(timeline?.tries.last?.link?.session == 1)
            #expect(timeline?.description.contains("has ended") == false, "\(timeline as Any)")
            #expect(timeline?.tries.last?.lastByteWritten != nil)
            try await expectEcho("y", by: client)
            #expect(await service.server.totalConnections == 1)
            #expect(await service.server.received.count == 2)
        }
    }

    /// The caller must not receive a reply of which a part was left out, however the stream ends.
    @Test func aStreamThatOverflowsWithItsLastPartFails() throws {
        let handler: LoopbackServer.Handler = { _ in .parts(["a", "b", "c"]) }
        try simulate(conditions: .wide, speaking: PartsCodec.standard, handler: handler) { service, client in
            let stream = client.stream(ask("x"), buffering: ReplyBuffering(maximumCount: 1, overflow: .fail))
            try await service.pass(.seconds(1))
            var bodies: [Bytes] = []
            let error = await failure { () throws(ClientError) in
                for try await part in stream { bodies.append(part.body) }
            }
            #expect(bodies == ["a"])
            #expect(error?.code == .overloaded && error?.fate == .answered)
            #expect(error?.timeline?.description.contains("has ended") == false)
            #expect(await service.server.totalConnections == 1)
        }
    }

    @Test func theResponseCountsTowardsTheLimitToo() throws {
        let options = ClientOptions { $0.requests.maximumReplySize = 10 }
        let handler: LoopbackServer.Handler = { _ in .parts(["12345"], then: .reply("123456")) }
        try simulate(speaking: PartsCodec.standard, options: options, handler: handler) { service, client in
            let error = await failure { () throws(ClientError) in try await client.send(ask("x")) }
            #expect(error?.code == .overloaded)
            #expect(error?.fate == .answered)
            // The limit does not apply to a response without parts.
            await service.server.script(.reply("12345678901"))
            let whole = try await client.send(ask("y"))
            #expect(whole.body == "12345678901")
        }
    }

    /// Regression: each reply had its own limit, and thousands of them had none together.
    @Test func allRepliesBeingReassembledShareALimit() throws {
        let options = ClientOptions { $0.requests.maximumReassemblyBytes = 20 }
        let handler: LoopbackServer.Handler = { _ in .parts(["12345678"], then: .after(.seconds(1), .reply("!"))) }
        try simulate(speaking: PartsCodec.standard, options: options, handler: handler) { service, client in
            for round in 1...3 {
                let results = await client.send(
                    all: [ask("a"), ask("b"), ask("c")],
                    options: CallOptions(retry: .idempotent())
                )
                #expect(results.map { try? $0.get().body } == ["12345678!", "12345678!", nil])
                #expect(results.last?.failure?.code == .overloaded && results.last?.failure?.fate == .unknown)
                #expect(await service.server.journal.cancelCount == round)
            }
            // A reply that is cancelled, or lost with its link, makes room too.
            let handles = (0..<2).map { client.start(ask($0)) }
            try await service.pass(.milliseconds(500))
            handles[0].cancel()
            service.network.reset("db")
            #expect(await failure(of: handles[1])?.code == .connectionLost)
            let again = await client.send(all: [ask("a"), ask("b")])
            #expect(again.map { try? $0.get().body } == ["12345678!", "12345678!"])
            #expect(client.driver.rules.reassemblyBudget.isEmpty)
        }
    }

    /// Regression: parts that came before an error response were put in front of it.
    @Test func anErrorResponseInPartsHasOnlyItsOwnParts() throws {
        var refusal = Frame(.part, status: 500, body: "so")
        refusal.isErrorResponse = true
        let reaction = Reaction.sequence([.part("fine"), .part(refusal), .status(500, "rry")])
        try simulate(speaking: RejectingCodec(), handler: { _ in reaction }) { _, client in
            let error = await failure { () throws(ClientError) in try await client.send(ask("x")) }
            #expect(error?.code == .rejected && error?.response?.body == "sorry")
        }
    }

    /// Parts of the first attempt must not be put in front of those of the second.
    @Test func aRetryStartsWithAnEmptyReply() throws {
        try simulate(speaking: PartsCodec.standard, handler: Self.handler) { service, client in
            await service.server.script(.sequence([.part("lost"), .part("too"), .close]))
            let reply = try await client.send(ask("a"), options: CallOptions(retry: .idempotent()))
            #expect(reply.body == "a1a2a")
            await service.server.script(.sequence([.part("lost"), .close]))
            let handle = client.start(ask("b"), options: CallOptions(retry: .idempotent()))
            try await expectBody("b1b2b", of: handle)
            #expect(await client.metrics.retries == 2)
        }
    }

    @Test func emptyPartsTakeNoMemoryAndAReplyMayBeEmpty() throws {
        let handler: LoopbackServer.Handler = { _ in .parts(Array(repeating: "", count: 10_000), then: .reply("")) }
        try simulate(speaking: PartsCodec.standard, handler: handler) { _, client in
            let reply = try await client.send(ask("x"))
            #expect(reply.body.isEmpty)
            #expect(await client.metrics.parts == 10_000)
        }
    }

    // MARK: The handshake

    @Test func aHandshakeReceivesTheWholeReply() throws {
        let options = ClientOptions {
            $0.handshake.perform = { handshaker in
                let reply = try await handshaker.send(ask("a"))
                if reply.body != "a1a2a" { throw HandshakeRefusal("\(reply.body)") }
            }
        }
        for codec in PartsCodec.bothMatchings {
            try simulate(speaking: codec, options: options, handler: Self.handler) { _, client in
                let reply = try await client.send(ask("b"))
                #expect(reply.body == "b1b2b")
            }
        }
    }

    @Test func aReplyThatIsTooLongEndsTheAttempt() throws {
        let options = ClientOptions {
            $0.requests.maximumReplySize = 3
            $0.reconnecting.maximumAttempts = 1
            $0.handshake.perform = { handshaker in _ = try await handshaker.send(ask("a")) }
        }
        try simulate(speaking: PartsCodec.standard, options: options, handler: Self.handler) { _, client in
            let error = await failure { () throws(ClientError) in try await client.send(ask("b")) }
            #expect(error?.code == .unavailable)
            #expect((error?.cause as? ClientError)?.code == .overloaded)
        }
    }
}

extension Result where Failure == ClientError {
    fileprivate var failure: ClientError? {
        if case .failure(let error) = self { error } else { nil }
    }
}
