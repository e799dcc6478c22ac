import Testing
import Trunkline

@testable import TrunklineLoopback
@testable import TrunklineTesting

/// Bytes, buffers, names and ends of simulated links.
@Suite(.simulated) struct SimulationLinkTests {}

extension SimulationLinkTests {
    @Test func bytesArriveInOrderHoweverTheyAreSplit() async throws {
        for seed in seeds(200) {
            await Task.yield()
            var conditions = NetworkConditions()
            conditions.fragmentation = [0, 0.25, 0.9, 1][Int(seed % 4)]
            conditions.sendBuffer = [1, 100, 65_536][Int(seed % 3)]
            conditions.receiveWindow = [7, 65_536][Int(seed % 2)]
            conditions.bandwidth = seed % 5 == 0 ? 1_000_000 : nil
            let network = SimulatedNetwork(seed: seed, conditions: conditions)
            let sent = pattern(600)
            let server = TestServer(on: network.loop)
            let received = try network.runBlocking {
                try await server.listen(on: network.address("db"))
                let peer = TestPeer(on: network.loop)
                try await peer.connect(to: network.address("db"))
                for start in stride(from: 0, to: sent.count, by: 150) {
                    await peer.write(Array(sent[start..<start + 150]))
                }
                await peer.finish()
                await peer.ended()
                let received = await peer.received
                for peer in await server.peers { await peer.close() }
                await peer.close()
                return received
            }
            #expect(received == sent, "seed \(seed)")
            #expect(network.openLinks == 0)
            #expect(network.bytesDelivered == 1200)
        }
    }

    @Test func aReaderThatPausesBlocksTheWriter() throws {
        var conditions = NetworkConditions()
        conditions.sendBuffer = 1000
        conditions.receiveWindow = 500
        let network = SimulatedNetwork(seed: 1, conditions: conditions)
        let server = TestServer(on: network.loop, echoes: false)
        try network.runBlocking {
            try await server.listen(on: network.address("db"))
            let peer = TestPeer(on: network.loop)
            try await peer.connect(to: network.address("db"))
            await server.peers[0].setReading(false)
            await peer.write(pattern(5000))
            try await network.clock.sleep(for: .seconds(10))
            let stuckAt = await peer.writtenCount
            #expect(stuckAt == 1500)
            await server.peers[0].setReading(true)
            let received = await server.peers[0].received(atLeast: 5000)
            #expect(received == pattern(5000))
            let events = await peer.events
            #expect(events.contains("writable"))
        }
    }

    @Test func aServerWhoseBytesAreNotReadIsBlockedToo() throws {
        var conditions = NetworkConditions()
        conditions.sendBuffer = 300
        conditions.receiveWindow = 200
        let network = SimulatedNetwork(seed: 2, conditions: conditions)
        let server = TestServer(on: network.loop)
        try network.runBlocking {
            try await server.listen(on: network.address("db"))
            let peer = TestPeer(on: network.loop)
            try await peer.connect(to: network.address("db"), reading: false)
            await server.peers[0].write(pattern(2000))
            try await network.clock.sleep(for: .seconds(10))
            let stuckAt = await server.peers[0].writtenCount
            #expect(stuckAt == 500)
            await peer.setReading(true)
            let received = await peer.received(atLeast: 2000)
            #expect(received == pattern(2000))
        }
    }

    @Test func bandwidthLimitsTheRateOfBytes() throws {
        var conditions = NetworkConditions()
        conditions.bandwidth = 1000
        let network = SimulatedNetwork(seed: 3, conditions: conditions)
        let server = TestServer(on: network.loop, echoes: false)
        try network.runBlocking {
            try await server.listen(on: network.address("db"))
            let peer = TestPeer(on: network.loop)
            try await peer.connect(to: network.address("db"))
            let began = network.clock.now
            await peer.write(pattern(5000))
            _ = await server.peers[0].received(atLeast: 5000)
            let took = began.duration(to: network.clock.now)
            #expect(took > .milliseconds(4990) && took < .milliseconds(5100))
        }
    }

