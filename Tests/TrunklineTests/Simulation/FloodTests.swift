import Testing
import TrunklineCore
import TrunklineIO

@testable import Trunkline
@testable import TrunklineTesting

/// A server that says a great deal at once gets its share of its client's event loop, and no more.
@Suite(.simulated, .timeLimit(.minutes(5)))
struct FloodTests {
    private static var wide: NetworkConditions {
        var conditions = NetworkConditions()
        (conditions.sendBuffer, conditions.receiveWindow, conditions.fragmentation) = (1 << 20, 1 << 20, 0)
        return conditions
    }

    /// Pushes of twelve bytes, numbered by their serials.
    private static func pushes(_ count: Int) -> [UInt8] {
        (0..<UInt32(count)).flatMap { number -> [UInt8] in
            [0, 0, 0, 0x10] + (0..<4).map { UInt8(truncatingIfNeeded: number >> (24 - 8 * $0)) } + [0, 0, 0, 0]
        }
    }

    /// Reads `count` pushes, which must come in order.
    private static func expectPushes(_ count: Int, from stream: PushStream) async {
        var next: SerialNumber = 0
        for await push in stream {
            guard case .message(let frame) = push, frame.serial == next else {
                return #expect(Bool(false), "\(push) instead of number \(next)")
            }
            next += 1
            if next == count { break }
        }
        #expect(next == count)
    }

    /// Counts how many pushes `client` takes in each turn of the loop, while it lives.
    private final class TurnWatch: LoopWork, @unchecked Sendable {
        // Sendable although it is not checked: touched on the loop only.
        private weak var client: Client?
        private var last = 0
        private(set) var most = 0
        private(set) var turns = 0

        init(_ client: Client) { self.client = client }

        func runOnLoop() {
            guard let client else { return }
            let count = client.assumeIsolated { $0.statistics.pushes }
            most = max(most, count - last)
            if count > last { turns += 1 }
            last = count
            client.loop.scheduleInNextTurn(self)
        }
    }

    private func watch(_ client: Client, on network: SimulatedNetwork) -> TurnWatch {
        let watch = TurnWatch(client)
        network.loop.schedule(watch)
        return watch
    }

    /// One turn took ninety thousand pushes of twelve bytes, 14 ms for every other client of the loop.
    @Test func aFloodOfSmallFramesIsSpreadOverTurns() throws {
        let count = 20_000
        let network = SimulatedNetwork(seed: 1, conditions: Self.wide)
        let server = TestServer(on: network.loop, echoes: false, greeting: Self.pushes(count))
        try network.runBlocking {
            try await server.listen(on: network.address("db"))
            let client = Client(to: "db:7000", speaking: .standard, on: network.loops)
            let watch = watch(client, on: network)
            await Self.expectPushes(count, from: client.pushes(buffering: PushBuffering(maximumCount: count)))
            #expect(watch.most <= ReadShare.frames && watch.turns >= count / ReadShare.frames, "\(watch.most)")
            await client.closeNow()
            await server.stop()
        }
    }

    /// What is left over belongs to the link and comes before its end.
    @Test func everythingComesBeforeTheEndOfTheLink() throws {
        let count = 5000
        let network = SimulatedNetwork(seed: 2, conditions: Self.wide)
        let server = TestServer(on: network.loop, echoes: false, greeting: Self.pushes(count))
        try network.runBlocking {
            try await server.listen(on: network.address("db"))
            let options = ClientOptions { $0.reconnecting.policy = .never }
            let client = Client(to: "db:7000", speaking: .standard, options: options, on: network.loops)
            let pushes = client.pushes(buffering: PushBuffering(maximumCount: count))
            try await client.connect()
            await server.peers[0].finish()
            await Self.expectPushes(count, from: pushes)
            await client.closeNow()
            await server.stop()
        }
    }

    /// Reading is suspended again and again while complete frames are left over, of which the socket says nothing more.
    @Test func aReaderThatSuspendsReadingGetsEverything() throws {
        let count = 5000
        let network = SimulatedNetwork(seed: 3, conditions: Self.wide)
        let server = TestServer(on: network.loop, echoes: false, greeting: Self.pushes(count))
        try network.runBlocking {
            try await server.listen(on: network.address("db"))
            let client = Client(to: "db:7000", speaking: .standard, on: network.loops)
            let buffering = PushBuffering(maximumCount: 10, overflow: .suspendReading)
            await Self.expectPushes(count, from: client.pushes(buffering: buffering))
            await client.closeNow()
            await server.stop()
        }
    }

    /// A connection without a client reads only while frames are asked for.
    @Test func aConnectionOfItsOwnGetsEverything() throws {
        let count = 3000
        let network = SimulatedNetwork(seed: 4, conditions: Self.wide)
        let server = TestServer(on: network.loop, echoes: false, greeting: Self.pushes(count))
        try network.runBlocking {
            try await server.listen(on: network.address("db"))
            let connection = Connection(to: "db:7000", speaking: .standard, on: network.loops)
            var next: SerialNumber = 0
            for await frame in connection.frames {
                #expect(frame.serial == next)
                next += 1
                if next == count { break }
            }
            await connection.closeNow()
            await server.stop()
        }
    }

    /// A mebibyte in records of one byte kept the loop for 2.3 s.
    @Test func aFloodOfTinyRecordsIsSpreadOverTurns() throws {
        let count = 500
        let authority = try TestAuthority()
        var settings = TLSSettings(.server(verifiesClients: false))
        let identity = try authority.identity(for: "db")
        settings.identity = TLSSettings.Identity(
            certificates: try identity.certificates.load(),
            key: try identity.privateKey.load()
        )
        let tls = try OpenSSLContext(settings)
        let network = SimulatedNetwork(seed: 5, conditions: Self.wide)
        let server = TestServer(on: network.loop, echoes: false, tls: tls)
        try network.runBlocking {
            try await server.listen(on: network.address("db"))
            let options = ClientOptions { $0.tls.roots = .only(authority.root) }
            let endpoint = Endpoint.host("db", port: 7000).secured()
            let client = Client(to: endpoint, speaking: .standard, options: options, on: network.loops)
            let pushes = client.pushes(buffering: PushBuffering(maximumCount: count))
            try await client.connect()
            let peer = await server.peers[0]
            await peer.wait { $0.events.contains("connected") }
            let watch = watch(client, on: network)
            await peer.writeSingly(Self.pushes(count))
            await Self.expectPushes(count, from: pushes)
            // Four readings of the socket at most, 128 records each.
            #expect(watch.most <= 4 * 128 / 12 + 1 && watch.turns >= count * 12 / (4 * 128), "\(watch.most)")
            await client.closeNow()
            await peer.close()
            await server.stop()
        }
    }
}
