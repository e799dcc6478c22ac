import Testing
import Trunkline
import TrunklineCluster
import TrunklineDiagnostics
import TrunklineFoundation
import TrunklineTesting

/// Arguments of calls, of the test server and of the simulation itself: nothing traps, and every call ends.
@Suite(.tags(.simulated), .timeLimit(.minutes(5)))
struct SimulatedValueTests {}

extension SimulatedValueTests {
    @Test(arguments: SimulatedValueTests.cases)
    func noValueOfAnArgumentTraps(_ argument: ValueCase) async throws {
        try await argument.use()
    }

    static let cases = calls + codecs + server + network

    // MARK: Calls

    private static let calls = [
        ValueCase("withTimeout(_: Duration, clock: some Clock<Duration>)") {
            for timeout in Duration.extremes {
                try await SimulatedNetwork(seed: 1).runWithServer { network in
                    let error = await ended {
                        try await withTimeout(timeout, clock: network.clock) {
                            try await network.clock.sleep(for: .nanoseconds(2))
                        }
                    }
                    #expect(error?.code == (timeout > .nanoseconds(1) ? nil : .timedOut))
                }
            }
        },
        ValueCase(
            "Timeout.after(_: Duration)",
            "Timeout.milliseconds(_: Int)",
            "Timeout.seconds(_: Double)",
            "Timeout.seconds(_: Int)"
        ) {
            let timeouts =
                Duration.extremes.map { Timeout.after($0) } + Int.extremes.map { .milliseconds($0) }
                + Int.extremes.map { .seconds($0) } + Double.extremes.map { .seconds($0) }
            for timeout in timeouts { try await call(with: timeout) }
            // No number means no time at all, and more than a clock can show means no limit.
            for seconds in [Double.nan, -.infinity, -1e300] {
                #expect(try await call(with: .seconds(seconds)) == .timedOut)
            }
            for seconds in [Double.infinity, 1e300, 1e19] {
                #expect(try await call(with: .seconds(seconds)) == nil)
            }
        },
        ValueCase("Client.serve(maximumConcurrent: Int, maximumWaiting: Int)") {
            let layout = FrameLayout {
                Field.kind(UInt8.self, [.request: 0, .response: 1])
                Field.serial(UInt32.self)
                Field.length(UInt32.self, counting: .body)
                Field.body
            }
            for number in Int.extremes {
                let network = SimulatedNetwork(seed: 1)
                try await network.run {
                    let server = try await network.startServer(at: "a:1", speaking: layout)
                    let client = Client(to: "a:1", speaking: layout, on: network.loops)
                    async let serving: Void = client.serve(maximumConcurrent: number, maximumWaiting: number) {
                        Frame(.response, body: $0.body)
                    }
                    try await server.wait { $0.connectionCount == 1 }
                    let answer = try await server.request(Frame(.request, body: "a"))
                    #expect(answer.body == "a")
                    await client.close()
                    try await serving
                    await server.stop()
                }
            }
        },
        ValueCase("JSONRPCCall.serve(maximumConcurrent: Int, maximumWaiting: Int)") {
            for number in Int.extremes {
                let network = SimulatedNetwork(seed: 1)
                try await network.run {
                    let codec = JSONRPCCodec(.lines)
                    let server = try await network.startServer(at: "a:1", speaking: codec)
                    let client = Client(to: "a:1", speaking: codec, on: network.loops)
                    async let serving: Void = JSONRPCCall.serve(
                        client,
                        maximumConcurrent: number,
                        maximumWaiting: number
                    ) {
                        $0.method
                    }
                    try await server.wait { $0.connectionCount == 1 }
                    var request = Frame(.request, serial: 1)
                    request[bytes: "method"] = "m"
                    let answer = try await server.request(request)
                    #expect(answer.body == "\"m\"")
                    await client.close()
                    try await serving
                    await server.stop()
                }
            }
        },
        ValueCase("CachePolicy.for(_: Duration)", "CachePolicy.staleIfUnavailable(freshFor: Duration, upTo: Duration?)")
        {
            try await SimulatedNetwork(seed: 1).runWithServer { network in
                let client = Client(to: "db:7000", speaking: FrameLayout.standard, on: network.loops)
                let cached = CachingSender(client)
                for age in Duration.extremes {
                    for policy in [CachePolicy.for(age), .staleIfUnavailable(freshFor: age, upTo: age)] {
                        for _ in 0..<2 { _ = try await cached.send(Request(type: 0x410), cache: policy) }
                    }
                }
                await client.close()
            }
        },
        ValueCase("CachingSender.Options.maximumBytes: Int", "CachingSender.Options.maximumCount: Int") {
            try await SimulatedNetwork(seed: 1).runWithServer { network in
                let client = Client(to: "db:7000", speaking: FrameLayout.standard, on: network.loops)
                for limit in Int.extremes {
                    for path in [\CachingSender.Options.maximumBytes, \.maximumCount] {
                        let cached = CachingSender(client, options: CachingSender.Options { $0[keyPath: path] = limit })
                        for body in ["a", "b", "a"] as [Bytes] {
                            _ = try await cached.send(Request(type: 0x410, body: body), cache: .for(.seconds(60)))
                        }
                    }
                }
                await client.close()
            }
        },
        ValueCase(
            "PushBuffering.init(maximumCount: Int, maximumBytes: Int)",
            "PushBuffering.maximumBytes: Int",
            "PushBuffering.maximumCount: Int"
        ) {
            for overflow in [PushBuffering.Overflow.dropNewest, .dropOldest, .finish, .suspendReading] {
                for limit in Int.extremes {
                    try await bufferPushes(PushBuffering(maximumCount: limit, overflow: overflow))
                    var buffering = PushBuffering(maximumBytes: limit, overflow: overflow)
                    try await bufferPushes(buffering)
                    (buffering.maximumCount, buffering.maximumBytes) = (limit, limit)
                    try await bufferPushes(buffering)
                }
            }
        },
        ValueCase(
            "ReplyBuffering.init(maximumCount: Int, maximumBytes: Int)",
            "ReplyBuffering.maximumBytes: Int",
            "ReplyBuffering.maximumCount: Int"
        ) {
            for overflow in [ReplyBuffering.Overflow.fail, .suspendReading] {
                for limit in Int.extremes {
                    var all = ReplyBuffering(maximumCount: limit, maximumBytes: limit, overflow: overflow)
                    for _ in 0..<2 {
                        try await stream(all)
                        (all.maximumCount, all.maximumBytes) = (limit, 1000)
                    }
                }
            }
        },
        ValueCase("Endpoint.weighing(_: Double)") {
            for weight in Double.extremes {
                for others in [[1, 2], [weight, -weight], [weight, weight]] {
                    try await SimulatedNetwork(seed: 1).runWithServer { network in
                        let endpoints = (others + [weight]).enumerated().map { index, weight in
                            Endpoint.host("db\(index)", port: 7000).weighing(weight)
                        }
                        let options = ClientOptions { $0.failover.order = .weighted }
                        let codec = FrameLayout.standard
                        let client = Client(to: endpoints, speaking: codec, options: options, on: network.loops)
                        await ended(by: network.clock) { try await client.connect() }
                        await client.close()
                    }
                }
            }
        },
        ValueCase("Client.connect(timeout: Duration)", "Cluster.connect(timeout: Duration)") {
            for timeout in Duration.extremes {
                try await SimulatedNetwork(seed: 1).runWithServer { network in
                    let client = Client(to: "db:7000", speaking: .standard, on: network.loops)
                    await ended(by: network.clock) { try await client.connect(timeout: timeout) }
                    await client.close()
                    let list = Discovery.static([ClusterEndpoint("db:7000")])
                    let cluster = Cluster(discovering: list, speaking: .standard, on: network.loops)
                    await ended(by: network.clock) { try await cluster.connect(timeout: timeout) }
                    await cluster.close()
                }
            }
        },
        ValueCase("Handshaker.setDefault(to: UInt64)") {
            for number in UInt64.extremes {
                try await useClient {
                    $0.handshake.perform = { try await $0.setDefault("number", to: number) }
                }
            }
        },
        ValueCase("TypedRequest.type: UInt32", "JSONRequest.type: UInt32") {
            try await SimulatedNetwork(seed: 1).runWithServer { network in
                let client = Client(to: "db:7000", speaking: FrameLayout.standard, on: network.loops)
                for type in UInt32.extremes {
                    var request = JSONRequest("hello", replyingWith: String.self)
                    request.type = type
                    await ended(by: network.clock) { [request] in _ = try await client.send(request) }
                    await ended(by: network.clock) { _ = try await client.send(Request(type: type)) }
                    await ended(by: network.clock) { try await client.post(Request(type: type)) }
                }
                await client.close()
            }
        },
        ValueCase("Recording.pcapng(port: UInt16?)") {
            try await SimulatedNetwork(seed: 1).runWithServer { network in
                let options = ClientOptions.withEverything
                let client = Client(to: "db:7000", speaking: FrameLayout.standard, options: options, on: network.loops)
                _ = try await client.send(Request(type: 0x410))
                let recording = try #require(await client.diagnostics.recording)
                for port in UInt16.extremes { _ = recording.pcapng(speaking: FrameLayout.standard, port: port) }
                await client.close()
            }
        },
    ]

