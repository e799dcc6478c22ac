import Trunkline
import TrunklineTesting

/// The callers of a simulated life.
struct SeedCalls: Sendable {
    /// The type of one-way messages.
    static let oneWayType: UInt32 = 0x420
    /// The longest pause of a reader of a streamed reply.
    private static let longestPause = Duration.milliseconds(3)

    /// The outcome of a request.
    struct Outcome: Sendable {
        var body: Bytes
        var isOneWay = false
        /// Whether the caller reads slowly from a buffer for one part, which may be full when the last one arrives.
        var mayOverflow = false
        var result: Result<Response, ClientError>
    }

    let world: SeedWorld
    let client: Client

    private var plan: SeedPlan { world.plan }

    /// One caller, which makes one or several requests with one form of call.
    func call(_ number: UInt64) async -> [Outcome] {
        var random = plan.random(1000 + number)
        let size = Int.random(in: 0..<8, using: &random) == 0 ? 1500 : Int.random(in: 0...60, using: &random)
        let body = Bytes("\(number) " + String(repeating: "x", count: size))
        let delay = Duration.microseconds(Int.random(in: 0...40_000, using: &random))
        let retry = plan.retry(of: number)
        let waits = Int.random(in: 0..<7, using: &random) != 0
        try? await world.pass(upTo: 150_000, &random)
        let way = Int.random(in: 0..<13, using: &random)
        let timeout: Duration? = way == 2 ? .microseconds(Int.random(in: 1...30_000, using: &random)) : nil
        let options = CallOptions(retry: retry, waitsForReady: waits)
        let (began, stalled) = (world.now, world.stalled)
        let outcomes: [Outcome]
        switch way {
        case 0, 1, 2:
            let result = await result { () throws(ClientError) in
                try await client.send(ask(body), timeout: timeout.map { .after($0) } ?? .default, options: options)
            }
            outcomes = [Outcome(body: body, result: result)]
        case 3, 4:
            let handle = client.start(ask(body), options: options)
            if number % 3 != 0 {
                try? await world.pass(delay)
                handle.cancel()
            }
            outcomes = [Outcome(body: body, result: await result { () throws(ClientError) in try await handle.value })]
        case 5:
            let task = Task(executorPreference: world.network.executor) {
                await result { () throws(ClientError) in
                    try await client.send(ask(body), options: CallOptions(retry: retry))
                }
            }
            if number % 2 == 0 { try? await world.pass(delay) }
            task.cancel()
            outcomes = [Outcome(body: body, result: await task.value)]
        case 6:
            let request = Request(type: Self.oneWayType, body: body)
            if number % 3 == 0 {
                let bodies = (0..<3).map { Bytes("\(number) \($0)") }
                let requests = bodies.map { Request(type: Self.oneWayType, body: $0) }
                let results = await client.post(all: requests, options: options)
                outcomes = zip(bodies, results).map { body, result in
                    Outcome(body: body, isOneWay: true, result: result.map { Response() })
                }
            } else {
                let posted = await result { () throws(ClientError) in
                    if number % 3 == 1 {
                        try await client.post(request, options: options)
                    } else {
                        try await client.enqueue(request)
                    }
                    return Response()
                }
                outcomes = [Outcome(body: body, isOneWay: true, result: posted)]
            }
        case 7:
            let result = await stream(ask(body), options, &random)
            outcomes = [Outcome(body: body, mayOverflow: true, result: result)]
        case 9, 10: outcomes = await throughSender(client, number, body, options, &random)
        case 11, 12:
            let pause = Duration.microseconds(Int.random(in: 0...500, using: &random))
            let sender = RoutedSender(clients: [client], network: world.network, pause: pause)
            outcomes = await throughSender(sender, number, body, options, &random)
        default:
            let bodies = (0..<4).map { Bytes("\(number) \($0)") }
            let results = await client.send(all: bodies.map { ask($0) }, options: options)
            outcomes = zip(bodies, results).map { Outcome(body: $0, result: $1) }
        }
        // In virtual time no call is late, not even by a nanosecond, unless the event loop was held up, or a reader
        // paused before it requested the next part.
        let rest = way == 7 || way >= 9 ? Self.longestPause : .zero
        let (took, limit) = (world.now - began, (timeout ?? SeedPlan.requestTimeout) + rest)
        if took > limit + (world.stalled - stalled) { world.violated("request \(number) took \(took) of \(limit)") }
        for outcome in outcomes { world.note("request \(String(outcome.body).prefix(5)): \(outcome.result.summary)") }
        return outcomes
    }

