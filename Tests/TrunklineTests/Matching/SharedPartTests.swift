import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLoopback

/// Parts of replies that belong to several requests: one message for several subscriptions, or the progress of a group
/// of requests.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct SharedPartTests {}

extension SharedPartTests {
    private func simulate(
        _ codec: WordsCodec = WordsCodec(maximumLine: 200_000),
        _ options: ClientOptions = ClientOptions(),
        conditions: NetworkConditions = NetworkConditions(),
        _ body: @escaping @Sendable (SimulatedService, Client) async throws -> Void
    ) throws {
        try TrunklineTests.simulate(
            conditions: conditions,
            speaking: codec,
            options: options,
            handler: { WordsCodec.answer(to: $0) },
            body
        )
    }

    private func ask(_ text: String, type: UInt32 = 1) -> Request { Request(type: type, body: Bytes(text)) }

    private func streams(_ count: Int, _ client: Client, buffering: ReplyBuffering = ReplyBuffering()) -> [Stream] {
        (0..<count).map { client.stream(ask("\($0)"), partTimeout: .seconds(60), buffering: buffering) }
    }

    private typealias Stream = ReplyStream<Response>

    // MARK: Which requests

    @Test func aPartReachesEachRequestThatItNames() throws {
        try simulate { _, client in
            let streams = streams(3, client) + [client.stream(ask("3", type: 2))]
            // The serials are 1 to 4, and 5.
            let lines = ["set 3-4,1-1,3-3,1-1 - a", "through 2 - b", "all 0 - c", "all 0 1 d"].map { "parts \($0)" }
            let reply = try await client.send(ask("!" + lines.joined(separator: "|") + "|through *"))
            // `send` joins the parts.
            #expect(reply.body == "cd" && reply.serial == 5)
            #expect(await words(of: streams[0]) == ["+a", "+b", "+c", "+d", ""])
            #expect(await words(of: streams[1]) == ["+b", "+c", "+d", ""])
            #expect(await words(of: streams[2]) == ["+a", "+c", "+d", ""])
            #expect(await words(of: streams[3]) == ["+a", "+c", ""])
            let metrics = await client.metrics
            #expect(metrics.parts == 14 && metrics.responses == 5 && metrics.unknownResponses == 0)
        }
    }