    /// Makes each kind of call with `timeout`, and returns how `send` ended.
    @discardableResult
    private static func call(with timeout: Timeout) async throws -> ClientError.Code? {
        let network = SimulatedNetwork(seed: 1)
        return try await network.run {
            let server = try await network.startServer(at: "db:7000", speaking: FrameLayout.standard)
            let client = Client(to: "db:7000", speaking: FrameLayout.standard, on: network.loops)
            let (request, clock) = (Request(type: 0x410), network.clock)
            let error = await ended(by: clock) { _ = try await client.send(request, timeout: timeout) }
            let options = CallOptions(timeout: timeout)
            await ended(by: clock) { _ = try await client.send(request, options: options) }
            await ended(by: clock) { try await client.post(request, timeout: timeout) }
            await ended(by: clock) { try await client.enqueue(request, timeout: timeout) }
            await ended(by: clock) { _ = await client.send(all: [request, request], timeout: timeout) }
            await ended(by: clock) { _ = try await client.subscribe(request, timeout: timeout) }
            await ended(by: clock) { _ = try await client.start(request, timeout: timeout).value }
            await ended(by: clock) {
                for try await _ in client.stream(request, timeout: timeout, partTimeout: timeout) {}
            }
            let open = client.open(request, timeout: timeout, partTimeout: timeout)
            open.cancel()
            await client.close()
            await server.stop()
            return error?.code
        }
    }

