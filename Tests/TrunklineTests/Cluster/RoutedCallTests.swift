import Testing

@testable import TrunklineCluster
@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// Calls in code that takes any `RequestSender`, and streams and uploads that may go to one client after the other, in
/// simulated networks.
@Suite(.simulated)
struct RoutedCallTests {}

extension RoutedCallTests {
    private static let request = Request(type: 0x410, body: "hello")

    private struct Setting: Sendable {
        let network: SimulatedNetwork
        let servers: [LoopbackServer]
        let clients: [Client]

        func sender(pause: Duration = .zero, isIdempotent: Bool = false) -> RoutedSender {
            RoutedSender(clients: clients, network: network, pause: pause, isIdempotent: isIdempotent)
        }

        func pass(_ milliseconds: Int) async throws { try await network.clock.sleep(for: .milliseconds(milliseconds)) }

        var received: [Frame] {
            get async {
                var all: [Frame] = []
                for server in servers { all += await server.received }
                return all
            }
        }
    }

    /// Runs `body` with servers named s0, s1, … and a connected client of each.
    private func run(
        servers count: Int = 1,
        speaking codec: any FrameCodec = FrameLayout.standard,
        _ reaction: @escaping @Sendable (Int, Frame) -> Reaction = { _, _ in .echo },
        _ body: @escaping @Sendable (Setting) async throws -> Void
    ) async throws {
        let network = SimulatedNetwork(seed: 1)
        try await network.run {
            var (servers, clients): ([LoopbackServer], [Client]) = ([], [])
            for number in 0..<count {
                let endpoint = Endpoint(stringLiteral: "s\(number):7000")
                servers.append(
                    try await network.startServer(at: endpoint, speaking: codec) { reaction(number, $0) }
                )
                clients.append(Client(to: endpoint, speaking: codec, on: network.loops))
                try await clients[number].connect()
            }
            try await body(Setting(network: network, servers: servers, clients: clients))
            for client in clients { await client.closeNow() }
            for server in servers { await server.stop() }
        }
        #expect(network.openLinks == 0)
        #expect(network.loop.timers.armedCount == 0)
    }

    private func cluster(of setting: Setting, _ options: ClientOptions = ClientOptions()) -> Cluster {
        let found = setting.servers.map { ClusterEndpoint($0.endpoint) }
        return Cluster(discovering: .static(found), speaking: .standard, options: options, on: setting.network.loops)
    }

    // MARK: Generic code

    /// A sender that implements every call, and notes which of its methods is called.
    private struct NotingSender: RequestSender {
        let notes = Notes()

        private var refusal: ClientError { ClientError(.closed, .notSent, "noted") }

        func perform<Value: Sendable>(
            timeout: Timeout,
            options: CallOptions,
            _ body: nonisolated(nonsending) (Client, Timeout, CallOptions) async throws(ClientError) -> Value
        ) async throws(ClientError) -> Value {
            notes.add("perform")
            throw refusal
        }

        func pushes(_ selection: PushSelection, buffering: PushBuffering) -> PushStream {
            notes.add("pushes")
            return ClusterListeners().add(selection, buffering)
        }

        func send(_: Request, timeout: Timeout, options: CallOptions) async throws(ClientError) -> Response {
            notes.add("send")
            throw refusal
        }

        func send(
            all requests: some Collection<Request>,
            timeout: Timeout,
            options: CallOptions
        ) async -> [Result<Response, ClientError>] {
            notes.add("send all")
            return requests.map { _ in .failure(refusal) }
        }

        func post(_: Request, timeout: Timeout, options: CallOptions) async throws(ClientError) {
            notes.add("post")
        }

        func post(
            all requests: some Collection<Request>,
            timeout: Timeout,
            options: CallOptions
        ) async -> [Result<Void, ClientError>] {
            notes.add("post all")
            return requests.map { _ in .failure(refusal) }
        }

