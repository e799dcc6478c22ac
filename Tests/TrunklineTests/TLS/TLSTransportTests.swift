import Testing
import Trunkline

@testable import TrunklineIO
@testable import TrunklineLoopback
@testable import TrunklineTesting

/// TLS between two peers in a simulated network: what a transport guarantees to its owner.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct TLSTransportTests {}

extension TLSTransportTests {
    struct Contexts: Sendable {
        let client: any TLSContext
        let server: any TLSContext

        init() throws {
            let authority = try TestAuthority()
            var settings = TLSSettings(.client(verifies: true))
            settings.trustsSystem = false
            settings.roots = [try authority.root.load()]
            client = try OpenSSLContext(settings)
            server = try authority.serverContext()
        }
    }

    private static let contexts = Result { try Contexts() }

    private struct Pair: Sendable {
        let network: SimulatedNetwork
        let client: TestPeer
        let server: TestPeer

        func pass(_ duration: Duration) async throws { try await network.clock.sleep(for: duration) }
    }

    /// Runs `body` with two connected peers. At the end no link may be open.
    private func run(
        _ network: SimulatedNetwork,
        banner: [UInt8] = [],
        _ body: @escaping @Sendable (Pair) async throws -> Void
    ) throws {
        let contexts = try Self.contexts.get()
        let server = TestServer(on: network.loop, echoes: false, banner: banner, tls: contexts.server)
        try network.runBlocking {
            try await server.listen(on: network.address("db"))
            let client = TestPeer(on: network.loop, tls: contexts.client)
            try await client.connect(to: network.address("db"))
            let pair = Pair(network: network, client: client, server: await server.peers[0])
            await pair.server.wait { $0.events.contains("connected") }
            try await body(pair)
            await pair.client.close()
            await pair.server.close()
            await server.stop()
            try await pair.pass(.seconds(60))
        }
        #expect(network.openLinks == 0)
    }

    private var narrow: NetworkConditions {
        var conditions = NetworkConditions()
        (conditions.sendBuffer, conditions.receiveWindow) = (1000, 1000)
        return conditions
    }

    // MARK: Random runs

    @Test("every byte arrives in order, however narrow the network and whichever side pauses")
    func everyByteArrives() async throws {
        for seed in seeds(300) {
            // A simulation occupies the thread. Other tests run between two of them.
            await Task.yield()
            try exchange(seed: seed)
        }
    }

    private func exchange(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        var conditions = NetworkConditions()
        conditions.fragmentation = random.element(of: [0, 0.25, 1])
        conditions.sendBuffer = random.element(of: [50, 1000, 20_000, 65_536])
        conditions.receiveWindow = random.element(of: [50, 333, 20_000, 65_536])
        let most = min(conditions.sendBuffer, conditions.receiveWindow) < 1000 ? 20_000 : 150_000
        let (up, down) = (
            pattern(.random(in: 0...most, using: &random)), pattern(.random(in: 0...most, using: &random))
        )
        let pauses = random
        try run(SimulatedNetwork(seed: seed, conditions: conditions)) { pair in
            async let writing: Void = Self.write(up, as: pair.client, pair, pauses.shifted(by: 1))
            async let answering: Void = Self.write(down, as: pair.server, pair, pauses.shifted(by: 2))
            async let pausing: Void = Self.pause(pair.client, pair, pauses.shifted(by: 3))
            async let alsoPausing: Void = Self.pause(pair.server, pair, pauses.shifted(by: 4))
            _ = try await (writing, answering, pausing, alsoPausing)
            await pair.client.ended()
            await pair.server.ended()
            #expect(await pair.server.received == up, "seed \(seed)")
            #expect(await pair.client.received == down, "seed \(seed)")
            #expect(await pair.server.failure == nil, "seed \(seed)")
            #expect(await pair.client.failure == nil, "seed \(seed)")
        }
    }