    /// Makes a call in generic code, with a short time for each part of its reply, and sometimes cancels it.
    private func throughSender(
        _ sender: some RequestSender,
        _ number: UInt64,
        _ body: Bytes,
        _ options: CallOptions,
        _ random: inout SeededGenerator
    ) async -> [Outcome] {
        let form = Int.random(in: 0..<4, using: &random)
        let partTimeout: Timeout =
            Bool.random(using: &random) ? .after(.microseconds(Int.random(in: 1...1000, using: &random))) : .default
        let patience: Duration? =
            Int.random(in: 0..<3, using: &random) == 0
            ? .microseconds(Int.random(in: 0...1000, using: &random)) : nil
        // Requests in pieces need serials.
        let pieces = plan.matching == .inOrder ? 0 : Int.random(in: 1...3, using: &random)
        let task = Task(executorPreference: world.network.executor) { () -> [Outcome] in
            switch form {
            case 0:
                let handle = sender.start(ask(body), options: options)
                let result = await result { () throws(ClientError) in try await handle.value }
                return [Outcome(body: body, result: result)]
            case 1 where pieces > 0, 2 where pieces > 0:
                let upload = sender.open(
                    Request(type: 0, body: body),
                    timeout: .after(SeedPlan.requestTimeout),
                    partTimeout: partTimeout,
                    options: options
                )
                async let others = send(pieces, of: number, in: upload)
                let reply = await reply(of: upload.responses)
                return [Outcome(body: body, result: reply)] + (await others)
            default:
                let stream = sender.stream(
                    ask(body),
                    timeout: .after(SeedPlan.requestTimeout),
                    partTimeout: partTimeout,
                    options: options
                )
                return [Outcome(body: body, result: await reply(of: stream))]
            }
        }
        if let patience {
            try? await world.pass(patience)
            task.cancel()
        }
        let outcomes = await task.value
        world.count(form == 0 ? "routed start" : form < 3 && pieces > 0 ? "routed upload" : "routed stream")
        return outcomes
    }

    /// Sends the further pieces of an upload until one fails.
    private func send(_ count: Int, of number: UInt64, in upload: OpenRequest) async -> [Outcome] {
        var outcomes: [Outcome] = []
        for index in 1...count {
            let body = Bytes("piece \(index) of \(number)")
            let result = await result { () throws(ClientError) in
                if index < count {
                    try await upload.send(Request(type: 0, body: body))
                } else {
                    try await upload.finish(ask(body))
                }
                return Response()
            }
            outcomes.append(Outcome(body: body, isOneWay: true, result: result))
            guard case .failure = result else { continue }
            break
        }
        return outcomes
    }

    /// Reads a reply to its end.
    private func reply(of stream: ReplyStream<Response>) async -> Result<Response, ClientError> {
        var bodies: [UInt8] = []
        do throws(ClientError) {
            for try await part in stream {
                bodies += part.body
                if part["shared"] != nil { world.count("shared part") }
                if !part.isPart { return .success(Response(body: Bytes(bodies))) }
            }
            if !Task.isCancelled { world.violated("a stream ended without its last part") }
            return .failure(ClientError(.cancelled, .unknown, "read no further"))
        } catch {
            return .failure(error)
        }
    }

    /// Reads a reply part by part, sometimes slowly, and sometimes not to its end.
    private func stream(
        _ request: Request,
        _ options: CallOptions,
        _ random: inout SeededGenerator
    ) async -> Result<Response, ClientError> {
        let buffering = ReplyBuffering(maximumCount: 1, overflow: Bool.random(using: &random) ? .suspendReading : .fail)
        let stream = client.stream(
            request,
            timeout: .after(SeedPlan.requestTimeout),
            options: options,
            buffering: buffering
        )
        let (patience, pause) = (Int.random(in: 0...5, using: &random), Int.random(in: 0...3, using: &random))
        var bodies: [UInt8] = []
        var count = 0
        do throws(ClientError) {
            for try await frame in stream {
                bodies += frame.body
                count += 1
                if !frame.isPart {
                    if count > 1 { world.count("streamed") }
                    return .success(Response(body: Bytes(bodies)))
                }
                if count > patience { break }
                try? await world.pass(.milliseconds(pause))
            }
            world.count("stream abandoned")
            return .failure(ClientError(.cancelled, .unknown, "read no further"))
        } catch {
            return .failure(error)
        }
    }

    private func result(
        _ body: nonisolated(nonsending) () async throws(ClientError) -> Response
    ) async -> Result<Response, ClientError> {
        do throws(ClientError) { return .success(try await body()) } catch { return .failure(error) }
    }

    /// Subscribes and, with some seeds, unsubscribes.
    func subscribe(_ number: Int) async -> Bytes? {
        var random = plan.random(500 + UInt64(number))
        let body = Bytes("topic \(number)")
        try? await world.pass(upTo: 100_000, &random)
        let (began, stalled) = (world.now, world.stalled)
        world.note("subscribing \(body)")
        do throws(ClientError) {
            let subscription = try await client.subscribe(ask(body))
            world.count("subscribed")
            world.noteSubscription(body, nil)
            guard Int.random(in: 0..<3, using: &random) == 0 else { return body }
            try? await world.pass(upTo: 50_000, &random)
            await subscription.end()
            return nil
        } catch {
            let took = world.now - began
            world.noteSubscription(body, error)
            if error.code == .timedOut, took > SeedPlan.requestTimeout * 8 + (world.stalled - stalled) {
                world.violated("subscription \(number) took \(took)")
            }
            return nil
        }
    }

    /// Waits for a link, for a limited time or until there is one.
    func connect(_ number: Int) async {
        guard number % 2 == 1 else { return (try? await client.connect()) ?? () }
        let task = Task(executorPreference: world.network.executor) { try? await client.connect() }
        try? await world.pass(.milliseconds(number * 7))
        task.cancel()
        _ = await task.value
    }
}

extension Result where Success == Response, Failure == ClientError {
    fileprivate var summary: String {
        switch self {
        case .success: "answered"
        case .failure(let error): "\(error.code), \(error.fate): \(error.message)"
        }
    }
}