    private static func bufferPushes(_ buffering: PushBuffering) async throws {
        try await SimulatedNetwork(seed: 1).runWithServer { network in
            let client = Client(to: "db:7000", speaking: FrameLayout.standard, on: network.loops)
            let stream = client.pushes(ofType: 2, buffering: buffering)
            for type in UInt32.extremes { client.pushes(ofType: type, buffering: buffering).finish() }
            for _ in 0..<3 {
                await ended(by: network.clock) { _ = try await client.send(Request(type: 0x410)) }
            }
            await ended(by: network.clock) { _ = await stream.first { _ in true } }
            await client.close()
        }
    }

    private static func stream(_ buffering: ReplyBuffering) async throws {
        try await SimulatedNetwork(seed: 1).runWithServer { network in
            let client = Client(to: "db:7000", speaking: FrameLayout.standard, on: network.loops)
            await ended(by: network.clock) {
                for try await _ in client.stream(Request(type: 0x410, body: "parts"), buffering: buffering) {}
            }
            await client.close()
        }
    }

    // MARK: Codecs of users

    private static let codecs = [
        ValueCase("ResponseMatching.serial(_: ClosedRange<SerialNumber>)") {
            for range in ClosedRange<UInt64>.extremes {
                try await SimulatedNetwork(seed: 1).runWithServer(speaking: Custom()) { network in
                    let codec = Custom(matching: .serial(range))
                    let client = Client(to: "db:7000", speaking: codec, on: network.loops)
                    for _ in 0..<3 {
                        await ended(by: network.clock) { _ = try await client.send(Request(type: 0x410)) }
                    }
                    await client.close()
                }
            }
        },
        ValueCase(
            "Frame.Answers.next(_: Int)",
            "Frame.Answers.serials(_: [ClosedRange<SerialNumber>])",
            "Frame.answeredTypes: Set<UInt32>?"
        ) {
            let types: [Set<UInt32>?] = [nil, [], [.min], [.max]]
            let answers =
                Int.extremes.map { Frame.Answers.next($0) } + [.through, .all]
                + ClosedRange<UInt64>.extremes.map { .serials([$0, $0]) }
            for matching in [ResponseMatching.inOrder, .serial(0...UInt64.max), .serial(UInt64.max...UInt64.max)] {
                for (index, answers) in answers.enumerated() {
                    let codec = Answering(matching: matching, answers: answers, types: types[index % types.count])
                    try await SimulatedNetwork(seed: 1).runWithServer(speaking: codec) { network in
                        let client = Client(to: "db:7000", speaking: codec, on: network.loops)
                        for _ in 0..<2 { await ended(by: network.clock) { _ = try await client.send(Request()) } }
                        await client.close()
                    }
                }
            }
        },
        ValueCase("SerialNumberingCodec.serialBits: Int") {
            for bits in Int.extremes + [64, 65, 127, 128, 129] {
                let network = SimulatedNetwork(seed: 1)
                try await network.run {
                    let codec = WideSerials(serialBits: bits)
                    let server = try await network.startServer(at: "a:1", speaking: codec)
                    let client = Client(to: "a:1", speaking: codec, on: network.loops)
                    let response = try await client.send(Request(body: "a"))
                    #expect(response.body == "a")
                    await client.close()
                    await server.stop()
                }
            }
        },
        ValueCase("ChannelCodec.channel -> UInt64", "ChannelCodec.maximumInFlightPerChannel: Int") {
            for channel in UInt64.extremes {
                for limit in Int.extremes {
                    let network = SimulatedNetwork(seed: 1)
                    try await network.run {
                        let codec = OneChannel(channel: channel, maximumInFlightPerChannel: limit)
                        let server = try await network.startServer(at: "a:1", speaking: codec)
                        let client = Client(to: "a:1", speaking: codec, on: network.loops)
                        for result in await client.send(all: [Request(body: "a"), Request(body: "b")]) {
                            _ = try result.get()
                        }
                        await client.close()
                        await server.stop()
                    }
                }
            }
        },
        ValueCase("Handshaker.setMaximumInFlight(_: Int)", "Handshaker.setMaximumFrameSize(_: Int)") {
            for number in Int.extremes {
                try await SimulatedNetwork(seed: 1).runWithServer { network in
                    let options = ClientOptions {
                        $0.handshake.perform = { link in
                            await link.setMaximumInFlight(number)
                            try await link.setMaximumFrameSize(number)
                        }
                    }
                    let client = Client(
                        to: "db:7000",
                        speaking: FrameLayout.standard,
                        options: options,
                        on: network.loops
                    )
                    await ended(by: network.clock) { _ = try await client.send(Request(type: 0x410)) }
                    await client.close()
                }
            }
        },
        ValueCase("GoAwayCodec.retryAfter -> Duration?") {
            for delay in Duration.extremes {
                try await SimulatedNetwork(seed: 1).runWithServer(speaking: Custom()) { network in
                    let codec = Custom(delay: delay)
                    let client = Client(to: ["db:7000", "other:7000"], speaking: codec, on: network.loops)
                    for type in [0x410, 0x3ff, 0x411] as [UInt32] {
                        await ended(by: network.clock) { _ = try await client.send(Request(type: type)) }
                    }
                    await client.close()
                }
            }
        },
    ]

