import Testing

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// Answers that the server needs before it can answer the request in flight.
///
/// Answers waited for what holds requests back, as one-way messages do: with a limit of 1, the request in flight waited for
/// its server, which waited for the answer, which waited for the request, until its deadline.
@Suite(.simulated, .timeLimit(.seeded))
struct AnswerInMidRequestTests {}

extension AnswerInMidRequestTests {
    /// Asks something in the middle of the first request, which contains "import" and has the serial 1, and answers it when
    /// it has been told.
    private static func react(to frame: Frame) -> Reaction {
        let text = String(frame.body)
        if text.contains("import") { return .push(Frame(.push, body: "which file")) }
        if text.hasPrefix("file") { return .frame(Frame(.response, serial: 1, body: "imported")) }
        return .echo
    }

    enum Obstacle: CaseIterable, Sendable {
        case limit, strictHolder, exclusive, holderInOrder, limitInOrder, fullQueue, abandoned

        var codec: WordsCodec {
            var codec = WordsCodec()
            codec.isInOrder = self == .holderInOrder || self == .limitInOrder
            return codec
        }

        func set(_ options: inout ClientOptions) {
            switch self {
            case .limit, .limitInOrder, .abandoned: options.requests.maximumInFlight = 1
            case .fullQueue:
                options.requests.maximumInFlight = 1
                options.requests.maximumWaiting = 1
            case .strictHolder, .exclusive, .holderInOrder: break
            }
        }

        var request: Request {
            let holds = self == .strictHolder || self == .holderInOrder
            return Request(body: holds ? "hold import" : "import")
        }
    }

    @Test(arguments: Obstacle.allCases, [true, false])
    func anAnswerPassesWhatHoldsRequestsBack(_ obstacle: Obstacle, isEnqueued: Bool) throws {
        let options = ClientOptions { obstacle.set(&$0) }
        try simulate(speaking: obstacle.codec, options: options, handler: { Self.react(to: $0) }) { service, client in
            let pushes = client.pushes()
            try await client.connect()
            let isAlone = obstacle == .exclusive
            let request = client.start(obstacle.request, options: CallOptions(isExclusive: isAlone))
            let behind = client.start(Request(body: "behind"))
            if obstacle == .abandoned {
                try await service.pass(.seconds(1))
                request.cancel()
            }
            for await push in pushes {
                guard case .message(let message) = push else { continue }
                let answer = Request(body: "file")
                if isEnqueued {
                    try await client.enqueue(answer, answering: message)
                } else {
                    try await client.post(answer, answering: message)
                }
                break
            }
            if obstacle == .abandoned {
                #expect(await failure(of: request)?.code == .cancelled)
            } else {
                #expect(try await request.value.body == "imported")
            }
            #expect(try await behind.value.body == "behind")
            #expect(await service.server.journal.requests.map { String($0.body) }.filter { $0 != "behind" }.count == 2)
            #expect(service.now < .seconds(3))
            let queue = await client.dispatcher.requests.queue
            #expect(!queue.hasWaiting)
        }
    }

    /// Each of two channels has a request in flight, and waits for an answer.
    @Test func anAnswerPassesTheLimitOfItsChannel() throws {
        let handler: LoopbackServer.Handler = { frame in
            let channel = frame["channel"] ?? 0
            var answer = Frame(.response, body: "imported")
            answer["channel"] = channel
            if frame.body == "import" { return .garbage(Bytes("\(channel) ?which\n")) }
            return frame.body == "file" ? .frame(answer) : .echo
        }
        try simulate(speaking: AskingLanes(), handler: handler) { service, client in
            let pushes = client.pushes()
            let requests = (0..<2).map { client.start(LaneCodec.ask("import", on: $0)) }
            let behind = (0..<2).map { client.start(LaneCodec.ask("behind", on: $0)) }
            var count = 0
            for await push in pushes {
                guard case .message(let message) = push else { continue }
                try await client.post(LaneCodec.ask("file", on: message["channel"] ?? 9), answering: message)
                count += 1
                if count == 2 { break }
            }
            for request in requests { #expect(try await request.value.body == "imported") }
            for request in behind { #expect(try await request.value.body == "behind") }
            #expect(service.now < .seconds(3))
        }
    }

    /// Answers wait for a full socket, in their order and within the limit on waiting requests.
    @Test(arguments: [1, 2, 3] as [UInt64])
    func answersWaitForAFullSocketInTheirOrder(seed: UInt64) throws {
        let options = ClientOptions { options in
            options.outbound.highWatermark = 2000
            options.outbound.lowWatermark = 1000
            options.requests.maximumInFlight = 1
            options.requests.maximumWaiting = 50
            options.liveness.heartbeat = .none
        }
        var conditions = NetworkConditions()
        (conditions.sendBuffer, conditions.receiveWindow) = (4096, 4096)
        try simulate(
            seed: seed,
            conditions: conditions,
            speaking: WordsCodec(),
            options: options,
            overTLS: false,
            handler: { $0.body == "import" ? .sequence([.push(Frame(.push, body: "which")), .stopReading]) : .noReply }
        ) { service, client in
            let pushes = client.pushes()
            let request = client.start(Request(body: "import"), timeout: .seconds(60))
            var iterator = pushes.makeAsyncIterator()
            guard case .message(let message)? = await iterator.next() else {
                Issue.record("no push")
                return
            }
            let filling = String(repeating: "x", count: 200)
            try await withThrowingTaskGroup(of: ClientError?.self) { group in
                for number in 0..<200 {
                    group.addTask {
                        do throws(ClientError) {
                            let answer = Request(body: Bytes("\(number) \(filling)"))
                            try await client.post(answer, answering: message, timeout: .seconds(30))
                            return nil
                        } catch {
                            return error
                        }
                    }
                }
                try await service.pass(.seconds(1))
                #expect(await client.metrics.waiting.forTurn <= 50)
                await service.server.resumeReading()
                var errors: [ClientError] = []
                for try await error in group { if let error { errors.append(error) } }
                // More than the limit waited: these were refused.
                #expect(errors.allSatisfy { $0.code == .overloaded && $0.fate == .notSent })
                #expect(!errors.isEmpty && errors.count < 150)
                try await service.pass(.seconds(1))
                let received = await service.server.journal.requests.dropFirst()
                #expect(received.count == 200 - errors.count)
            }
            request.cancel()
            _ = await failure(of: request)
        }
    }
}

/// Lines of channels, in which a body that begins with "?" is a question of the server.
private struct AskingLanes: FrameCodec, ChannelCodec, ServerSideCodec {
    var lanes = LaneCodec(limit: 1)

    var matching: ResponseMatching { lanes.matching }
    func channel(of frame: Frame) -> UInt64 { lanes.channel(of: frame) }
    var maximumInFlightPerChannel: Int { 1 }
    func serverSide() -> any FrameCodec { lanes.serverSide() }

    func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard var frame = try lanes.decode(&input) else { return nil }
        if String(frame.body).hasPrefix("?") { frame.kind = .push }
        return frame
    }

    func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        try lanes.encode(frame, into: &output)
    }
}