        func start(_: Request, timeout: Timeout, options: CallOptions) -> PendingRequest<Response> {
            notes.add("start")
            return PendingRequest(RequestHandle(.failure(refusal)))
        }

        func stream(
            _: Request,
            timeout: Timeout,
            partTimeout: Timeout,
            options: CallOptions,
            buffering: ReplyBuffering
        ) -> ReplyStream<Response> {
            notes.add("stream")
            return ReplyStream(EndedReplies())
        }

        func open(
            _: Request,
            timeout: Timeout,
            partTimeout: Timeout,
            options: CallOptions,
            buffering: ReplyBuffering
        ) -> OpenRequest {
            notes.add("open")
            return OpenRequest(ReplyStream(EndedReplies()))
        }

        func enqueue(_: Request, timeout: Timeout) async throws(ClientError) { notes.add("enqueue") }

        func subscribe(_: Request, timeout: Timeout) async throws(ClientError) -> Subscription {
            notes.add("subscribe")
            throw refusal
        }

        func subscribe(posting: Request, timeout: Timeout) async throws(ClientError) -> Subscription {
            notes.add("subscribe posting")
            throw refusal
        }
    }

    private final class EndedReplies: ReplySource {
        func next(after waited: Duration) async throws(ClientError) -> Response? { nil }
        func post(_ frame: Frame) async throws(ClientError) {}
        func abandon() {}
        func end() {}
    }

    private struct Echo: TypedRequest {
        static let type: UInt32 = 0x410
        func encode() -> Bytes { "hello" }
        static func decode(_ response: Response) -> String { String(response.body) }
    }

    /// Makes every call with every combination of omitted arguments. Returns how often each method must be called.
    private func callEverything(_ sender: some RequestSender) async -> [String: Int] {
        let (request, options, buffering) = (Self.request, CallOptions(), ReplyBuffering())
        _ = try? await sender.send(request)
        _ = try? await sender.send(request, timeout: .seconds(1))
        _ = try? await sender.send(request, options: options)
        _ = try? await sender.send(request, timeout: .seconds(1), options: options)
        _ = try? await sender.send(Echo())
        _ = await sender.send(all: [request])
        _ = await sender.send(all: [request], timeout: .seconds(1))
        _ = await sender.send(all: [request], options: options)
        _ = await sender.send(all: [Echo()])
        try? await sender.post(request)
        try? await sender.post(request, timeout: .seconds(1))
        try? await sender.post(request, options: options)
        _ = await sender.post(all: [request])
        _ = await sender.post(all: [request], timeout: .seconds(1))
        _ = await sender.post(all: [request], options: options)
        _ = sender.start(request)
        _ = sender.start(request, timeout: .seconds(1))
        _ = sender.start(request, options: options)
        _ = try? sender.start(Echo())
        _ = sender.stream(request)
        _ = sender.stream(request, timeout: .seconds(1))
        _ = sender.stream(request, partTimeout: .seconds(1))
        _ = sender.stream(request, options: options)
        _ = sender.stream(request, buffering: buffering)
        _ = sender.stream(request, partTimeout: .seconds(1), buffering: buffering)
        _ = sender.stream(request, options: options, buffering: buffering)
        _ = sender.stream(request, timeout: .seconds(1), options: options, buffering: buffering)
        _ = sender.stream(request, partTimeout: .seconds(1), options: options, buffering: buffering)
        _ = try? sender.stream(Echo())
        _ = sender.open(request)
        _ = sender.open(request, timeout: .seconds(1), partTimeout: .seconds(1))
        _ = sender.open(request, options: options)
        _ = sender.open(request, buffering: buffering)
        _ = sender.open(request, options: options, buffering: buffering)
        _ = sender.open(request, partTimeout: .seconds(1), options: options, buffering: buffering)
        try? await sender.enqueue(request)
        _ = try? await sender.subscribe(request)
        _ = try? await sender.subscribe(Echo())
        _ = try? await sender.subscribe(posting: request)
        _ = sender.pushes(.all)
        _ = sender.pushes()
        _ = sender.pushes(ofType: 2)
        return [
            "send": 5, "send all": 4, "post": 3, "post all": 3, "start": 4, "stream": 10, "open": 6, "enqueue": 1,
            "subscribe": 2, "subscribe posting": 1, "pushes": 3,
        ]
    }