    // MARK: The test server

    private static let server = [
        ValueCase(
            "Reaction.after(_: Duration)",
            "Reaction.parts(every: Duration)",
            "Reaction.endlessParts(every: Duration)"
        ) {
            for delay in Duration.extremes {
                try await react(by: .after(delay, .echo))
                try await react(by: .parts(["a", "b"], every: delay))
                try await react(by: .endlessParts("a", every: max(.milliseconds(50), delay)))
                try await react(by: .endlessParts("a", every: delay), calls: 1)
            }
        },
        ValueCase(
            "Reaction.flippingBit(_: Int)",
            "Reaction.inPieces(of: Int)",
            "Reaction.outOfOrder(window: Int)",
            "Reaction.status(_: UInt32)"
        ) {
            for number in Int.extremes {
                try await react(by: .flippingBit(number))
                try await react(by: .inPieces(of: number))
                try await react(by: .outOfOrder(window: number))
            }
            for status in UInt32.extremes { try await react(by: .status(status)) }
        },
        ValueCase(
            "LoopbackServer.wait(within: Duration)",
            "LoopbackServer.waitForCancel(of: SerialNumber?, within: Duration)",
            "LoopbackServer.waitForRequest(within: Duration)",
            "LoopbackServer.answerPings(after: Duration)",
            "LoopbackServer.script(times: Int)"
        ) {
            let network = SimulatedNetwork(seed: 1)
            try await network.run {
                let server = try await network.startServer(at: "db:7000", speaking: FrameLayout.standard)
                let options = ClientOptions { $0.liveness.interval = .milliseconds(10) }
                let codec = FrameLayout.standard
                let client = Client(to: "db:7000", speaking: codec, options: options, on: network.loops)
                for limit in Duration.extremes {
                    await server.answerPings(after: limit)
                    _ = try? await withTimeout(.seconds(1), clock: network.clock) {
                        try await server.wait(within: limit) { $0.pingCount > 0 }
                    }
                    for serial in UInt64.extremes {
                        _ = try? await withTimeout(.seconds(1), clock: network.clock) {
                            try await server.waitForCancel(of: serial, within: limit)
                        }
                    }
                    _ = try? await withTimeout(.seconds(1), clock: network.clock) {
                        try await server.waitForRequest(within: limit)
                    }
                }
                await server.answerPings()
                for count in Int.extremes {
                    await server.script(.close, times: count)
                    await ended(by: network.clock) { _ = try await client.send(Request(type: 0x410)) }
                }
                await client.close()
                await server.stop()
            }
        },
        ValueCase("LoopbackServer.Options.successStatus: UInt32?") {
            for status in UInt32.extremes {
                let network = SimulatedNetwork(seed: 1)
                try await network.run {
                    var options = LoopbackServer.Options()
                    options.successStatus = status
                    let codec = FrameLayout.checked
                    let server = try await network.startServer(at: "db:7000", speaking: codec, options: options)
                    let client = Client(to: "db:7000", speaking: codec, on: network.loops)
                    await ended(by: network.clock) { _ = try await client.send(Request(type: 0x410)) }
                    await client.close()
                    await server.stop()
                }
            }
        },
    ]

