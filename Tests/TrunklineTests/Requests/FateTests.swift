import Testing

@testable import TrunklineCore
@testable import TrunklineIO
@testable import TrunklineLayouts
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// The fates that callers receive, compared with what happened to every byte.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct FateTests {}

extension FateTests {
    /// `notSent` means that it is safe to send the request again.
    @Test(arguments: [
        (earlier: ClientError.Fate.notSent, latest: ClientError.Fate.notSent, whole: ClientError.Fate.notSent),
        (.notSent, .unknown, .unknown), (.notSent, .answered, .answered),
        (.unknown, .notSent, .unknown), (.unknown, .unknown, .unknown), (.unknown, .answered, .answered),
        (.answered, .notSent, .unknown), (.answered, .unknown, .unknown), (.answered, .answered, .answered),
    ])
    func aCallIsNotSentOnlyIfNoneOfItsSendsWas(
        earlier: ClientError.Fate,
        latest: ClientError.Fate,
        whole: ClientError.Fate
    ) {
        #expect(latest.after(earlier) == whole)
        #expect(ClientError(.timedOut, latest, "late").after(earlier).fate == whole)
    }

    private static let bodies: [Bytes] = ["a", "bcd"]
    /// The range of each frame in the stream of bytes. A header has twelve bytes.
    private static let frames = [0..<13, 13..<28]

    private struct Exchange {
        var results: [Result<Response, ClientError>]
        /// Bytes of requests that the client's kernel took before the link was reset. `nil` over TLS, where no byte
        /// belongs to one request alone.
        var accepted: Int?
        /// Bytes that the server read, on all links.
        var received: Int
        /// Complete requests that the server read.
        var requests: [Bytes]
    }

    /// Sends two requests on a link whose sockets take one byte at a time. The link is reset when the sockets have
    /// taken `count` bytes in all, those of responses included.
    private func exchange(seed: UInt64, resetAfter count: Int, _ policy: RetryPolicy) throws -> Exchange {
        var conditions = NetworkConditions()
        conditions.latency = .zero...(.zero)
        conditions.sendBuffer = 1
        let network = SimulatedNetwork(seed: seed, conditions: conditions)
        return try network.runBlocking {
            let server = try await network.serve(at: "db:7000", speaking: .standard)
            let client = network.client(of: ["db:7000"], speaking: .standard)
            try await client.connect()
            try await server.waitForConnections(1)
            // TLS may send more than its handshake.
            try await network.clock.sleep(for: .seconds(1))
            let saboteur = Saboteur(of: network, after: count)
            let handles = Self.bodies.map { client.start(ask($0), options: CallOptions(retry: policy)) }
            network.loop.scheduleAtEndOfTurn(saboteur)
            while !saboteur.isDone { await Task.yield() }
            let replied = await server.journal.bytesSent
            var results: [Result<Response, ClientError>] = []
            for handle in handles {
                do throws(ClientError) {
                    results.append(.success(try await handle.value))
                } catch {
                    results.append(.failure(error))
                }
            }
            await client.close()
            let journal = await server.journal
            await server.stop()
            return Exchange(
                results: results,
                accepted: Wire.isSecured ? nil : saboteur.written - replied,
                received: journal.bytesReceived,
                requests: journal.requests.map(\.body)
            )
        }
    }

    /// The seeds of a test that tries all bytes: over TLS a third, because there are twice as many bytes, and each takes
    /// longer.
    private static func seeds(_ count: UInt64) -> Range<UInt64> { 0..<(Wire.isSecured ? count / 3 : count) }

    /// The number of bytes of both requests and both responses. Over TLS it is a lower bound.
    private static let allBytes = 0...(Wire.isSecured ? 56 + 2 * 22 : 56)