    /// Writes in parts, some at once and some later, and then ends the direction.
    private static func write(
        _ bytes: [UInt8],
        as peer: TestPeer,
        _ pair: Pair,
        _ random: SeededGenerator
    ) async throws {
        var random = random
        var rest = bytes[...]
        while !rest.isEmpty {
            let part = rest.prefix(random.element(of: [1, 100, 16_384, 100_000]))
            rest = rest.dropFirst(part.count)
            await peer.write(Array(part))
            // Only the first parts may be small: a hundred thousand single bytes would take too long.
            if Bool.random(using: &random) || part.count < 200 { try await pair.pass(.milliseconds(1)) }
            if part.count < 200, bytes.count - rest.count > 2000 {
                await peer.write(Array(rest))
                rest = []
            }
        }
        await peer.finish()
    }

    private static func pause(_ peer: TestPeer, _ pair: Pair, _ random: SeededGenerator) async throws {
        var random = random
        for _ in 0..<20 {
            await peer.setReading(Bool.random(using: &random))
            try await pair.pass(.milliseconds(.random(in: 0...20, using: &random)))
        }
        await peer.setReading(true)
    }

    // MARK: Failures of the engine

    /// An engine that passes bytes on as they are, and fails to encrypt from the byte `limit` on. Like OpenSSL, it may
    /// have written records when it fails.
    ///
    /// Unchecked `Sendable`: it is used on one loop only.
    private final class FailingEngine: TLSEngine, TLSContext, @unchecked Sendable {
        var ownCertificate: TLSCertificate? { nil }
        let limit: Int
        let answers: Bool
        private(set) var forgetCount = 0
        private var encrypted = 0
        var outgoing = CiphertextBuffer()
        var session: TLSSession? { nil }
        var awaitsVerdict: Bool { false }
        var offersSession: Bool { false }
        var hasMore: Bool { false }
        var hasRefusedRenegotiation: Bool { false }
        var peerCertificates: [TLSCertificate] { [] }
        var verificationFailure: TransportError? { nil }

        /// - Parameter answers: Whether the handshake is ever over.
        init(limit: Int, answers: Bool = true) { (self.limit, self.answers) = (limit, answers) }

        func makeEngine(for name: String) throws(TransportError) -> any TLSEngine { self }
        func handshake(_ input: inout UnsafeRawBufferPointer) throws(TransportError) -> Bool { answers }
        func read(
            _ input: inout UnsafeRawBufferPointer,
            into output: UnsafeMutableRawBufferPointer
        ) -> TLSReadOutcome { .needsInput }
        func finishWriting() {}
        func forgetSession() { forgetCount += 1 }
        func releaseMemory() {}

        func write(_ bytes: UnsafeRawBufferPointer) throws(TransportError) -> Bool {
            let room = min(bytes.count, limit - encrypted)
            unsafe outgoing.append(UnsafeRawBufferPointer(rebasing: bytes[..<room]))
            encrypted += room
            guard room == bytes.count else { throw TransportError(.tls(.protocolViolation), "no more keys") }
            return true
        }
    }

    /// Regression: all bytes of the call were reported as unwritten, also those that had gone out. So requests that the
    /// server received failed with the fate `notSent`.
    @Test func whatWasEncryptedBeforeAFailureCountsAsWritten() throws {
        for (limit, size) in [(0, 1000), (999, 1000), (100_000, 400_000), (70_000, 69_999), (3, 4), (16_390, 40_000)] {
            let network = SimulatedNetwork(seed: 1)
            let server = TestServer(on: network.loop, echoes: false)
            try network.runBlocking {
                try await server.listen(on: network.address("db"))
                let client = TestPeer(on: network.loop, tls: FailingEngine(limit: limit))
                try await client.connect(to: network.address("db"))
                await client.write(pattern(size))
                await client.write(pattern(10))
                await client.wait { $0.failure != nil }
                #expect(await client.failure?.message == "no more keys")
                try await network.clock.sleep(for: .seconds(1))
                let written = await client.writtenCount
                #expect(await server.peers[0].received.count == written, "limit \(limit), size \(size)")
                #expect(written <= limit)
                await client.close()
                await server.peers[0].close()
                await server.stop()
                try await network.clock.sleep(for: .seconds(60))
            }
        }
    }