    /// Sends requests to a server that reacts with `reaction`.
    private static func react(by reaction: Reaction, calls: Int = 3) async throws {
        let network = SimulatedNetwork(seed: 1)
        try await network.run {
            let server = try await network.startServer(at: "db:7000", speaking: .standard) { _ in reaction }
            let client = Client(to: "db:7000", speaking: FrameLayout.standard, on: network.loops)
            for _ in 0..<calls {
                await ended {
                    _ = try await withTimeout(.milliseconds(200), clock: network.clock) {
                        try await client.send(Request(type: 0x410, body: "hello"))
                    }
                }
            }
            await client.closeNow()
            await server.stop()
        }
    }

    // MARK: The simulation

    private static let network = [
        ValueCase("NameAnswer.after(_: Duration)", "NameAnswer.failure(after: Duration)") {
            for delay in Duration.extremes {
                for answer in [NameAnswer.after(delay), .failure(after: delay)] {
                    try await connect(changedBy: { $0.setResolution(of: "db", ipv6: answer, ipv4: answer) })
                }
            }
        },
        ValueCase(
            "NetworkConditions.bandwidth: Int?",
            "NetworkConditions.connectDelay: ClosedRange<Duration>",
            "NetworkConditions.datagramDuplication: Double",
            "NetworkConditions.datagramLoss: Double",
            "NetworkConditions.fragmentation: Double",
            "NetworkConditions.latency: ClosedRange<Duration>",
            "NetworkConditions.resolutionDelay: ClosedRange<Duration>"
        ) {
            for bandwidth in Int.extremes { try await connect(under: { $0.bandwidth = bandwidth }) }
            for share in Double.extremes {
                try await connect(under: { $0.fragmentation = share })
                try await sendDatagrams(under: { ($0.datagramLoss, $0.datagramDuplication) = (share, share) })
            }
            for range in ClosedRange<Duration>.extremes {
                try await connect(under: { $0.latency = range })
                try await connect(under: { $0.connectDelay = range })
                try await connect(under: { $0.resolutionDelay = range })
            }
        },
        ValueCase(
            "ClientOptions.Connecting.maximumDatagramSize: Int",
            "ClientOptions.Requests.datagramWindow: Int",
            "ClientOptions.Requests.repeatAfter: Duration"
        ) {
            let lost: (inout NetworkConditions) -> Void = { $0.datagramLoss = 0.5 }
            for size in Int.extremes {
                try await sendDatagrams(under: lost) { $0.connecting.maximumDatagramSize = size }
                try await sendDatagrams(under: lost) { $0.requests.datagramWindow = size }
            }
            for duration in Duration.extremes {
                try await sendDatagrams(under: lost) { $0.requests.repeatAfter = duration }
            }
        },
        ValueCase("SimulatedNetwork.addInterface(metric: Int)", "SimulatedNetwork.setMetric(_: Int)") {
            for metric in Int.extremes {
                let network = SimulatedNetwork(seed: 1)
                network.addInterface("wlan0", address: "10.9.9.9", metric: metric)
                try await connect(in: network) { $0.setMetric(metric, of: "eth0") }
            }
        },
        ValueCase("SimulatedNetwork.forgetIdleLinks(after: Duration?)") {
            for duration in Duration.extremes {
                for resets in [false, true] {
                    try await connect(changedBy: { $0.forgetIdleLinks(to: "db", after: duration, resets: resets) })
                }
            }
        },
        ValueCase("SimulatedNetwork.init(seed: UInt64)") {
            for seed in UInt64.extremes { try await connect(seed: seed) }
        },
        ValueCase("SimulatedNetwork.putToSleep(for: Duration)") {
            for duration in Duration.extremes { try await connect(changedBy: { $0.putToSleep(for: duration) }) }
        },
        ValueCase("SimulatedClock.sleep(tolerance: Duration?)", "SimulatedClock.Instant.advanced(by: Duration)") {
            let network = SimulatedNetwork(seed: 1)
            try await network.run {
                let clock = network.clock
                for duration in Duration.extremes {
                    let later = clock.now.advanced(by: duration).advanced(by: duration)
                    for other in Duration.extremes { _ = later.duration(to: clock.now.advanced(by: other)) }
                    _ = try? await withTimeout(.seconds(1), clock: clock) {
                        try await clock.sleep(until: later, tolerance: duration)
                    }
                    _ = try? await withTimeout(.seconds(1), clock: clock) { try await clock.sleep(for: duration) }
                }
            }
        },
        ValueCase("SimulationLimits.steps: Int", "SimulationLimits.virtualTime: Duration") {
            let all =
                Int.extremes.map { steps in SimulationLimits.with { $0.steps = steps } }
                + Duration.extremes.map { time in SimulationLimits.with { $0.virtualTime = time } }
            for limits in all {
                let network = SimulatedNetwork(seed: 1)
                for _ in 0..<2 {
                    // A limit of 0 ends the run with an error.
                    _ = try? await network.run(limits: limits) { try await network.clock.sleep(for: .seconds(1)) }
                }
            }
        },
    ]