    @Test func theFateIsExactWhicheverByteTheLinkIsResetAt() async throws {
        var seen: Set<Int> = []
        var fates: Set<ClientError.Fate> = []
        for seed in Self.seeds(6) {
            for count in Self.allBytes {
                await Task.yield()  // a simulation occupies the thread
                let exchange = try exchange(seed: seed, resetAfter: count, .never)
                if let accepted = exchange.accepted { seen.insert(accepted) }
                for (frame, result) in zip(Self.frames, exchange.results) {
                    let place = "seed \(seed), \(count) bytes, \(exchange), frame \(frame): \(result)"
                    guard let error = result.error else {
                        if let accepted = exchange.accepted { #expect(accepted >= frame.upperBound, "\(place)") }
                        continue
                    }
                    #expect(error.code == .connectionLost, "\(place)")
                    fates.insert(error.fate)
                    if let accepted = exchange.accepted {
                        #expect(error.fate == (accepted > frame.lowerBound ? .unknown : .notSent), "\(place)")
                    }
                    if error.fate == .notSent { #expect(exchange.received <= frame.lowerBound, "\(place)") }
                }
            }
        }
        #expect(fates == [.notSent, .unknown])
        #expect(Wire.isSecured || seen == Set(0...28))
    }

    @Test func unsentRequestsAreRetriedOnceAndUnknownOnesAreNot() async throws {
        for seed in Self.seeds(3) {
            for count in Self.allBytes {
                await Task.yield()  // a simulation occupies the thread
                let exchange = try exchange(seed: seed, resetAfter: count, .ifUnsent)
                for ((frame, body), result) in zip(zip(Self.frames, Self.bodies), exchange.results) {
                    let place = "seed \(seed), \(count) bytes, \(exchange), frame \(frame): \(result)"
                    let times = exchange.requests.filter { $0 == body }.count
                    if let error = result.error {
                        #expect(error.fate == .unknown, "\(place)")
                        if let accepted = exchange.accepted { #expect(accepted > frame.lowerBound, "\(place)") }
                        #expect(times <= 1, "\(place)")
                    } else {
                        #expect(times == 1, "\(place)")
                    }
                }
            }
        }
    }

    @Test func idempotentRequestsAllSucceed() async throws {
        for seed in Self.seeds(3) {
            for count in Self.allBytes {
                await Task.yield()  // a simulation occupies the thread
                let exchange = try exchange(seed: seed, resetAfter: count, .idempotent())
                let place = "seed \(seed), \(count) bytes, \(exchange)"
                #expect(exchange.results.allSatisfy { $0.error == nil }, "\(place)")
                for body in Self.bodies {
                    #expect((1...2).contains(exchange.requests.filter { $0 == body }.count), "\(place)")
                }
            }
        }
    }

    // MARK: Fifty disconnects

    private func disconnectFiftyTimes(seed: UInt64, _ retry: RetryPolicy) throws -> [(times: Int, error: ClientError?)]
    {
        var conditions = NetworkConditions()
        conditions.sendBuffer = 300
        conditions.receiveWindow = 300
        let options = ClientOptions {
            $0.reconnecting.policy = Backoff(base: .milliseconds(1), cap: .milliseconds(5))
            $0.requests.timeout = nil
            $0.requests.retry = retry
            $0.requests.retryBudget = nil
            $0.requests.maximumInFlight = 8
            $0.outbound.highWatermark = 400
        }
        let network = SimulatedNetwork(seed: seed, conditions: conditions)
        return try network.runBlocking {
            let server = try await network.serve(at: "db:7000", speaking: .standard) { _ in
                .after(.milliseconds(4), .echo)
            }
            let client = network.client(of: ["db:7000"], speaking: .standard, options: options)
            let bodies = (0..<1000).map { Bytes("\($0) " + String(repeating: "x", count: $0 % 100)) }
            async let results = client.send(all: bodies.map { ask($0) })
            var random = SeededGenerator(seed: seed)
            var disconnect = 0
            // Not every disconnect meets a link: the client may not have noticed the previous one yet.
            while await client.metrics.connection.links < 50 {
                disconnect += 1
                try await client.connect()
                try await network.clock.sleep(for: .milliseconds(Int.random(in: 0...15, using: &random)))
                switch disconnect % 3 {
                case 0: network.reset("db")
                case 1: await server.disconnectAll()
                default: await server.disconnectAll(reset: true)
                }
            }
            let errors = await results.map(\.error)
            let metrics = await client.metrics
            #expect(metrics.connection.links >= 50, "seed \(seed): \(metrics)")
            #expect(metrics.pending == 0)
            await client.close()
            let seen = Dictionary(await server.received.map { ($0.body, 1) }, uniquingKeysWith: +)
            await server.stop()
            return zip(bodies, errors).map { (seen[$0] ?? 0, $1) }
        }
    }

    @Test(arguments: 0..<3 as Range<UInt64>)
    func fiftyDisconnectsLoseNoQueuedRequest(_ seed: UInt64) throws {
        let outcomes = try disconnectFiftyTimes(seed: seed, .ifUnsent)
        #expect(outcomes.count == 1000)
        for (times, error) in outcomes {
            #expect(times <= 1, "seed \(seed)")
            guard let error else {
                #expect(times == 1, "seed \(seed)")
                continue
            }
            #expect(error.code == .connectionLost && error.fate == .unknown, "seed \(seed): \(error)")
        }
        // At most the requests that were in flight each time.
        #expect(outcomes.filter { $0.error != nil }.count <= 50 * 8)
    }

    @Test(arguments: 0..<3 as Range<UInt64>)
    func idempotentRequestsSurviveFiftyDisconnects(_ seed: UInt64) throws {
        let policy = RetryPolicy.idempotent(
            tries: 51,
            backoff: Backoff(base: .milliseconds(1), cap: .milliseconds(5))
        )
        for (times, error) in try disconnectFiftyTimes(seed: seed, policy) {
            #expect(error == nil, "seed \(seed)")
            #expect(times >= 1, "seed \(seed)")
        }
    }
}

/// Resets the links of a network when its sockets have taken `limit` bytes. It checks this after each turn of
/// the event loop.
private final class Saboteur: LoopWork {
    private struct Progress {
        var lines = 0
        var written = 0
        var isDone = false
    }

    private let network: SimulatedNetwork
    private let limit: Int
    private let progress = Lock(Progress())

    init(of network: SimulatedNetwork, after limit: Int) {
        self.network = network
        self.limit = limit
        network.recordsTrace = true
    }

    var written: Int { progress.withLock { $0.written } }
    var isDone: Bool { progress.withLock { $0.isDone } }

    func runOnLoop() {
        let trace = network.trace
        let isDone = progress.withLock { progress in
            for line in trace[progress.lines...] {
                let words = line.split(separator: " ")  // time, what, link, amount
                if words[1] == "write" { progress.written += Int(words[3]) ?? 0 }
            }
            progress.lines = trace.count
            progress.isDone = progress.written >= limit
            return progress.isDone
        }
        if !isDone { return network.loop.scheduleAtEndOfTurn(self) }
        network.recordsTrace = false
        network.reset("db")
    }
}