    /// A call that omitted an argument went to `perform`, and so around the method of a client or of a cluster: slowly,
    /// with false fates, and with subscriptions of a cluster that never moved.
    @Test func everyCallInGenericCodeReachesTheMethodOfItsSender() async {
        let sender = NotingSender()
        let expected = await callEverything(sender)
        let called = Dictionary(sender.notes.all.map { ($0, 1) }, uniquingKeysWith: +)
        #expect(called == expected)
    }

    /// `stream` and `open` of a client in generic code began a task, and their requests went out later than others.
    @Test func aClientInGenericCodeIsTheClient() async throws {
        try await run { setting in
            @Sendable func source(_ sender: some RequestSender) -> [Bool] {
                [sender.stream(Self.request), sender.open(piece("a"), partTimeout: .seconds(1)).responses].map {
                    $0.reading.source is ReplyChannel
                }
            }
            #expect(source(setting.clients[0]) == [true, true])
            #expect(source(setting.sender()) == [false, false])
        }
    }

    /// It was the subscription of one client, which did not move when its server went away.
    @Test func aSubscriptionOfAClusterInGenericCodeMovesToAnotherServer() async throws {
        @Sendable func subscribe(_ sender: some RequestSender) async throws -> Subscription {
            try await sender.subscribe(Self.request)
        }
        try await run(servers: 2) { setting in
            let cluster = cluster(of: setting)
            try await cluster.connect()
            try await setting.pass(500)
            let subscription = try await subscribe(cluster)
            let first = await setting.servers[0].received.isEmpty ? 1 : 0
            await setting.servers[first].stop()
            try await setting.pass(2000)
            #expect(await setting.servers[1 - first].received.contains { $0.body == "hello" })
            await subscription.end()
            await cluster.close()
        }
    }

    /// The implementations for a sender that has only `perform` and `pushes`.
    @Test func aSenderOfYourOwnHasEveryCall() async throws {
        @Sendable func ask(_ sender: some RequestSender) async throws -> [String] {
            var bodies = [String(try await sender.send(Self.request).body), try await sender.send(Echo())]
            bodies += try await sender.send(all: [Self.request]).map { String(try $0.get().body) }
            bodies.append(String(try await sender.start(Self.request).value.body))
            bodies += await words(of: sender.stream(Self.request))
            let upload = sender.open(piece("hel"))
            try await upload.finish(whole("lo"))
            bodies += await words(of: upload.responses)
            bodies.append(String(try await sender.subscribe(Self.request).response?.body ?? ""))
            try await sender.post(Self.request)
            try await sender.enqueue(Self.request)
            return bodies
        }
        try await run { _, request in
            request.kind == .part ? .perform { try await join($0) } : .echo
        } _: { setting in
            let bodies = try await ask(setting.sender())
            #expect(bodies == Array(repeating: "hello", count: 7))
        }
    }

    // MARK: Fates

    /// The request of a reader that had given up with `notSent` was sent afterwards.
    @Test(arguments: [false, true]) func nothingIsSentAfterItsReaderHasGivenUp(isUpload: Bool) async throws {
        try await run { setting in
            let sender = setting.sender(pause: .milliseconds(50))
            let began = setting.network.clock.now
            let stream =
                isUpload
                ? sender.open(piece("a"), partTimeout: .milliseconds(10)).responses
                : sender.stream(Self.request, partTimeout: .milliseconds(10))
            var reader = stream.makeAsyncIterator()
            let error = await failure { () throws(ClientError) in try await reader.next() }
            #expect(error?.code == .timedOut)
            #expect(error?.fate == .notSent)
            #expect(began.duration(to: setting.network.clock.now) == .milliseconds(10))
            try await setting.pass(500)
            #expect(await setting.received.isEmpty)
            let end = try await reader.next()
            #expect(end == nil, "the failure is thrown once")
        }
    }