    /// Connects, sends and closes in a network that `change` has changed.
    private static func connect(
        seed: UInt64 = 1,
        under conditions: (inout NetworkConditions) -> Void = { _ in },
        changedBy change: @escaping @Sendable (SimulatedNetwork) -> Void = { _ in }
    ) async throws {
        var all = NetworkConditions()
        conditions(&all)
        try await connect(in: SimulatedNetwork(seed: seed, conditions: all), changedBy: change)
    }

    /// Sends a request that may be performed twice in datagrams.
    private static func sendDatagrams(
        under conditions: (inout NetworkConditions) -> Void,
        _ change: @escaping @Sendable (inout ClientOptions) -> Void = { _ in }
    ) async throws {
        var all = NetworkConditions()
        conditions(&all)
        let network = SimulatedNetwork(seed: 1, conditions: all)
        try await network.run {
            let server = try await network.startServer(at: "udp://db:7000", speaking: FrameLayout.standard)
            let options = ClientOptions {
                $0.requests.retry = .idempotent()
                change(&$0)
            }
            let codec = FrameLayout.standard
            let client = Client(to: "udp://db:7000", speaking: codec, options: options, on: network.loops)
            for _ in 0..<4 { await ended { _ = try await client.send(Request(type: 0x410, body: "hello")) } }
            await client.closeNow()
            await server.stop()
        }
    }

