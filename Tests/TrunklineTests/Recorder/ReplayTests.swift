import Testing
import Trunkline
import TrunklineDiagnostics
import TrunklineTesting

/// Replaying a recording: the same calls end in the same way.
@Suite(.simulated) struct ReplayTests {}

extension ReplayTests {
    /// Records `body` in one network, and replays it in another, from its text.
    private func replay(
        speaking codec: some FrameCodec = FrameLayout.standard,
        options: ClientOptions = ClientOptions(),
        handler: @escaping LoopbackServer.Handler = { _ in .echo },
        _ body: @escaping @Sendable (SimulatedService, Client) async throws -> Void
    ) throws -> Replay {
        var recorded = options
        recorded.recorder = .ring()
        let text = Lock("")
        try simulate(seed: 3, speaking: codec, options: recorded, overTLS: false, handler: handler) { service, client in
            try await body(service, client)
            let recording = try #require(await client.diagnostics.recording)
            text.withLock { $0 = recording.jsonLines }
        }
        let recording = try Recording(jsonLines: text.withLock { $0 })
        let network = SimulatedNetwork(seed: 9)
        return try network.runBlocking { try await network.replay(recording, speaking: codec, options: options) }
    }

    @Test func aHealthyLifeIsReplayed() throws {
        let replay = try replay { service, client in
            for number in 0..<20 { _ = try await client.send(ask(number)) }
            try await client.post(ask("one-way"))
            _ = try await service.server.push(Frame(.push, type: 2, body: "news"))
            try await service.network.clock.sleep(for: .seconds(1))
        }
        #expect(replay.differences == [])
        #expect(replay.original.outcomes.count == 21)
        #expect(replay.recording.received.map(\.kind).contains(.push))
    }

    /// The name is filled in where the codec finds it, because the bodies are not recorded.
    @Test func requestsKeepTheirNames() throws {
        let lines = DelimitedCodec(delimiter: "\n", maximumFrameSize: 1000).namingRequests { request in
            String(request.body).split(separator: " ").first.map(String.init)
        }
        let options = ClientOptions { $0.liveness.maximumStalls = nil }
        let handler: LoopbackServer.Handler = { $0.body.starts(with: Array("SLOW".utf8)) ? .noReply : .echo }
        let replay = try replay(speaking: lines, options: options, handler: handler) { service, client in
            for number in 0..<3 { _ = try await client.send(Request(body: Bytes("GET \(number)"))) }
            _ = try? await client.send(Request(body: "SLOW secret"), timeout: .milliseconds(200))
            try await service.network.clock.sleep(for: .seconds(1))
        }
        #expect(replay.differences == [])
        let names = ["GET", "GET", "GET", "SLOW"]
        #expect(replay.original.calls.map(\.name) == names && replay.recording.calls.map(\.name) == names)
        let failed = replay.recording.events.filter { $0.name == "request.failed" }
        #expect(failed.map { $0["name"] } == [.text("SLOW")])
    }

    /// Regression: see `CaptureTests.namesOfAnyLengthAreAccepted`.
    @Test(arguments: [65, 65_536, 65_537]) func requestsWithLongNamesAreReplayed(_ length: Int) throws {
        let codec = DelimitedCodec(delimiter: "\n", maximumFrameSize: 100_000).namingRequests { String($0.body) }
        let name = String(repeating: "n", count: length)
        let recording = try Recording(
            jsonLines: """
                {"recording":1,"complete":true}
                {"t":0,"call":1,"type":0,"bytes":5,"timeout":8}
                {"t":0.1,"event":"connection.ready","endpoint":"db:7000","session":1}
                {"t":0.1,"sent":"request","session":1,"id":1,"type":0,"serial":0,"bytes":5,"name":"\(name)"}
                {"t":0.2,"received":"response","session":1,"type":0,"serial":0,"status":0,"bytes":5}
                """
        )
        let network = SimulatedNetwork(seed: 9)
        let replay = try network.runBlocking { try await network.replay(recording, speaking: codec) }
        #expect(replay.recording.outcomes.values.map { $0 } == [.answered(status: 0, isError: false)])
    }