    @Test func eachCopyHasTheSerialOfItsRequest() throws {
        try simulate { _, client in
            let streams = streams(3, client)
            _ = try await client.send(ask("!parts set 2-3 - a|parts through 2 - b|all"))
            for (index, stream) in streams.enumerated() {
                for try await part in stream { #expect(part.serial == SerialNumber(index + 1)) }
            }
        }
    }

    /// Matched in order, a part may belong to the next requests, or to all. `through` and `set` name none.
    @Test func inOrderAPartReachesTheOldestRequests() throws {
        try simulate(WordsCodec(isInOrder: true)) { _, client in
            let streams = streams(3, client)
            let lines = ["next 2 - a", "through 1 - b", "set 1-9 - c", "next 0 - d", "all 0 - e", "next 99 - f"]
            let request = ask("!" + lines.map { "parts \($0)" }.joined(separator: "|") + "|next 4")
            let reply = try await client.send(request)
            #expect(reply.body == "ef")
            #expect(await words(of: streams[0]) == ["+a", "+e", "+f", ""])
            #expect(await words(of: streams[1]) == ["+a", "+e", "+f", ""])
            #expect(await words(of: streams[2]) == ["+e", "+f", ""])
            let metrics = await client.metrics
            #expect(metrics.unknownResponses == 3 && metrics.connection.links == 1)
        }
    }

    @Test func bySerialNoPartIsForTheNextRequests() throws {
        try simulate { _, client in
            let streams = streams(1, client)
            _ = try await client.send(ask("!parts next 2 - a|all"))
            #expect(await words(of: streams[0]) == [""])
            #expect(await client.metrics.unknownResponses == 1)
        }
    }

    @Test func aPartThatNamesNoRequestIsCounted() throws {
        try simulate { service, client in
            let lines = ["set 50-60,7-7 - a", "through 0 - b", "set 1-1 - c"].map { "parts \($0)" }
            let reply = try await client.send(ask("!" + lines.joined(separator: "|") + "|all|parts all 0 - d"))
            #expect(reply.body == "c")
            // A server may tell everyone something when nothing is in flight.
            try await service.pass(.milliseconds(100))
            #expect(await client.metrics.unknownResponses == 2)
            #expect(await client.metrics.connection.links == 1)
        }
    }

    @Test func abandonedRequestsAreSkipped() throws {
        try simulate { service, client in
            let streams = streams(3, client)
            try await service.pass(.milliseconds(100))
            streams[0].cancel()
            streams[1].cancel()
            try await service.pass(.milliseconds(100))
            _ = try await client.send(ask("!parts set 1-3 - a|parts set 1-2 - b|parts set 3-3 - c|all"))
            #expect(await words(of: streams[2]) == ["+a", "+c", ""])
            let metrics = await client.metrics
            #expect(metrics.unknownResponses == 0 && metrics.parts == 2 && metrics.lateResponses == 2)
        }
    }

    // MARK: What happens to it

    @Test func thePartTimeoutOfEachStreamBeginsAnew() throws {
        try simulate { service, client in
            let streams = streams(3, client)
            let other = client.stream(ask("other", type: 2), partTimeout: .seconds(60))
            try await service.pass(.milliseconds(100))
            let steps = (0..<4).map { Reaction.after(.seconds(50), .garbage("parts all 0 1 \($0)\n")) }
            await service.server.script(.sequence(steps + [.garbage("all\n")]))
            async let reply = client.send(ask("!"), timeout: .seconds(1000))
            async let late = words(of: other)
            await withTaskGroup(of: Void.self) { group in
                for stream in streams {
                    group.addTask {
                        let words = await words(of: stream)
                        #expect(words == ["+0", "+1", "+2", "+3", ""])
                    }
                }
            }
            #expect(await late == ["timedOut unknown"])
            let body = try await reply.body
            #expect(body == "0123" && service.now > .seconds(200))
        }
    }

    /// One reader does not read.
    @Test func aFullBufferConcernsItsStreamAlone() throws {
        try simulate { service, client in
            let buffering = ReplyBuffering(maximumCount: 2, overflow: .fail)
            let full = client.stream(ask("full"), partTimeout: .seconds(60), buffering: buffering)
            let others = streams(2, client)
            let lines = (0..<4).map { "parts all 0 - \($0)" }.joined(separator: "|")
            _ = try await client.send(ask("!\(lines)|set 2-4"))
            for stream in others { #expect(await words(of: stream) == ["+0", "+1", "+2", "+3", ""]) }
            #expect(await words(of: full) == ["+0", "+1", "overloaded unknown"])
            #expect(await client.metrics.connection.links == 1)
        }
    }

    @Test func aFullBufferSuspendsReading() throws {
        try simulate { service, client in
            let buffering = ReplyBuffering(maximumCount: 2)
            let slow = client.stream(ask("slow reader"), timeout: .seconds(600), buffering: buffering)
            let lines = (0..<3).map { "parts all 0 - \($0)" }.joined(separator: "|")
            let handle = client.start(ask("!\(lines)|set 2-2"))
            _ = try await handle.value
            // What follows waits until the reader has caught up.
            let blocked = client.start(ask("echo"), timeout: .seconds(1))
            #expect(await failure(of: blocked)?.code == .timedOut)
            async let next = client.send(ask("!set 1-9"), timeout: .seconds(60))
            #expect(await words(of: slow) == ["+0", "+1", "+2", ""])
            _ = try await next
        }
    }

    @Test func aReplyThatBecomesTooLongFailsItsRequest() throws {
        let options = ClientOptions { $0.requests.maximumReplySize = 10 }
        try simulate(WordsCodec(), options) { _, client in
            let (handle, streams) = (client.start(ask("send")), streams(2, client))
            let last = client.start(ask("!parts all 0 - 123456|parts all 0 - 123456|all"))
            for handle in [handle, last] { #expect(await failure(of: handle)?.code == .overloaded) }
            for stream in streams { #expect(await words(of: stream) == ["+123456", "+123456", ""]) }
        }
    }

    /// The replies become too long when their requests have left the link: the end of each is in the same read.
    @Test(arguments: ["all 0 1", "set 1-20,30-30 1", "close", "leave 1 A|close"])
    func repliesThatAreTooLongEndAsTheServerSays(_ end: String) throws {
        let options = ClientOptions { $0.requests.maximumReplySize = 10 }
        try simulate(WordsCodec(), options, conditions: .wide) { service, client in
            try await client.connect()
            let retry = CallOptions(retry: .idempotent())
            let long = (0..<50).map { client.start(ask("\($0)"), options: retry) }
            let short = (0..<50).map { client.start(ask("\($0)", type: 2)) }
            try await service.server.waitForRequests(100)
            let lines = ["parts all 0 1 123456", "parts all 0 1 123456", "parts all 0 1 123456", "set 51-100 2", end]
            let last = client.start(ask("!" + lines.joined(separator: "|"), type: 3), timeout: .seconds(1))
            for (index, handle) in long.enumerated() {
                let error = await failure(of: handle)
                let isAnswered = end == "all 0 1" || end.hasPrefix("set") && (index < 20 || index == 29)
                #expect(error?.code == .overloaded, "\(index)")
                #expect(error?.fate == (isAnswered ? .answered : .unknown), "\(index)")
                #expect(error?.message.contains("10 bytes (maximumReplySize)") == true)
                #expect(error?.timeline?.description.contains("has ended") == false)
            }
            for handle in short { try await expectBody("", of: handle) }
            #expect(await failure(of: last) != nil)
            let requests = await service.server.journal.requestCount
            #expect(requests == 101)
        }
    }

    @Test func aMalformedPartFailsEachOfItsRequests() throws {
        try simulate { _, client in
            let streams = streams(4, client)
            _ = try await client.send(ask("!parts all 0 - a|parts set 2-3 - malformed|parts all 0 - b|through *"))
            for index in [0, 3] { #expect(await words(of: streams[index]) == ["+a", "+b", ""]) }
            for index in [1, 2] {
                #expect(await words(of: streams[index]) == ["+a", "protocolViolation unknown"])
            }
            #expect(await client.metrics.connection.links == 1)
        }
    }

    @Test func aPartWithTooManyRangesEndsTheLink() throws {
        try simulate { _, client in
            let limit = Frame.Answers.maximumRanges
            func set(_ count: Int) -> String { "parts set 1-4000000000" + String(repeating: ",9-9", count: count - 1) }
            let stream = streams(1, client)[0]
            let reply = try await client.send(ask("!\(set(limit)) - a|all"))
            #expect(reply.body == "a")
            #expect(await words(of: stream) == ["+a", ""])
            let error = await failure(of: client.start(ask("!\(set(limit + 1)) - a")))
            #expect(error?.code == .overloaded && error?.fate == .unknown)
            let text = "a part names \(limit + 1) ranges of serials: at most \(limit)"
            #expect("\(error, default: "none")".contains(text))
            _ = try await client.send(ask("!all"))
        }
    }

    // MARK: Handshakes

    @Test func aHandshakeReceivesPartsForSeveralRequests() throws {
        let heard = Lock<[Bytes]>([])
        let options = ClientOptions { options in
            options.handshake.perform = { link in
                let requests: [Request] = ["nothing", "!parts all 0 - a|all"].map { Request(type: 1, body: $0) }
                let bodies = try await link.send(all: requests).map { try $0.get().body }
                // It names no request, so it is a message.
                _ = try await link.send(Request(type: 1, body: "!all|parts all 0 - news"))
                let news = try await link.nextMessage()
                heard.withLock { $0 = bodies + [news.body] }
            }
        }
        try simulate(WordsCodec(), options) { _, client in
            try await client.connect()
            #expect(heard.withLock { $0 } == ["a", "a", "news"])
        }
    }

    /// Regression: an answer that named too many ranges was discarded, and the handshake waited in vain.
    @Test(arguments: ["", "parts "]) func tooManyRangesEndTheHandshake(_ kind: String) throws {
        let line = "\(kind)set 9-9" + String(repeating: ",9-9", count: Frame.Answers.maximumRanges)
        let options = ClientOptions { options in
            options.reconnecting.maximumAttempts = 1
            options.handshake.perform = { link in _ = try await link.send(Request(body: Bytes("!" + line))) }
        }
        try simulate(WordsCodec(maximumLine: 200_000), options) { service, client in
            let error = await failure { () throws(ClientError) in try await client.connect() }
            #expect((error?.cause as? FrameError)?.code == .illegalLength)
            #expect(service.now < .seconds(1))
        }
    }

    // MARK: The test server

    @Test func aServerSendsThem() throws {
        let handler: LoopbackServer.Handler = { request in
            var part = Frame(.part, body: "reaction")
            part.answers = .through
            guard request.body == "perform" else {
                return request.body == "part" ? .sequence([.part(part), .echo]) : .noReply
            }
            return .perform { exchange in
                var part = Frame(.part, body: "exchange")
                part.answers = .serials([1...1, 3...9])
                try await exchange.part(part)
                try await exchange.reply("done")
            }
        }
        try TrunklineTests.simulate(speaking: WordsCodec(), handler: handler) { service, client in
            let streams = streams(2, client)
            let reply = try await client.send(ask("part"))
            #expect(reply.body == "reactionpart")
            let performed = try await client.send(ask("perform"))
            #expect(performed.body == "exchangedone")
            var part = Frame(.part, body: "broadcast")
            part.answers = .all
            _ = try await service.server.broadcast(part)
            var end = Frame(.response)
            end.answers = .all
            _ = try await service.server.broadcast(end)
            #expect(await words(of: streams[0]) == ["+reaction", "+exchange", "+broadcast", ""])
            #expect(await words(of: streams[1]) == ["+reaction", "+broadcast", ""])
        }
    }

    // MARK: Very many copies

    private enum End: String { case answer, close, leave, bye, slowReaders, draining, drainingSlowly }

    /// One segment with parts for many requests: they are handled in several turns, in order, and nothing is lost,
    /// however the link ends.
    @Test(arguments: ["answer", "close", "leave", "bye", "slowReaders", "draining", "drainingSlowly"])
    func veryManyCopiesComeInOrder(_ end: String) throws {
        let end = try #require(End(rawValue: end))
        try simulate { service, client in
            let isSlow = end == .slowReaders || end == .drainingSlowly
            let streams = streams(90, client, buffering: ReplyBuffering(maximumCount: isSlow ? 3 : 300))
            var lines = (0..<200).map { "parts all 0 - \($0)" }
            switch end {
            case .answer, .slowReaders: lines += ["push news", "through 90"]
            case .close: lines += ["push news", "close"]
            case .leave: lines += ["leave 1 A", "push news", "through 90"]
            case .draining, .drainingSlowly: lines = ["leave 1 A"] + lines + ["push news", "through 90"]
            case .bye: lines += ["through 45", "push news", "bye 1 A"]
            }
            let news = client.pushes()
            async let push: Bytes? = {
                for await case .message(let message) in news { return message.body }
                return nil
            }()
            let handle = client.start(ask("!" + lines.joined(separator: "|")))
            let parts = (0..<200).map { "+\($0)" }
            await withTaskGroup(of: Void.self) { group in
                for (index, stream) in streams.enumerated() {
                    group.addTask {
                        let isAnswered = end != .close && (end != .bye || index < 45)
                        let last = isAnswered ? "" : "connectionLost unknown"
                        let words = await words(of: stream)
                        #expect(words == parts + [last], "stream \(index)")
                    }
                }
            }
            #expect(await push == "news")
            handle.cancel()
            _ = await failure(of: handle)
            try await service.pass(.seconds(1))
            if end == .answer || end == .slowReaders { #expect(await client.metrics.connection.links == 1) }
        }
    }

    /// Regression: the ping waited with the frames behind the part until the reader continued, so a server that waited
    /// for the answer could end the link.
    @Test func aPingBehindManyPartsIsAnswered() throws {
        try simulate(conditions: .wide) { service, client in
            try await client.connect()
            let streams = streams(90, client, buffering: ReplyBuffering(maximumCount: 3))
            let lines = (0..<100).map { "parts all 0 - \($0)" } + ["ping", "ping", "through 90"]
            let handle = client.start(ask("!" + lines.joined(separator: "|")), timeout: .seconds(600))
            try await service.pass(.seconds(1))
            #expect(await service.server.journal.pongCount == 2)
            await withTaskGroup(of: Void.self) { group in
                for stream in streams {
                    group.addTask {
                        let words = await words(of: stream)
                        #expect(words == (0..<100).map { "+\($0)" } + [""])
                    }
                }
            }
            handle.cancel()
            _ = await failure(of: handle)
            #expect(await client.metrics.connection.links == 1)
        }
    }

    // MARK: One batch

    /// A link with requests that were written, and the events of a batch.
    private struct Batch {
        let rules = LinkRules(ProtocolCodec(WordsCodec()), ClientOptions(), nil, deliversAll: false)
        var state: Link.State
        var taken = Link.Taken(at: Instant(nanoseconds: 1))
        var events: [ConnectionEvent] = []

        init(requests count: UInt64) {
            let machine = LinkMachine(
                session: SessionID(1),
                matching: .serial(1...1_000_000),
                quarantine: .seconds(60)
            )
            state = Link.State("10.0.0.1:7000", nil, machine, LinkCodec(WordsCodec()))
            for id in 1...count {
                _ = state.machine.send(RequestID(id), Frame(.request, body: "x"), expectsResponse: true)
            }
            _ = state.machine.encode(using: &state.codec.base)
            var reported: [RequestID] = []
            state.machine.didWrite(state.machine.outbound.unwrittenCount, reporting: &reported)
        }

        /// Abandons all requests.
        mutating func abandonAll() {
            for id in 1...UInt64(state.machine.count) {
                let now = Instant(nanoseconds: 1)
                _ = state.machine.cancel(RequestID(id), at: .response(id), isTimeout: true, now: now)
            }
        }

        mutating func take(_ frames: [Frame]) {
            var frames = frames
            state.take(&frames, &taken, isDraining: false, by: rules, into: &events)
        }
    }

    private func part() -> Frame {
        var part = Frame(.part, body: "x")
        part.answers = .all
        return part
    }

    /// A frame of a few bytes can reach 65,536 requests, so a batch of them would hold the event loop for seconds.
    @Test func theRestOfABatchIsLeftForTheNextTurn() {
        let frames = (0..<50).map { _ in part() } + [Frame(.response, serial: 1)]
        var batch = Batch(requests: 100)
        batch.taken.mayLeaveRest = true
        batch.take(frames)
        #expect(batch.taken.rest == 41 && batch.events.count == 41 && batch.taken.answers == 4100)

        // Nothing is left of a link that ends, or after the frame with which the server says so.
        batch = Batch(requests: 100)
        batch.take(frames)
        #expect(batch.taken.rest == nil && batch.events.count == 51 && batch.taken.answers == 5001)
        batch = Batch(requests: 100)
        batch.taken.mayLeaveRest = true
        var farewell = Frame(.goAway)
        farewell.markLinkEnding(.now)
        batch.take([farewell] + frames)
        #expect(batch.taken.rest == nil && batch.events.count == 51)

        // Nothing is left behind the last frame, nor by parts for one request.
        batch = Batch(requests: 100)
        batch.taken.mayLeaveRest = true
        batch.take((0..<41).map { _ in part() })
        #expect(batch.taken.rest == nil && batch.events.count == 41)
        batch.take((0..<5000).map { _ in Frame(.part, serial: 1) })
        #expect(batch.taken.rest == nil && batch.events.count == 5041)
    }

    /// Regression: only copies were counted. A part of a few bytes visits 65,536 requests that were abandoned, too.
    @Test func abandonedRequestsCountTowardsTheLimit() {
        var batch = Batch(requests: 100)
        batch.abandonAll()
        batch.taken.mayLeaveRest = true
        batch.take((0..<50).map { _ in part() } + [Frame(.response, serial: 1)])
        #expect(batch.taken.rest == 41 && batch.events.isEmpty && batch.taken.answers == 0)
    }

    /// Regression: beyond the limit, each further part visited all the requests that had failed.
    @Test func theLinkEndsAtOnceIfItsPartsAreFarTooMany() {
        var batch = Batch(requests: 3)
        batch.abandonAll()
        batch.taken.copies = 2 * Link.maximumCopies - 3
        batch.take([part(), part(), Frame(.response, serial: 2)])
        #expect(batch.taken.violation?.exceedsLimit == true && batch.taken.answers == 0)
    }

    /// The memory that the parts of a link that ends can take is limited.
    @Test func requestsFailBeforeTheirCopiesFillTheMemory() {
        var batch = Batch(requests: 3)
        #expect(Link.maximumCopies == 262_144)
        batch.taken.copies = Link.maximumCopies - 3
        batch.take([part(), Frame(.response, serial: 2), part()])
        #expect(batch.taken.violation == nil && batch.events.count == 4)
        var failed: [RequestID] = []
        for event in batch.events {
            guard case .failed(let id, let error, _) = event else { continue }
            failed.append(id)
            #expect(error.code == .overloaded && error.fate == .unknown)
        }
        #expect(failed == [RequestID(1), RequestID(3)])
        #expect(batch.state.machine.count == 0)
    }
}