    /// A transport that lost a race, or whose client was closed, was taken for one that the server does not answer. So the
    /// session was forgotten, and the next link made a full handshake.
    @Test(arguments: [false, true])
    func onlyAnAttemptThatFailedForgetsTheSessionThatItOffered(hasFailed: Bool) throws {
        let network = SimulatedNetwork(seed: 1)
        let server = TestServer(on: network.loop, echoes: false)
        let engine = FailingEngine(limit: 0, answers: false)
        try network.runBlocking {
            let address = network.address("db")
            try await server.listen(on: address)
            let client = TestPeer(on: network.loop, tls: engine)
            async let connecting: Void = client.connect(to: address)
            try await network.clock.sleep(for: .seconds(1))
            if hasFailed { await client.forgetUnansweredSession() }
            await client.close()
            await client.stopWaiting()
            try await connecting
            await server.peers[0].close()
            await server.stop()
            try await network.clock.sleep(for: .seconds(60))
        }
        #expect(engine.forgetCount == (hasFailed ? 1 : 0))
    }

    // MARK: Single cases

    /// Room in the socket is not reported before the handshake is over. Regression: waiting for it kept the
    /// event loop busy.
    @Test func aWriterThatWaitsDuringTheHandshakeContinuesAfterIt() throws {
        try run(SimulatedNetwork(seed: 1, conditions: narrow), banner: pattern(5000)) { pair in
            #expect(await pair.client.received(atLeast: 5000) == pattern(5000))
            #expect(await pair.server.events.first == "connected")
        }
    }

    /// Regression: with as much ciphertext waiting as allowed, a write reported that it had taken no bytes, instead of
    /// `wouldBlock`. A writer that tried again got the same result.
    @Test func aFullTransportWouldBlock() throws {
        try run(SimulatedNetwork(seed: 1, conditions: narrow)) { pair in
            await pair.server.setReading(false)
            await pair.client.write(pattern(500_000))
            try await pair.pass(.seconds(5))
            let taken = await pair.client.writtenCount
            #expect(taken < 200_000)
            await pair.server.setReading(true)
            #expect(await pair.server.received(atLeast: 500_000) == pattern(500_000))
        }
    }

    /// Regression: the write that failed was a write of ciphertext, which the owner does not know of. The owner was
    /// notified neither of room nor of the failure. Without reading, it waited for ever.
    @Test func aWaitingWriterLearnsOfAReset() throws {
        try run(SimulatedNetwork(seed: 1, conditions: narrow)) { pair in
            await pair.client.setReading(false)
            await pair.server.setReading(false)
            await pair.client.write(pattern(500_000))
            try await pair.pass(.seconds(1))
            await pair.server.reset()
            try await pair.pass(.seconds(1))
            #expect(await pair.client.failure?.code == .reset)
        }
    }

    /// Regression: encrypted bytes were accepted although the socket refused them. A request that was never sent then
    /// had the fate `unknown`, and was not retried.
    @Test(arguments: [100, 300_000])
    func bytesThatTheSocketRefusesAreNotAccepted(count: Int) throws {
        try run(SimulatedNetwork(seed: 1)) { pair in
            await pair.client.setReading(false)
            await pair.server.reset()
            try await pair.pass(.seconds(1))
            await pair.client.write(pattern(count))
            #expect(await pair.client.writtenCount == 0)
            #expect(await pair.client.failure?.code == .reset)
        }
    }

    /// The kernel does not have the bytes that TLS holds, so it cannot send them later. Regression: they were discarded
    /// a second after the end, and at once if the peer had finished before.
    @Test(arguments: [false, true])
    func heldBytesArriveAfterTheirWriterHasClosed(peerHasFinished: Bool) throws {
        try run(SimulatedNetwork(seed: 1, conditions: narrow)) { pair in
            await pair.client.setReading(false)
            await pair.server.write(pattern(40_000))
            #expect(await pair.server.writtenCount == 40_000)
            if peerHasFinished {
                await pair.client.finish()
                await pair.server.ended()
            }
            await pair.server.closeLingering()
            try await pair.pass(.seconds(5))
            await pair.client.setReading(true)
            await pair.client.ended()
            #expect(await pair.client.received == pattern(40_000))
            #expect(await pair.client.failure == nil)
        }
    }

