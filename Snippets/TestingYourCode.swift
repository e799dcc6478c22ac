// Testing code that uses a client: with a scripted server, in a simulated network, and with fakes. Each function stands for
// a test. In your tests, write `#expect` instead of `precondition`.

import Trunkline
import TrunklineDiagnostics
import TrunklineTesting

// MARK: - The code under test

/// The part of `Client` that the code under test needs, so that a test can replace it.
protocol PriceSource: Sendable {
    func send(_ request: Request, timeout: Timeout, options: CallOptions) async throws(ClientError) -> Response
}

extension Client: PriceSource {}

/// Requests prices from a server, and remembers the last ones.
actor PriceBook {
    private let source: any PriceSource
    private(set) var prices: [String: Int] = [:]

    init(from source: any PriceSource) { self.source = source }

    /// The price of `name`, or the last known price if the request fails.
    func price(of name: String) async throws(ClientError) -> Int {
        do {
            let request = Request(type: 0x410, body: Bytes(name))
            let response = try await source.send(request, timeout: .seconds(2), options: CallOptions())
            let price = Int(String(response.body)) ?? 0
            prices[name] = price
            return price
        } catch {
            guard let price = prices[name] else { throw error }
            return price
        }
    }

    /// Notes a pushed price, such as "tea 43".
    func note(_ push: PushMessage) {
        let words = String(push.body).split(separator: " ")
        if words.count == 2 { prices[String(words[0])] = Int(words[1]) }
    }
}

// MARK: - A server

func returnsThePriceOfTheServer() async throws {
    let server = try await LoopbackServer.start(speaking: .standard) { request in
        request.body == "tea" ? .reply("42") : .noReply
    }
    let client = Client(to: server.endpoint, speaking: .standard)
    let price = try await PriceBook(from: client).price(of: "tea")
    precondition(price == 42)
    let requests = await server.journal.requests
    precondition(requests.map(\.body) == ["tea"])
    await client.close()
    await server.stop()
}

// MARK: - Virtual time

func returnsTheLastPriceDuringAnOutage(
    in network: SimulatedNetwork = SimulatedNetwork(seed: 7)
) async throws {
    let (price, connections) = try await network.run {
        let server = try await network.startServer(at: "prices:7000", speaking: .standard) { _ in .reply("42") }
        let client = Client(to: "prices:7000", speaking: .standard, on: network.loops)
        let book = PriceBook(from: client)
        _ = try await book.price(of: "tea")

        // The server is killed, and starts again five minutes later. None of this takes real time.
        await server.kill()
        let price = try await book.price(of: "tea")
        try await network.clock.sleep(for: .seconds(300))
        try await server.resumeAccepting()

        // The client reconnects.
        try await client.connect()
        let connections = await server.journal.totalConnections
        await client.close()
        await server.stop()
        return (price, connections)
    }
    precondition(price == 42)
    precondition(connections == 2)
}

func timesOutAfterTwoSeconds() async throws {
    let network = SimulatedNetwork(seed: 7)
    let (error, duration) = try await network.run {
        let server = try await network.startServer(at: "prices:7000", speaking: .standard) { _ in
            .after(.seconds(10), .reply("42"))
        }
        let client = Client(to: "prices:7000", speaking: .standard, on: network.loops)
        let start = network.clock.now
        var failure: ClientError?
        do {
            _ = try await PriceBook(from: client).price(of: "tea")
        } catch let error as ClientError {
            failure = error
        }
        let duration = start.duration(to: network.clock.now)
        // The server receives a cancel frame.
        try await server.waitForCancel()
        await client.close()
        await server.stop()
        return (failure, duration)
    }
    precondition(error?.code == .timedOut && error?.fate == .unknown)
    precondition(duration == .seconds(2))
}

// MARK: - Pushes

func notesPushedPrices() async throws {
    let network = SimulatedNetwork(seed: 7)
    let prices = try await network.run {
        let server = try await network.startServer(at: "prices:7000", speaking: .standard)
        let client = Client(to: "prices:7000", speaking: .standard, on: network.loops)
        let book = PriceBook(from: client)
        let pushes = client.pushes(ofType: 0x2)
        try await client.connect()
        try await server.push(Frame(.push, type: 0x2, body: "tea 43"))
        for await push in pushes.messages.prefix(1) { await book.note(push) }
        await client.close()
        await server.stop()
        return await book.prices
    }
    precondition(prices == ["tea": 43])
}

// MARK: - States and reports

func reportsALostLink() async throws {
    let network = SimulatedNetwork(seed: 7)
    let causes = try await network.run {
        let server = try await network.startServer(at: "prices:7000", speaking: .standard)
        let client = Client(to: "prices:7000", speaking: .standard, on: network.loops)
        // The stream buffers reports from here on.
        let reports = client.disconnects
        try await client.connect()
        network.reset("prices")

        // The next link has a greater session number than the first.
        for await case .ready(_, let session) in client.states where session > 1 { break }
        await client.close()
        await server.stop()

        // The client is closed, so the stream ends.
        var causes: [DisconnectCause] = []
        for await report in reports { causes.append(report.cause) }
        return causes
    }
    precondition(causes == [.reset, .closedLocally])
}

func becomesReadyAgain() async throws {
    let network = SimulatedNetwork(seed: 7)
    let sessions = try await network.run {
        let server = try await network.startServer(at: "prices:7000", speaking: .standard)
        let client = Client(to: "prices:7000", speaking: .standard, on: network.loops)
        // Reads the states while the test goes on. A child task stays on the simulation.
        let states = client.states
        async let sessions = states.reduce(into: [SessionID]()) { sessions, state in
            if case .ready(_, let session) = state { sessions.append(session) }
        }
        try await client.connect()
        network.reset("prices")
        try await network.clock.sleep(for: .seconds(5))
        await client.close()
        await server.stop()
        return await sessions
    }
    precondition(sessions == [1, 2])
}