    /// The same for a reader whose task is cancelled, and for `cancel()`.
    @Test(arguments: [false, true]) func nothingIsSentAfterACancellation(ofTheTask isTask: Bool) async throws {
        try await run { setting in
            let stream = setting.sender(pause: .milliseconds(50)).stream(Self.request)
            let task = Task(executorPreference: setting.network.executor) { await words(of: stream) }
            try await setting.pass(1)
            if isTask { task.cancel() } else { stream.cancel() }
            #expect(await task.value == ["cancelled notSent"])
            try await setting.pass(500)
            #expect(await setting.received.isEmpty)
        }
    }

    /// Expects that the wait for the first part ends at a client, and that the error says where.
    private func expectTimeout(of stream: ReplyStream<Response>, at endpoint: Endpoint) async {
        var reader = stream.makeAsyncIterator()
        let error = await failure { () throws(ClientError) in try await reader.next() }
        #expect(error?.code == .timedOut)
        #expect(error?.fate == .unknown)
        #expect(error?.endpoint == endpoint)
        #expect(error?.timeline != nil)
        #expect(error?.message.contains("no server took") == false, "\(String(describing: error))")
    }

    /// The reader waited anew after a client had taken its request: the time of one part could be twice as long. Later,
    /// the error said "no server took the request" if the reader was faster than the task of the request.
    @Test func theTimeOfAPartIncludesTheWaitForAClient() async throws {
        try await run { _, _ in
            .noReply
        } _: { setting in
            let began = setting.network.clock.now
            let stream = setting.sender(pause: .milliseconds(60)).stream(Self.request, partTimeout: .milliseconds(100))
            await expectTimeout(of: stream, at: setting.servers[0].endpoint)
            #expect(began.duration(to: setting.network.clock.now) == .milliseconds(100))
        }
    }

    /// The same for a wait that began with another client, whose link was lost.
    @Test func theTimeOfAPartIncludesFailedTries() async throws {
        try await run(servers: 2) { number, _ in
            number == 0 ? .after(.milliseconds(60), .reset) : .noReply
        } _: { setting in
            let began = setting.network.clock.now
            let sender = setting.sender(isIdempotent: true)
            let stream = sender.stream(
                Self.request,
                partTimeout: .milliseconds(100),
                options: CallOptions(retry: .never)
            )
            await expectTimeout(of: stream, at: setting.servers[1].endpoint)
            #expect(began.duration(to: setting.network.clock.now) == .milliseconds(100))
            #expect(await setting.received.count == 2)
        }
    }

    enum FirstTry: CaseIterable { case rejected, lost, closed }

    /// The error was "no server took the request", unknown, although a server had received it, or had even answered.
    @Test(arguments: FirstTry.allCases) func theErrorAfterAFailedTryIsThatOfTheTry(_ first: FirstTry) async throws {
        try await run(servers: 2, speaking: RejectingCodec()) { number, _ in
            number == 1 ? .echo : .after(.milliseconds(10), first == .rejected ? .status(500) : .reset)
        } _: { setting in
            if first == .closed { await setting.clients[0].closeNow() }
            let began = setting.network.clock.now
            let sender = setting.sender(pause: .milliseconds(60), isIdempotent: true)
            let stream = sender.stream(
                Self.request,
                partTimeout: .milliseconds(100),
                options: CallOptions(retry: .never)
            )
            var reader = stream.makeAsyncIterator()
            let error = await failure { () throws(ClientError) in try await reader.next() }
            #expect(began.duration(to: setting.network.clock.now) == .milliseconds(100))
            switch first {
            case .rejected: #expect(error?.code == .rejected && error?.fate == .answered)
            case .lost: #expect(error?.code == .connectionLost && error?.fate == .unknown)
            case .closed: #expect(error?.code == .timedOut && error?.fate == .notSent)
            }
            let saysNone = error?.message.contains("no server took") == true
            #expect(saysNone == (first == .closed), "\(String(describing: error))")
            try await setting.pass(500)
            #expect(await setting.servers[1].received.isEmpty)
        }
    }