    @Test func anOrderlyCloseDeliversEveryByte() async throws {
        for seed in seeds(50) {
            await Task.yield()
            let network = SimulatedNetwork(seed: seed)
            let server = TestServer(on: network.loop, echoes: false)
            let (bytes, events) = try network.runBlocking {
                try await server.listen(on: network.address("db"))
                let peer = TestPeer(on: network.loop)
                try await peer.connect(to: network.address("db"))
                await peer.write(pattern(3000))
                await peer.close()
                try await network.clock.sleep(for: .seconds(1))
                let events = await server.peers[0].events
                let bytes = await server.peers[0].received
                await server.peers[0].close()
                return (bytes, events)
            }
            #expect(bytes == pattern(3000))
            #expect(events == ["end"])
            #expect(network.openLinks == 0)
        }
    }

    @Test func deallocatingATransportClosesIt() throws {
        let network = SimulatedNetwork(seed: 4)
        let server = TestServer(on: network.loop, echoes: false)
        try network.runBlocking {
            try await server.listen(on: network.address("db"))
            let peer = TestPeer(on: network.loop)
            try await peer.connect(to: network.address("db"))
            #expect(network.openLinks == 1)
            await peer.releaseTransport()
            await server.peers[0].ended()
            let hasEnded = await server.peers[0].hasEnded
            #expect(hasEnded)
            await server.peers[0].releaseTransport()
            #expect(network.openLinks == 0)
        }
    }

    @Test func transportsDeallocatedAfterTheRunAreClosed() throws {
        let network = SimulatedNetwork(seed: 5)
        do {
            let server = TestServer(on: network.loop)
            let peer = TestPeer(on: network.loop)
            try network.runBlocking {
                try await server.listen(on: network.address("db"))
                try await peer.connect(to: network.address("db"))
            }
            #expect(network.openLinks == 1)
            withExtendedLifetime((server, peer)) {}
        }
        #expect(network.openLinks == 0)
    }

    @Test func aLoopIsFreedWithItsNetwork() throws {
        weak var loop: SimulatedEventLoop?
        do {
            let network = SimulatedNetwork(seed: 5)
            loop = network.loop
            let server = TestServer(on: network.loop)
            let peer = TestPeer(on: network.loop)
            try network.runBlocking {
                try await server.listen(on: network.address("db"))
                try await peer.connect(to: network.address("db"))
                await peer.write([1, 2, 3])
            }
        }
        #expect(loop == nil)
    }

    @Test func closingWithUnreadBytesResets() throws {
        let network = SimulatedNetwork(seed: 6)
        let server = TestServer(on: network.loop, echoes: false)
        try network.runBlocking {
            try await server.listen(on: network.address("db"))
            let peer = TestPeer(on: network.loop)
            try await peer.connect(to: network.address("db"))
            await server.peers[0].setReading(false)
            await peer.write([1, 2, 3])
            try await network.clock.sleep(for: .seconds(1))
            await server.peers[0].close()
            await peer.ended()
            let failure = await peer.failure
            #expect(failure?.code == .reset)
        }
    }

    @Test func writingToAClosedPeerResets() throws {
        let network = SimulatedNetwork(seed: 7)
        let server = TestServer(on: network.loop, echoes: false)
        try network.runBlocking {
            try await server.listen(on: network.address("db"))
            let peer = TestPeer(on: network.loop)
            try await peer.connect(to: network.address("db"))
            await server.peers[0].close()
            await peer.ended()
            await peer.write([1])
            try await network.clock.sleep(for: .seconds(1))
            await peer.setReading(true)
            await peer.wait { $0.failure != nil }
            let failure = await peer.failure
            #expect(failure?.code == .reset)
        }
    }

    @Test func aResetDiscardsUnreadBytes() throws {
        let network = SimulatedNetwork(seed: 8)
        let server = TestServer(on: network.loop, echoes: false)
        try network.runBlocking {
            try await server.listen(on: network.address("db"))
            let peer = TestPeer(on: network.loop)
            try await peer.connect(to: network.address("db"))
            await server.peers[0].setReading(false)
            await peer.write(pattern(100))
            await peer.reset()
            try await network.clock.sleep(for: .seconds(1))
            await server.peers[0].setReading(true)
            await server.peers[0].ended()
            let received = await server.peers[0].received
            let failure = await server.peers[0].failure
            #expect(received.isEmpty)
            #expect(failure?.code == .reset)
        }
    }