    @Test func timeoutsCancellationsAndErrorsAreReplayed() throws {
        let replay = try replay(
            speaking: statusLayout,
            handler: { request in
                switch request.body {
                case "never": .noReply
                case "error": .status(500)
                case "late": .after(.milliseconds(300), .echo)
                default: .after(.milliseconds(20), .echo)
                }
            },
            { service, client in
                for body: Bytes in ["ok", "never", "error", "late", "fine"] {
                    _ = try? await client.send(ask(body), timeout: .milliseconds(200))
                }
                let handle = client.start(ask("never"))
                try await service.network.clock.sleep(for: .milliseconds(50))
                handle.cancel()
                try await service.network.clock.sleep(for: .seconds(1))
            }
        )
        #expect(replay.differences == [])
        #expect(
            replay.original.outcomes == [
                1: .answered(status: 0, isError: false), 2: .failed(code: "timedOut", fate: "unknown"),
                3: .answered(status: 500, isError: true), 4: .failed(code: "timedOut", fate: "unknown"),
                5: .answered(status: 0, isError: false), 6: .failed(code: "cancelled", fate: "unknown"),
            ]
        )
    }

    /// Each of them answers several requests, and the last one leaves their fate open.
    @Test(arguments: ["!through *", "!set 1-3,5-6", "!all 0", "!broken 7 LOST"])
    func responsesToSeveralRequestsAreReplayed(_ last: Bytes) throws {
        let options = ClientOptions { $0.requests.timeout = .seconds(2) }
        let replay = try replay(speaking: WordsCodec(), options: options, handler: { WordsCodec.answer(to: $0) }) {
            _ = await $1.send(all: (0..<5).map { ask("\($0)") } + [ask(last)])
            _ = try await $1.send(ask("echo"))
        }
        #expect(replay.differences == [])
        let outcomes = replay.original.outcomes.values
        let isSelective = last.firstIndex(of: "set") != nil
        let lost = Recording.Outcome.failed(code: "interrupted", fate: "unknown")
        let late = Recording.Outcome.failed(code: "timedOut", fate: "unknown")
        let isLost = last == "!broken 7 LOST"
        let answered = outcomes.count { $0 == .answered(status: 0, isError: false) }
        #expect(answered == (isLost ? 1 : isSelective ? 6 : 7))
        #expect(outcomes.count { $0 == lost } == (isLost ? 6 : 0))
        #expect(outcomes.count { $0 == late } == (isSelective ? 1 : 0))
    }

    /// One of the requests is answered before the others.
    @Test(arguments: [false, true]) func partsForSeveralRequestsAreReplayed(_ isInOrder: Bool) throws {
        let codec = WordsCodec(isInOrder: isInOrder)
        let lines =
            isInOrder
            ? "parts next 2 - a|parts all 0 - b|next 4"
            : "parts set 1-2,3-3 - a|parts through 2 - b|set 2-2|parts all 0 - c|through *"
        let seen = Lock<[[String]]>([])
        let replay = try replay(speaking: codec, handler: { WordsCodec.answer(to: $0) }) { service, client in
            let streams = (0..<3).map { client.stream(ask("\($0)")) }
            try await service.pass(.milliseconds(100))
            _ = try await client.send(ask(Bytes("!" + lines)))
            for stream in streams {
                let words = await words(of: stream)
                seen.withLock { $0.append(words) }
            }
        }
        #expect(replay.differences == [])
        let wanted =
            isInOrder
            ? [["+a", "+b", ""], ["+a", "+b", ""], ["+b", ""]]
            : [["+a", "+b", "+c", ""], ["+a", "+b", ""], ["+a", "+c", ""]]
        #expect(seen.withLock { $0 } == wanted)
        #expect(replay.original.outcomes.values.count { $0 == .answered(status: 0, isError: false) } == 4)
        for recording in [replay.original, replay.recording] {
            let parts = recording.received.filter { $0.kind == .part }
            #expect(parts.count == (isInOrder ? 2 : 3) && parts.allSatisfy { $0.answers != .one })
        }
    }

    /// Matched in order: one response for the two oldest requests.
    @Test func aResponseToTheNextRequestsIsReplayed() throws {
        let codec = WordsCodec(isInOrder: true)
        let replay = try replay(speaking: codec, handler: { WordsCodec.answer(to: $0) }) { _, client in
            for _ in 0..<3 {
                let results = await client.send(all: [ask("a"), ask("!next 2"), ask("echo")])
                #expect(results.allSatisfy { (try? $0.get()) != nil })
            }
        }
        #expect(replay.differences == [])
        #expect(replay.original.outcomes.values.count { $0 == .answered(status: 0, isError: false) } == 9)
    }

    /// A slow channel between others, and an error that ends everything on a channel.
    @Test func channelsAreReplayed() throws {
        let replay = try replay(speaking: LaneCodec(), handler: { LaneCodec.answer(to: $0) }) { service, client in
            let slow = client.start(LaneCodec.ask("slow", on: 1))
            for number in 0..<5 { _ = try await client.send(LaneCodec.ask("\(number)", on: 2)) }
            let lost = (0..<3).map { client.start(LaneCodec.ask("none \($0)", on: 7)) }
            try await service.network.clock.sleep(for: .milliseconds(100))
            _ = try? await client.send(LaneCodec.ask("fail", on: 7))
            for handle in lost { #expect(await failure(of: handle)?.code == .interrupted) }
            _ = try await slow.value
        }
        #expect(replay.differences == [])
        let outcomes = replay.original.outcomes
        #expect(outcomes.values.count { $0 == .answered(status: 0, isError: false) } == 6)
        #expect(outcomes.values.count { $0 == .failed(code: "interrupted", fate: "unknown") } == 4)
        #expect(replay.recording.received.map(\.channel).prefix(5) == [2, 2, 2, 2, 2])
    }

    @Test func aHalfOpenLinkIsReplayed() throws {
        let options = ClientOptions {
            $0.liveness.interval = .seconds(5)
            $0.liveness.deadline = .seconds(2)
        }
        let replay = try replay(options: options) { service, client in
            _ = try await client.send(ask("before"))
            service.network.halfOpen()
            _ = try? await client.send(ask("lost"), timeout: .seconds(20))
            _ = try await client.send(ask("after"))
        }
        #expect(replay.differences == [])
        #expect(replay.recording.events.contains { $0.name == "link.ended" && $0["cause"] == .text("halfOpen") })
        #expect(replay.recording.outcomes[2] == .failed(code: "connectionLost", fate: "unknown"))
    }

    @Test func anOutageWithRefusedAttemptsIsReplayed() throws {
        let replay = try replay { service, client in
            _ = try await client.send(ask("before"))
            service.network.refuseConnections(to: "db")
            service.network.reset()
            let waiting = client.start(ask("waiting"), timeout: .seconds(60))
            try await service.network.clock.sleep(for: .seconds(20))
            service.network.acceptConnections(to: "db")
            _ = try await waiting.value
        }
        #expect(replay.differences == [])
        #expect(replay.original.events.count { $0.name == "attempt.failed" } > 2)
    }

    @Test func serialsExhaustedBehindASlowServerAreReplayed() throws {
        let replay = try replay(
            speaking: standardLayout(serials: 50...53),
            handler: { _ in .after(.seconds(3), .echo) },
            { _, client in
                let handles = (0..<12).map { client.start(ask($0), timeout: .seconds(5)) }
                for handle in handles { _ = try? await handle.value }
            }
        )
        #expect(replay.differences == [])
        #expect(replay.recording.events.contains { $0.name == "limit.reached" && $0["limit"] == .text("serials") })
        #expect(replay.original.outcomes.values.contains(.failed(code: "timedOut", fate: "notSent")))
    }

    @Test func aProtocolViolationIsReplayed() throws {
        let replay = try replay(
            handler: { $0.body == "bad" ? .garbage(Bytes([UInt8](repeating: 0xff, count: 64))) : .echo },
            { service, client in
                _ = try await client.send(ask("good"))
                _ = try? await client.send(ask("bad"))
                try await service.network.clock.sleep(for: .seconds(1))
            }
        )
        #expect(replay.differences == [])
        #expect(replay.recording.outcomes[2] == .failed(code: "protocolViolation", fate: "unknown"))
    }

    /// The client waits between its attempts as long as it did.
    @Test func backOffsAreReplayed() throws {
        let replay = try replay { service, client in
            _ = try await client.send(ask("before"))
            service.network.refuseConnections(to: "db")
            service.network.reset()
            let waiting = client.start(ask("waiting"), timeout: .seconds(60))
            try await service.network.clock.sleep(for: .seconds(10))
            service.network.acceptConnections(to: "db")
            _ = try await waiting.value
        }
        func delays(_ recording: Recording) -> [ClientEvent.Value?] {
            recording.events.filter { $0.name == "connection.waiting" }.map { $0["delay"] }
        }
        #expect(delays(replay.original).count > 3)
        #expect(delays(replay.recording) == delays(replay.original))
    }

    @Test func aRecordingThatWasReadAfterTheCloseIsReplayed() throws {
        let replay = try replay { _, client in
            _ = try await client.send(ask("a"))
            await client.close()
        }
        #expect(replay.differences == [])
        #expect(replay.original.events.contains { $0.name == "connection.closed" })
        #expect(replay.outcomes.map(\.original) == [.answered(status: 0, isError: false)])
        #expect(replay.outcomes.map(\.replayed) == [.answered(status: 0, isError: false)])
    }

    /// The recorded requests have passed the interceptors already.
    @Test func interceptorsAndObserversAreLeftOut() throws {
        struct Doubling: ClientInterceptor {
            func intercept(_ call: inout ClientCall) throws(ClientError) -> Completion? {
                call.request.body = Bytes(Array(call.request.body) + Array(call.request.body))
                return nil
            }
        }
        let lines = Lock(0)
        let options = ClientOptions {
            $0.interceptors = [Doubling()]
            $0.logging = ClientLogging { _ in lines.withLock { $0 += 1 } }
        }
        let replay = try replay(options: options) { _, client in _ = try await client.send(ask("abc")) }
        #expect(replay.differences == [])
        #expect(replay.recording.sent.first { $0.kind == .request }?.bodyCount == 6)
        #expect(lines.withLock { $0 } == 3)
    }

    /// A difference is seen: the test of the tests above.
    @Test func anotherTimeoutMakesADifference() throws {
        let text = Lock("")
        let recorded = ClientOptions { $0.recorder = .ring() }
        let layout = FrameLayout.standard.namingRequests([0x410: "GetUser\n"])
        try simulate(speaking: layout, options: recorded, overTLS: false, handler: { _ in .noReply }) { _, client in
            _ = try? await client.send(ask("x"), timeout: .seconds(2))
            let recording = try #require(await client.diagnostics.recording)
            text.withLock { $0 = recording.jsonLines }
        }
        let changed = text.withLock { $0.replacing("\"timeout\":2.0", with: "\"timeout\":5.0") }
        let recording = try Recording(jsonLines: changed)
        let network = SimulatedNetwork(seed: 9)
        let replay = try network.runBlocking { try await network.replay(recording, speaking: FrameLayout.standard) }
        let expected = "call 1 (GetUser\\n): was failed(code: \"timedOut\", fate: \"unknown\"), now pending"
        #expect(replay.differences == [expected])
    }

    /// Replays a recording of these lines.
    private func replay(_ lines: [String], speaking codec: some FrameCodec = FrameLayout.standard) throws -> Replay {
        let text = (["{\"recording\":1,\"complete\":true}"] + lines).joined(separator: "\n")
        let recording = try Recording(jsonLines: text)
        let network = SimulatedNetwork(seed: 1)
        return try network.runBlocking { try await network.replay(recording, speaking: codec) }
    }

    private static let ready = [
        #"{"t":0.0,"event":"connection.connecting","endpoint":"a:7000","attempt":1}"#,
        #"{"t":0.1,"event":"connection.ready","endpoint":"a:7000","session":1}"#,
    ]

    @Test func absurdNumbersAreHarmless() throws {
        let replay = try replay(
            Self.ready + [
                #"{"t":0.2,"call":1,"type":1040,"bytes":7,"timeout":1.0}"#,
                #"{"t":0.2,"sent":"request","session":1,"id":1,"type":1040,"serial":50,"bytes":0}"#,
                #"{"t":0.3,"event":"connection.waiting","delay":1e300,"attempt":2,"cause":"reset"}"#,
                #"{"t":0.5,"event":"link.ended","endpoint":"a:7000","session":-1,"cause":"what"}"#,
            ]
        )
        #expect(replay.recording.outcomes.count == 1)
    }

    /// 2.4 KB of text may declare more bytes than there is memory.
    @Test(arguments: [
        #"{"t":0.2,"call":9,"type":1040,"bytes":60000000}"#,
        #"{"t":0.2,"sent":"request","session":1,"id":1,"serial":50,"bytes":60000000}"#,
        #"{"t":0.2,"received":"push","session":1,"type":2,"fields":{"a":{"bytes":60000000}}}"#,
        #"{"t":0.2,"received":"push","session":1,"type":2,"bytes":9223372036854775807}"#,
    ])
    func aRecordingThatDeclaresTooMuchIsRejected(_ line: String) {
        let isHuge = line.contains("9223372036854775807")
        #expect {
            try replay(Self.ready + Array(repeating: line, count: 40))
        } throws: { error in
            // The first line describes the recording, and two make the link ready.
            (error as? RecordingError)?.line == 3 + (isHuge ? 1 : 18)
        }
    }

    /// The bodies of calls are made when they are sent, of the same zeros.
    @Test func largeBodiesAreReplayed() throws {
        let calls = (1...20).flatMap { id in
            [
                #"{"t":\#(id),"call":\#(id),"type":1040,"bytes":4000000,"timeout":1.0}"#,
                #"{"t":\#(id).1,"sent":"request","session":1,"id":\#(id),"type":1040,"serial":50,"bytes":4000000}"#,
                #"{"t":\#(id).2,"received":"response","session":1,"type":1040,"serial":50,"bytes":3000000}"#,
            ]
        }
        let replay = try replay(Self.ready + calls)
        #expect(replay.differences == [])
        #expect(replay.recording.received.filter { $0.bodyCount == 3_000_000 }.count == 20)
    }

    /// The servers find the exchange of each request among all of them, and the script the endpoints.
    @Test(.timeLimit(.minutes(1))) func replayingTakesLinearTime() throws {
        // Requests that are never sent again, before those that are.
        let lost = (1...30_000).map {
            #"{"t":1,"sent":"request","session":1,"type":1040,"serial":\#($0),"bytes":\#($0)}"#
        }
        let calls = (1...2000).flatMap { id in
            [
                #"{"t":2,"call":\#(id),"type":1041,"bytes":\#(id),"timeout":5.0}"#,
                #"{"t":2,"sent":"request","session":1,"id":\#(id),"type":1041,"serial":\#(id),"bytes":\#(id)}"#,
                #"{"t":3,"received":"response","session":1,"type":1041,"serial":\#(id)}"#,
            ]
        }
        let replay = try replay(Self.ready + lost + calls)
        #expect(Array(replay.differences.prefix(3)) == [])
    }

    /// The serial of a request that was never answered is used again after its quarantine.
    @Test func aResponseBelongsToTheLatestRequestWithItsSerial() throws {
        let replay = try replay(
            Self.ready + [
                #"{"t":1.0,"call":1,"type":1040,"timeout":1.0}"#,
                #"{"t":1.0,"sent":"request","session":1,"id":1,"type":1040,"serial":50}"#,
                #"{"t":2.0,"event":"request.failed","id":1,"code":"timedOut","fate":"unknown"}"#,
                #"{"t":99.0,"call":2,"type":1041,"timeout":1.0}"#,
                #"{"t":99.0,"sent":"request","session":1,"id":2,"type":1041,"serial":50}"#,
                #"{"t":99.1,"received":"response","session":1,"type":1041,"serial":50}"#,
            ]
        )
        let outcomes = replay.original.outcomes
        #expect(outcomes[1] == .failed(code: "timedOut", fate: "unknown"))
        #expect(outcomes[2] == .answered(status: 0, isError: false))
        #expect(replay.differences == [])
    }

    /// Matched in order, a message of the handshake that has no response must not take that of the first call.
    @Test func messagesOfTheHandshakeTakeNoResponse() throws {
        let lines =
            Self.ready.prefix(1) + [
                #"{"t":0.1,"sent":"request","session":1,"one_way":true,"bytes":5}"#, Self.ready[1],
                #"{"t":0.2,"call":1,"bytes":3,"timeout":1.0}"#,
                #"{"t":0.2,"sent":"request","session":1,"id":1,"bytes":3}"#,
                #"{"t":0.3,"received":"response","session":1,"bytes":2}"#,
            ]
        let replay = try replay(Array(lines), speaking: DelimitedCodec(delimiter: [0xff]))
        #expect(replay.original.outcomes == [1: .answered(status: 0, isError: false)])
        #expect(replay.differences == [])
    }

    /// Two servers on one host: the attempts of each end as they did.
    @Test func endpointsOfOneHostAreReplayedApart() throws {
        let text = Lock("")
        let network = SimulatedNetwork(seed: 5)
        try network.runBlocking {
            let server = try await network.startServer(at: "db:7001", speaking: .standard)
            let options = ClientOptions { $0.recorder = .ring() }
            let endpoints: [Endpoint] = ["db:7000", "db:7001"]
            let client = Client(to: endpoints, speaking: .standard, options: options, on: network.loops)
            for number in 0..<3 { _ = try await client.send(ask(number)) }
            await server.disconnectAll(reset: true)
            try await network.clock.sleep(for: .seconds(5))
            _ = try await client.send(ask("after"))
            let recording = await client.diagnostics.recording
            text.withLock { $0 = recording?.jsonLines ?? "" }
            await client.close()
            await server.stop()
        }
        let recording = try Recording(jsonLines: text.withLock { $0 })
        let other = SimulatedNetwork(seed: 6)
        let replay = try other.runBlocking { try await other.replay(recording, speaking: FrameLayout.standard) }
        #expect(replay.differences == [])
        #expect(recording.events.contains { $0.name == "attempt.failed" && $0["endpoint"] == .text("db:7000") })
    }
}
