import Testing
import TrunklineTesting

@testable import TrunklineCore
@testable import TrunklineIO

/// The local address of a socket.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct LocalAddressTests {}

extension LocalAddressTests {
    private actor Owner: TransportHandler {
        nonisolated let loop = EventLoops(count: 1).next()
        nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

        private var transport: (any Transport)?
        private var outcome: Bool?

        /// Connects, and returns the local address before and after.
        func connect(to address: SocketAddress) async -> [SocketAddress?] {
            outcome = nil
            transport = loop.connect(to: address, options: SocketOptions(), handler: self)
            let before = transport?.localAddress
            while outcome == nil { await moment() }
            return [before, transport?.localAddress]
        }

        var remoteAddress: SocketAddress? { transport?.remoteAddress }
        var isSelfConnected: Bool? { transport?.isSelfConnected }

        func close() -> SocketAddress? {
            transport?.close()
            return transport?.localAddress
        }

        nonisolated func transport(_ id: UInt64, did event: TransportEvent) {
            assumeIsolated { owner in
                switch event {
                case .connected: owner.outcome = true
                case .connectFailed: owner.outcome = false
                default: break
                }
            }
        }
    }

    @Test func aConnectedSocketHasALocalAddress() async throws {
        let listener = try RawListener()
        let owner = Owner()
        let addresses = await owner.connect(to: .loopback(port: listener.port))
        let address = try #require(addresses[1])
        #expect(address.with(port: 0) == .loopback(port: 0) && address.port != 0)
        #expect(await owner.close() == nil)
    }

    @Test func aConnectedSocketHasARemoteAddress() async throws {
        let listener = try RawListener()
        let owner = Owner()
        _ = await owner.connect(to: .loopback(port: listener.port))
        #expect(await owner.remoteAddress == .loopback(port: listener.port))
        // The system connects the unspecified address to the loopback address.
        _ = await owner.connect(to: .ipv4([0, 0, 0, 0], port: listener.port))
        #expect(await owner.remoteAddress == .loopback(port: listener.port))
        #expect(await owner.isSelfConnected == false)
    }

    @Test func aSocketThatFailedToConnectHasNoLocalAddress() async throws {
        // No other test uses the address, so nothing listens on the port.
        let port = try RawListener(host: loopback(64).ipBytes ?? [127, 0, 0, 1]).port
        let owner = Owner()
        #expect(await owner.connect(to: loopback(64, port: port)) == [nil, nil])
        #expect(await owner.close() == nil)
    }
}