    @Test func connectingWithoutAListenerIsRefused() throws {
        let network = SimulatedNetwork(seed: 9)
        let server = TestServer(on: network.loop)
        try network.runBlocking {
            let peer = TestPeer(on: network.loop)
            let first = await #expect(throws: TransportError.self) { try await peer.connect(to: network.address("db")) }
            #expect(first?.code == .refused)
            try await server.listen(on: network.address("db"))
            try await TestPeer(on: network.loop).connect(to: network.address("db"))
            await server.stop()
            let late = TestPeer(on: network.loop)
            let second = await #expect(throws: TransportError.self) {
                try await late.connect(to: network.address("db"))
            }
            #expect(second?.code == .refused)
        }
    }

    @Test func everyKindOfAddressWorks() throws {
        let network = SimulatedNetwork(seed: 10)
        let addresses: [SocketAddress] = [
            .loopback(port: 0), .unix(path: "/run/db.sock"),
            .ipv6([UInt8](repeating: 0, count: 15) + [1], port: 7000, scope: 0),
        ]
        try network.runBlocking {
            for address in addresses {
                let server = TestServer(on: network.loop)
                let actual = try await server.listen(on: address)
                #expect(actual.port != 0)
                let peer = TestPeer(on: network.loop)
                try await peer.connect(to: actual)
                await peer.write([1, 2, 3])
                let echoed = await peer.received(atLeast: 3)
                #expect(echoed == [1, 2, 3])
            }
            let anywhere = TestServer(on: network.loop)
            try await anywhere.listen(on: .ipv4([0, 0, 0, 0], port: 99))
            try await TestPeer(on: network.loop).connect(to: network.address("other", port: 99))
            await #expect(throws: TransportError.self) {
                try await TestServer(on: network.loop).listen(on: .ipv4([0, 0, 0, 0], port: 99))
            }
        }
    }

    @Test func namesResolveToTheirHosts() throws {
        let network = SimulatedNetwork(seed: 11)
        let first = network.host("db1")
        network.host("db2")
        network.setName("cluster", hosts: ["fd00::7", "db2", "db1"])
        @Sendable func resolve(_ name: String, _ family: AddressFamily = .ipv4) async -> NameLookup.Answer {
            var lookup: NameLookup?
            let answer = await withCheckedContinuation { continuation in
                lookup = network.loop.resolve(name, port: 7, family: family) { continuation.resume(returning: $0) }
            }
            lookup?.cancel()  // keeps it alive until here
            return answer
        }
        try network.runBlocking {
            let known = try await resolve("db1").get()
            let six = try await resolve("cluster", .ipv6).get()
            let four = try await resolve("cluster").get()
            let none = try await resolve("db1", .ipv6).get()
            let literal = try await resolve("192.168.1.2").get()
            let local = try await resolve("localhost").get()
            let unknown = await resolve("nowhere")
            #expect(first == "10.0.0.1")
            #expect(known.map(\.description) == ["10.0.0.1:7"])
            #expect(six.map(\.description) == ["[fd00:0:0:0:0:0:0:7]:7"])
            #expect(four.map(\.description) == ["10.0.0.2:7", "10.0.0.1:7"])
            #expect(none.isEmpty)
            #expect(literal.map(\.description) == ["192.168.1.2:7"])
            #expect(local == [.loopback(port: 7)])
            #expect(throws: TransportError.self) { try unknown.get() }
        }
    }

    @Test func addressLiteralsAreParsed() {
        #expect(HostAddress("::1")?.description == "0:0:0:0:0:0:0:1")
        #expect(HostAddress("::") == .ip([UInt8](repeating: 0, count: 16)))
        #expect(HostAddress("fe80::")?.description == "fe80:0:0:0:0:0:0:0")
        #expect(HostAddress("1:2:3:4:5:6:7:8")?.description == "1:2:3:4:5:6:7:8")
        #expect(HostAddress("::ffff:10.0.0.1")?.description == "0:0:0:0:0:ffff:a00:1")
        let others = [
            "1.2.3", "1.2.3.256", "+1.2.3.4", "1::2::3", "12345::", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8::",
            "db", "", ":", "1:2", ":1", "1:", ":::", ":1::2",
        ]
        for text in others {
            #expect(HostAddress(text) == nil, "\(text)")
        }
    }
}
