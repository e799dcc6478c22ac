import Testing
import Trunkline

@testable import TrunklineTesting

/// Responses that answer several requests: cumulative acknowledgements, as `basic.ack` of AMQP 0-9-1 with `multiple` ("the
/// delivery tag is treated as 'up to and including'"); selective ones, as in RFC 9000, section 19.3; and errors that concern
/// everything, as `channel.close` of AMQP.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct ManyAnswersTests {}

extension ManyAnswersTests {
    private func simulate(
        _ codec: WordsCodec = WordsCodec(),
        _ options: ClientOptions = ClientOptions(),
        _ body: @escaping @Sendable (SimulatedNetwork, LoopbackServer, Client) async throws -> Void
    ) throws {
        try TrunklineTests.simulate(speaking: codec, options: options, handler: { WordsCodec.answer(to: $0) }) {
            try await body($0.network, $0.server, $1)
        }
    }

    private func ask(_ text: String, type: UInt32 = 0) -> Request { Request(type: type, body: Bytes(text)) }

    private func expectEcho(by client: Client) async throws {
        let reply = try await client.send(ask("echo"))
        #expect(reply.body == "echo")
    }

    @Test func aCumulativeAcknowledgementAnswersEarlierRequests() throws {
        try simulate { network, _, client in
            let results = await client.send(all: (1...29).map { ask("\($0)") } + [ask("!through *")])
            let serials = try results.map { try $0.get().serial }
            #expect(serials == Array(1...30))

            // The serial of an earlier message: only those before it are answered.
            let handles =
                (0..<3).map { client.start(ask("\($0)"), timeout: .seconds(1)) } + [client.start(ask("!through 32"))]
            for handle in handles[..<2] { _ = try await handle.value }
            for handle in handles[2...] { #expect(await failure(of: handle)?.code == .timedOut) }

            // Numbers of abandoned requests are free again when an acknowledgement covers them.
            #expect(await client.metrics.abandoned == 2)
            _ = try await client.send(ask("!through *"))
            let metrics = await client.metrics
            #expect(metrics.abandoned == 0 && metrics.heldSerials == 0 && metrics.lateResponses == 2)
            #expect(metrics.responses == 33 && metrics.failed == 2 && metrics.unknownResponses == 0)

            // It answers nothing more.
            _ = await failure(of: client.start(ask("!through 35"), timeout: .seconds(1)))
            #expect(await client.metrics.unknownResponses == 1)
        }
    }

    @Test func aCumulativeAcknowledgementCrossesTheEndOfTheRange() throws {
        try simulate(WordsCodec(range: 5...14)) { _, _, client in
            for _ in 0..<50 {
                let results = await client.send(all: [ask("a"), ask("b"), ask("!through *")])
                #expect(results.allSatisfy { (try? $0.get()) != nil })
            }
            #expect(await client.metrics.responses == 150)
        }
    }

    @Test func aSelectiveAcknowledgementAnswersRanges() throws {
        try simulate { _, _, client in
            let handles = (1...9).map { client.start(ask("\($0)"), timeout: .seconds(1)) }
            _ = try await client.send(ask("!set 2-4,7-7,9-9,10-4000000000"))
            for serial in [2, 3, 4, 7, 9] as [SerialNumber] {
                let answered = try await handles[Int(serial) - 1].value.serial
                #expect(answered == serial)
            }
            for serial in [1, 5, 6, 8] { #expect(await failure(of: handles[serial - 1])?.code == .timedOut) }
        }
    }

    /// There was no limit: a frame could name as many ranges as it had room for, and each cost a search of all requests.
    @Test func aResponseWithTooManyRangesEndsTheLink() throws {
        try simulate(WordsCodec(maximumLine: 200_000)) { _, _, client in
            let limit = Frame.Answers.maximumRanges
            func set(_ count: Int) -> String { "!set 1-4000000000" + String(repeating: ",9-9", count: count - 1) }
            _ = try await client.send(ask(set(limit)))
            let error = await failure(of: client.start(ask(set(limit + 1))))
            #expect(error?.code == .overloaded && error?.fate == .unknown)
            #expect((error?.cause as? FrameError)?.code == .illegalLength)
            #expect("\(error, default: "none")".contains("\(limit + 1) ranges of serials: at most \(limit)"))
            try await expectEcho(by: client)
        }
    }

    @Test func onlyRequestsOfTheTypesAreAnswered() throws {
        try simulate { _, _, client in
            let publish = client.start(ask("a", type: 1), timeout: .seconds(1))
            let declare = client.start(ask("b", type: 2), timeout: .seconds(1))
            _ = try await client.send(ask("!through * 1", type: 1))
            _ = try await publish.value
            #expect(await failure(of: declare)?.code == .timedOut)
        }
    }

    @Test func oneResponseAnswersTheNextRequestsInOrder() throws {
        try simulate(WordsCodec(isInOrder: true)) { _, _, client in
            let results = await client.send(all: [ask("a"), ask("b"), ask("!next 3"), ask("echo")])
            let bodies = try results.map { try $0.get().body }
            #expect(bodies == ["", "", "", "echo"])
            let all = await client.send(all: [ask("a"), ask("!all")])
            let allBodies = try all.map { try $0.get().body }
            #expect(allBodies == ["", ""])
        }
    }

    /// A channel error: everything has failed, and the link lives.
    @Test func requestsEndWithFateUnknownOnALinkThatLives() throws {
        try simulate { _, _, client in
            let waiting = (0..<3).map { client.start(ask("\($0)")) }
            let handles = waiting + [client.start(ask("!broken 404 NOT_FOUND no exchange"))]
            for handle in handles {
                let error = await failure(of: handle)
                #expect(error?.code == .interrupted && error?.fate == .unknown)
                #expect(error?.reason == ServerReason("NOT_FOUND", code: 404, text: "no exchange"))
                #expect(error.map { "\($0)" }?.contains("processed: NOT_FOUND (404): no exchange") == true)
            }
            try await expectEcho(by: client)
            let metrics = await client.metrics
            #expect(metrics.connection.links == 1 && metrics.rejections == ["NOT_FOUND": 4])
            #expect(metrics.failed == 4 && metrics.failures == [.init(.interrupted, .unknown): 4])
        }
    }

    @Test func anInterruptedRequestThatMayBeRepeatedIsSentAgain() throws {
        try simulate { _, server, client in
            let retry = CallOptions(retry: .idempotent(tries: 2))
            let error = await failure(of: client.start(ask("!broken 1 A"), options: retry))
            #expect(error?.code == .interrupted && error?.message.hasSuffix("(try 2)") == true)
            #expect(await client.metrics.retries == 1)
            #expect(await server.journal.requestCount == 2)
        }
    }

    @Test func anErrorResponseSaysItsReason() throws {
        try simulate { _, _, client in
            let error = await failure(of: client.start(ask("!error * 530 NOT_ALLOWED for\u{7} 'guest'")))
            #expect(error?.code == .rejected && error?.fate == .answered)
            #expect(
                error.map { "\($0)" }
                    == "rejected (answered): the server answered with NOT_ALLOWED (530): for\\u{7} 'guest'"
            )
            for index in 0..<70 { _ = await failure(of: client.start(ask("!error * 1 N\(index)"))) }
            let rejections = await client.metrics.rejections
            #expect(rejections.count == 65 && rejections["NOT_ALLOWED"] == 1 && rejections["others"] == 7)
        }
    }

    private final class Strays: ClientObserver {
        let namesNoRequest = Lock<[Bool]>([])
        var delivery: EventDelivery { .onEventLoop }

        func observe(_ events: [ClientEvent]) {
            for event in events {
                guard case .unknownResponse(_, _, _, _, let namesNone) = event.content else { continue }
                namesNoRequest.withLock { $0.append(namesNone) }
            }
        }
    }

    /// Each response that is matched in order has the serial 0, which was taken for that of an error without a request.
    @Test(arguments: [true, false]) func onlyASerialOutsideTheRangeNamesNoRequest(_ isInOrder: Bool) throws {
        let strays = Strays()
        let options = ClientOptions { $0.observers = [strays] }
        try simulate(WordsCodec(isInOrder: isInOrder), options) { network, _, client in
            let lines = isInOrder ? "!error 0 1 A|error 0 1 B" : "!error 0 1 A|error 9 1 B|echo"
            _ = try? await client.send(ask(lines), timeout: .seconds(1))
            try await network.clock.sleep(for: .seconds(1))
        }
        #expect(strays.namesNoRequest.withLock { $0 } == (isInOrder ? [false] : [true, false]))
    }

    /// Each request ends once, whatever acknowledgements, abandoned requests and links come together.
    @Test func everyRequestEndsOnceWithRandomAcknowledgements() throws {
        for seed in seeds(20) {
            var random = SeededGenerator(seed: seed)
            let codec = WordsCodec(isInOrder: seed % 3 == 0, range: 1...(seed % 2 == 0 ? 1 << 32 : 300))
            let network = SimulatedNetwork(seed: seed)
            var texts: [[String]] = []
            for _ in 0..<40 {
                texts.append(
                    (0..<Int.random(in: 1...20, using: &random)).map { _ in
                        switch Int.random(in: 0..<12, using: &random) {
                        case 0: "!through *"
                        case 1: "!set 1-\(Int.random(in: 1...300, using: &random))"
                        case 2: "!all"
                        case 3: "!next \(Int.random(in: 1...5, using: &random))"
                        case 4: "!broken 1 A"
                        case 5: Bool.random(using: &random) ? "!leave 1 B" : "!bye 1 C"
                        case 6...8: "echo"
                        default: "nothing"
                        }
                    }
                )
            }
            let calls = texts
            try network.runBlocking {
                let server = try await network.serve(at: "a:1", speaking: codec) { WordsCodec.answer(to: $0) }
                let client = network.client(of: ["a:1"], speaking: codec)
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for texts in calls {
                        let pause = Duration.milliseconds(texts.count * 3)
                        group.addTask(executorPreference: network.executor) {
                            try await network.clock.sleep(for: pause)
                            for text in texts {
                                let handle = client.start(ask(text), timeout: .milliseconds(50))
                                if text == "nothing" { continue }
                                _ = try? await handle.value
                            }
                        }
                    }
                    try await group.waitForAll()
                }
                try await network.clock.sleep(for: .seconds(120))
                let metrics = await client.metrics
                #expect(metrics.pending == 0 && (codec.isInOrder || metrics.abandoned == 0), "seed \(seed)")
                #expect(metrics.requests == metrics.responses + metrics.failed, "seed \(seed)")
                #expect(await client.diagnostics.audit() == [], "seed \(seed)")
                await client.close()
                await server.stop()
            }
            #expect(network.openLinks == 0, "seed \(seed)")
        }
    }
}