    private static func connect(
        in network: SimulatedNetwork,
        changedBy change: @escaping @Sendable (SimulatedNetwork) -> Void
    ) async throws {
        var limits = SimulationLimits()
        limits.virtualTime = .longest
        try await network.run(limits: limits) {
            let server = try await network.startServer(at: "db:7000", speaking: FrameLayout.standard)
            change(network)
            let options = ClientOptions { $0.reconnecting.maximumAttempts = 3 }
            let codec = FrameLayout.standard
            let client = Client(to: "db:7000", speaking: codec, options: options, on: network.loops)
            await ended { _ = try await client.send(Request(type: 0x410, body: "hello")) }
            change(network)
            await ended { _ = try await client.send(Request(type: 0x410, body: "hello")) }
            await client.closeNow()
            await server.stop()
        }
    }
}

extension SimulationLimits {
    fileprivate static func with(_ change: (inout SimulationLimits) -> Void) -> SimulationLimits {
        var limits = SimulationLimits()
        change(&limits)
        return limits
    }
}

/// A codec of a user, with its own range of serial numbers and its own delay in goAway frames. Frames of type 0x3ff are
/// goAway frames.
private struct Custom: FrameCodec, GoAwayCodec, ServerSideCodec {
    var layout: any FrameCodec = FrameLayout.standard
    var matching: ResponseMatching = .serial(50...0xffff_ffff)
    var delay: Duration?
    var isServer = false

    mutating func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        try layout.encode(frame, into: &output)
    }

    mutating func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard var frame = try layout.decode(&input) else { return nil }
        if frame.type == 0x3ff, !isServer { frame.kind = .goAway }
        return frame
    }

    func retryAfter(in goAway: Frame) -> Duration? { delay }

    func serverSide() -> any FrameCodec {
        Custom(layout: ProtocolCodec(layout).serverSide(), matching: matching, delay: delay, isServer: true)
    }
}

/// Each byte is a frame. Each response answers what the codec was created with.
private struct Answering: FrameCodec, ServerSideCodec {
    let matching: ResponseMatching
    let answers: Frame.Answers
    let types: Set<UInt32>?
    var isServer = false

    func decode(_ input: inout ReceiveBuffer) -> Frame? {
        guard input.skip(1) else { return nil }
        var frame = Frame(isServer ? .request : .response)
        if !isServer { (frame.answers, frame.answeredTypes) = (answers, types) }
        return frame
    }

    func encode(_ frame: Frame, into output: inout SendBuffer) { output.append(1 as UInt8) }

    func serverSide() -> any FrameCodec {
        Answering(matching: matching, answers: answers, types: types, isServer: true)
    }
}

/// A serial of 16 bytes and a byte for the body.
private struct WideSerials: FrameCodec, SerialNumberingCodec {
    let serialBits: Int

    var matching: ResponseMatching { .serial(1...UInt64.max) }

    func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard input.count >= 17, let high = input.readInteger(as: UInt64.self),
            let low = input.readInteger(as: UInt64.self),
            let body = input.readBytes(1)
        else { return nil }
        var frame = Frame(.response, serial: low, body: body)
        frame.wideSerial = UInt128(high) << 64 | UInt128(low)
        return frame
    }

    func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        output.append(integer: UInt64(truncatingIfNeeded: frame.wideSerial >> 64), width: 8)
        output.append(integer: UInt64(truncatingIfNeeded: frame.wideSerial), width: 8)
        output.append(frame.body)
    }
}

/// Lines of text on one channel.
private struct OneChannel: FrameCodec, ChannelCodec {
    let channel: UInt64
    let maximumInFlightPerChannel: Int

    var matching: ResponseMatching { .inOrderByChannel }
    func channel(of frame: Frame) -> UInt64 { channel }

    func decode(_ input: inout ReceiveBuffer) throws(FrameError) -> Frame? {
        guard let end = input.firstOffset(of: 0x0A), let line = input.readBytes(end), input.skip(1) else { return nil }
        return Frame(.response, body: line)
    }

    func encode(_ frame: Frame, into output: inout SendBuffer) throws(FrameError) {
        output.append(frame.body)
        output.append(0x0A)
    }
}