    /// Regression: every TLS message was answered into memory, whether the peer read the answers or not.
    @Test func aPeerThatRequestsKeysAndDoesNotReadIsNotReadForEver() throws {
        try run(SimulatedNetwork(seed: 1, conditions: narrow)) { pair in
            await pair.server.setReading(false)
            for _ in 0..<500 {
                await pair.server.requestKeys(100)
                try await pair.pass(.milliseconds(100))
            }
            try await pair.pass(.seconds(60))
            #expect(await pair.client.unsentCiphertext < 400_000)
            #expect(await pair.client.received.count < 50_000)
            await pair.server.setReading(true)
            #expect(await pair.client.received(atLeast: 50_000).count == 50_000)
            await pair.client.write(pattern(1000))
            #expect(await pair.server.received(atLeast: 1000) == pattern(1000))
        }
    }

    // MARK: Engines

    /// The last bytes and the end usually arrive together. Regression: the engine returned the bytes and forgot the
    /// end, so an orderly close counted as a truncated stream.
    @Test func anEndThatArrivesWithTheLastBytesIsReported() throws {
        let contexts = try Self.contexts.get()
        let (client, server) = (try contexts.client.makeEngine(for: "db"), try contexts.server.makeEngine(for: ""))
        func move<Value>(
            from one: any TLSEngine,
            _ body: (inout UnsafeRawBufferPointer) throws(TransportError) -> Value
        ) throws(TransportError) -> Value {
            try unsafe one.outgoing.takeAll().span.bytes.withUnsafeBytes { memory throws(TransportError) in
                var input = unsafe memory
                return try unsafe body(&input)
            }
        }
        var isOver = (false, false)
        for _ in 0..<5 where isOver != (true, true) {
            if !isOver.0 {
                isOver.0 = try unsafe move(from: server) { input throws(TransportError) in
                    try unsafe client.handshake(&input)
                }
            }
            if !isOver.1 {
                isOver.1 = try unsafe move(from: client) { input throws(TransportError) in
                    try unsafe server.handshake(&input)
                }
            }
        }
        #expect(isOver == (true, true))
        let isTaken = try unsafe pattern(100).span.bytes.withUnsafeBytes { memory throws(TransportError) in
            try unsafe server.write(memory)
        }
        #expect(isTaken)
        server.finishWriting()
        var buffer = [UInt8](repeating: 0, count: 4096)
        func read(_ input: inout UnsafeRawBufferPointer) -> TLSReadOutcome {
            unsafe buffer.withUnsafeMutableBytes { unsafe client.read(&input, into: $0) }
        }
        let first = try unsafe move(from: server) { unsafe read(&$0) }
        guard case .bytes(100) = first else { Issue.record("\(first)"); return }
        #expect(client.hasMore)
        var nothing = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
        let second = unsafe read(&nothing)
        guard case .end = second else { Issue.record("\(second)"); return }
    }

    /// Regression: while a socket always had something left to write, bytes that had been sent long ago were kept.
    @Test func sentBytesAreNotKept() throws {
        var buffer = CiphertextBuffer()
        var sent: [UInt8] = []
        let part = pattern(1000)
        for _ in 0..<2000 {
            unsafe part.span.bytes.withUnsafeBytes { unsafe buffer.append($0) }
            guard buffer.count > 1000 else { continue }
            _ = unsafe buffer.withUnwritten {
                unsafe sent.append(contentsOf: $0.prefix(1000))
                return .bytes(1000)
            }
        }
        #expect(buffer.count == 1000)
        #expect(buffer.memory < 1_000_000)
        #expect(sent + buffer.takeAll() == (0..<2000).flatMap { _ in part })
    }

    @Test func memoryOfAnEmptyBufferIsReleased() {
        var buffer = CiphertextBuffer()
        unsafe pattern(50_000).span.bytes.withUnsafeBytes { unsafe buffer.append($0) }
        _ = unsafe buffer.withUnwritten { _ in .bytes(49_999) }
        #expect(buffer.count == 1 && buffer.memory >= 50_000)
        _ = unsafe buffer.withUnwritten { .bytes($0.count) }
        #expect(buffer.memory == 0)
    }
}

extension SeededGenerator {
    fileprivate mutating func element<Value>(of values: [Value]) -> Value {
        values[Int.random(in: values.indices, using: &self)]
    }

    /// Another sequence, for a task that uses random numbers at the same time.
    fileprivate func shifted(by number: UInt64) -> SeededGenerator {
        var generator = self
        return SeededGenerator(seed: generator.next() &+ number)
    }
}