    /// The metrics, the log and alerts had a cancelled call.
    @Test func aStreamThatNoServerTakesInTimeCountsAsTimedOut() async throws {
        try await run(servers: 0) { setting in
            let cluster = Cluster(
                discovering: .static(["nowhere:7000"]),
                speaking: .standard,
                on: setting.network.loops
            )
            let stream = cluster.stream(Self.request, partTimeout: .milliseconds(50))
            #expect(await words(of: stream) == ["timedOut notSent"])
            let cancelled = cluster.stream(Self.request)
            let task = Task(executorPreference: setting.network.executor) { await words(of: cancelled) }
            try await setting.pass(10)
            task.cancel()
            #expect(await task.value == ["cancelled notSent"])
            try await setting.pass(10)
            let failures = await cluster.metrics.failures.filter { $0.value > 0 }
            #expect(failures == [.init(.timedOut, .notSent): 1, .init(.cancelled, .notSent): 1])
            await cluster.closeNow()
        }
    }

    /// It took a token of the retry budget, and counted a retry that never came.
    @Test func aCancelledCallPaysForNoRetry() async throws {
        try await run { setting in
            let (cluster, clock) = (cluster(of: setting), setting.network.clock)
            try await cluster.connect()
            let task = Task(executorPreference: setting.network.executor) {
                await failure { () throws(ClientError) in
                    try await cluster.perform(options: CallOptions(retry: .idempotent())) {
                        (_, _, _) throws(ClientError) -> Response in
                        // Until the task is cancelled.
                        try? await clock.sleep(for: .seconds(5))
                        throw ClientError(.connectionLost, .unknown, "lost")
                    }
                }
            }
            try await setting.pass(10)
            task.cancel()
            let error = await task.value
            #expect(error?.code == .connectionLost)
            #expect(error?.fate == .unknown)
            let metrics = await cluster.metrics
            #expect(metrics.retries == 0)
            #expect(metrics.retriesRefused == 0)
            await cluster.closeNow()
        }
    }

    /// The request of a stream that was given up went to the client again.
    @Test func aStreamThatWasGivenUpBeginsNoFurtherTry() async throws {
        try await run { setting in
            let (client, network) = (setting.clients[0], setting.network)
            let call = RoutedReplies.Call(Self.request, isOpen: false, .never, .never, CallOptions(), ReplyBuffering())
            let (loop, executor) = (network.loop, network.executor)
            let replies = RoutedReplies(call, nil, on: loop, executor: executor) { body, _ throws(ClientError) in
                _ = try await body(client, .never, CallOptions(), nil)
                try? await network.clock.sleep(for: .milliseconds(50))
                _ = try await body(client, .never, CallOptions(), nil)
            }
            let stream = ReplyStream(replies)
            #expect(await words(of: stream) == ["hello"])
            stream.cancel()
            try await setting.pass(500)
            #expect(await setting.received.count == 1)
            #expect(await client.metrics.failures.isEmpty)
        }
    }

    /// The second of two readers got `nil` when the first try failed, as if the reply had been complete.
    @Test func everyReaderSurvivesAFailedTry() async throws {
        try await run(servers: 2) { number, _ in
            number == 0
                ? .after(.milliseconds(10), .reset)
                : .parts(["a", "b"], every: .milliseconds(10), then: .reply("c"))
        } _: { setting in
            let sender = setting.sender(isIdempotent: true)
            let stream = sender.stream(Self.request, options: CallOptions(retry: .never))
            async let first = words(of: stream)
            async let second = words(of: stream)
            let both = await first + second
            #expect(both.sorted() == ["+a", "+b", "c"])
        }
    }