// MARK: - Seeds

func returnsTheLastPriceDuringAnOutageWithManySeeds() async throws {
    for seed in 1...100 as ClosedRange<UInt64> {
        try await returnsTheLastPriceDuringAnOutage(in: SimulatedNetwork(seed: seed))
    }
}

func repeatsARunExactly() async throws {
    let (first, second) = (SimulatedNetwork(seed: 37), SimulatedNetwork(seed: 37))
    for network in [first, second] {
        network.recordsTrace = true
        try await returnsTheLastPriceDuringAnOutage(in: network)
    }
    precondition(first.fingerprint == second.fingerprint)
    precondition(first.trace == second.trace)
    print("the last event: \(first.trace.last ?? "none")")
}

// MARK: - Bad networks

func returnsThePriceOverASlowNetwork() async throws {
    var conditions = NetworkConditions()
    conditions.latency = .milliseconds(100)...(.milliseconds(300))
    conditions.bandwidth = 4_000
    conditions.fragmentation = 1
    let network = SimulatedNetwork(seed: 7, conditions: conditions)
    let prices = try await network.run {
        let server = try await network.startServer(at: "prices:7000", speaking: .standard) { _ in .reply("42") }
        let client = Client(to: "prices:7000", speaking: .standard, on: network.loops)
        let book = PriceBook(from: client)
        try await client.connect()
        var prices = [try await book.price(of: "tea")]

        // For ten seconds no packet arrives, and neither side learns of it.
        network.partition("prices")
        try await network.clock.sleep(for: .seconds(10))
        prices.append(try await book.price(of: "tea"))
        network.heal("prices")

        // The client's host sleeps for an hour. Then its network is down for a minute.
        network.putToSleep(for: .seconds(3600))
        network.setInterface("eth0", isUp: false)
        try await network.clock.sleep(for: .seconds(60))
        network.setInterface("eth0", isUp: true)
        try await client.connect()
        prices.append(try await book.price(of: "tea"))

        await client.close()
        await server.stop()
        return prices
    }
    precondition(prices == [42, 42, 42])
}

// MARK: - Recordings

/// Records a request that times out, as a program in production would.
func recordedTimeout() async throws -> String {
    let server = try await LoopbackServer.start(speaking: .standard) { _ in .noReply }
    let options = ClientOptions { $0.recorder = .ring() }
    let client = Client(to: server.endpoint, speaking: .standard, options: options)
    _ = try? await client.send(Request(type: 0x410, body: "tea"), timeout: .seconds(2))
    let text = await client.diagnostics.recording?.jsonLines ?? ""
    await client.close()
    await server.stop()
    return text
}

func replaysARecording() async throws {
    let text = try await recordedTimeout()
    let options = ClientOptions()
    let recording = try Recording(jsonLines: text)
    let network = SimulatedNetwork(seed: 1)
    let replay = try await network.run {
        try await network.replay(recording, speaking: .standard, options: options)
    }
    precondition(replay.differences.isEmpty, "\(replay.differences)")
    precondition(recording.outcomes == [1: .failed(code: "timedOut", fate: "unknown")])
}

// MARK: - Fakes

/// Answers requests as the test decides, without a client.
struct FakeSource: PriceSource {
    let answer: @Sendable (Request) throws(ClientError) -> Response

    func send(_ request: Request, timeout: Timeout, options: CallOptions) async throws(ClientError) -> Response {
        try answer(request)
    }
}

func rethrowsTheFirstError() async throws {
    let book = PriceBook(
        from: FakeSource { _ throws(ClientError) in throw ClientError(.unavailable, .notSent, "no server") }
    )
    do {
        _ = try await book.price(of: "tea")
        preconditionFailure("no error")
    } catch {
        precondition(error.code == .unavailable)
    }
    await book.note(PushMessage(type: 0x2, body: "tea 43"))
    let price = try await book.price(of: "tea")
    precondition(price == 43)
}

func readsTheResponse() async throws {
    let book = PriceBook(from: FakeSource { request in Response(type: request.type, body: "42") })
    let price = try await book.price(of: "tea")
    precondition(price == 42)
}

// MARK: - TLS

func refusesAnExpiredCertificate() async throws {
    let authority = try TestAuthority()
    let expired = try authority.identity(forNames: ["127.0.0.1"], validity: .seconds(-7200)...(.seconds(-3600)))
    let server = try await LoopbackServer.start(
        speaking: .standard,
        options: LoopbackServer.Options { $0.tls = .init(expired) }
    )
    let options = ClientOptions { $0.tls.roots = .only(authority.root) }
    let client = Client(to: server.endpoint, speaking: .standard, options: options)
    do {
        _ = try await PriceBook(from: client).price(of: "tea")
        preconditionFailure("no error")
    } catch {
        precondition(error.code == .tlsFailed && error.fate == .notSent)
    }
    await client.close()
    await server.stop()
}

try await returnsThePriceOfTheServer()
try await returnsTheLastPriceDuringAnOutage()
try await timesOutAfterTwoSeconds()
try await notesPushedPrices()
try await reportsALostLink()
try await becomesReadyAgain()
try await returnsTheLastPriceDuringAnOutageWithManySeeds()
try await repeatsARunExactly()
try await returnsThePriceOverASlowNetwork()
try await rethrowsTheFirstError()
try await readsTheResponse()
try await refusesAnExpiredCertificate()
try await replaysARecording()
print("TestingYourCode: done")