    // MARK: Failed uploads

    enum Cause: CaseIterable { case closed, mayNotWait, deadline }

    /// A call of `post` took the failure, so `for try await` ended as if the reply were complete.
    @Test(arguments: Cause.allCases) func aFailedUploadEndsItsResponsesWithItsError(_ cause: Cause) async throws {
        try await run(servers: 0) { setting in
            let cluster = Cluster(
                discovering: .static(["nowhere:7000"]),
                speaking: .standard,
                on: setting.network.loops
            )
            if cause == .closed { await cluster.close() }
            let upload = cluster.open(
                piece("a"),
                timeout: cause == .deadline ? .milliseconds(50) : .default,
                options: CallOptions(waitsForReady: cause != .mayNotWait)
            )
            let code: ClientError.Code = cause == .closed ? .closed : cause == .deadline ? .timedOut : .unavailable
            for last in [false, false, true] {
                let error = await failure { () throws(ClientError) in
                    if last { try await upload.finish(whole("b")) } else { try await upload.send(piece("b")) }
                }
                #expect(error?.code == code)
                #expect(error?.fate == .notSent)
            }
            var reader = upload.responses.makeAsyncIterator()
            let error = await failure { () throws(ClientError) in try await reader.next() }
            #expect(error?.code == code)
            #expect(error?.fate == .notSent)
            let end = try await reader.next()
            #expect(end == nil, "the failure is thrown once")
            await cluster.closeNow()
        }
    }

    /// The cancellation of one piece cancelled the whole upload while no client had it, and a piece waited no longer
    /// for a server than a reader may wait for a part.
    @Test func aPieceMayBeCancelledWhileItsUploadWaitsForAServer() async throws {
        try await run { _, _ in
            .perform { try await join($0) }
        } _: { setting in
            let sender = setting.sender(pause: .seconds(20))
            let upload = sender.open(piece("a"), partTimeout: .seconds(60))
            let patient = sender.open(piece("c"), partTimeout: .milliseconds(500))
            let task = Task(executorPreference: setting.network.executor) {
                await failure(posting: piece("lost"), isPart: true, to: upload.responses)
            }
            try await setting.pass(10)
            task.cancel()
            #expect(await task.value == "cancelled notSent")
            try await upload.finish(whole("b"))
            #expect(await words(of: upload.responses) == ["ab"])
            try await patient.finish(whole("d"))
            #expect(await words(of: patient.responses) == ["cd"])
        }
    }

    /// A piece failed although the next client took the upload.
    @Test func aPieceGoesToTheClientThatTakesItsUpload() async throws {
        try await run(servers: 2) { _, _ in
            .perform { try await join($0) }
        } _: { setting in
            await setting.clients[0].closeNow()
            let upload = setting.sender().open(piece("a"))
            try await upload.send(piece("b"))
            try await upload.finish(whole("c"))
            #expect(await words(of: upload.responses) == ["abc"])
        }
    }

    /// After a second piece was put on a link, no other client takes the upload, and its pieces and its reader are
    /// told.
    @Test func anUploadStaysWithTheClientThatHasItsPieces() async throws {
        try await run(servers: 2) { _, _ in
            .perform { _ = try await $0.next() }
        } _: { setting in
            let upload = setting.sender(isIdempotent: true).open(piece("a"), options: CallOptions(retry: .never))
            try await upload.send(piece("b"))
            await setting.servers[0].disconnectAll(reset: true)
            try await setting.pass(100)
            let error = await failure { () throws(ClientError) in try await upload.finish(whole("c")) }
            #expect(error?.fate == .notSent)
            let reply = await words(of: upload.responses)
            #expect(reply == ["connectionLost unknown"])
            #expect(await setting.servers[1].received.isEmpty)
        }
    }
}
